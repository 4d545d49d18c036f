package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"golang.org/x/sys/unix"
)

// group is a nexthop group as the frame path sees it: members repeated by
// weight.
type group struct {
	id      uint32
	members []netip.Addr
}

// maxSlots bounds the weights that a group's members are spread over.
const maxSlots = 1024

func makeGroup(n Nexthop) *group {
	total := 0
	for _, m := range n.Members {
		total += max(m.Weight, 1)
	}
	div := max(total/maxSlots, 1)
	g := &group{id: n.ID}
	for _, m := range n.Members {
		for range max(m.Weight/div, 1) {
			g.members = append(g.members, m.IP)
		}
	}
	return g
}

// resolveGroup finds a nexthop group for an entry (vxlan_fdb_nh_update).
func (d *Device) resolveGroup(id uint32) (*group, error) {
	var n Nexthop
	ok := false
	if d.env.Nexthops != nil {
		n, ok = d.env.Nexthops.Nexthop(id)
	}
	switch {
	case !ok:
		return nil, nlattr.Errf(unix.EINVAL, "Nexthop id does not exist")
	case !n.FDB:
		return nil, nlattr.Errf(unix.EINVAL, "Nexthop is not a fdb nexthop")
	case !n.Group:
		return nil, nlattr.Errf(unix.EINVAL, "Nexthop is not a multipath group")
	case n.IPv4 == d.cfg.IPv6():
		return nil, nlattr.Errf(unix.EAFNOSUPPORT, "Nexthop group family not supported")
	}
	n.ID = id
	return makeGroup(n), nil
}

// NexthopChanged makes entries use a group's new members.
func (d *Device) NexthopChanged(n Nexthop) {
	g := makeGroup(n)
	d.eachOfGroup(n.ID, func(e *entry) {
		e.V.to.Store(&targets{group: g, list: e.V.to.Load().list})
	})
}

// NexthopDeleted removes the entries that lead to a group that is gone. As in
// the kernel nobody is told.
func (d *Device) NexthopDeleted(id uint32) {
	d.eachOfGroup(id, func(e *entry) { d.table.Delete(e) })
}

func (d *Device) eachOfGroup(id uint32, f func(*entry)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.table.All() {
		if g := e.V.to.Load().group; g != nil && g.id == id {
			f(e)
		}
	}
}
