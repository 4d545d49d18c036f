package kernel

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl"
)

var ne = binary.NativeEndian

// conn implements rtnl.KernelConn.
type conn struct {
	fd                   int
	pid                  uint32
	extAck, cap_, strict bool
	set                  bool
	buf                  []byte
}

var _ rtnl.KernelConn = (*conn)(nil)

// Dial implements rtnl.Kernel.
func (k *Kernel) Dial() (rtnl.KernelConn, error) {
	fd, err := socket(k.ns)
	if err != nil {
		return nil, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("getsockname: %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventBuffer)
	}
	return &conn{fd: fd, pid: sa.(*unix.SockaddrNetlink).Pid, buf: make([]byte, maxDatagram)}, nil
}

// PortID implements rtnl.KernelConn.
func (c *conn) PortID() uint32 { return c.pid }

// SetOptions implements rtnl.KernelConn.
func (c *conn) SetOptions(extAck, capAck, strict bool) {
	if c.set && c.extAck == extAck && c.cap_ == capAck && c.strict == strict {
		return
	}
	c.set, c.extAck, c.cap_, c.strict = true, extAck, capAck, strict
	for opt, on := range map[int]bool{unix.NETLINK_EXT_ACK: extAck, unix.NETLINK_CAP_ACK: capAck, unix.NETLINK_GET_STRICT_CHK: strict} {
		v := 0
		if on {
			v = 1
		}
		// A kernel that lacks one of these lacks what it asks for too.
		_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, opt, v)
	}
}

// Do implements rtnl.KernelConn. The kernel has carried the request out when send
// returns, and makes the next part of a dump when one is received, so that
// nothing is left once the socket is empty.
func (c *conn) Do(packet []byte, reply func(b []byte)) error {
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(c.fd, packet, 0, to); err != nil {
		return fmt.Errorf("send to the kernel: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf, unix.MSG_DONTWAIT)
		switch err {
		case nil:
			reply(c.buf[:n])
		case unix.EINTR:
		case unix.EAGAIN:
			return nil
		default:
			return fmt.Errorf("receive from the kernel: %w", err)
		}
	}
}

// Close implements rtnl.KernelConn.
func (c *conn) Close() error { return unix.Close(c.fd) }
