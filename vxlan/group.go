package vxlan

import (
	"errors"
	"net/netip"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"golang.org/x/sys/unix"
)

// membership is a multicast group on a link.
type membership struct {
	group   netip.Addr
	ifindex int
}

// join joins the group that remote is on the device's link, if it is one
// (vxlan_igmp_join). Devices that share a socket share its memberships.
func (d *Device) join(remote netip.Addr) error { return d.member(remote, d.lower, true) }

// leave takes join back.
func (d *Device) leave(remote netip.Addr) { _ = d.member(remote, d.lower, false) }

func (d *Device) member(remote netip.Addr, ifindex int, join bool) error {
	if !remote.IsMulticast() {
		return nil
	}
	for _, s := range d.sockets {
		if s.key.ipv6 != remote.Is6() {
			continue
		}
		if join {
			return s.join(membership{remote, ifindex})
		}
		s.leave(membership{remote, ifindex})
	}
	return nil
}

func (s *socket) join(m membership) error {
	r, ok := s.reader.(netdev.GroupReader)
	if !ok {
		return nil
	}
	if s.groups[m] == 0 {
		err := r.Join(m.group, m.ifindex)
		if err != nil && !errors.Is(err, unix.EADDRINUSE) {
			var errno unix.Errno
			if errors.As(err, &errno) {
				return nlattr.Errno(errno)
			}
			return err
		}
	}
	s.groups[m]++
	return nil
}

func (s *socket) leave(m membership) {
	r, ok := s.reader.(netdev.GroupReader)
	if !ok || s.groups[m] == 0 {
		return
	}
	if s.groups[m]--; s.groups[m] == 0 {
		delete(s.groups, m)
		_ = r.Leave(m.group, m.ifindex)
	}
}

// joinAll joins the groups of the device and of its VNIs when it comes up. On
// error none is joined.
func (d *Device) joinAll() error {
	if err := d.join(d.cfg.Remote); err != nil {
		return err
	}
	for i, n := range d.vnis.list {
		if err := d.join(n.remote); err != nil {
			for _, n := range d.vnis.list[:i] {
				d.leave(n.remote)
			}
			d.leave(d.cfg.Remote)
			return err
		}
	}
	return nil
}

func (d *Device) leaveAll() {
	d.leave(d.cfg.Remote)
	for _, n := range d.vnis.list {
		d.leave(n.remote)
	}
}
