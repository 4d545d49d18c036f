package shim

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket answers socket(AF_NETLINK, *, NETLINK_ROUTE).
func (s *supervisor) socket(n *notification) answer {
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	typ := int(uint32(n.Args[1])) &^ flags
	if typ != unix.SOCK_RAW && typ != unix.SOCK_DGRAM {
		return resume() // the kernel has an error for it
	}
	if t := s.tasks[n.PID]; t != nil {
		s.forget(t) // it may be a thread that is gone
	}
	t, err := s.task(n.PID)
	if scarce(err) {
		return s.exhausted(n, err)
	}
	if err != nil {
		return resume()
	}
	c, err := t.caller()
	if scarce(err) {
		return s.exhausted(n, err)
	}
	if err != nil {
		if s.listener.valid(n.ID) {
			s.log.Warn("cannot tell who opens a netlink socket, leaving it to the kernel", "pid", n.PID, "err", err)
		}
		return resume()
	}
	if !s.listener.valid(n.ID) {
		return done()
	}
	client, k, err := s.connectSession(typ, c)
	if errors.Is(err, ErrNotServed) {
		return resume()
	}
	if err != nil {
		s.log.Warn("cannot open a netlink socket for a client", "pid", c.PID, "err", err)
		return fails(toErrno(err, unix.ENOBUFS))
	}
	// Closing our copy also ends the session if it did not reach the client.
	defer unix.Close(client)
	if n.Args[1]&unix.SOCK_NONBLOCK != 0 {
		if err := unix.SetNonblock(client, true); err != nil {
			return fails(toErrno(err, unix.ENOBUFS))
		}
	}
	// Before the client has it, for its next call may come at once.
	s.socks[k.ino] = k
	s.byCopy[int32(k.copy)] = k
	return s.place(n, t, client, 0, n.Args[1]&unix.SOCK_CLOEXEC != 0)
}

// exhausted answers a socket call that the daemon has no resources for. The kernel
// must not have it: what the client asks for would become real devices.
func (s *supervisor) exhausted(n *notification, err error) answer {
	s.log.Warn("cannot open a netlink socket for a client", "pid", n.PID, "err", err)
	return fails(toErrno(err, unix.ENFILE))
}

// connectSession makes a connection and the session at the daemon's end.
func (s *supervisor) connectSession(typ int, c Caller) (client int, k *sock, err error) {
	client, daemon, err := newPair()
	if err != nil {
		return -1, nil, err
	}
	fail := func(err error, fds ...int) (int, *sock, error) {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return -1, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(client, &st); err != nil {
		return fail(err, client, daemon)
	}
	own, err := unix.FcntlInt(uintptr(daemon), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fail(err, client, daemon)
	}
	session, err := s.open(daemon, typ, c)
	if err != nil {
		return fail(err, client, own)
	}
	// No events wanted: a hang-up is always reported.
	if err := s.watch(own, 0); err != nil {
		return fail(err, client, own)
	}
	return client, &sock{session: session, ino: st.Ino, copy: own, typ: typ, admin: c.NetAdmin}, nil
}

// place gives src to the caller at the best free number that is at least least,
// which answers the call.
//
// Putting a descriptor at a chosen number closes what is there, as dup2(2) does.
// A thread of the caller's may take the number after it was found free; see
// candidates for why that is unlikely. Nothing in the kernel's interface
// excludes it.
func (s *supervisor) place(n *notification, t *task, src int, least uint32, cloexec bool) answer {
	a := fails(unix.EMFILE)
	candidates(s.ranges, least, t.fdLimit(), func(fd uint32) bool {
		if t.hasFD(fd) {
			return false
		}
		switch errno := s.listener.inject(n.ID, src, fd, cloexec); errno {
		case 0, unix.ENOENT, unix.ESRCH: // not 0: the caller is gone
			a = done()
		case unix.EBADF:
			return false // above its limit
		default:
			s.log.Warn("cannot give a socket to a client", "pid", t.tid, "fd", fd, "err", errno)
			a = fails(errno)
		}
		return true
	})
	if a.errno == unix.EMFILE {
		s.log.Debug("a client has no free descriptor in the ranges of the shim", "pid", t.tid, "ranges", s.ranges)
	}
	return a
}

// dup answers dup(2) and fcntl(2) F_DUPFD: the copy has to have a number that
// the filter watches.
func (s *supervisor) dup(n *notification, t *task, k *sock, least uint32, cloexec bool) answer {
	if least >= t.fdLimit() {
		return fails(unix.EINVAL)
	}
	fd, errno := t.dupFD(uint32(n.Args[0]), k.ino)
	if errno != 0 {
		return s.cannotDup(t, errno)
	}
	defer unix.Close(fd)
	if !s.listener.valid(n.ID) {
		return done()
	}
	a := s.place(n, t, fd, least, cloexec)
	if a.errno == unix.EMFILE {
		return resume() // better a copy with a low number than none
	}
	return a
}

// cannotDup leaves a call to the kernel that needs the client's descriptor.
// What the kernel does is nearly right.
func (s *supervisor) cannotDup(t *task, errno syscall.Errno) answer {
	if errno == errNoAccess {
		s.denied(t)
	}
	return resume()
}
