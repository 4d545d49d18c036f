package vxlan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// send has the host send a frame.
func (x *wire) send(b []byte) {
	x.t.Begin()
	x.d.HostInput(x.t, []netdev.Frame{*netdev.NewFrame(b)})
	x.t.End()
}

// destinations are where datagrams went, with their VNIs.
func destinations(l []fake.Sent) (out []string) {
	for _, s := range l {
		h := binary.BigEndian.Uint64(s.Datagram.Data)
		out = append(out, fmt.Sprintf("%s vni %d", s.Datagram.Dst, headerVNI(h)))
	}
	return out
}

func ipv4(tos, ttl uint8, df bool, proto uint8, payload ...byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[1], b[8], b[9] = 0x45, tos, ttl, proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	if df {
		b[6] = 0x40
	}
	copy(b[12:], []byte{198, 51, 100, 1, 198, 51, 100, 2})
	binary.BigEndian.PutUint16(b[10:], ^netdev.Checksum(b, 0))
	return append(b, payload...)
}

func ipv6(tc, hop uint8, label uint32) []byte {
	b := make([]byte, 40)
	binary.BigEndian.PutUint32(b, 6<<28|uint32(tc)<<20|label)
	b[6], b[7] = 59, hop
	return b
}

// TestForwarding is section 6.4.
func TestForwarding(t *testing.T) {
	x := newWire(t, u32(xID, 10), be16(xPort, 4789), u8(unix.IFLA_VXLAN_L2MISS, 1), ip(xLocal, "192.0.2.100"))
	st := x.d.Counters()
	x.send(frame(macA, macB, 0x9000))
	expect(t, "miss", x.events(), []string{"miss " + macA.String() + " vni 0 04/00"})
	x.send(frame(macBC, macB, 0x9000))
	x.send(frame(macMC, macB, 0x9000))
	expect(t, "no miss", x.events(), []string(nil))
	expect(t, "dropped", st.TxDropped.Load(), uint64(3))
	for i := range 3 {
		x.add(flC|flA, 0, fmt.Sprintf("192.0.2.%d", i+1))
	}
	x.send(frame(macBC, macB, 0x9000, make([]byte, 48)...))
	sent := x.w.sockets.Take()
	expect(t, "replicated", destinations(sent), []string{"192.0.2.2:4789 vni 10", "192.0.2.3:4789 vni 10", "192.0.2.1:4789 vni 10"})
	expect(t, "from", sent[0].Datagram.Src.String(), "192.0.2.100")
	expect(t, "payload", sent[0].Datagram.Data, join([]byte{8, 0, 0, 0, 0, 0, 10, 0}, frame(macBC, macB, 0x9000, make([]byte, 48)...)))
	expect(t, "packets", st.TxPackets.Load(), uint64(3))
	expect(t, "bytes", st.TxBytes.Load(), uint64(3*48))
	x.add(flC, macA, "192.0.2.7", be16(uapi.NDAPort, 99), u32(uapi.NDAVNI, 0x1234567), u32(uapi.NDAIfindex, 3))
	x.add(flC, macBC, "192.0.2.8", u32(uapi.NDAVNI, 0))
	x.send(frame(macA, macB, 0x9000))
	x.send(frame(macBC, macB, 0x9000))
	sent = x.w.sockets.Take()
	expect(t, "own entries", destinations(sent), []string{"192.0.2.7:99 vni 2311527", "192.0.2.8:4789 vni 0"})
	expect(t, "oif", sent[0].Datagram.Ifindex, int32(3))
	x.add(flC|flR, macA, "0.0.0.0")
	x.send(frame(macA, macB, 0x9000))
	expect(t, "nowhere", st.TxDropped.Load(), uint64(4))
	x.d.Down()
	x.send(frame(macBC, macB, 0x9000))
	expect(t, "down", len(x.w.sockets.Take()), 0)
}

