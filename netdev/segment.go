package netdev

import "encoding/binary"

// maxSegmentCount bounds what one superframe becomes: 64 KiB of TCP with the
// smallest segment size that Linux uses (TCP_MIN_SND_MSS) are 1366.
const maxSegmentCount = 2048

// TCP flags in byte 13 of the header (RFC 9293, 3.1).
const (
	tcpFIN = 0x01
	tcpPSH = 0x08
	tcpCWR = 0x80
)

// segmenter is what the segments of a superframe have in common.
type segmenter struct {
	h headers
	// outer is where the headers of a tunnel around the packet are; its version
	// is 0 without.
	outer   headers
	hdrLen  int // of all headers, in bytes
	size    int // payload of each segment but the last
	payload int // payload of all
	n       int
	noCsum  bool // UDP without checksum
}

// SegmentSpace returns how many bytes SegmentInto writes for f with a prefix of
// prefix bytes, and false if it would fail.
func SegmentSpace(prefix int, f *Frame) (n int, ok bool) {
	if f.Hdr.GSOType == GSONone {
		return prefix + len(f.Data), true
	}
	s, ok := newSegmenter(f)
	if !ok {
		return 0, false
	}
	return s.n*(prefix+s.hdrLen) + s.payload, true
}

// SegmentInto cuts a superframe into the frames that are to be on the wire, with
// all checksums, and writes them into dst one behind the other, each behind a
// copy of prefix. train is what it wrote, n the number of segments, and segSize
// the size of each with its prefix, of which the last may be shorter. A frame
// that is none is copied as the only segment, with its checksum completed. f
// itself stays as it is. ok is false if dst is smaller than SegmentSpace, or if
// Hdr does not fit the frame or asks for what is not done here, such as UFO.
// A superframe within a tunnel (UDP, GRE without checksums, IP in IP) is cut
// together with its outer headers.
func SegmentInto(dst, prefix []byte, f *Frame) (train []byte, segSize, n int, ok bool) {
	if f.Hdr.GSOType == GSONone {
		segSize = len(prefix) + len(f.Data)
		if len(dst) < segSize {
			return nil, 0, 0, false
		}
		copy(dst, prefix)
		frame := dst[len(prefix):segSize]
		copy(frame, f.Data)
		if f.Hdr.Flags&VnetNeedsCsum != 0 &&
			!complete(frame, int(f.Hdr.CsumStart), int(f.Hdr.CsumOffset)) {
			return nil, 0, 0, false
		}
		return dst[:segSize], segSize, 1, true
	}
	s, ok := newSegmenter(f)
	if !ok || len(dst) < s.n*(len(prefix)+s.hdrLen)+s.payload {
		return nil, 0, 0, false
	}
	at := 0
	payload := f.Data[s.hdrLen:]
	for i := range s.n {
		l := min(s.size, len(payload))
		at += copy(dst[at:], prefix)
		seg := dst[at : at+s.hdrLen+l]
		copy(seg, f.Data[:s.hdrLen])
		copy(seg[s.hdrLen:], payload[:l])
		s.finish(seg, i)
		payload = payload[l:]
		at += len(seg)
	}
	segSize = min(at, len(prefix)+s.hdrLen+s.size)
	return dst[:at], segSize, s.n, true
}

// Segment is SegmentInto with memory for each segment from space and without a
// train: emit is called with each segment. It is for rare frames.
func Segment(f *Frame, space func(n int) []byte, emit func(seg []byte)) bool {
	n, ok := SegmentSpace(0, f)
	if !ok {
		return false
	}
	train, size, _, ok := SegmentInto(space(n), nil, f)
	if !ok {
		return false
	}
	for ; len(train) > size; train = train[size:] {
		emit(train[:size:size])
	}
	emit(train)
	return true
}

// newSegmenter checks that f is the superframe that its Hdr says.
func newSegmenter(f *Frame) (s segmenter, ok bool) {
	if s.h, ok = parseGSO(f.Data); !ok || s.h.fragment || f.Hdr.GSOSize == 0 {
		return s, false
	}
	first := s.h.l3
	if tunnelled(f, &s.h) {
		s.outer = s.h
		if s.h, ok = parseInner(f, &s.outer); !ok {
			return s, false
		}
	}
	l4 := f.Data[s.h.l4:]
	switch f.Hdr.GSOType &^ GSOECN {
	case GSOTCPv4, GSOTCPv6:
		version := 4
		if f.Hdr.GSOType&^GSOECN == GSOTCPv6 {
			version = 6
		}
		if s.h.version != version || s.h.proto != protoTCP || len(l4) < 20 {
			return s, false
		}
		n := int(l4[12]>>4) * 4
		if n < 20 || n > len(l4) {
			return s, false
		}
		s.hdrLen = s.h.l4 + n
	case GSOUDPL4:
		if s.h.version == 0 || s.h.proto != protoUDP || len(l4) < 8 {
			return s, false
		}
		s.hdrLen = s.h.l4 + 8
		s.noCsum = f.Hdr.Flags&VnetNeedsCsum == 0 && l4[6] == 0 && l4[7] == 0
	default:
		return s, false
	}
	s.size = int(f.Hdr.GSOSize)
	s.payload = len(f.Data) - s.hdrLen
	s.n = max(1, (s.payload+s.size-1)/s.size)
	// Each segment must be a packet whose length can be told.
	return s, s.n <= maxSegmentCount && s.hdrLen-first+min(s.size, s.payload) <= 0xffff
}

