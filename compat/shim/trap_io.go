package shim

import (
	"encoding/binary"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendto answers sendto(2).
func (s *supervisor) sendto(n *notification, t *task, k *sock) answer {
	m := message{name: n.Args[4], nameLen: int32(uint32(n.Args[5]))}
	m.named = m.name != 0
	size := n.Args[2]
	switch {
	case int64(size) < 0:
		size = 1<<31 - 1<<12 // MAX_RW_COUNT, see import_ubuf
	case size > 0 && size <= maxRequest:
		m.vecs = append(s.vecs[:0], iovec{base: n.Args[1], size: size})
	}
	m.size = int(size)
	return s.sent(t, m.size, s.send(n, t, k, m, uint32(n.Args[3])))
}

// sendmsg answers sendmsg(2).
func (s *supervisor) sendmsg(n *notification, t *task, k *sock) answer {
	size, errno := s.sendHeader(n, t, k, n.Args[1], uint32(n.Args[2]))
	return s.sent(t, size, errno)
}

// sendmmsg answers sendmmsg(2): an error counts only if nothing was sent.
func (s *supervisor) sendmmsg(n *notification, t *task, k *sock) answer {
	count := min(uint64(uint32(n.Args[2])), maxIovecs)
	for i := range count {
		addr := n.Args[1] + i*mmsghdrLen
		size, errno := s.sendHeader(n, t, k, addr, uint32(n.Args[3]))
		if errno == 0 {
			w, e := t.writer()
			if errno = e; errno == 0 {
				errno = w.write(addr+msghdrLen, putInt32(uint32(size)))
				w.close()
			}
		}
		if errno != 0 {
			if i > 0 {
				return returns(int(i))
			}
			return s.sent(t, 0, errno)
		}
	}
	return returns(int(count))
}

func (s *supervisor) sendHeader(n *notification, t *task, k *sock, addr uint64, flags uint32) (int, syscall.Errno) {
	m, errno := readMessage(t, addr, s.vecs)
	if errno != 0 {
		return 0, errno
	}
	if m.vecs != nil {
		s.vecs = m.vecs
	}
	return m.size, s.send(n, t, k, m, flags)
}

// sent makes the answer of a call that sends.
func (s *supervisor) sent(t *task, size int, errno syscall.Errno) answer {
	switch errno {
	case 0:
		return returns(size)
	case errNoAccess:
		// The kernel can still pass the data on; the session carries them out
		// when it reads them.
		s.denied(t)
		return resume()
	}
	return s.result(t, errno)
}

// send carries out one message, with the checks of netlink_sendmsg in their
// order. The data are read once, so that what is checked is what is done.
func (s *supervisor) send(n *notification, t *task, k *sock, m message, flags uint32) syscall.Errno {
	if flags&unix.MSG_OOB != 0 {
		return unix.EOPNOTSUPP
	}
	if m.size == 0 {
		return unix.ENODATA
	}
	to := k.peer
	if m.named {
		var errno syscall.Errno
		to, errno = readAddress(t, m.name, m.nameLen)
		if errno == 0 && to.family != unix.AF_NETLINK {
			errno = unix.EINVAL
		}
		if errno != 0 {
			return errno
		}
		if (to.pid != 0 || to.groups != 0) && !k.admin {
			return unix.EPERM
		}
	}
	if m.size > maxRequest {
		return unix.EMSGSIZE
	}
	b := s.scratch(m.size)
	if errno := t.readv(b, m.vecs); errno != 0 {
		return errno
	}
	self := uint32(0)
	if !k.bound {
		self = t.processID()
	}
	if !s.listener.valid(n.ID) {
		return errGone
	}
	if !k.bound {
		k.session.Autobind(self)
		k.bound = true
	}
	// Programs may send to each other by port id or group on an AF_NETLINK
	// socket. Nobody but the daemon listens here; a message to a group goes to
	// the kernel as well, that is to us.
	if to.pid != 0 {
		return unix.ECONNREFUSED
	}
	k.session.Request(b)
	return 0
}

// recvfrom answers recvfrom(2) with an address, which has to be a sockaddr_nl:
// Go's syscall package looks at the family.
func (s *supervisor) recvfrom(n *notification, t *task, k *sock) answer {
	flags := int(uint32(n.Args[3]))
	if flags&unix.MSG_OOB != 0 {
		return fails(unix.EOPNOTSUPP)
	}
	size, errno := readInt(t, n.Args[5])
	if errno == errNoAccess {
		s.denied(t)
		return resume()
	}
	fd, errno := t.dupFD(uint32(n.Args[0]), k.ino)
	if errno != 0 {
		return s.cannotDup(t, errno)
	}
	defer unix.Close(fd)
	w, errno := t.writer()
	if errno != 0 {
		return s.result(t, errno)
	}
	defer w.close()
	if !s.listener.valid(n.ID) {
		return done() // or the packet would be lost
	}
	room := int(min(n.Args[2], maxRequest))
	buf := s.scratch(max(room, 1))
	full, _, err := unix.Recvfrom(fd, buf, flags&unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	if errors.Is(err, unix.EAGAIN) {
		// Waiting here would keep the caller from its signals. The kernel can
		// wait; then the address is that of a unix socket.
		mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if flags&unix.MSG_DONTWAIT != 0 || err == nil && mode&unix.O_NONBLOCK != 0 {
			return fails(unix.EAGAIN)
		}
		return resume()
	}
	if err != nil {
		return fails(toErrno(err, unix.EIO))
	}
	got := min(full, room)
	if errno := w.write(n.Args[1], buf[:got]); errno != 0 {
		return fails(errno)
	}
	if errno := writeSource(w, n.Args[4], n.Args[5], size); errno != 0 {
		return fails(errno)
	}
	if flags&unix.MSG_TRUNC != 0 {
		return returns(full)
	}
	return returns(got)
}

// writeSource writes the address of the kernel, the source of all messages.
func writeSource(w writer, addr, lenAddr uint64, size int32) syscall.Errno {
	if size < 0 {
		return unix.EINVAL
	}
	b := address{family: unix.AF_NETLINK}.append(nil)
	if errno := w.write(addr, b[:min(int(size), len(b))]); errno != 0 {
		return errno
	}
	return w.write(lenAddr, putInt32(uint32(len(b))))
}

func putUint64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
