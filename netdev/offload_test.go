package netdev

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// ethernet is an Ethernet header with VLAN tags for a packet.
func ethernet(typ uint16, tags ...uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for _, vid := range tags {
		b = binary.BigEndian.AppendUint16(b, 0x8100)
		b = binary.BigEndian.AppendUint16(b, vid)
	}
	return binary.BigEndian.AppendUint16(b, typ)
}

// ipPacket is an IP header and payload; ext are IPv6 extension headers, whose
// first is of type extType.
func ipPacket(version int, proto byte, payload []byte, ext ...byte) []byte {
	var b []byte
	if version == 4 {
		b = []byte{0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
		binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
		binary.BigEndian.PutUint16(b[10:], ^slowSum(b, 0))
		return append(b, payload...)
	}
	b = make([]byte, 40)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(ext)+len(payload)))
	b[6], b[7] = proto, 64
	if len(ext) > 0 {
		b[6] = extOptions
		ext[0] = proto
	}
	b[8], b[23], b[24], b[39] = 0xfd, 1, 0xfd, 2
	return append(append(b, ext...), payload...)
}

// checkSum returns the transport checksum that a packet should have, by the slow
// model.
func modelSum(frame []byte) uint16 {
	h, _ := parseHeaders(frame)
	l4 := append([]byte{}, frame[h.l4:h.end]...)
	field := 16
	if h.proto == protoUDP {
		field = 6
	}
	l4[field], l4[field+1] = 0, 0
	pseudo := []byte{0, h.proto, byte(len(l4) >> 8), byte(len(l4))}
	p := frame[h.l3:]
	if h.version == 4 {
		pseudo = append(pseudo, p[12:20]...)
	} else {
		pseudo = append(pseudo, p[8:40]...)
	}
	s := ^slowSum(l4, slowSum(pseudo, 0))
	if s == 0 {
		s = 0xffff
	}
	return s
}

func setSum(frame []byte, sum uint16) {
	h, _ := parseHeaders(frame)
	field := 16
	if h.proto == protoUDP {
		field = 6
	}
	binary.BigEndian.PutUint16(frame[h.l4+field:], sum)
}

func etherType(version int) uint16 {
	if version == 4 {
		return etherIPv4
	}
	return etherIPv6
}

func udpFrame(version, n int, tags ...uint16) []byte {
	p := binary.BigEndian.AppendUint16([]byte{0x30, 0x39, 0, 53}, uint16(8+n))
	p = append(append(p, 0, 0), pattern(n, 9)...)
	f := append(ethernet(etherType(version), tags...), ipPacket(version, protoUDP, p)...)
	setSum(f, modelSum(f))
	return f
}

// tcpFrame is a TCP packet of n bytes with 12 bytes of options.
func tcpFrame(version, n int, flags byte, tags ...uint16) []byte {
	p := []byte{0x30, 0x39, 0, 80, 0xff, 0xff, 0xf0, 0, 1, 2, 3, 4, 0x80, flags, 9, 9, 0, 0, 0, 0,
		1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}
	p = append(p, pattern(n, 3)...)
	f := append(ethernet(etherType(version), tags...), ipPacket(version, protoTCP, p)...)
	setSum(f, modelSum(f))
	return f
}

// partial makes a frame look as a kernel leaves it for a device to finish.
func partial(f []byte) (start, offset uint16) {
	h, _ := parseHeaders(f)
	setSum(f, h.pseudoSum(f, h.end-h.l4))
	if h.proto == protoUDP {
		return uint16(h.l4), 6
	}
	return uint16(h.l4), 16
}