func TestNexthopForwarding(t *testing.T) {
	x := newWire(t, u32(xID, 10), be16(xPort, 4789))
	x.w.nh[10] = Nexthop{FDB: true, Group: true, IPv4: true, Members: []Member{{netip.MustParseAddr("192.0.2.1"), 1}, {netip.MustParseAddr("192.0.2.2"), 2}}}
	x.add(flC, macA, "", u32(uapi.NDANhID, 10))
	count := map[string]int{}
	for i := range 300 {
		b := frame(macA, macB, 0x800, ipv4(0, 64, false, 17, byte(i), byte(i>>8), 1, 2, 0, 8, 0, 0)...)
		x.send(b)
		x.send(b)
		d := destinations(x.w.sockets.Take())
		if d[0] != d[1] {
			t.Fatal("one flow went two ways")
		}
		count[d[0]]++
	}
	if len(count) != 2 || count["192.0.2.2:4789 vni 10"] < 150 {
		t.Error(count)
	}
	x.d.NexthopChanged(Nexthop{ID: 10})
	x.send(frame(macA, macB, 0x9000))
	expect(t, "no member", x.d.Counters().TxDropped.Load(), uint64(1))
}

// TestOuterHeader is section 6.1.
func TestOuterHeader(t *testing.T) {
	type outer struct {
		TOS, TTL uint8
		DF       bool
		Label    uint32
	}
	tag := func(b []byte) []byte { // puts a VLAN tag in
		return join(b[:12], []byte{0x81, 0, 0, 5}, b[12:])
	}
	p4 := func(tos, ttl uint8, df bool) []byte {
		return frame(macA, macB, unix.ETH_P_IP, ipv4(tos, ttl, df, 17)...)
	}
	p6 := frame(macA, macB, unix.ETH_P_IPV6, ipv6(0xb9, 7, 0x12345)...)
	other := frame(macA, macB, 0x9000)
	v6 := join(ip(xLocal6, "2001:db8::1"), ip(xGroup6, "2001:db8::2"))
	v4 := ip(xGroup, "192.0.2.2")
	for _, c := range []struct {
		name string
		cfg  []byte
		in   []byte
		want outer
	}{
		{"plain", v4, p4(0xb8, 9, true), outer{}},
		{"ecn", v4, p4(0xb9, 9, true), outer{TOS: 1}},
		{"congestion stays inside", v4, p4(0xbb, 9, true), outer{TOS: 2}},
		{"tos", join(v4, u8(xTOS, 0x10)), p4(0xb9, 9, true), outer{TOS: 0x11}},
		{"tos 0x13, inner CE", join(v4, u8(xTOS, 0x13)), p4(3, 9, true), outer{TOS: 0x12}},
		{"tos inherit", join(v4, u8(xTOS, 1)), p4(0xb9, 9, true), outer{TOS: 0xb9}},
		{"tos inherit, no ip", join(v4, u8(xTOS, 1)), other, outer{}},
		{"tos inherit, tagged", join(v4, u8(xTOS, 1)), tag(p4(0xb8, 9, true)), outer{TOS: 0xb8}},
		{"ttl", join(v4, u8(xTTL, 5)), p4(0, 9, true), outer{TTL: 5}},
		{"ttl inherit", join(v4, u8(xTTL, 5), flagAttr(xTTLInherit)), p4(0, 9, true), outer{TTL: 9}},
		{"ttl inherit, no ip", join(v4, u8(xTTL, 5), flagAttr(xTTLInherit)), other, outer{}},
		{"ttl inherit, ipv6", join(v4, flagAttr(xTTLInherit)), p6, outer{TTL: 7, TOS: 1}},
		{"df set", join(v4, u8(xDF, DFSet)), other, outer{DF: true}},
		{"df inherit", join(v4, u8(xDF, DFInherit)), p4(0, 9, true), outer{DF: true}},
		{"df inherit, clear", join(v4, u8(xDF, DFInherit)), p4(0, 9, false), outer{}},
		{"df inherit, ipv6", join(v4, u8(xDF, DFInherit)), p6, outer{DF: true, TOS: 1}},
		{"df inherit, tagged", join(v4, u8(xDF, DFInherit)), tag(p4(0, 9, true)), outer{}},
		{"df inherit, no ip", join(v4, u8(xDF, DFInherit)), other, outer{}},
		{"label", join(v6, raw(xLabel, 0, 0, 0, 5)), p6, outer{Label: 5, TOS: 1}},
		{"label inherit", join(v6, u32(xPolicy, 1)), p6, outer{Label: 0x12345, TOS: 1}},
		{"label inherit, ipv4", join(v6, u32(xPolicy, 1)), p4(0, 9, true), outer{}},
		{"ipv6 has no df", join(v6, u8(xDF, DFSet)), other, outer{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newWire(t, u32(xID, 10), c.cfg)
			x.send(c.in)
			sent := x.w.sockets.Take()
			if len(sent) != 1 {
				t.Fatalf("%d datagrams", len(sent))
			}
			d := sent[0].Datagram
			expect(t, "outer", outer{d.TOS, d.TTL, sent[0].Config.DF, d.Label}, c.want)
			expect(t, "inner", d.Data[8:], c.in)
		})
	}
}

