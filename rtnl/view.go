package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// ifConst are link attributes that golang.org/x/sys/unix lacks.
const (
	iflaNetnsImmutable = 67
	iflaEventFeatures  = 2 // IFLA_EVENT_FEATURES
)

// maxMTU is max_mtu of bridge and VXLAN devices.
const maxMTU = 65535

// rewriteLink returns the kernel's RTM_NEWLINK or RTM_DELLINK as it must look to
// clients: unchanged for foreign devices, with the emulated kind and state for
// ours. It returns the bytes of one message.
func (ns *Namespace) rewriteLink(m *message) []byte {
	if len(m.body()) < uapi.IfinfomsgLen || m.body()[0] == unix.AF_BRIDGE {
		return m.raw
	}
	d := ns.devs[int(uapi.ParseIfinfomsg(m.body()).Index)]
	if d == nil || !d.emulated() && d.port == nil {
		return m.raw
	}
	v, _ := viewLink(m)
	b := make([]byte, 0, len(m.raw)+1024)
	b = append(b, m.raw[:headerLen+uapi.IfinfomsgLen]...)
	if d.emulated() {
		at := headerLen + 8
		ne.PutUint32(b[at:], d.ownFlags(ne.Uint32(b[at:])))
		if d.raw() {
			ne.PutUint16(b[headerLen+2:], unix.ARPHRD_NONE)
		}
	}
	for _, a := range v.attrs {
		b = d.appendLinkAttr(b, a)
		if a.Type == unix.IFLA_XDP && d.port != nil && !v.attrs.Has(unix.IFLA_LINKINFO) {
			// A device without a kind has IFLA_LINKINFO for its slave's sake.
			b = d.appendLinkInfo(b, nlattr.Attr{})
		}
	}
	return endMessage(b, 0)
}

// appendLinkAttr appends what stands in place of one attribute of the kernel's
// link message.
func (d *device) appendLinkAttr(b []byte, a nlattr.Attr) []byte {
	switch {
	case a.Type == unix.IFLA_CARRIER && d.port != nil:
		// IFLA_MASTER stands right before IFLA_CARRIER (rtnl_fill_ifinfo).
		b = nlattr.AppendU32(b, unix.IFLA_MASTER, uint32(d.master.ifindex))
	case a.Type == unix.IFLA_LINKINFO:
		return d.appendLinkInfo(b, a)
	case a.Type == unix.IFLA_MASTER && d.port != nil:
		return b
	}
	if d.emulated() {
		switch a.Type {
		case unix.IFLA_ADDRESS, unix.IFLA_BROADCAST:
			if d.raw() {
				return b
			}
			if d.br != nil && a.Type == unix.IFLA_ADDRESS {
				mac := d.state.MAC.Bytes()
				return nlattr.Append(b, a.Type, mac[:])
			}
		case unix.IFLA_CARRIER:
			return nlattr.AppendU8(b, a.Type, b2u(d.carrier))
		case unix.IFLA_PROTO_DOWN:
			return nlattr.AppendU8(b, a.Type, b2u(d.protoDown))
		case unix.IFLA_TXQLEN:
			return nlattr.AppendU32(b, a.Type, d.queueLen)
		case unix.IFLA_TSO_MAX_SIZE:
			if d.tsoSize != 0 {
				return nlattr.AppendU32(b, a.Type, d.tsoSize)
			}
		case unix.IFLA_TSO_MAX_SEGS:
			if d.tsoSegs != 0 {
				return nlattr.AppendU32(b, a.Type, d.tsoSegs)
			}
		case unix.IFLA_MTU:
			if d.bigMTU != 0 {
				return nlattr.AppendU32(b, a.Type, uint32(d.bigMTU))
			}
		case unix.IFLA_PROMISCUITY, unix.IFLA_ALLMULTI:
			// A port's counts go up by the bridge, which the TAP has no need of.
			if d.port != nil {
				return nlattr.AppendU32(b, a.Type, a.U32()+1)
			}
		case unix.IFLA_MAX_MTU:
			return nlattr.AppendU32(b, a.Type, maxMTU)
		case unix.IFLA_QDISC:
			// A TAP has a queueing discipline once it was up, a bridge has none.
			if a.Text() != "noop" {
				return nlattr.AppendString(b, a.Type, "noqueue")
			}
		case iflaNetnsImmutable:
			if d.br != nil {
				return nlattr.AppendU8(b, a.Type, 1)
			}
		case unix.IFLA_STATS64:
			if d.vx != nil {
				return nlattr.Append(b, a.Type, d.vxStats(a.Data, 8))
			}
		case unix.IFLA_STATS:
			if d.vx != nil {
				return nlattr.Append(b, a.Type, d.vxStats(a.Data, 4))
			}
		}
	}
	t := a.Type
	if a.Nested {
		t |= nlattr.FlagNested
	}
	return nlattr.Append(b, t, a.Data)
}

