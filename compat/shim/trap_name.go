package shim

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// bind answers bind(2), see netlink_bind.
func (s *supervisor) bind(n *notification, t *task, k *sock) answer {
	a, errno := readAddress(t, n.Args[1], int32(uint32(n.Args[2])))
	if errno == 0 && a.family != unix.AF_NETLINK {
		errno = unix.EINVAL
	}
	if errno != 0 {
		return s.result(t, errno)
	}
	self := t.processID()
	if !s.listener.valid(n.ID) {
		return done()
	}
	errno = k.session.Bind(a.pid, a.groups, self)
	if errno == 0 {
		k.bound = true
	}
	return s.result(t, errno)
}

// connect answers connect(2), see netlink_connect.
func (s *supervisor) connect(n *notification, t *task, k *sock) answer {
	a, errno := readAddress(t, n.Args[1], int32(uint32(n.Args[2])))
	if errno != 0 {
		return s.result(t, errno)
	}
	if !s.listener.valid(n.ID) {
		return done()
	}
	if a.family == unix.AF_UNSPEC {
		k.peer = address{}
		return returns(0)
	}
	if (a.pid != 0 || a.groups != 0) && !k.admin {
		return fails(unix.EPERM)
	}
	s.autobind(t, k)
	// Of the groups the kernel keeps the first.
	a.groups &= 1 << bits.TrailingZeros32(a.groups)
	k.peer = a
	return returns(0)
}

// autobind is done before anything that needs a port id.
func (s *supervisor) autobind(t *task, k *sock) {
	if !k.bound {
		k.session.Autobind(t.processID())
		k.bound = true
	}
}

// getsockname answers getsockname(2), see netlink_getname.
func (s *supervisor) getsockname(n *notification, t *task, k *sock) answer {
	pid, groups := k.session.Name()
	return s.writeAddress(t, n.Args[1], n.Args[2], address{unix.AF_NETLINK, pid, groups})
}

// getpeername answers getpeername(2): where connect(2) went, else the kernel.
func (s *supervisor) getpeername(n *notification, t *task, k *sock) answer {
	return s.writeAddress(t, n.Args[1], n.Args[2], address{unix.AF_NETLINK, k.peer.pid, k.peer.groups})
}

// writeAddress returns an address as move_addr_to_user does: as much as there is
// room for, and its real length.
func (s *supervisor) writeAddress(t *task, addr, lenAddr uint64, a address) answer {
	size, errno := readInt(t, lenAddr)
	if errno != 0 {
		return s.result(t, errno)
	}
	if size < 0 {
		return fails(unix.EINVAL)
	}
	b := a.append(nil)
	return s.writeSized(t, addr, b[:min(int(size), len(b))], lenAddr, len(b))
}

// writeSized writes b to addr and size to the int at lenAddr.
func (s *supervisor) writeSized(t *task, addr uint64, b []byte, lenAddr uint64, size int) answer {
	w, errno := t.writer()
	if errno != 0 {
		return s.result(t, errno)
	}
	defer w.close()
	if errno = w.write(addr, b); errno == 0 {
		errno = w.write(lenAddr, putInt32(uint32(size)))
	}
	return s.result(t, errno)
}
