package netdev

import (
	"bytes"
	"testing"
)

// seeds gives a fuzz target frames of all kinds with headers that fit them.
func seeds(add func(data []byte, flags, gso uint8, size, start, offset uint16)) {
	for _, version := range []int{4, 6} {
		gso := map[int]uint8{4: GSOTCPv4, 6: GSOTCPv6}[version]
		tcp := tcpFrame(version, 3000, 0x18, 5)
		start, offset := partial(tcp)
		add(tcp, VnetNeedsCsum, gso, 1448, start, offset)
		add(tcpFrame(version, 10, 0x18), 0, GSONone, 0, 0, 0)
		udp := udpFrame(version, 3000)
		start, offset = partial(udp)
		add(udp, VnetNeedsCsum, GSOUDPL4, 1400, start, offset)
		add(udp, VnetNeedsCsum, GSONone, 0, start, offset)
		ext := append(ethernet(etherIPv6), ipPacket(6, protoUDP, udp[start:], 0, 0, 1, 4, 0, 0, 0, 0)...)
		add(ext, VnetNeedsCsum, GSOUDPL4, 100, start+28, offset)
	}
	for _, outer := range []int{4, 6} {
		f := vxlanFrame(outer, 10-outer, outer == 4)
		add(f.Data, f.Hdr.Flags, f.Hdr.GSOType, f.Hdr.GSOSize, f.Hdr.CsumStart, f.Hdr.CsumOffset)
	}
	add(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 14), 0, 0, 0, 0, 0)
	add(nil, VnetNeedsCsum, GSOTCPv4|GSOECN, 0xffff, 0xffff, 0xffff)
}

func fuzzFrame(data []byte, flags, gso uint8, size, start, offset uint16) *Frame {
	f := NewFrame(data)
	f.Hdr = VnetHdr{Flags: flags, GSOType: gso, GSOSize: size, CsumStart: start, CsumOffset: offset}
	return f
}

// FuzzSegment checks that segments add up to the superframe, and that nothing is
// written beyond what SegmentSpace says.
func FuzzSegment(f *testing.F) {
	seeds(func(data []byte, flags, gso uint8, size, start, offset uint16) {
		f.Add(data, flags, gso, size, start, offset)
	})
	f.Fuzz(func(t *testing.T, data []byte, flags, gso uint8, size, start, offset uint16) {
		if len(data) > MaxFrame {
			return
		}
		f := fuzzFrame(data, flags, gso, size, start, offset)
		prefix := []byte("prefix")
		space, ok := SegmentSpace(len(prefix), f)
		if !ok {
			if _, _, _, ok := SegmentInto(make([]byte, 4<<20), prefix, f); ok {
				t.Fatal("SegmentInto does what SegmentSpace refuses")
			}
			return
		}
		dst := append(make([]byte, space), 0xee)
		train, segSize, n, ok := SegmentInto(dst[:space], prefix, f)
		if !bytes.Equal(f.Data, data) {
			t.Fatal("the frame was changed")
		}
		if !ok {
			if gso != GSONone {
				t.Fatal("SegmentInto refuses what SegmentSpace takes")
			}
			return // a lying checksum start
		}
		if len(train) != space || dst[space] != 0xee || n < 1 || segSize < len(prefix) {
			t.Fatalf("%d bytes of %d, %d segments of %d", len(train), space, n, segSize)
		}
		if want := (len(train) + segSize - 1) / segSize; want != n {
			t.Fatalf("%d segments of %d in %d bytes", n, segSize, len(train))
		}
		if gso == GSONone {
			return
		}
		s, _ := newSegmenter(f)
		payload := data[s.hdrLen:]
		for ; len(train) > 0; train = train[min(segSize, len(train)):] {
			seg := train[:min(segSize, len(train))]
			if !bytes.HasPrefix(seg, prefix) {
				t.Fatal("no prefix")
			}
			p := seg[len(prefix)+s.hdrLen:]
			if !bytes.HasPrefix(payload, p) {
				t.Fatal("the payload is not what it was")
			}
			payload = payload[len(p):]
		}
		if len(payload) != 0 {
			t.Fatalf("%d bytes are missing", len(payload))
		}
	})
}

