package bridge

import (
	"encoding/binary"

	"github.com/linkspan/linkspan/netdev"
)

// class is what snooping makes of a multicast frame before any group is looked up.
type class struct {
	proto uint16 // groupIPv4, groupIPv6 or groupL2
	// routersOnly: without members the frame is for routers alone.
	routersOnly bool
	// control: IGMP or MLD, which no group applies to.
	control bool
	// joins: a report of groups that are not local to the link.
	joins bool
	net   int // offset of the network header
}

// multicast forwards a multicast frame that is not a broadcast.
func (in *portView) multicast(t *netdev.Thread, f *netdev.Frame, now ticks) {
	v := in.v
	g, restricted, ok := v.decide(f, now)
	switch {
	case !ok:
		in.p.drops.Malformed.Add(1)
	case restricted:
		v.toMembers(t, f, in, g)
		if v.promisc || g != nil && g.host || v.mcast.bridgeRouter {
			v.b.counters.Multicast.Add(1)
			v.passUp(t, f)
		}
	default:
		flood(t, f, in, v.multicast)
		v.b.counters.Multicast.Add(1)
		v.passUp(t, f)
	}
}

// hostMulticast is the same for a frame that the host sent.
func (v *view) hostMulticast(t *netdev.Thread, f *netdev.Frame, now ticks) {
	g, restricted, ok := v.decide(f, now)
	switch {
	case !ok:
		v.b.drops.Malformed.Add(1)
	case restricted:
		v.toMembers(t, f, nil, g)
	default:
		flood(t, f, nil, v.fromHost)
	}
}

// decide tells whether a multicast frame is for members and routers only, and for
// which group's. ok is false for one that must be dropped.
func (v *view) decide(f *netdev.Frame, now ticks) (g *groupView, restricted, ok bool) {
	if v.mcast == nil {
		return nil, false, true
	}
	c, ok := classify(f)
	if !ok {
		return nil, false, false
	}
	if !c.control {
		g = v.group(c, f.Data)
	}
	if c.joins && !v.b.mdb.joined.Load() {
		v.b.mdb.joined.Store(true)
	}
	if g == nil && (!c.routersOnly || !c.control && v.b.mdb.joined.Load()) {
		return nil, false, true
	}
	// L2 groups are always permanent and need no querier.
	if c.proto == groupL2 {
		return g, g != nil, true
	}
	return g, now > v.mcast.since, true
}

// group looks the frame's group up: (S, G) first where sources matter.
func (v *view) group(c class, data []byte) *groupView {
	k := groupKey{proto: c.proto}
	m := &v.b.mdb
	if m.table.Len() == 0 {
		return nil
	}
	switch c.proto {
	case groupIPv4:
		copy(k.dst[:4], data[c.net+16:])
		if v.mcast.igmp3 {
			copy(k.src[:4], data[c.net+12:])
		}
	case groupIPv6:
		copy(k.dst[:], data[c.net+24:])
		if v.mcast.mld2 {
			copy(k.src[:], data[c.net+8:])
		}
	default:
		copy(k.dst[:6], data)
	}
	if k.src != [16]byte{} {
		if g := m.lookup(k); g != nil {
			return g
		}
		k.src = [16]byte{}
	}
	return m.lookup(k)
}

// toMembers sends to the members of a group, which may be nil, and to the router
// ports, once to a port that is both (br_multicast_flood).
func (v *view) toMembers(t *netdev.Thread, f *netdev.Frame, in *portView, g *groupView) {
	flood(t, f, in, v.mcast.routers)
	if g == nil {
		return
	}
	modes := g.key.starG() && (g.key.proto == groupIPv4 && v.mcast.igmp3 || g.key.proto == groupIPv6 && v.mcast.mld2)
members:
	for i := range g.members {
		m := &g.members[i]
		out := m.p.view.Load()
		if out == nil || out.state != stateForwarding || in != nil && out.p == in.p && out.flags&portHairpin == 0 {
			continue
		}
		// A port with multicast-to-unicast gets the frame whatever its mode.
		if (m.blocked || m.include && modes) && out.flags&portMcastToUcast == 0 {
			continue
		}
		for _, r := range v.mcast.routers {
			if r.p == out.p {
				continue members
			}
		}
		out.deliver(t, f, in)
	}
}

