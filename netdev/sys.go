package netdev

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketBuffer is asked for as SO_RCVBUF and SO_SNDBUF, in bytes. It holds some
// ten thousand small frames or a few hundred superframes, about what a device's
// backlog and queue hold.
const socketBuffer = 8 << 20

// The calls below do not wait, so that they pass by the Go scheduler: a batch takes
// tens of microseconds, and to hand the processor over and take it back for each
// costs a wake-up of another thread.

// recvmmsg fills m without waiting.
func recvmmsg(fd int, m []unix.Mmsghdr) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// sendmmsg sends m without waiting and returns how many messages were taken; the
// next one failed, and its error comes with the next call.
func sendmmsg(fd int, m []unix.Mmsghdr) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func readv(fd int, v []unix.Iovec) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READV, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func writev(fd int, v []unix.Iovec) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// htons returns v such that it lies in memory in network byte order.
func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// setIovec points v at b.
func setIovec(v *unix.Iovec, b []byte) {
	v.Base = unsafe.SliceData(b)
	v.SetLen(len(b))
}

// The kernel reads and writes a VnetHdr as struct virtio_net_hdr.
const _ = -uint(unsafe.Sizeof(VnetHdr{}) ^ VnetHdrLen)

// setHdrIovec points v at a header where the kernel reads or writes struct
// virtio_net_hdr, which has the same layout.
func setHdrIovec(v *unix.Iovec, h *VnetHdr) {
	v.Base = (*byte)(unsafe.Pointer(h))
	v.SetLen(VnetHdrLen)
}

// setBuffer asks for a big socket buffer: past the sysctl's limit if that is
// allowed, else up to the limit.
func setBuffer(fd, force, plain, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, size)
	}
}

func setBuffers(fd, size int) {
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, size)
}

// gate ends a Read that waits for a descriptor, and tells when nobody is in a
// Read any more.
type gate struct {
	closed  atomic.Bool
	reading sync.Mutex // held during Read, so uncontended
	poll    [2]unix.PollFd
}

// newGate makes a gate for Reads that wait for fd.
func newGate(fd int) (*gate, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	g := &gate{}
	g.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	g.poll[1] = unix.PollFd{Fd: int32(event), Events: unix.POLLIN}
	return g, nil
}

// enter begins a Read; leave ends it, also where enter failed.
func (g *gate) enter() error {
	g.reading.Lock()
	if g.closed.Load() {
		return ErrClosed
	}
	return nil
}

func (g *gate) leave() { g.reading.Unlock() }

// wait waits until the descriptor is readable, for timeout milliseconds at most
// or for ever if that is negative. It returns the descriptor's poll events.
func (g *gate) wait(timeout int) (int16, error) {
	_, err := unix.Poll(g.poll[:], timeout)
	if g.closed.Load() {
		return 0, ErrClosed
	}
	if err == unix.EINTR {
		return 0, nil
	}
	return g.poll[0].Revents, err
}

// waitClosed waits for close, for timeout milliseconds at most.
func (g *gate) waitClosed(timeout int) error {
	_, err := unix.Poll(g.poll[1:], timeout)
	if g.closed.Load() {
		return ErrClosed
	}
	if err == unix.EINTR {
		return nil
	}
	return err
}

// close ends the Read and waits until it has returned. It reports false if the
// gate was closed before.
func (g *gate) close() bool {
	if g.closed.Swap(true) {
		return false
	}
	one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // any value but 0, in either byte order
	unix.Write(int(g.poll[1].Fd), one[:])
	g.reading.Lock()
	defer g.reading.Unlock()
	unix.Close(int(g.poll[1].Fd))
	return true
}
