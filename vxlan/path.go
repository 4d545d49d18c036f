package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

// path is what the frame path reads of a device's configuration. It is replaced
// as a whole.
type path struct {
	up  bool
	mac uapi.MAC
	mtu int
	// plain and df are the ways out, without and with the Don't Fragment bit;
	// nil where dfMode never asks for one.
	plain, df *netdev.Output
	dfMode    uint8
	src       netip.Addr
	ttl, tos  uint8
	label     uint32
	// link is where link-local and multicast destinations are.
	link     int32
	reserved uint64

	ttlInherit, labelInherit, linkLocal  bool
	learn, l2miss, l3miss, proxy, rsc    bool
	gpe, gbp, ipv6, remCsumTX, remCsumRX bool
}

// publish makes the control side's state the frame path's.
func (d *Device) publish() {
	c := &d.cfg
	p := &path{
		up: d.sends != nil, mac: d.link.MAC, mtu: d.link.MTU, dfMode: c.DF, ttl: c.TTL, tos: c.TOS, label: c.Label,
		link: int32(c.Link), reserved: c.ReservedBits,
		ttlInherit: c.TTLInherit, labelInherit: c.LabelPolicy != 0, linkLocal: c.linkLocal,
		learn: c.Learning, l2miss: c.L2Miss, l3miss: c.L3Miss, proxy: c.Proxy, rsc: c.RSC,
		gpe: c.GPE, gbp: c.GBP, ipv6: c.IPv6(), remCsumTX: c.RemCsumTX, remCsumRX: c.RemCsumRX,
	}
	if !c.Local.IsUnspecified() {
		p.src = c.Local
	}
	for _, s := range d.sends {
		if s.DF {
			p.df = d.reg.outputs[s].out
		} else {
			p.plain = d.reg.outputs[s].out
		}
	}
	d.path.Store(p)
}

// upper is who gets received frames instead of the host.
type upper struct {
	in func(t *netdev.Thread, f *netdev.Frame, vni uint32)
}

// SetUpper leads received frames to in, the input of a bridge port; nil leads
// them to the host again.
func (d *Device) SetUpper(in func(t *netdev.Thread, f *netdev.Frame)) {
	if in == nil {
		d.upper.Store(nil)
		return
	}
	d.SetTunnelUpper(func(t *netdev.Thread, f *netdev.Frame, _ uint32) { in(t, f) })
}

// SetTunnelUpper is SetUpper for a port that must know the VNI of each frame.
func (d *Device) SetTunnelUpper(in func(t *netdev.Thread, f *netdev.Frame, vni uint32)) {
	if in == nil {
		d.upper.Store(nil)
		return
	}
	d.upper.Store(&upper{in})
}

// deliver counts a frame of n bytes as received and hands it up.
func (d *Device) deliver(t *netdev.Thread, f *netdev.Frame, vni uint32, n int) {
	d.stats.RxPackets.Add(1)
	d.stats.RxBytes.Add(uint64(n))
	if u := d.upper.Load(); u != nil {
		u.in(t, f, vni)
		return
	}
	d.host.Transmit(t, f)
}
