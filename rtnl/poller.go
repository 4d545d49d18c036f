package rtnl

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// poller waits for all sessions' sockets in one goroutine: for requests that come
// untrapped, for hang-ups, and for room where replies wait. The runtime's own
// poller would also be woken each time a client reads.
type poller struct {
	epfd, wake int
	done       chan struct{}

	mu       sync.Mutex
	sessions map[int32]*Session // by Session.id, which is never used again
	next     int32
	closed   bool
}

func newPoller() (*poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epfd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	p := &poller{epfd: epfd, wake: wake, done: make(chan struct{}), sessions: map[int32]*Session{}}
	err = unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err != nil {
		unix.Close(epfd)
		unix.Close(wake)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	go p.run()
	return p, nil
}

// add begins to watch a session.
func (p *poller) add(s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return unix.ESHUTDOWN
	}
	// A descriptor's number may name another session by the time an event of
	// it is looked at.
	p.next++
	s.id = p.next
	if err := p.want(s, unix.EPOLL_CTL_ADD, false); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	p.sessions[s.id] = s
	return nil
}

// room asks to be told, once, when the session's socket takes data again.
func (p *poller) room(s *Session) { _ = p.want(s, unix.EPOLL_CTL_MOD, true) }

// idle takes room back.
func (p *poller) idle(s *Session) { _ = p.want(s, unix.EPOLL_CTL_MOD, false) }

func (p *poller) want(s *Session, op int, out bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: s.id}
	if out {
		ev.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.epfd, op, s.fd, &ev)
}

// run serves the sessions until close; then it ends those that are left.
func (p *poller) run() {
	defer close(p.done)
	buf := make([]byte, MaxRequest)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(p.epfd, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break
		}
		for _, ev := range events[:n] {
			if ev.Fd == 0 {
				p.endAll()
				return
			}
			p.mu.Lock()
			s := p.sessions[ev.Fd]
			p.mu.Unlock()
			if s != nil {
				p.serve(s, ev.Events, buf)
			}
		}
	}
}

// serve handles what epoll reported of a session.
func (p *poller) serve(s *Session, events uint32, buf []byte) {
	if events&unix.EPOLLOUT != 0 {
		s.out.drain(s)
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	n, err := unix.Read(s.fd, buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		if events&unix.EPOLLHUP != 0 {
			p.end(s)
		}
	case err != nil || n == 0:
		p.end(s)
	default:
		s.Request(buf[:n:n])
	}
}

// end stops watching a session and closes it. The supervisor of a shim may hold a
// copy of the descriptor, with which the watch would outlive its closing.
func (p *poller) end(s *Session) {
	p.mu.Lock()
	delete(p.sessions, s.id)
	p.mu.Unlock()
	_ = unix.EpollCtl(p.epfd, unix.EPOLL_CTL_DEL, s.fd, nil)
	s.close()
}

func (p *poller) endAll() {
	p.mu.Lock()
	var all []*Session
	for _, s := range p.sessions {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		p.end(s)
	}
}

// close ends all sessions and the poller.
func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-p.done
	unix.Close(p.epfd)
	unix.Close(p.wake)
}