func TestSegmentTCP(t *testing.T) {
	const payload, mss = 10000, 1448
	for _, version := range []int{4, 6} {
		for _, tags := range [][]uint16{nil, {5}, {7, 8}} {
			t.Run(fmt.Sprintf("v%d tags %v", version, tags), func(t *testing.T) {
				const flags = 0x10 | tcpFIN | tcpPSH | tcpCWR | 0x40
				f := NewFrame(tcpFrame(version, payload, flags, tags...))
				want := append([]byte{}, f.Data...)
				f.Hdr.Flags = VnetNeedsCsum
				f.Hdr.CsumStart, f.Hdr.CsumOffset = partial(f.Data)
				f.Hdr.GSOType, f.Hdr.GSOSize = GSOTCPv4|GSOECN, mss
				if version == 6 {
					f.Hdr.GSOType = GSOTCPv6
				}
				before := append([]byte{}, f.Data...)
				prefix := []byte("12345678")
				space, ok := SegmentSpace(len(prefix), f)
				if !ok {
					t.Fatal("refused")
				}
				train, size, n, ok := SegmentInto(make([]byte, space), prefix, f)
				if !ok || n != 7 || len(train) != space {
					t.Fatalf("ok %v, %d segments, %d bytes of %d", ok, n, len(train), space)
				}
				if !bytes.Equal(before, f.Data) {
					t.Error("the superframe was changed")
				}
				if _, _, _, ok := SegmentInto(make([]byte, space-1), prefix, f); ok {
					t.Error("wrote beyond its memory")
				}
				h, _ := parseHeaders(want)
				var data []byte
				for i := range n {
					seg := train[min(i*size, len(train)):min((i+1)*size, len(train))]
					if string(seg[:8]) != string(prefix) {
						t.Fatalf("segment %d has prefix % x", i, seg[:8])
					}
					seg = seg[8:]
					g, _ := parseHeaders(seg)
					if g.end != len(seg) || g.l4 != h.l4 || g.proto != protoTCP {
						t.Fatalf("segment %d: headers %+v of %d bytes", i, g, len(seg))
					}
					p := seg[g.l3:]
					if version == 4 {
						if id := binary.BigEndian.Uint16(p[4:]); id != 0x1234+uint16(i) {
							t.Errorf("segment %d: id %#x", i, id)
						}
						if s := slowSum(p[:20], 0); s != 0xffff {
							t.Errorf("segment %d: header checksum", i)
						}
					}
					l4 := seg[g.l4:]
					if seq := binary.BigEndian.Uint32(l4[4:]); seq != 0xfffff000+uint32(i*mss) {
						t.Errorf("segment %d: seq %#x", i, seq)
					}
					fl := byte(0x50)
					if i == 0 {
						fl |= tcpCWR
					}
					if i == n-1 {
						fl |= tcpFIN | tcpPSH
					}
					if l4[13] != fl {
						t.Errorf("segment %d: flags %#x, want %#x", i, l4[13], fl)
					}
					if s := binary.BigEndian.Uint16(l4[16:]); s != modelSum(seg) {
						t.Errorf("segment %d: checksum %#x, want %#x", i, s, modelSum(seg))
					}
					data = append(data, l4[32:]...)
				}
				if !bytes.Equal(data, want[h.l4+32:]) {
					t.Error("the payload is not what it was")
				}
				count := 0
				if !Segment(f, func(n int) []byte { return make([]byte, n) }, func(seg []byte) { count++ }) || count != n {
					t.Errorf("Segment made %d", count)
				}
			})
		}
	}
}

func TestSegmentUDP(t *testing.T) {
	for _, version := range []int{4, 6} {
		f := NewFrame(udpFrame(version, 3000))
		f.Hdr.Flags = VnetNeedsCsum
		f.Hdr.CsumStart, f.Hdr.CsumOffset = partial(f.Data)
		f.Hdr.GSOType, f.Hdr.GSOSize = GSOUDPL4, 1000
		n := 0
		ok := Segment(f, func(n int) []byte { return make([]byte, n) }, func(seg []byte) {
			h, _ := parseHeaders(seg)
			if h.end != len(seg) || len(seg) != h.l4+8+1000 {
				t.Errorf("segment of %d bytes: %+v", len(seg), h)
			}
			if l := binary.BigEndian.Uint16(seg[h.l4+4:]); l != 1008 {
				t.Errorf("UDP length %d", l)
			}
			if s := binary.BigEndian.Uint16(seg[h.l4+6:]); s != modelSum(seg) {
				t.Errorf("checksum %#x, want %#x", s, modelSum(seg))
			}
			n++
		})
		if !ok || n != 3 {
			t.Errorf("v%d: %d segments, ok %v", version, n, ok)
		}
		f.Hdr.GSOType = GSOUDP
		if _, ok := SegmentSpace(0, f); ok {
			t.Error("UFO was taken")
		}
	}
}