// FuzzCompleteChecksum checks that a completed range sums to zero.
func FuzzCompleteChecksum(f *testing.F) {
	seeds(func(data []byte, flags, gso uint8, size, start, offset uint16) {
		f.Add(data, flags, gso, size, start, offset)
	})
	f.Fuzz(func(t *testing.T, data []byte, flags, gso uint8, size, start, offset uint16) {
		f := fuzzFrame(data, flags, gso, size, start, offset)
		ok := CompleteChecksum(f)
		if !ok || flags&VnetNeedsCsum == 0 {
			if !bytes.Equal(f.Data, data) {
				t.Fatal("the frame was changed")
			}
			return
		}
		if f.Hdr.Flags&VnetNeedsCsum != 0 {
			t.Fatal("the flag is still set")
		}
		at := int(start) + int(offset)
		want := ^slowSum(data[start:], 0)
		if want == 0 {
			want = 0xffff
		}
		got := uint16(f.Data[at])<<8 | uint16(f.Data[at+1])
		if !sameSum(got, want) || got == 0 && want != 0 {
			t.Fatalf("got %#x, want %#x", got, want)
		}
	})
}

// FuzzFlowHash checks that any bytes have a hash that the VLAN tag has no part in.
func FuzzFlowHash(f *testing.F) {
	seeds(func(data []byte, _, _ uint8, _, _, _ uint16) { f.Add(data) })
	f.Fuzz(func(t *testing.T, data []byte) {
		before := append([]byte{}, data...)
		a := FlowHash(data)
		if !bytes.Equal(before, data) {
			t.Fatal("the frame was changed")
		}
		h, ok := parseHeaders(data)
		if !ok {
			return
		}
		if h.l3 > len(data) || h.l4 > len(data) || h.end > len(data) || h.version != 0 && (h.l4 < h.l3 || h.end < h.l4) {
			t.Fatalf("headers %+v of %d bytes", h, len(data))
		}
		if h.l3 >= minFrame+4*(maxTags-1) {
			return // no room for one more tag
		}
		g := NewFrame(data)
		g.PushTag(0x8100, 5)
		if b := FlowHash(g.Data); a != b {
			t.Fatalf("%#x with a tag, %#x without", b, a)
		}
	})
}

// FuzzFixPartial checks that Hdr fits the frame afterwards, and that the frame
// only changes in its checksum.
func FuzzFixPartial(f *testing.F) {
	seeds(func(data []byte, _, _ uint8, _, _, _ uint16) { f.Add(data, 1450) })
	f.Fuzz(func(t *testing.T, data []byte, mtu int) {
		if len(data) > MaxFrame {
			return
		}
		f := NewFrame(data)
		FixPartial(f, mtu)
		if len(f.Data) != len(data) {
			t.Fatal("the length changed")
		}
		h := f.Hdr
		if h.Flags&VnetNeedsCsum == 0 {
			if h != (VnetHdr{}) {
				t.Fatalf("%+v", h)
			}
			return
		}
		if !bytes.Equal(f.Data, data) {
			t.Fatal("the frame was changed")
		}
		if h.GSOType != GSONone {
			if int(h.HdrLen) > len(data) || h.GSOSize == 0 {
				t.Fatalf("%+v of %d bytes", h, len(data))
			}
			return
		}
		if !CompleteChecksum(f) {
			t.Fatalf("%+v of %d bytes", h, len(data))
		}
		g := NewFrame(f.Data)
		FixPartial(g, mtu)
		if g.Hdr.Flags&VnetNeedsCsum != 0 {
			CompleteChecksum(g)
			if !bytes.Equal(f.Data, g.Data) {
				t.Fatal("finishing a complete frame changed it")
			}
		}
	})
}
