package vxlan

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// neighbours is a Neighbours over a map.
type neighbours map[string]Neighbour

func (n neighbours) Neighbour(_ int, ip netip.Addr) (Neighbour, bool) {
	h, ok := n[ip.String()]
	return h, ok
}

func arp(op byte, sender uapi.MAC, sip string, tip string) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, op}
	b = sender.Append(b)
	b = append(b, netip.MustParseAddr(sip).AsSlice()...)
	b = append(b, make([]byte, 6)...)
	b = append(b, netip.MustParseAddr(tip).AsSlice()...)
	return frame(macBC, sender, unix.ETH_P_ARP, b...)
}

// TestProxyARP is the first half of section 6.5, and C42.
func TestProxyARP(t *testing.T) {
	x := newWire(t, u32(xID, 10), u8(xProxy, 1), u8(unix.IFLA_VXLAN_L3MISS, 1), ip(xGroup, "192.0.2.2"))
	x.w.reg.env.Neighbours = neighbours{
		"198.51.100.2": {macA, true}, "198.51.100.3": {macB, false}, "198.51.100.4": {macC, true},
	}
	x.add(flC, macC, "0.0.0.0")
	x.events()
	x.send(arp(arpRequest, macB, "198.51.100.1", "198.51.100.2"))
	want := frame(macB, macA, unix.ETH_P_ARP, join([]byte{0, 1, 8, 0, 6, 4, 0, 2}, macA.Append(nil), []byte{198, 51, 100, 2}, macB.Append(nil), []byte{198, 51, 100, 1})...)
	got := x.w.host.Take()
	if len(got) != 1 {
		t.Fatal("no answer")
	}
	expect(t, "answer", got[0].Data, want)
	for _, c := range [][]byte{
		arp(arpRequest, macB, "198.51.100.1", "198.51.100.3"), // stale
		arp(arpRequest, macB, "198.51.100.1", "198.51.100.4"), // on the bridge itself
		arp(arpRequest, macB, "198.51.100.1", "127.0.0.1"),
		arp(arpReply, macB, "198.51.100.1", "198.51.100.2"),
	} {
		x.send(c)
	}
	expect(t, "silent", x.events(), []string(nil))
	x.send(arp(arpRequest, macB, "198.51.100.1", "198.51.100.9"))
	expect(t, "miss", x.events(), []string{"miss  dst 198.51.100.9 vni 16777216 04/00"})
	x.send(arp(arpRequest, macB, "198.51.100.1", "198.51.100.9")[:30])
	expect(t, "answers", x.got(), 0)
	expect(t, "sent", len(x.w.sockets.Take()), 0)
	expect(t, "too short", x.d.Counters().TxDropped.Load(), uint64(1))
}

func TestProxyND(t *testing.T) {
	x := newWire(t, u32(xID, 10), u8(xProxy, 1), u8(unix.IFLA_VXLAN_L3MISS, 1))
	x.w.reg.env.Neighbours = neighbours{"2001:db8::2": {macA, true}}
	x.addState(flC, 0xc0, uapi.NTFSelf|uapi.NTFRouter, macA, "192.0.2.1")
	x.events()
	ns := func(target string, options ...byte) []byte {
		src, dst := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("ff02::1:ff00:2").As16()
		tg := netip.MustParseAddr(target).As16()
		p := join([]byte{0x60, 0, 0, 0, 0, byte(24 + len(options)), protoICMPv6, 255}, src[:], dst[:], []byte{ndSolicit, 0, 0, 0, 0, 0, 0, 0}, tg[:], options)
		return frame(0x3333ff000002, macB, unix.ETH_P_IPV6, p...)
	}
	x.send(ns("2001:db8::2", join([]byte{1, 1}, macC.Append(nil))...))
	got := x.w.host.Take()
	if len(got) != 1 {
		t.Fatal("no answer")
	}
	b := got[0].Data
	expect(t, "to", uapi.MACFrom(b), macC)
	expect(t, "from", uapi.MACFrom(b[6:]), macA)
	h, m := b[14:54], b[54:]
	expect(t, "hop limit", h[7], byte(255))
	expect(t, "flags", m[4], byte(0xe0))
	expect(t, "length", int(binary.BigEndian.Uint16(h[4:])), len(m))
	sum := netdev.Checksum(join(h[8:], []byte{0, 0, 0, byte(len(m)), 0, 0, 0, protoICMPv6}, m), 0)
	expect(t, "checksum", sum, uint16(0xffff))
	expect(t, "target", uapi.MACFrom(m[26:]), macA)
	x.send(ns("2001:db8::3"))
	expect(t, "miss", x.events(), []string{"miss  dst 2001:db8::3 vni 16777216 04/00"})
}

// TestShortCircuit is the second half of section 6.5, and C43.
func TestShortCircuit(t *testing.T) {
	x := newWire(t, u32(xID, 10), u8(xRSC, 1))
	x.w.reg.env.Neighbours = neighbours{"198.51.100.2": {macB, true}}
	x.addState(flC, 0xc0, uapi.NTFSelf|uapi.NTFRouter, macA, "192.0.2.1")
	x.add(flC, macB, "192.0.2.2")
	in := frame(macA, macC, unix.ETH_P_IP, ipv4(0, 9, false, 17)...)
	x.send(in)
	sent := x.w.sockets.Take()
	expect(t, "to", destinations(sent), []string{"192.0.2.2:8472 vni 10"})
	expect(t, "frame", sent[0].Datagram.Data[8:], frame(macB, macA, unix.ETH_P_IP, ipv4(0, 9, false, 17)...))
	expect(t, "the original", in[:6], macA.Append(nil))
	x.add(flC|flR, macB, "0.0.0.0")
	x.send(in)
	expect(t, "back", x.got(), 1)
	expect(t, "no router", x.d.Counters().TxDropped.Load(), uint64(0))
	x.send(frame(macB, macC, 0x9000))
	expect(t, "not turned", x.d.Counters().TxDropped.Load(), uint64(1))
}