func TestSegmentOther(t *testing.T) {
	// A plain frame, and one with an open checksum, are copied.
	f := NewFrame(tcpFrame(4, 100, 0x10))
	want := append([]byte("xx"), f.Data...)
	f.Hdr.Flags = VnetNeedsCsum
	f.Hdr.CsumStart, f.Hdr.CsumOffset = partial(f.Data)
	train, size, n, ok := SegmentInto(make([]byte, 1000), []byte("xx"), f)
	if !ok || n != 1 || size != len(want) || !bytes.Equal(train, want) {
		t.Errorf("got %d segments of %d: % x, want % x", n, size, train, want)
	}
	if f.Hdr.Flags == 0 {
		t.Error("the frame was changed")
	}
	for name, g := range map[string]VnetHdr{
		"no size":       {GSOType: GSOTCPv4},
		"wrong version": {GSOType: GSOTCPv6, GSOSize: 10},
		"wrong proto":   {GSOType: GSOUDPL4, GSOSize: 10},
		"unknown":       {GSOType: 99, GSOSize: 10},
	} {
		f.Hdr = g
		if _, ok := SegmentSpace(0, f); ok {
			t.Errorf("%s: taken", name)
		}
	}
	f = NewFrame(tcpFrame(4, 3000, 0x10))
	f.Hdr = VnetHdr{GSOType: GSOTCPv4, GSOSize: 1}
	if _, ok := SegmentSpace(0, f); ok {
		t.Error("a superframe of 3000 segments was taken")
	}
}

func TestFlowHash(t *testing.T) {
	a := tcpFrame(4, 10, 0)
	if FlowHash(a) != FlowHash(tcpFrame(4, 99, 0, 5)) {
		t.Error("the hash depends on length or tag")
	}
	for _, version := range []int{4, 6} {
		a := tcpFrame(version, 10, 0)
		h, _ := parseHeaders(a)
		b := append([]byte{}, a...)
		n, off := 4, 12
		if version == 6 {
			n, off = 16, 8
		}
		copy(b[h.l3+off:], a[h.l3+off+n:h.l3+off+2*n])
		copy(b[h.l3+off+n:], a[h.l3+off:h.l3+off+n])
		copy(b[h.l4:], a[h.l4+2:h.l4+4])
		copy(b[h.l4+2:], a[h.l4:h.l4+2])
		if FlowHash(a) != FlowHash(b) {
			t.Error("the directions of a flow differ")
		}
	}
	// Flows of neighbouring ports and addresses spread over the range.
	var buckets [16]int
	for i := range 256 {
		for j := range 16 {
			f := append([]byte{}, a...)
			f[14+19] = byte(i)
			f[14+20+1] = byte(j)
			buckets[FlowHash(f)>>28]++
		}
	}
	for i, n := range buckets {
		if n < 180 || n > 340 {
			t.Errorf("bucket %d has %d of 4096", i, n)
		}
	}
	if FlowHash(nil) != 0 || FlowHash(a[:14]) == FlowHash(a) {
		t.Error("short frames")
	}
	// The second fragment has no ports, so the first must not use them.
	f1 := append([]byte{}, a...)
	f1[14+6] = 0x20 // MF
	f2 := append([]byte{}, f1...)
	f2[14+7] = 100
	f2[14+20] ^= 0xff
	if FlowHash(f1) != FlowHash(f2) {
		t.Error("fragments differ")
	}
}