// ownFlags returns the ifi_flags of an emulated device whose TAP has flags.
func (d *device) ownFlags(flags uint32) uint32 {
	flags &^= unix.IFF_LOWER_UP
	if flags&unix.IFF_UP != 0 && d.carrier {
		flags |= unix.IFF_LOWER_UP
	}
	if d.raw() {
		flags = flags&^unix.IFF_BROADCAST | unix.IFF_POINTOPOINT | unix.IFF_NOARP
	}
	return flags
}

// raw tells that the device has no link layer (vxlan_raw_setup).
func (d *device) raw() bool { return d.vx != nil && d.vx.Config().GPE }

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// appendLinkInfo appends IFLA_LINKINFO: kind and data of an emulated device or
// the kernel's, then the slave's kind and data.
func (d *device) appendLinkInfo(b []byte, a nlattr.Attr) []byte {
	b, mark := nlattr.Nest(b, unix.IFLA_LINKINFO)
	if d.emulated() {
		b = nlattr.AppendString(b, unix.IFLA_INFO_KIND, d.kind())
		var data int
		b, data = nlattr.Nest(b, unix.IFLA_INFO_DATA)
		if d.br != nil {
			b = d.br.AppendInfo(b)
		} else {
			b = d.vx.AppendInfo(b)
		}
		b = nlattr.EndNest(b, data)
	} else {
		for _, in := range a.Nest() {
			if in.Type != unix.IFLA_INFO_SLAVE_KIND && in.Type != unix.IFLA_INFO_SLAVE_DATA {
				b = nlattr.Append(b, in.Type, in.Data)
			}
		}
	}
	if d.port != nil {
		b = nlattr.AppendString(b, unix.IFLA_INFO_SLAVE_KIND, "bridge")
		var data int
		b, data = nlattr.Nest(b, unix.IFLA_INFO_SLAVE_DATA)
		b = nlattr.EndNest(d.port.AppendInfo(b), data)
	}
	return nlattr.EndNest(b, mark)
}

// vxStats overwrites the counters of a struct rtnl_link_stats (width 4) or
// rtnl_link_stats64 (width 8) with a VXLAN device's own: frames between it and
// its bridge never pass the TAP.
func (d *device) vxStats(old []byte, width int) []byte {
	c := d.vx.Counters()
	b := append([]byte(nil), old...)
	put := func(i int, n uint64) {
		switch {
		case (i+1)*width > len(b):
		case width == 8:
			binary.NativeEndian.PutUint64(b[i*8:], n)
		default:
			binary.NativeEndian.PutUint32(b[i*4:], uint32(n))
		}
	}
	// The order of fields in uapi/linux/if_link.h.
	put(0, c.RxPackets.Load())
	put(1, c.TxPackets.Load())
	put(2, c.RxBytes.Load())
	put(3, c.TxBytes.Load())
	put(4, c.RxErrors.Load())
	put(5, c.TxErrors.Load())
	put(6, c.RxDropped.Load())
	put(7, c.TxDropped.Load())
	put(8, c.Multicast.Load())
	put(9, c.Collisions.Load())
	put(10, c.RxLengthErrors.Load())
	put(13, c.RxFrameErrors.Load())
	put(17, c.TxCarrierErrors.Load())
	return b
}