// TestSendConfig is what the sockets must be like.
func TestSendConfig(t *testing.T) {
	v6 := ip(xGroup6, "2001:db8::2")
	for _, c := range []struct {
		cfg  []byte
		want netdev.SendConfig
	}{
		{ip(xGroup, "192.0.2.2"), netdev.SendConfig{}},
		{join(ip(xGroup, "192.0.2.2"), u8(xUDPCsum, 0), raw(xRange, 0x13, 0x88, 0x13, 0x89)), netdev.SendConfig{NoCsum: true, Low: 5000, High: 5001}},
		{join(ip(xGroup, "192.0.2.2"), raw(xRange, 0x13, 0x88, 0x13, 0x88)), netdev.SendConfig{}},
		{join(v6, u8(xUDPCsum, 0)), netdev.SendConfig{IPv6: true}},
		{join(v6, u8(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, 1)), netdev.SendConfig{IPv6: true, NoCsum: true}},
	} {
		x := newWire(t, u32(xID, 10), c.cfg)
		x.send(frame(macA, macB, 0x9000))
		expect(t, "config", x.w.sockets.Take()[0].Config, c.want)
		x.d.Close()
		expect(t, "released", x.w.sockets.Outputs(c.want), 0)
	}
}

func TestMulticastAndLinkLocalRemotes(t *testing.T) {
	x := newWire(t, u32(xID, 10), ip(xGroup, "239.1.1.1"), u32(xLink, 3))
	x.send(frame(macA, macB, 0x9000))
	d := x.w.sockets.Take()[0].Datagram
	if d.TTL != 1 || d.Ifindex != 3 {
		t.Errorf("TTL %d on interface %d", d.TTL, d.Ifindex)
	}
	if !x.w.sockets.Socket(8472, false).Joined(netip.MustParseAddr("239.1.1.1"), 3) {
		t.Error("not in the group")
	}
	y := newWire(t, u32(xID, 10), ip(xLocal6, "fe80::1"), u32(xLink, 3))
	y.add(flC, macA, "fe80::2")
	y.send(frame(macA, macB, 0x9000))
	if d := y.w.sockets.Take()[0].Datagram; d.Ifindex != 3 {
		t.Errorf("on interface %d", d.Ifindex)
	}
}

// partial is a UDP frame whose checksum is left to be done.
func partial() *netdev.Frame {
	b := frame(macA, macB, unix.ETH_P_IP, ipv4(0, 64, false, 17, 0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4)...)
	sum := netdev.Checksum([]byte{198, 51, 100, 1, 198, 51, 100, 2, 0, 17, 0, 12}, 0)
	binary.BigEndian.PutUint16(b[40:], sum)
	f := netdev.NewFrame(b)
	f.Hdr = netdev.VnetHdr{Flags: netdev.VnetNeedsCsum, CsumStart: 34, CsumOffset: 6}
	return f
}

// TestPartialChecksum: what leaves is complete, and a frame that others may have
// queued is left alone.
func TestPartialChecksum(t *testing.T) {
	x := newWire(t, u32(xID, 10), ip(xGroup, "192.0.2.2"))
	x.add(flC|flA, 0, "192.0.2.3")
	for _, shared := range []bool{true, false} {
		f := partial()
		before := append([]byte(nil), f.Data...)
		x.t.Begin()
		if shared {
			x.d.Transmit(x.t, f)
		} else {
			x.d.HostInput(x.t, []netdev.Frame{*f})
		}
		x.t.End()
		if shared && !bytes.Equal(before, f.Data) {
			t.Error("a frame of the bridge's was changed")
		}
		sent := x.w.sockets.Take()
		expect(t, "copies", len(sent), 2)
		for _, s := range sent {
			b := s.Datagram.Data[8:]
			pseudo := netdev.Checksum([]byte{198, 51, 100, 1, 198, 51, 100, 2, 0, 17, 0, 12}, 0)
			if netdev.Checksum(b[34:], pseudo) != 0xffff {
				t.Errorf("checksum of %x is wrong", b)
			}
		}
	}
	f := partial()
	f.Hdr.CsumStart = 60000
	x.t.Begin()
	x.d.Transmit(x.t, f)
	x.t.End()
	expect(t, "a lying header", x.d.Counters().TxErrors.Load(), uint64(1))
}

