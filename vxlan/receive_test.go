package vxlan

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// TestReceiveChecks is section 6.7: what is dropped, and where that is counted.
func TestReceiveChecks(t *testing.T) {
	good := frame(macB, macA, 0x9000, 1, 2, 3)
	v4 := func(tos uint8) []byte { return frame(macB, macA, unix.ETH_P_IP, ipv4(tos, 9, false, 17)...) }
	type counts struct{ Got, Learned, Errors, Frame, Length uint64 }
	for _, c := range []struct {
		name string
		data []byte
		tos  uint8
		want counts
	}{
		{"good", datagram(10, good), 0, counts{1, 1, 0, 0, 0}},
		{"other vni", datagram(11, good), 0, counts{}},
		{"short header", datagram(10, good)[:7], 0, counts{}},
		{"no I flag", join(make([]byte, 8), good), 0, counts{}},
		{"reserved flag", join([]byte{0x88, 0, 0, 0, 0, 0, 10, 0}, good), 0, counts{0, 0, 1, 1, 0}},
		{"reserved last byte", join([]byte{8, 0, 0, 0, 0, 0, 10, 1}, good), 0, counts{0, 0, 1, 1, 0}},
		{"no frame", datagram(10, good[:13]), 0, counts{}},
		{"own address", datagram(10, frame(macB, 0x02000000fe00+testIfindex, 0x9000)), 0, counts{}},
		{"zero source", datagram(10, frame(macB, 0, 0x9000)), 0, counts{}},
		{"truncated ipv4", datagram(10, v4(0)[:33]), 0, counts{0, 1, 1, 0, 1}},
		{"truncated ipv6", datagram(10, frame(macB, macA, unix.ETH_P_IPV6, make([]byte, 39)...)), 0, counts{0, 1, 1, 0, 1}},
		{"CE outside, nothing inside", datagram(10, v4(0)), 3, counts{0, 1, 1, 1, 0}},
		{"ECT outside, nothing inside", datagram(10, v4(0)), 2, counts{1, 1, 0, 0, 0}},
		{"CE outside, no ip inside", datagram(10, good), 3, counts{1, 1, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newWire(t, u32(xID, 10))
			m := meta("192.0.2.1")
			m.TOS = c.tos
			x.receive(m, c.data)
			st := x.d.Counters()
			expect(t, "counts", counts{uint64(x.got()), uint64(x.d.Len()), st.RxErrors.Load(), st.RxFrameErrors.Load(), st.RxLengthErrors.Load()}, c.want)
			if c.want.Got == 1 {
				expect(t, "packets", st.RxPackets.Load(), uint64(1))
				expect(t, "bytes", st.RxBytes.Load(), uint64(len(c.data)-8-14))
			}
		})
	}
}

// TestDecapECN is the table of RFC 6040 as the kernel has it.
func TestDecapECN(t *testing.T) {
	const ce = ecnCE
	for outer := uint8(0); outer < 4; outer++ {
		for in := uint8(0); in < 4; in++ {
			for _, v6 := range []bool{false, true} {
				x := newWire(t, u32(xID, 10))
				m := meta("192.0.2.1")
				m.TOS = 0xb8 | outer
				b := frame(macB, macA, unix.ETH_P_IP, ipv4(0x28|in, 9, false, 17)...)
				if v6 {
					b = frame(macB, macA, unix.ETH_P_IPV6, ipv6(0x28|in, 9, 5)...)
				}
				x.receive(m, datagram(10, b))
				got := x.w.host.Take()
				if outer == ce && in == 0 {
					expect(t, "dropped", len(got), 0)
					continue
				}
				want := in
				if outer == ce || outer == ecnECT1 && in == ecnECT0 {
					want = outer
				}
				h := got[0].Data[14:]
				tos := h[1]
				if v6 {
					tos = uint8(binary.BigEndian.Uint32(h) >> 20)
				} else if netdev.Checksum(h[:20], 0) != 0xffff {
					t.Errorf("%d, %d: checksum %x", outer, in, h[:20])
				}
				expect(t, "tos", tos, 0x28|want)
			}
		}
	}
}

// TestUpper: frames go to the bridge while there is one.
func TestUpper(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	b := frame(macB, macA, 0x9000, 1)
	var got [][]byte
	x.d.SetUpper(func(_ *netdev.Thread, f *netdev.Frame) { got = append(got, bytes.Clone(f.Data)) })
	x.receive(meta("192.0.2.1"), datagram(10, b))
	expect(t, "bridge", got, [][]byte{b})
	expect(t, "host", x.got(), 0)
	x.d.SetUpper(nil)
	x.receive(meta("192.0.2.1"), datagram(10, b))
	expect(t, "host", x.got(), 1)
	var vni uint32
	x.d.SetTunnelUpper(func(_ *netdev.Thread, _ *netdev.Frame, v uint32) { vni = v })
	x.receive(meta("192.0.2.1"), datagram(10, b))
	expect(t, "vni", vni, uint32(10))
	x.d.SetTunnelUpper(nil)
	x.receive(meta("192.0.2.1"), datagram(10, b))
	expect(t, "host", x.got(), 1)
}

// TestChangedAddress: the device's own address is what LinkChanged said last.
func TestChangedAddress(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	l := x.d.Link()
	l.MAC, l.Ifindex = macA, 99
	x.d.LinkChanged(l)
	x.receive(meta("192.0.2.1"), datagram(10, frame(macB, macA, 0x9000)))
	expect(t, "own", x.got(), 0)
	x.receive(meta("192.0.2.1"), datagram(10, frame(macB, macC, 0x9000)))
	ev := x.w.events.take()
	if n := uapi.ParseNdmsg(ev[0].Body).Ifindex; n != 99 {
		t.Errorf("interface %d", n)
	}
}

// TestReceiveAfterDown: a datagram that was under way is dropped, and nothing is
// learned from it.
func TestReceiveAfterDown(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	s := x.d.sockets[0]
	x.d.Down()
	f := netdev.NewFrame(frame(macB, macA, 0x9000))
	f.Meta = meta("192.0.2.1")
	x.t.Begin()
	g := netdev.NewFrame(datagram(10, f.Data))
	g.Meta = f.Meta
	s.Input(x.t, []netdev.Frame{*g})
	x.d.receive(x.t, g, flagVNI|10<<8, 10)
	x.t.End()
	expect(t, "got", x.got(), 0)
	expect(t, "learned", x.d.Len(), 0)
	expect(t, "dropped", x.d.Counters().RxDropped.Load(), uint64(1))
}