// emitLink announces a device of ours with a RTM_NEWLINK made from the kernel's
// present view. change is ifi_change; event, if not 0, is IFLA_EVENT.
func (ns *Namespace) emitLink(d *device, change uint32, event uint32) {
	if !ns.hub.Wanted(unix.RTNLGRP_LINK) {
		return
	}
	m := ns.link(d.ifindex, "")
	if m == nil {
		return
	}
	b := append([]byte(nil), ns.rewriteLink(m)...)
	ne.PutUint16(b[4:], unix.RTM_NEWLINK)
	ne.PutUint16(b[6:], 0)
	ne.PutUint32(b[8:], 0)
	ne.PutUint32(b[12:], 0)
	ne.PutUint32(b[headerLen+12:], change)
	if event != 0 {
		b = insertEvent(b, event)
	}
	ns.hub.publishRaw(unix.RTNLGRP_LINK, b)
}

// insertEvent puts IFLA_EVENT where rtnl_fill_ifinfo does: behind the statistics,
// before IFLA_LINKINFO.
func insertEvent(b []byte, event uint32) []byte {
	m := message{raw: b}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	for _, a := range as {
		if a.Type == unix.IFLA_LINKINFO {
			ev := nlattr.AppendU32(nil, unix.IFLA_EVENT, event)
			out := append(append(append([]byte(nil), b[:a.Off]...), ev...), b[a.Off:]...)
			return endMessage(out, 0)
		}
	}
	return endMessage(nlattr.AppendU32(b, unix.IFLA_EVENT, event), 0)
}

// bridgeLink appends the body of the AF_BRIDGE link message of a port or a bridge
// (br_fill_ifinfo). withPort is false in the DELLINK of a release, which has no
// IFLA_PROTINFO.
func (ns *Namespace) bridgeLink(b []byte, d *device, withPort bool) []byte {
	oper, master := d.operState, d.ifindex
	if m := ns.link(d.ifindex, ""); m != nil {
		v, _ := viewLink(m)
		d.follow(v)
		if a, ok := v.attrs.Get(unix.IFLA_OPERSTATE); ok && d.emulated() {
			oper = a.U8()
		}
	}
	if !d.state.Up {
		oper = operDown
	}
	flags := d.flags
	if d.emulated() {
		flags = d.ownFlags(flags)
	}
	if d.master != nil {
		master = d.master.ifindex
	}
	b = uapi.Ifinfomsg{Family: unix.AF_BRIDGE, Type: unix.ARPHRD_ETHER, Index: int32(d.ifindex), Flags: flags}.Append(b)
	b = nlattr.AppendString(b, unix.IFLA_IFNAME, d.state.Name)
	b = nlattr.AppendU32(b, unix.IFLA_MASTER, uint32(master))
	b = nlattr.AppendU32(b, unix.IFLA_MTU, uint32(d.state.MTU))
	b = nlattr.AppendU8(b, unix.IFLA_OPERSTATE, oper)
	mac := d.state.MAC.Bytes()
	b = nlattr.Append(b, unix.IFLA_ADDRESS, mac[:])
	if d.hasLink && int(d.link) != d.ifindex {
		b = nlattr.AppendU32(b, unix.IFLA_LINK, d.link)
	}
	if withPort && d.port != nil {
		var mark int
		b, mark = nlattr.Nest(b, unix.IFLA_PROTINFO|nlattr.FlagNested)
		b = nlattr.EndNest(d.port.AppendInfo(b), mark)
	}
	return b
}
