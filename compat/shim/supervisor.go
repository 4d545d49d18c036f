package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxTasks bounds the threads whose /proc directory is kept open. It is a cache.
const maxTasks = 64

// A supervisor answers the stopped system calls of one process tree.
type supervisor struct {
	listener listener
	epoll    int
	ranges   []Range
	open     Opener
	log      *slog.Logger

	socks  map[uint64]*sock // by inode number of the client's end
	byCopy map[int32]*sock  // by our copy of the daemon's end
	tasks  map[uint32]*task // by thread id

	buf        []byte  // for requests and replies; the largest seen
	vecs       []iovec // for readMessage
	warnedPerm bool
}

// A sock is an emulated socket.
type sock struct {
	session Session
	ino     uint64 // inode number of the client's end
	copy    int    // our copy of the daemon's end: tells when the client's is closed
	typ     int
	admin   bool    // its opener had CAP_NET_ADMIN
	bound   bool    // has had Bind or Autobind
	peer    address // of connect(2)
}

// An answer is how a stopped call ends.
type answer struct {
	val    int64
	errno  syscall.Errno
	resume bool // the kernel carries the call out
	done   bool // answered already, or nobody is left to be told
}

func returns(v int) answer             { return answer{val: int64(v)} }
func fails(errno syscall.Errno) answer { return answer{errno: errno} }
func resume() answer                   { return answer{resume: true} }
func done() answer                     { return answer{done: true} }

// Why a client's memory cannot be read or written when its pointers are not to
// blame. These numbers stay in this package: no errno of the kernel's is as high.
const (
	errGone     = syscall.Errno(4096 + iota) // the client is gone
	errNoAccess                              // the daemon lacks the right
)

// result is the answer of a call that returns 0 or fails with errno.
func (s *supervisor) result(t *task, errno syscall.Errno) answer {
	switch errno {
	case errGone:
		return done()
	case errNoAccess:
		s.denied(t)
		return fails(unix.EPERM)
	}
	return fails(errno)
}

// Supervise answers the stopped system calls of the process tree behind
// listener until the tree's last process is gone, and then returns nil. It ends
// with the context's error when that is done: what is left of the tree gets
// ENOSYS for the calls that the filter stops, and keeps the sockets it has.
//
// Supervise owns listener and closes it. It keeps an OS thread for itself. It
// may stay in a read of a client's memory that the client does not let go on
// (userfaultfd(2)), so waiting for it at shutdown must be bounded.
func Supervise(ctx context.Context, listenerFD int, h Handoff, open Opener, log *slog.Logger) error {
	defer unix.Close(listenerFD)
	// A thread of our own: the kernel can then wake it on the client's CPU.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	s := &supervisor{
		listener: listener(listenerFD), ranges: h.Ranges, open: open, log: log,
		socks: make(map[uint64]*sock), byCopy: make(map[int32]*sock), tasks: make(map[uint32]*task),
	}
	var err error
	s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("shim: epoll_create1: %w", err)
	}
	defer unix.Close(s.epoll)
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("shim: eventfd: %w", err)
	}
	defer unix.Close(stop)
	woken := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(stop, putUint64(1))
	})
	defer func() {
		if !unhook() {
			<-woken // it still needs the eventfd
		}
	}()
	defer s.release()

	for _, fd := range []int{listenerFD, stop} {
		if err := s.watch(fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	s.listener.syncWakeUp()
	return s.run(ctx, listenerFD, stop)
}

func (s *supervisor) watch(fd int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("shim: epoll_ctl: %w", err)
	}
	return nil
}

func (s *supervisor) run(ctx context.Context, listenerFD, stop int) error {
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("shim: epoll_wait: %w", err)
		}
		for _, ev := range events[:n] {
			switch int(ev.Fd) {
			case stop:
				return ctx.Err()
			case listenerFD:
				if ev.Events&unix.EPOLLIN != 0 {
					if err := s.serve(); err != nil {
						return err
					}
				} else if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
					return nil // no process with this filter is left
				}
			default:
				s.drop(s.byCopy[ev.Fd])
			}
		}
	}
}

