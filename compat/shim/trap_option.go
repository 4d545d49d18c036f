package shim

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// readInt reads a C int.
func readInt(m memory, addr uint64) (int32, syscall.Errno) {
	var b [4]byte
	errno := m.read(b[:], addr)
	return int32(binary.NativeEndian.Uint32(b[:])), errno
}

// setsockopt answers setsockopt(2) at level SOL_NETLINK, see
// netlink_setsockopt.
func (s *supervisor) setsockopt(n *notification, t *task, k *sock) answer {
	size := int32(uint32(n.Args[4]))
	if size < 0 {
		return fails(unix.EINVAL)
	}
	var v int32 // an option that is too short counts as zero
	if size >= 4 {
		var errno syscall.Errno
		if v, errno = readInt(t, n.Args[3]); errno != 0 {
			return s.result(t, errno)
		}
	}
	if !s.listener.valid(n.ID) {
		return done()
	}
	return s.result(t, k.session.SetOption(int(int32(uint32(n.Args[2]))), uint32(v)))
}

// getsockopt answers getsockopt(2) at level SOL_NETLINK (netlink_getsockopt),
// and for the few options at level SOL_SOCKET that would give the unix socket
// away (sk_getsockopt).
func (s *supervisor) getsockopt(n *notification, t *task, k *sock) answer {
	opt, value, length := int(int32(uint32(n.Args[2]))), n.Args[3], n.Args[4]
	size, errno := readInt(t, length)
	if errno != 0 {
		return s.result(t, errno)
	}
	if size < 0 {
		return fails(unix.EINVAL)
	}
	if uint32(n.Args[1]) == unix.SOL_SOCKET {
		var v int
		switch opt {
		case unix.SO_TYPE:
			v = k.typ
		case unix.SO_DOMAIN:
			v = unix.AF_NETLINK
		case unix.SO_PROTOCOL:
			v = unix.NETLINK_ROUTE
		default:
			return resume()
		}
		b := putInt32(uint32(v))
		b = b[:min(int(size), len(b))]
		return s.writeSized(t, value, b, length, len(b))
	}
	if opt == unix.NETLINK_LIST_MEMBERSHIPS {
		// As many whole words as there is room for, and the size of all.
		var b []byte
		words := k.session.Memberships()
		for _, w := range words[:min(len(words), int(size)/4)] {
			b = binary.NativeEndian.AppendUint32(b, w)
		}
		return s.writeSized(t, value, b, length, 4*len(words))
	}
	v, errno := k.session.Option(opt)
	if errno != 0 {
		return fails(errno)
	}
	if size < 4 {
		return fails(unix.EINVAL)
	}
	return s.writeSized(t, value, putInt32(v), length, 4)
}