func TestFixPartial(t *testing.T) {
	for _, version := range []int{4, 6} {
		ipLen := map[int]int{4: 20, 6: 40}[version]
		whole := tcpFrame(version, 5000, 0x18)
		f := NewFrame(whole)
		FixPartial(f, 1450)
		if f.Hdr != (VnetHdr{}) || !bytes.Equal(f.Data, whole) {
			t.Errorf("a complete frame got %+v", f.Hdr)
		}
		start, offset := partial(f.Data)
		FixPartial(f, 1450)
		want := VnetHdr{Flags: VnetNeedsCsum, GSOType: GSOTCPv4, HdrLen: uint16(14 + ipLen + 32),
			GSOSize: uint16(1450 - ipLen - 32), CsumStart: start, CsumOffset: offset}
		if version == 6 {
			want.GSOType = GSOTCPv6
		}
		if f.Hdr != want {
			t.Errorf("got %+v, want %+v", f.Hdr, want)
		}
		for _, whole := range [][]byte{tcpFrame(version, 100, 0x18, 5), udpFrame(version, 100), udpFrame(version, 5000)} {
			f := NewFrame(whole)
			partial(f.Data)
			FixPartial(f, 1450)
			if f.Hdr.Flags != VnetNeedsCsum || f.Hdr.GSOType != 0 || !CompleteChecksum(f) || !bytes.Equal(f.Data, whole) {
				t.Errorf("got %+v % x\nwant % x", f.Hdr, f.Data, whole)
			}
		}
		// Padded: finished at once.
		whole = udpFrame(version, 1)
		f = NewFrame(append(append([]byte{}, whole...), 1, 2, 3))
		partial(f.Data)
		FixPartial(f, 1450)
		if f.Hdr != (VnetHdr{}) || !bytes.Equal(f.Data[:len(whole)], whole) {
			t.Errorf("padded: got %+v % x\nwant % x", f.Hdr, f.Data, whole)
		}
	}
	f := NewFrame(udpFrame(4, 100))
	setSum(f.Data, 0)
	FixPartial(f, 1450)
	if f.Hdr != (VnetHdr{}) {
		t.Error("UDP without a checksum got one")
	}
}

func TestHeadersIPv6Extensions(t *testing.T) {
	ext := []byte{0, 0, 1, 4, 0, 0, 0, 0}
	p := []byte{0x30, 0x39, 0, 53, 0, 9, 0, 0, 'x'}
	f := append(ethernet(etherIPv6), ipPacket(6, protoUDP, p, ext...)...)
	h, ok := parseHeaders(f)
	if !ok || h.version != 6 || h.proto != protoUDP || h.l4 != 14+40+8 || h.end != len(f) || h.routed || h.fragment {
		t.Errorf("options: %+v", h)
	}
	f[14+6] = extRouting
	if h, _ := parseHeaders(f); !h.routed || h.l4 != 14+40+8 {
		t.Errorf("routing: %+v", h)
	}
	f[14+6], f[14+40+3] = extFragment, 8
	if h, _ := parseHeaders(f); !h.fragment || h.proto != protoUDP {
		t.Errorf("fragment: %+v", h)
	}
	f[14+6], f[14+41] = extOptions, 200
	if h, _ := parseHeaders(f); h.version != 0 {
		t.Errorf("lying length: %+v", h)
	}
}

func BenchmarkFlowHash(b *testing.B) {
	for name, f := range map[string][]byte{"ipv4": tcpFrame(4, 100, 0), "ipv6": tcpFrame(6, 100, 0), "mac": testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 60)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				FlowHash(f)
			}
		})
	}
}

func BenchmarkSegmentInto(b *testing.B) {
	f := NewFrame(tcpFrame(4, 64000, 0x10))
	f.Hdr = VnetHdr{GSOType: GSOTCPv4, GSOSize: 1398, Flags: VnetNeedsCsum}
	dst := make([]byte, 80000)
	prefix := make([]byte, 8)
	b.SetBytes(64000)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, ok := SegmentInto(dst, prefix, f); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkFixPartial(b *testing.B) {
	f := NewFrame(tcpFrame(4, 1398, 0x10))
	b.ReportAllocs()
	for b.Loop() {
		FixPartial(f, 1450)
	}
}