// serve receives and answers one call.
func (s *supervisor) serve() error {
	var n notification
	switch errno := s.listener.receive(&n); errno {
	case 0:
	case unix.ENOENT:
		return nil // killed meanwhile
	default:
		return fmt.Errorf("shim: receive a notification: %w", errno)
	}
	a := s.handle(&n)
	if a.done {
		return nil
	}
	r := response{ID: n.ID, Val: a.val, Error: -int32(a.errno)}
	if a.resume {
		r = response{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	}
	s.listener.send(&r)
	return nil
}

// handle carries out a call. What is none of our business goes to the kernel;
// that its arguments may change until the kernel looks at them does no harm,
// for nothing is decided here about such calls.
func (s *supervisor) handle(n *notification) answer {
	if n.PID == 0 {
		return resume() // in a PID namespace that we cannot see into
	}
	if n.Nr == unix.SYS_SOCKET {
		return s.socket(n)
	}
	t, k := s.find(n)
	if k == nil {
		return resume()
	}
	var a answer
	switch n.Nr {
	case unix.SYS_BIND:
		a = s.bind(n, t, k)
	case unix.SYS_CONNECT:
		a = s.connect(n, t, k)
	case unix.SYS_GETSOCKNAME:
		a = s.getsockname(n, t, k)
	case unix.SYS_GETPEERNAME:
		a = s.getpeername(n, t, k)
	case unix.SYS_SETSOCKOPT:
		a = s.setsockopt(n, t, k)
	case unix.SYS_GETSOCKOPT:
		a = s.getsockopt(n, t, k)
	case unix.SYS_SENDTO:
		a = s.sendto(n, t, k)
	case unix.SYS_SENDMSG:
		a = s.sendmsg(n, t, k)
	case unix.SYS_SENDMMSG:
		a = s.sendmmsg(n, t, k)
	case unix.SYS_RECVFROM:
		a = s.recvfrom(n, t, k)
	case unix.SYS_DUP:
		a = s.dup(n, t, k, 0, false)
	case unix.SYS_FCNTL:
		a = s.dup(n, t, k, uint32(n.Args[2]), uint32(n.Args[1]) == unix.F_DUPFD_CLOEXEC)
	default:
		a = resume()
	}
	return a
}

// find returns the calling thread and the emulated socket at the descriptor
// that is the call's first argument; nil if that is something else.
func (s *supervisor) find(n *notification) (*task, *sock) {
	fd := uint32(n.Args[0])
	if t := s.tasks[n.PID]; t != nil {
		if ino, err := t.socketInode(fd); err == nil {
			return t, s.socks[ino]
		}
		// The thread that had this id is gone, or the descriptor is closed.
		s.forget(t)
	}
	t, err := s.task(n.PID)
	if err != nil {
		return nil, nil
	}
	ino, err := t.socketInode(fd)
	if err != nil {
		return nil, nil
	}
	return t, s.socks[ino]
}

// task opens the directory of a thread that is not in the cache.
func (s *supervisor) task(tid uint32) (*task, error) {
	if len(s.tasks) >= maxTasks {
		s.forgetAll()
	}
	t, err := openTask(tid)
	if scarce(err) && len(s.tasks) > 0 {
		s.forgetAll()
		t, err = openTask(tid)
	}
	if err != nil {
		return nil, err
	}
	s.tasks[tid] = t
	return t, nil
}

func (s *supervisor) forgetAll() {
	for _, t := range s.tasks {
		s.forget(t)
	}
}

func (s *supervisor) forget(t *task) {
	delete(s.tasks, t.tid)
	t.close()
}

// drop forgets a socket whose client's end is closed; the session hears of that
// by itself.
func (s *supervisor) drop(k *sock) {
	if k == nil {
		return
	}
	delete(s.socks, k.ino)
	delete(s.byCopy, int32(k.copy))
	// Closing does not remove it while the session has the file open.
	_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, k.copy, nil)
	unix.Close(k.copy)
}

func (s *supervisor) release() {
	for _, k := range s.socks {
		s.drop(k)
	}
	for _, t := range s.tasks {
		s.forget(t)
	}
}

// scratch returns n bytes that are free until the next call.
func (s *supervisor) scratch(n int) []byte {
	if cap(s.buf) < n {
		s.buf = make([]byte, max(n, 4096))
	}
	return s.buf[:n]
}

// denied handles that the daemon may not access the caller's memory, which is
// so if it is not root and the caller is another user's or Yama forbids it.
func (s *supervisor) denied(t *task) {
	if s.warnedPerm {
		return
	}
	s.warnedPerm = true
	s.log.Warn("may not access the memory of a client: run linkspand as root, or set the sysctl kernel.yama.ptrace_scope to 0 and use the same user for both", "pid", t.tid)
}