// classify looks at the headers of a multicast frame as br_multicast_rcv does. It
// returns false for a malformed packet.
func classify(f *netdev.Frame) (c class, ok bool) {
	d := f.Data
	c.net = etherHeader
	proto := binary.BigEndian.Uint16(d[12:])
	if (proto == 0x8100 || proto == 0x88a8) && len(d) >= etherHeader+vlanHeader {
		proto = binary.BigEndian.Uint16(d[16:])
		c.net += vlanHeader
	}
	switch proto {
	case groupIPv4:
		return classify4(c, f)
	case groupIPv6:
		return classify6(c, f)
	}
	return c, true
}

// Types of IGMP and MLD messages.
const (
	igmpQuery    = 0x11
	igmpReportV1 = 0x12
	igmpReportV2 = 0x16
	igmpLeave    = 0x17
	igmpReportV3 = 0x22
	mldQuery     = 130
	mldReport    = 131
	mldDone      = 132
	mldReportV2  = 143
)

func classify4(c class, f *netdev.Frame) (class, bool) {
	ip := f.Data[c.net:]
	if len(ip) < 20 || ip[0]>>4 != 4 {
		return c, false
	}
	hlen, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if hlen < 20 || len(ip) < hlen || checksum(0, ip[:hlen]) != 0 || total < hlen || len(ip) < total {
		return c, false
	}
	c.proto = groupIPv4
	if ip[9] != 2 {
		// 224.0.0.x reaches everyone.
		c.routersOnly = ip[16] != 224 || ip[17] != 0 || ip[18] != 0
		return c, true
	}
	m := ip[hlen:total]
	if len(m) < 8 || f.Hdr.Flags&netdev.VnetNeedsCsum == 0 && checksum(0, m) != 0 {
		return c, false
	}
	c.control = true
	switch m[0] {
	case igmpReportV1, igmpReportV2:
		c.routersOnly = true
		c.joins = !localGroup4(m[4:])
	case igmpQuery:
		general := binary.BigEndian.Uint32(m[4:]) == 0
		toAll := [4]byte(ip[16:20]) == [4]byte{224, 0, 0, 1}
		return c, (len(m) == 8 || len(m) >= 12) && (!general || toAll)
	case igmpLeave:
	case igmpReportV3:
		for r := m[8:]; len(r) >= 8; {
			c.joins = c.joins || !localGroup4(r[4:])
			r = r[min(len(r), 8+4*(int(r[1])+int(binary.BigEndian.Uint16(r[2:])))):]
		}
	default:
		c.control = false
		c.routersOnly = ip[16] != 224 || ip[17] != 0 || ip[18] != 0
	}
	return c, true
}

// localGroup4 tells a group of 224.0.0.0/24, which is never restricted.
func localGroup4(ip []byte) bool { return ip[0] == 224 && ip[1] == 0 && ip[2] == 0 }

func classify6(c class, f *netdev.Frame) (class, bool) {
	ip := f.Data[c.net:]
	if len(ip) < 40 || ip[0]>>4 != 6 || len(ip) < 40+int(binary.BigEndian.Uint16(ip[4:])) {
		return c, false
	}
	c.proto = groupIPv6
	c.routersOnly = [16]byte(ip[24:40]) != [16]byte{0: 0xff, 1: 2, 15: 1}
	body := ip[40 : 40+int(binary.BigEndian.Uint16(ip[4:]))]
	if ip[6] != 0 { // MLD comes with a hop-by-hop header
		return c, true
	}
	if len(body) < 8 || len(body) < 8*(int(body[1])+1) {
		return c, false
	}
	next, m := body[0], body[8*(int(body[1])+1):]
	if next != 58 {
		return c, true
	}
	if len(m) < 4 {
		return c, false
	}
	pseudo := sum(uint32(len(m))+58, ip[8:40])
	if f.Hdr.Flags&netdev.VnetNeedsCsum == 0 && checksum(pseudo, m) != 0 {
		return c, false
	}
	switch m[0] {
	case mldReport:
		c.control, c.joins = true, true
	case mldReportV2:
		c.control, c.routersOnly, c.joins = true, false, true
	case mldQuery, mldDone:
		c.control, c.routersOnly = true, false
	}
	return c, true
}

// sum adds the 16-bit words of b to s, unfolded.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

// checksum is the Internet checksum (RFC 1071) of b, which holds its own sum: 0 if
// that is right. b is at most 64 KiB, so that the sum does not overflow.
func checksum(start uint32, b []byte) uint16 {
	s := sum(start, b)
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}
