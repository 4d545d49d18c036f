package rtnl

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/vxlan"
)

// Nexthop attributes and sizes (uapi/linux/nexthop.h).
const (
	nhaID      = 1
	nhaGroup   = 2
	nhaGateway = 6
	nhaFDB     = 11

	nhmsgLen      = 8
	nexthopGrpLen = 8 // struct nexthop_grp
)

// nexthops finds the kernel's nexthop objects for tunnels. It implements
// vxlan.Resolver.
type nexthops struct{ *Namespace }

// Nexthop implements vxlan.Resolver.
func (n nexthops) Nexthop(id uint32) (nh vxlan.Nexthop, ok bool) {
	b := beginMessage(nil, unix.RTM_GETNEXTHOP, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = append(b, make([]byte, nhmsgLen)...)
	b = endMessage(nlattr.AppendU32(b, nhaID, id), 0)
	// Members are asked for after this answer is complete.
	var found *message
	err := roundTrip(n.ctl, b, func(m *message) {
		if m.typ == unix.RTM_NEWNEXTHOP {
			c := *m
			c.raw = append([]byte(nil), m.raw...)
			found = &c
		}
	})
	if err != nil || found == nil {
		return nh, false
	}
	return n.parse(found)
}

// parse reads a RTM_NEWNEXTHOP; the members of a group are looked up.
func (n nexthops) parse(m *message) (nh vxlan.Nexthop, ok bool) {
	if len(m.body()) < nhmsgLen {
		return nh, false
	}
	as, _ := m.attrs(nhmsgLen)
	id, ok := as.Get(nhaID)
	if !ok {
		return nh, false
	}
	nh = vxlan.Nexthop{ID: id.U32(), FDB: as.Has(nhaFDB), IPv4: m.body()[0] == unix.AF_INET}
	if gw, ok := as.Get(nhaGateway); ok {
		if ip, ok := netip.AddrFromSlice(gw.Data); ok {
			nh.Members = []vxlan.Member{{IP: ip, Weight: 1}}
		}
	}
	group, ok := as.Get(nhaGroup)
	if !ok {
		return nh, true
	}
	nh.Group = true
	for e := group.Data; len(e) >= nexthopGrpLen; e = e[nexthopGrpLen:] {
		in, ok := n.Nexthop(ne.Uint32(e))
		if !ok || in.Group {
			continue
		}
		// A group's own family is unspecified: its members have one.
		nh.IPv4, nh.FDB = in.IPv4, nh.FDB || in.FDB
		for _, g := range in.Members {
			g.Weight = int(e[4]) + 1
			nh.Members = append(nh.Members, g)
		}
	}
	return nh, true
}

// nexthopEvent lets the tunnels follow a change of a nexthop group.
func (ns *Namespace) nexthopEvent(m *message) {
	if len(m.body()) < nhmsgLen {
		return
	}
	as, _ := m.attrs(nhmsgLen)
	id, ok := as.Get(nhaID)
	if !ok || len(ns.vxlans.Devices()) == 0 {
		return
	}
	if m.typ == unix.RTM_DELNEXTHOP {
		for _, d := range ns.vxlans.Devices() {
			d.NexthopDeleted(id.U32())
		}
		return
	}
	if nh, ok := (nexthops{ns}).parse(m); ok && nh.Group {
		for _, d := range ns.vxlans.Devices() {
			d.NexthopChanged(nh)
		}
	}
}
