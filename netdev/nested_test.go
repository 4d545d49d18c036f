package netdev

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// TestPacketTunnelTCP has tunnels of the kernel inside the hosts, so that
// superframes of TCP within UDP pass our ports.
func TestPacketTunnelTCP(t *testing.T) {
	for _, kind := range []string{
		"vxlan id 42 dstport 4789 noudpcsum remote 10.0.0.%d",
		"vxlan id 42 dstport 4789 udpcsum remote 10.0.0.%d",
		"vxlan id 42 dstport 4789 udp6zerocsumtx udp6zerocsumrx remote fd00::%d",
		"vxlan id 42 dstport 4789 noudp6zerocsumtx remote fd00::%d",
		"geneve id 42 remote 10.0.0.%d",
		"gretap key 7 remote 10.0.0.%d local 10.0.0.%d",
		"ipip remote 10.0.0.%d local 10.0.0.%d",
	} {
		t.Run(strings.ReplaceAll(kind, "%d", "x"), func(t *testing.T) {
			ns, h1, h2 := hosts(t)
			for i, h := range []*NS{h1, h2} {
				do(t, h, func() error { return writeFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "0") })
				ip(t, h, fmt.Sprintf("addr add fd00::%d/64 dev eth0 nodad", i+1))
				args := kind
				for _, n := range []int{2 - i, 1 + i} {
					args = strings.Replace(args, "%d", fmt.Sprint(n), 1)
				}
				if err := h.Do(func() error { return runIP("link add tun mtu 1400 type " + args) }); err != nil {
					t.Skip(err)
				}
				ip(t, h, fmt.Sprintf("addr add 10.1.0.%d/24 dev tun", i+1))
				ip(t, h, "link set tun up")
			}
			_, pa, pb := patch(t, ns, "p1", "p2")
			transfer(t, h1, h2, "10.1.0.2:0", 4<<20)
			datagrams(t, h1, h2, "10.1.0.2")
			a, b := pa.Counters(), pb.Counters()
			if n := a.RxErrors.Load() + b.TxErrors.Load() + b.TxDropped.Load(); n != 0 {
				t.Errorf("%d errors", n)
			}
			// Retransmissions would tell of superframes that were lost.
			if n := a.RxPackets.Load(); n > 4<<20/1300*11/10+200 {
				t.Errorf("%d frames", n)
			}
		})
	}
}

// vxlanFrame is a superframe of TCP within VXLAN, as a packet socket gives it.
func vxlanFrame(outer, inner int, sum bool) *Frame {
	tcp := tcpFrame(inner, 5000, 0x18)
	start, offset := partial(tcp)
	p := append([]byte{0x30, 0x39, 0x12, 0xb5, 0, 0, 0, 0}, vxlanHeader[:]...)
	p = append(p, tcp...)
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)))
	f := append(ethernet(etherType(outer)), ipPacket(outer, protoUDP, p)...)
	if sum {
		partial(f)
	}
	g := NewFrame(f)
	g.Hdr = VnetHdr{Flags: VnetNeedsCsum, GSOType: GSOTCPv4, GSOSize: 1448,
		CsumStart: uint16(len(f)-len(tcp)) + start, CsumOffset: offset}
	if inner == 6 {
		g.Hdr.GSOType = GSOTCPv6
	}
	return g
}

func TestSegmentTunnel(t *testing.T) {
	for _, outer := range []int{4, 6} {
		for _, inner := range []int{4, 6} {
			for _, sum := range []bool{false, true} {
				f := vxlanFrame(outer, inner, sum)
				n := 0
				ok := Segment(f, func(n int) []byte { return make([]byte, n) }, func(seg []byte) {
					for _, part := range [][]byte{seg, seg[int(f.Hdr.CsumStart)-14-map[int]int{4: 20, 6: 40}[inner]:]} {
						h, _ := parseHeaders(part)
						if h.version == 0 || h.end != len(part) {
							t.Fatalf("%d in %d, segment %d: headers %+v of %d bytes", inner, outer, n, h, len(part))
						}
						if h.version == 4 && slowSum(part[h.l3:h.l4], 0) != 0xffff {
							t.Errorf("segment %d: IP checksum", n)
						}
						field, want := 16, modelSum(part)
						if h.proto == protoUDP {
							field = 6
							if l := int(binary.BigEndian.Uint16(part[h.l4+4:])); l != h.end-h.l4 {
								t.Errorf("segment %d: UDP length %d", n, l)
							}
							if !sum {
								want = 0
							}
						}
						if got := binary.BigEndian.Uint16(part[h.l4+field:]); got != want {
							t.Errorf("segment %d: checksum %#x, want %#x", n, got, want)
						}
					}
					n++
				})
				if !ok || n != 4 {
					t.Errorf("%d in %d: %d segments, ok %v", inner, outer, n, ok)
				}
			}
		}
	}
	f := vxlanFrame(4, 4, true)
	f.Hdr.CsumStart++
	if _, ok := SegmentSpace(0, f); ok {
		t.Error("taken with a wrong start of the checksum")
	}
	f.Hdr.CsumStart = 0xffff
	if _, ok := SegmentSpace(0, f); ok {
		t.Error("taken with a checksum beyond the frame")
	}
}