// parseGSO is parseHeaders for a superframe, whose length fields mean nothing:
// what counts is the frame's length, as for the kernel (inet_gso_segment).
func parseGSO(data []byte) (h headers, ok bool) {
	h, ok = parseHeaders(data)
	if !ok || h.version != 0 {
		return h, ok && h.version != 0
	}
	// The lengths may be what parseHeaders did not like.
	switch {
	case h.typ == etherIPv4 && len(data)-h.l3 >= 20 && data[h.l3]>>4 == 4:
		p := data[h.l3:]
		ihl := int(p[0]&0xf) * 4
		if ihl < 20 || ihl > len(p) {
			return h, false
		}
		h.version, h.proto, h.l4, h.end = 4, p[9], h.l3+ihl, len(data)
		h.fragment = binary.BigEndian.Uint16(p[6:])&0x3fff != 0
		return h, true
	case h.typ == etherIPv6 && len(data)-h.l3 >= 40 && data[h.l3]>>4 == 6:
		// Without extension headers only: those carry no superframes that big.
		p := data[h.l3:]
		h.version, h.proto, h.l4, h.end = 6, p[6], h.l3+40, len(data)
		return h, true
	}
	return h, false
}

// tunnelled reports whether a superframe's Hdr is about a packet within that
// whose headers are h. Packet sockets do not tell, but the checksum to complete
// is the inner one's.
func tunnelled(f *Frame, h *headers) bool {
	return f.Hdr.Flags&VnetNeedsCsum != 0 && h.version != 0 && int(f.Hdr.CsumStart) > h.l4
}

// parseInner finds the headers of the packet within a tunnel, of which Hdr says
// where the transport header is. What is between the outer and the inner headers
// does not matter: it is the same in each segment.
func parseInner(f *Frame, outer *headers) (h headers, ok bool) {
	data := f.Data
	start := int(f.Hdr.CsumStart)
	if start > len(data) {
		return h, false
	}
	min3 := outer.l4 // where the inner packet may begin
	switch outer.proto {
	case protoUDP:
		min3 += 8
	case protoGRE:
		min3 += 4
		if len(data) < min3 || data[outer.l4]&0x80 != 0 {
			return h, false // with a checksum
		}
	case protoIPv4, protoIPv6:
	default:
		return h, false
	}
	h = headers{l4: start, end: len(data), proto: protoTCP}
	typ := f.Hdr.GSOType &^ GSOECN
	if typ == GSOUDPL4 {
		h.proto = protoUDP
	}
	if typ != GSOTCPv6 {
		for ihl := 20; ihl <= 60 && start-ihl >= min3; ihl += 4 {
			if p := data[start-ihl:]; p[0] == 4<<4|byte(ihl/4) && p[9] == h.proto {
				h.version, h.l3, h.typ = 4, start-ihl, etherIPv4
				return h, true
			}
		}
	}
	if typ != GSOTCPv4 && start-40 >= min3 {
		if p := data[start-40:]; p[0]>>4 == 6 && p[6] == h.proto {
			h.version, h.l3, h.typ = 6, start-40, etherIPv6
			return h, true
		}
	}
	return h, false
}

// finish makes a segment of seg, the i-th one, which has the superframe's headers
// and its own payload.
func (s *segmenter) finish(seg []byte, i int) {
	finishIP(seg, &s.h, i)
	l4 := seg[s.h.l4:]
	if s.h.proto == protoTCP {
		seq := binary.BigEndian.Uint32(l4[4:])
		binary.BigEndian.PutUint32(l4[4:], seq+uint32(i*s.size))
		if i != 0 {
			l4[13] &^= tcpCWR
		}
		if i != s.n-1 {
			l4[13] &^= tcpFIN | tcpPSH
		}
		finishSum(seg, &s.h, 16)
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
		if !s.noCsum {
			finishSum(seg, &s.h, 6)
		}
	}
	if s.outer.version == 0 {
		return
	}
	finishIP(seg, &s.outer, i)
	if s.outer.proto == protoUDP {
		udp := seg[s.outer.l4:]
		binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
		if udp[6] != 0 || udp[7] != 0 {
			finishSum(seg, &s.outer, 6)
		}
	}
}

// finishIP sets the length, the ID and the checksum of an IP header of the i-th
// segment.
func finishIP(seg []byte, h *headers, i int) {
	p := seg[h.l3:]
	if h.version == 6 {
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
		return
	}
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	id := binary.BigEndian.Uint16(p[4:])
	binary.BigEndian.PutUint16(p[4:], id+uint16(i))
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], ^Checksum(seg[h.l3:h.l4], 0))
}

// finishSum computes the transport checksum, field bytes behind its header's
// start.
func finishSum(seg []byte, h *headers, field int) {
	l4 := seg[h.l4:]
	l4[field], l4[field+1] = 0, 0
	binary.BigEndian.PutUint16(l4[field:], finish(Checksum(l4, h.pseudoSum(seg, len(l4)))))
}
