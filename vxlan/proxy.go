package vxlan

import (
	"encoding/binary"
	"net/netip"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Lengths and values of ARP (RFC 826) and neighbour discovery (RFC 4861).
const (
	arpLen     = 28
	arpRequest = 1
	arpReply   = 2

	ndLen         = 24 // of a solicitation or advertisement, without options
	ndSolicit     = 135
	ndAdvert      = 136
	ndSourceLL    = 1 // option: link-layer address of the sender
	ndTargetLL    = 2
	ndRouter      = 0x80
	ndSolicited   = 0x40
	ndOverride    = 0x20
	protoICMPv6   = 58
	ndHopLimit    = 255
	ndOptionUnits = 8
)

func (d *Device) neighbour(ip netip.Addr) (Neighbour, bool) {
	if d.env.Neighbours == nil {
		return Neighbour{}, false
	}
	return d.env.Neighbours.Neighbour(d.home.Load().ifindex, ip)
}

// proxied answers address resolution in place of the other side, and reports
// whether the frame is done with: ARP always is.
func (d *Device) proxied(t *netdev.Thread, f *netdev.Frame) bool {
	b := f.Data
	switch binary.BigEndian.Uint16(b[12:]) {
	case unix.ETH_P_ARP:
		d.proxyARP(t, b)
		return true
	case unix.ETH_P_IPV6:
		const need = etherLen + 40 + ndLen
		if len(b) < need || b[etherLen+6] != protoICMPv6 || b[etherLen+40] != ndSolicit || b[etherLen+41] != 0 {
			return false
		}
		d.proxyND(t, b)
		return true
	}
	return false
}

// proxyARP answers a request from the host's neighbour table (arp_reduce).
func (d *Device) proxyARP(t *netdev.Thread, b []byte) {
	if len(b) < etherLen+arpLen {
		d.txDropped(d.fixed.vni)
		return
	}
	a := b[etherLen:]
	hardware := binary.BigEndian.Uint16(a)
	if hardware != unix.ARPHRD_ETHER && hardware != unix.ARPHRD_IEEE802 || binary.BigEndian.Uint16(a[2:]) != unix.ETH_P_IP ||
		a[4] != 6 || a[5] != 4 || binary.BigEndian.Uint16(a[6:]) != arpRequest {
		return
	}
	target := netip.AddrFrom4([4]byte(a[24:28]))
	if target.IsLoopback() || target.IsMulticast() {
		return
	}
	n, e, ok := d.answerable(t, target)
	if !ok || d.isLocal(e) {
		return
	}
	sender := uapi.MACFrom(a[8:])
	r := sender.Append(nil)
	r = n.MAC.Append(r)
	r = binary.BigEndian.AppendUint16(r, unix.ETH_P_ARP)
	r = append(r, 0, 1, 8, 0, 6, 4, 0, arpReply)
	r = n.MAC.Append(r)
	r = append(r, a[24:28]...)
	r = sender.Append(r)
	r = append(r, a[14:18]...)
	d.inject(t, r)
}

// answerable looks for a neighbour that may be answered for and its entry. An
// unknown one is reported where that is wanted.
func (d *Device) answerable(t *netdev.Thread, ip netip.Addr) (n Neighbour, e *entry, ok bool) {
	n, ok = d.neighbour(ip)
	if !ok {
		if d.path.Load().l3miss {
			d.ipMiss(ip)
		}
		return n, nil, false
	}
	if !n.Connected {
		return n, nil, false
	}
	if e = d.table.Lookup(fdb.Key{MAC: uint64(n.MAC), Tag: d.fixed.vni}); e != nil {
		touch(&e.V.used, t.Now)
	}
	return n, e, true
}

// isLocal tells whether an entry leads to the bridge that the device is a port
// of, where the neighbour answers for itself.
func (d *Device) isLocal(e *entry) bool {
	if e == nil {
		return false
	}
	r := first(e.V.to.Load())
	return r != nil && r.ip.IsUnspecified()
}

// proxyND answers a neighbour solicitation (neigh_reduce).
func (d *Device) proxyND(t *netdev.Thread, b []byte) {
	h, m := b[etherLen:], b[etherLen+40:]
	dst := netip.AddrFrom16([16]byte(h[24:40]))
	target := netip.AddrFrom16([16]byte(m[8:24]))
	if dst.IsLoopback() || target.IsMulticast() {
		return
	}
	n, e, ok := d.answerable(t, target)
	if !ok || d.isLocal(e) {
		return
	}
	to := uapi.MACFrom(b[6:])
	for o := m[ndLen:]; len(o) >= ndOptionUnits && o[1] != 0 && int(o[1])*ndOptionUnits <= len(o); o = o[int(o[1])*ndOptionUnits:] {
		if o[0] == ndSourceLL {
			to = uapi.MACFrom(o[2:])
			break
		}
	}
	flags := byte(ndSolicited | ndOverride)
	if e != nil && e.V.flags()&uapi.NTFRouter != 0 {
		flags |= ndRouter
	}
	r := to.Append(nil)
	r = n.MAC.Append(r)
	r = binary.BigEndian.AppendUint16(r, unix.ETH_P_IPV6)
	const length = ndLen + ndOptionUnits
	r = append(r, 0x60, 0, 0, 0, 0, length, protoICMPv6, ndHopLimit)
	r = append(r, m[8:24]...) // from the target
	r = append(r, h[8:24]...) // to the asking host
	sum := append([]byte(nil), r[etherLen+8:]...)
	sum = append(sum, 0, 0, 0, length, 0, 0, 0, protoICMPv6)
	msg := append([]byte{ndAdvert, 0, 0, 0, flags, 0, 0, 0}, m[8:24]...)
	msg = append(msg, ndTargetLL, 1)
	msg = n.MAC.Append(msg)
	binary.BigEndian.PutUint16(msg[2:], ^netdev.Checksum(msg, netdev.Checksum(sum, 0)))
	d.inject(t, append(r, msg...))
}

// inject hands a frame of our own up. It is not counted.
func (d *Device) inject(t *netdev.Thread, b []byte) {
	f := netdev.NewFrame(b)
	if u := d.upper.Load(); u != nil {
		u.in(t, f, d.fixed.vni)
		return
	}
	d.host.Transmit(t, f)
}

// shortCircuit addresses a frame for a router to the destination itself, where
// the host knows its neighbour (route_shortcircuit). It returns the changed
// frame, nil if there is nothing to change.
func (d *Device) shortCircuit(f *netdev.Frame) *netdev.Frame {
	b := f.Data
	var ip netip.Addr
	switch binary.BigEndian.Uint16(b[12:]) {
	case unix.ETH_P_IP:
		if len(b) >= etherLen+20 {
			ip = netip.AddrFrom4([4]byte(b[etherLen+16:]))
		}
	case unix.ETH_P_IPV6:
		if len(b) >= etherLen+40 {
			ip = netip.AddrFrom16([16]byte(b[etherLen+24:]))
		}
	}
	if !ip.IsValid() || uapi.MACFrom(b).Multicast() {
		return nil
	}
	n, ok := d.neighbour(ip)
	if !ok {
		if d.path.Load().l3miss {
			d.ipMiss(ip)
		}
		return nil
	}
	if n.MAC == uapi.MACFrom(b) {
		return nil
	}
	g := netdev.NewFrame(b)
	g.Hdr, g.Meta = f.Hdr, f.Meta
	copy(g.Data[6:12], b[:6])
	mac := n.MAC.Bytes()
	copy(g.Data, mac[:])
	return g
}

// loop hands a frame whose destination is on the bridge itself back as if the
// device had received it (vxlan_encap_bypass).
func (d *Device) loop(t *netdev.Thread, f *netdev.Frame, vni uint32) {
	n := len(f.Data)
	d.stats.TxPackets.Add(1)
	d.stats.TxBytes.Add(uint64(n))
	p := d.path.Load()
	if p.learn {
		from := netdev.UDPMeta{Src: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
		if p.ipv6 {
			from.Src = netip.IPv6Loopback()
		}
		d.learn(t.Now, &from, uapi.MACFrom(f.Data[6:]), vni)
	}
	d.deliver(t, f, vni, n)
}
