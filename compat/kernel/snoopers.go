package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
)

// tap is a TAP with the group memberships of a bridge.
type tap struct {
	*netdev.TAP
	ns      *netdev.NS
	members []int // sockets, one a family, whose membership lasts as long as they
}

// SetSnoopers implements rtnl.TAP. The kernel's own IGMP and MLD report the
// memberships, as they do for a bridge of the kernel's.
func (t *tap) SetSnoopers(on bool) error {
	if on == (len(t.members) > 0) {
		return nil
	}
	if !on {
		t.leave()
		return nil
	}
	return t.ns.Do(func() error { return errors.Join(t.join4(), t.join6()) })
}

// join4 joins 224.0.0.106 (RFC 4286).
func (t *tap) join4() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	m := &unix.IPMreqn{Multiaddr: [4]byte{224, 0, 0, 106}, Ifindex: int32(t.Ifindex())}
	return t.keep(fd, unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m))
}

// join6 joins ff02::6a, where the device has IPv6 at all.
func (t *tap) join6() error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	m := &unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 0x02, 15: 0x6a}, Interface: uint32(t.Ifindex())}
	err = t.keep(fd, unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, m))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
		return nil // disable_ipv6
	}
	return err
}

func (t *tap) keep(fd int, err error) error {
	if err != nil {
		unix.Close(fd)
		return err
	}
	t.members = append(t.members, fd)
	return nil
}

func (t *tap) leave() {
	for _, fd := range t.members {
		unix.Close(fd)
	}
	t.members = nil
}

// Close implements rtnl.TAP.
func (t *tap) Close() error {
	t.leave()
	return t.TAP.Close()
}
