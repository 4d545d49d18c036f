package shim

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sizes of C structures on 64-bit machines.
const (
	sockaddrLen = unix.SizeofSockaddrNetlink // struct sockaddr_nl
	storageLen  = 128                        // struct sockaddr_storage
	msghdrLen   = 56                         // struct msghdr
	mmsghdrLen  = 64                         // struct mmsghdr
	iovecLen    = 16                         // struct iovec
	maxIovecs   = 1024                       // UIO_MAXIOV
)

// maxRequest is the longest request that one send may carry. The kernel's limit
// is the socket's send buffer, at most a few hundred KiB by default.
const maxRequest = 1 << 20

// A memory is the address space of a client.
type memory interface {
	// read fills p with what is at addr.
	read(p []byte, addr uint64) syscall.Errno
	// readv fills p with what vecs name; p is as long as all of them together.
	readv(p []byte, vecs []iovec) syscall.Errno
}

// An iovec is a piece of a client's memory.
type iovec struct {
	base uint64
	size uint64
}

// An address is the part of a struct sockaddr_nl that means something.
type address struct {
	family uint16
	pid    uint32 // port id, 0 is the kernel
	groups uint32 // mask
}

func (a address) append(b []byte) []byte {
	ne := binary.NativeEndian
	b = ne.AppendUint16(b, a.family)
	b = ne.AppendUint16(b, 0)
	b = ne.AppendUint32(b, a.pid)
	return ne.AppendUint32(b, a.groups)
}

// readAddress reads a socket address argument of the given length and checks
// it as netlink_bind, netlink_connect and netlink_sendmsg do: EINVAL if it is
// no sockaddr_nl, EFAULT if it cannot be read. size is the C argument, an int.
func readAddress(m memory, addr uint64, size int32) (address, syscall.Errno) {
	if size < 0 || size > storageLen {
		return address{}, unix.EINVAL
	}
	if size < sockaddrLen {
		// AF_UNSPEC dissolves a connection, and needs no more than the family.
		if size < 2 {
			return address{}, unix.EINVAL
		}
		var b [2]byte
		if errno := m.read(b[:], addr); errno != 0 {
			return address{}, errno
		}
		if f := binary.NativeEndian.Uint16(b[:]); f == unix.AF_UNSPEC {
			return address{family: f}, 0
		}
		return address{}, unix.EINVAL
	}
	var b [sockaddrLen]byte
	if errno := m.read(b[:], addr); errno != 0 {
		return address{}, errno
	}
	return parseAddress(b[:])
}

func parseAddress(b []byte) (address, syscall.Errno) {
	ne := binary.NativeEndian
	a := address{family: ne.Uint16(b), pid: ne.Uint32(b[4:]), groups: ne.Uint32(b[8:])}
	if a.family != unix.AF_NETLINK && a.family != unix.AF_UNSPEC {
		return address{}, unix.EINVAL
	}
	return a, 0
}

// A message is what sendto(2) or sendmsg(2) was asked to send, before the data
// themselves are read.
type message struct {
	named   bool // to has been given
	name    uint64
	nameLen int32
	vecs    []iovec
	size    int
}

// readMessage reads the struct msghdr at addr and the iovecs it names, with the
// checks of copy_msghdr_from_user and import_iovec. scratch is used for the
// iovecs if it is large enough.
func readMessage(m memory, addr uint64, scratch []iovec) (message, syscall.Errno) {
	ne := binary.NativeEndian
	var h [msghdrLen]byte
	if errno := m.read(h[:], addr); errno != 0 {
		return message{}, errno
	}
	msg := message{name: ne.Uint64(h[0:]), nameLen: int32(ne.Uint32(h[8:]))}
	base, count := ne.Uint64(h[16:]), ne.Uint64(h[24:])
	if msg.name == 0 {
		msg.nameLen = 0
	}
	if msg.nameLen < 0 {
		return message{}, unix.EINVAL
	}
	msg.nameLen = min(msg.nameLen, storageLen)
	msg.named = msg.nameLen > 0
	if count > maxIovecs {
		return message{}, unix.EMSGSIZE
	}
	if count == 0 {
		return msg, 0
	}
	raw := make([]byte, iovecLen*count)
	if errno := m.read(raw, base); errno != 0 {
		return message{}, errno
	}
	msg.vecs = scratch[:0]
	total := uint64(0)
	for ; len(raw) > 0; raw = raw[iovecLen:] {
		v := iovec{base: ne.Uint64(raw), size: ne.Uint64(raw[8:])}
		if int64(v.size) < 0 {
			return message{}, unix.EINVAL
		}
		// Each term is below 2^63 and the sum is cut off early: no overflow.
		if total = min(total, maxRequest+1) + v.size; v.size > 0 {
			msg.vecs = append(msg.vecs, v)
		}
	}
	if total > maxRequest {
		return message{}, unix.EMSGSIZE
	}
	msg.size = int(total)
	return msg, 0
}
