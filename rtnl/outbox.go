package rtnl

import (
	"sync"

	"golang.org/x/sys/unix"
)

// outboxLimit is how many bytes of notifications may wait in the daemon for a
// client whose socket is full before it has lost some (ENOBUFS), beside what
// the socket itself holds.
const outboxLimit = 1 << 20

// outbox is what a client has yet to read. Datagrams go straight into the socket
// while it has room; then they wait here, replies without limit and
// notifications up to outboxLimit, so that nobody else waits for this client.
type outbox struct {
	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	lost    bool // notifications were dropped since the last ENOBUFS
	waiting bool // the poller tells when there is room
	closed  bool
}

// full tells that a send found no room; other errors mean that the client is
// gone, which the poller finds out by itself.
func full(err error) bool { return err == unix.EAGAIN || err == unix.ENOBUFS }

// send passes b on, or queues it if the client is slow. Replies (must) always
// get through; a notification without room is lost and makes the client see
// ENOBUFS once it reads again.
func (o *outbox) send(s *Session, b []byte, must bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if len(o.queue) == 0 && !o.lost && !full(unix.Send(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)) {
		return
	}
	if !must && (o.lost || o.bytes+len(b) > outboxLimit) {
		o.lost = true
	} else {
		o.queue = append(o.queue, append([]byte(nil), b...))
		o.bytes += len(b)
	}
	if !o.waiting {
		o.waiting = true
		s.srv.poll.room(s)
	}
}

// drain moves what it can from the queue to the socket. Once nothing is left it
// tells the poller so, under the lock: a send that finds no room right after must
// have the last word.
func (o *outbox) drain(s *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		if full(unix.Send(s.fd, o.queue[0], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)) {
			return
		}
		o.bytes -= len(o.queue[0])
		o.queue[0] = nil
		o.queue = o.queue[1:]
	}
	if o.lost {
		if !s.noENOBUFS.Load() && full(unix.Send(s.fd, s.overrun(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)) {
			return
		}
		o.lost = false
	}
	o.queue = nil
	o.waiting = false
	if !o.closed {
		s.srv.poll.idle(s)
	}
}

// close drops the queue and closes the socket: nothing is sent afterwards.
func (o *outbox) close(fd int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.queue, o.bytes = nil, 0
	unix.Close(fd)
}

// overrun is the message that stands for the ENOBUFS of a kernel socket: a
// seqpacket cannot be given an error of one's choice, but clients take an
// NLMSG_ERROR for the same.
func (s *Session) overrun() []byte {
	m := message{raw: make([]byte, headerLen)}
	return appendAck(nil, &m, s.pid.Load(), unix.ENOBUFS, false, true)
}