func TestRemoteChecksumOffload(t *testing.T) {
	x := newWire(t, u32(xID, 10), ip(xGroup, "192.0.2.2"), u8(unix.IFLA_VXLAN_REMCSUM_TX, 1), u8(unix.IFLA_VXLAN_REMCSUM_RX, 1))
	f := partial()
	x.t.Begin()
	x.d.Transmit(x.t, f)
	x.t.End()
	d := x.w.sockets.Take()[0].Datagram.Data
	expect(t, "header", d[:8], []byte{8, 0x20, 0, 0, 0, 0, 10, 17 | 0x80})
	x.receive(meta("192.0.2.2"), d)
	got := x.w.host.Take()
	expect(t, "back", got[0].Hdr, partial().Hdr)
	d[7] = 0x7f
	x.receive(meta("192.0.2.2"), d)
	expect(t, "outside the frame", x.got(), 0)
}

// TestSuperframe: TCP superframes leave as trains, one for each header.
func TestSuperframe(t *testing.T) {
	x := newWire(t, u32(xID, 10), ip(xGroup, "192.0.2.2"))
	x.add(flC|flA, 0, "192.0.2.3")
	x.add(flC|flA, 0, "192.0.2.4", u32(uapi.NDAVNI, 7))
	tcp := make([]byte, 20+2500)
	tcp[12] = 5 << 4
	f := netdev.NewFrame(frame(macA, macB, unix.ETH_P_IP, ipv4(0, 64, true, 6, tcp...)...))
	f.Hdr = netdev.VnetHdr{Flags: netdev.VnetNeedsCsum, GSOType: netdev.GSOTCPv4, GSOSize: 1000, HdrLen: 54, CsumStart: 34, CsumOffset: 16}
	x.t.Begin()
	x.d.Transmit(x.t, f)
	x.t.End()
	sent := x.w.sockets.Take()
	expect(t, "to", destinations(sent), []string{"192.0.2.3:8472 vni 10", "192.0.2.4:8472 vni 7", "192.0.2.2:8472 vni 10"})
	for _, s := range sent {
		var sizes []int
		for _, p := range s.Payloads() {
			sizes = append(sizes, len(p))
			expect(t, "header", p[:8], s.Datagram.Data[:8])
		}
		expect(t, "sizes", sizes, []int{1062, 1062, 562})
	}
	expect(t, "one packet a copy", x.d.Counters().TxPackets.Load(), uint64(3))
	f.Hdr.GSOType = netdev.GSOUDP
	x.t.Begin()
	x.d.Transmit(x.t, f)
	x.t.End()
	expect(t, "what cannot be cut", x.d.Counters().TxErrors.Load(), uint64(3))
}

// TestExternalForwarding: the tunnel id of a bridge is the source VNI, and the
// VNI on the wire where the remote has none.
func TestExternalForwarding(t *testing.T) {
	x := newWire(t, u8(xExternal, 1), be16(xPort, 4789))
	x.add(flC, 0, "192.0.2.2", u32(uapi.NDASrcVNI, 1000))
	x.add(flC, macA, "192.0.2.3", u32(uapi.NDASrcVNI, 2000), u32(uapi.NDAVNI, 2001))
	send := func(vni uint32, dst uapi.MAC) {
		x.t.Begin()
		x.d.TransmitTunnel(x.t, netdev.NewFrame(frame(dst, macB, 0x9000)), vni)
		x.t.End()
	}
	send(1000, macA)
	send(2000, macA)
	send(2000, macBC)
	expect(t, "to", destinations(x.w.sockets.Take()), []string{"192.0.2.2:4789 vni 1000", "192.0.2.3:4789 vni 2001"})
	x.send(frame(macA, macB, 0x9000))
	expect(t, "without an id", len(x.w.sockets.Take()), 0)
	expect(t, "drops", x.d.Counters().TxDropped.Load(), uint64(1))
	y := newWire(t, u32(xID, 5), ip(xGroup, "192.0.2.2"))
	y.t.Begin()
	y.d.TransmitTunnel(y.t, netdev.NewFrame(frame(macA, macB, 0x9000)), 77)
	y.t.End()
	expect(t, "no external device", destinations(y.w.sockets.Take()), []string{"192.0.2.2:8472 vni 5"})
}
