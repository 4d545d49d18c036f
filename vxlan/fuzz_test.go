package vxlan

import (
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// FuzzFDB throws neighbour messages at a device. What it accepts it must also be
// able to show.
func FuzzFDB(f *testing.F) {
	f.Add(uint16(flC|flX), false, neighMessage(testIfindex, 0xc0, 2, lladdrAttr(macA), ip(uapi.NDADst, "192.0.2.1")))
	f.Add(uint16(flC|flA), false, neighMessage(testIfindex, 2, 0x12, lladdrAttr(0), ip(uapi.NDADst, "2001:db8::1"), u32(uapi.NDAVNI, 1<<30)))
	f.Add(uint16(0x200), true, neighMessage(testIfindex, 0, 2, u32(uapi.NDAVNI, 7), u16(uapi.NDANdmStateMask, 2)))
	f.Fuzz(func(t *testing.T, nl uint16, del bool, body []byte) {
		if len(body) < uapi.NdmsgLen {
			return
		}
		w := newWorld(t)
		d := w.must(u32(xID, 10), ip(xGroup, "192.0.2.2"))
		for range 2 {
			switch {
			case del && nl&uapi.NLMBulk != 0:
				_ = flushFDB(d, body)
			case del:
				_ = w.del(d, body)
			default:
				_ = w.add(d, nl, body)
			}
		}
		if n := len(dump(d)); n < d.Len() {
			t.Errorf("%d rows of %d entries", n, d.Len())
		}
		d.Close()
		if d.Len() != 0 {
			t.Error("entries left")
		}
	})
}

// FuzzLink throws IFLA_INFO_DATA at creation and change. What AppendInfo shows
// must be accepted again.
func FuzzLink(f *testing.F) {
	f.Add(infoData(u32(xID, 10))[4:], infoData(u8(xTTL, 1))[4:])
	f.Add(join(ip(xGroup6, "2001:db8::1"), u32(xLink, 3), flagAttr(xGBP)), u32(xLink, 4))
	f.Add(join(u8(xExternal, 1), u8(xVNIFilter, 1), u8(xLearning, 0), flagAttr(xGPE)), u32(xAgeing, 0))
	f.Fuzz(func(t *testing.T, made, changed []byte) {
		w := newWorld(t)
		d, err := w.create(testIfindex, linkMessage(0, nlattr.Append(nil, unix.IFLA_INFO_DATA, made[:min(len(made), 60000)])))
		if err != nil {
			return
		}
		_ = change(d, linkMessage(testIfindex, nlattr.Append(nil, unix.IFLA_INFO_DATA, changed[:min(len(changed), 60000)])))
		var again []byte
		for _, a := range parse(d.AppendInfo(nil), 0) {
			// These are shown in another form than they are given in.
			if a.Type != xTTLInherit && a.Type != xReserved {
				again = nlattr.Append(again, a.Type, a.Data)
			}
		}
		info := d.AppendInfo(nil)
		d.Close()
		if _, err := w.create(testIfindex, linkMessage(0, infoData(again))); err != nil {
			t.Fatalf("%v: %x", err, info)
		}
	})
}

// FuzzReceive throws datagrams at sockets of several kinds of devices.
func FuzzReceive(f *testing.F) {
	f.Add(uint8(0), uint8(0), datagram(10, frame(macB, macA, unix.ETH_P_IP, ipv4(2, 9, true, 17)...)))
	f.Add(uint8(1), uint8(3), datagram(10, frame(macB, macA, unix.ETH_P_IPV6, ipv6(1, 9, 5)...)))
	f.Add(uint8(2), uint8(0), join([]byte{8, 0x20, 0, 0, 0, 0, 10, 0x91}, partial().Data))
	kinds := [][]byte{nil, flagAttr(xGBP), u8(unix.IFLA_VXLAN_REMCSUM_RX, 1), u8(xLearning, 0), u8(xExternal, 1)}
	f.Fuzz(func(t *testing.T, kind, tos uint8, data []byte) {
		w := newWorld(t)
		d := w.must(u32(xID, 10), kinds[int(kind)%len(kinds)])
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
		th := w.domain.NewThread()
		g := netdev.NewFrame(data)
		g.Meta = meta("192.0.2.1")
		g.Meta.TOS = tos
		th.Begin()
		d.sockets[0].Input(th, []netdev.Frame{*g})
		th.End()
		if n := len(w.host.Take()); n > 1 || uint64(n) != d.Counters().RxPackets.Load() {
			t.Errorf("%d frames", n)
		}
	})
}

// FuzzTransmit throws inner frames at devices that look into them.
func FuzzTransmit(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint16(0), uint16(0), uint16(0), frame(macB, macA, unix.ETH_P_IP, ipv4(2, 9, true, 17)...))
	f.Add(uint8(1), uint8(netdev.GSOTCPv4), uint16(100), uint16(34), uint16(16), frame(macB, macA, unix.ETH_P_IP, ipv4(2, 9, true, 6, make([]byte, 500)...)...))
	f.Add(uint8(2), uint8(0), uint16(0), uint16(34), uint16(6), partial().Data)
	f.Add(uint8(3), uint8(0), uint16(0), uint16(0), uint16(0), arp(arpRequest, macB, "198.51.100.1", "198.51.100.2"))
	kinds := [][]byte{
		join(u8(xTOS, 1), flagAttr(xTTLInherit), u8(xDF, DFInherit)), nil, u8(unix.IFLA_VXLAN_REMCSUM_TX, 1),
		join(u8(xProxy, 1), u8(xRSC, 1)),
	}
	f.Fuzz(func(t *testing.T, kind, gso uint8, size, start, offset uint16, data []byte) {
		w := newWorld(t)
		w.reg.env.Neighbours = neighbours{"198.51.100.2": {macA, true}}
		d := w.must(u32(xID, 10), ip(xGroup, "192.0.2.2"), kinds[int(kind)%len(kinds)])
		s := script{w, d}
		s.addState(flC, 0xc0, uapi.NTFSelf|uapi.NTFRouter, macB, "192.0.2.3")
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
		g := netdev.NewFrame(data)
		g.Hdr = netdev.VnetHdr{GSOType: gso, GSOSize: size, CsumStart: start, CsumOffset: offset}
		if start != 0 {
			g.Hdr.Flags = netdev.VnetNeedsCsum
		}
		th := w.domain.NewThread()
		th.Begin()
		d.Transmit(th, g)
		th.End()
		for _, s := range w.sockets.Take() {
			for _, p := range s.Payloads() {
				if len(p) < headerLen+etherLen || p[0] != 8 {
					t.Errorf("sent %x", p)
				}
			}
		}
	})
}
