// Package kernel is the kernel's own rtnetlink in a network namespace, for what
// linkspan passes through and for the events it follows. It implements the seams
// of package rtnl.
package kernel

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/rtnl"
)

// Kernel implements rtnl.Kernel over netlink sockets.
type Kernel struct {
	ns     *netdev.NS
	fd     int
	wake   int // eventfd that ends Wait
	mu     sync.Mutex
	joined map[uint32]bool
	buf    []byte
	oob    []byte
}

var _ rtnl.Kernel = (*Kernel)(nil)

// eventBuffer is the receive buffer of the event socket in bytes: a burst of
// link events that the daemon is too slow for costs a resynchronization.
const eventBuffer = 8 << 20

// maxDatagram is what the kernel sends at most in one piece: dump parts of 32 KiB
// and single link messages that may be larger.
const maxDatagram = 1 << 18

// Open opens the event socket in ns.
func Open(ns *netdev.NS) (*Kernel, error) {
	fd, err := socket(ns)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventBuffer)
	}
	// The group of each event is told by NETLINK_PKTINFO.
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_PKTINFO, 1); err != nil {
		unix.Close(fd)
		unix.Close(wake)
		return nil, fmt.Errorf("NETLINK_PKTINFO: %w", err)
	}
	return &Kernel{ns: ns, fd: fd, wake: wake, joined: map[uint32]bool{},
		buf: make([]byte, maxDatagram), oob: make([]byte, 256)}, nil
}

func socket(ns *netdev.NS) (fd int, err error) {
	err = ns.Do(func() error {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink socket: %w", err)
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	return fd, err
}

// Join implements rtnl.Kernel.
func (k *Kernel) Join(group uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.joined[group] {
		return nil
	}
	if err := unix.SetsockoptInt(k.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)); err != nil {
		return err
	}
	k.joined[group] = true
	return nil
}

// Events implements rtnl.Kernel. Its callers hold the namespace's lock.
func (k *Kernel) Events(f func(group uint32, msg []byte)) (lost bool, err error) {
	for {
		n, oobn, _, _, err := unix.Recvmsg(k.fd, k.buf, k.oob, unix.MSG_DONTWAIT)
		switch err {
		case nil:
		case unix.EAGAIN:
			return lost, nil
		case unix.EINTR:
			continue
		case unix.ENOBUFS:
			lost = true
			continue
		default:
			return lost, fmt.Errorf("netlink events: %w", err)
		}
		group := groupOf(k.oob[:oobn])
		rtnl.EachMessage(k.buf[:n], func(msg []byte) { f(group, msg) })
	}
}

// groupOf finds the group in struct nl_pktinfo.
func groupOf(oob []byte) uint32 {
	cs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, c := range cs {
		if c.Header.Level == unix.SOL_NETLINK && c.Header.Type == unix.NETLINK_PKTINFO && len(c.Data) >= 4 {
			return ne.Uint32(c.Data)
		}
	}
	return 0
}

// Wait implements rtnl.Kernel.
func (k *Kernel) Wait() error {
	fds := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(k.wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		if fds[1].Revents != 0 {
			return netdev.ErrClosed
		}
		return nil
	}
}

// Close implements rtnl.Kernel: it ends Wait. The descriptors go with the last
// use, so Close must come after the last Events.
func (k *Kernel) Close() error {
	_, err := unix.Write(k.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

// Release closes the descriptors once Wait has returned.
func (k *Kernel) Release() {
	unix.Close(k.fd)
	unix.Close(k.wake)
}
