package netdev

import "encoding/binary"

// Protocol numbers and ethertypes that the frame path reads.
const (
	etherIPv4  = 0x0800
	etherIPv6  = 0x86dd
	ether8021Q = 0x8100
	etherQinQ  = 0x88a8
	etherQinQ1 = 0x9100 // before 802.1ad

	protoIPv4 = 4 // in IP
	protoTCP  = 6
	protoUDP  = 17
	protoIPv6 = 41 // in IP
	protoGRE  = 47

	// IPv6 extension headers (RFC 8200, 4).
	extHopByHop = 0
	extRouting  = 43
	extFragment = 44
	extOptions  = 60
)

// Bounds on what is read in search of a transport header.
const (
	maxTags = 4
	maxExts = 8
)

// headers is where the headers of a frame are. All offsets lie within the frame.
type headers struct {
	// typ is the ethertype behind all VLAN tags, l3 where its payload begins.
	typ uint16
	l3  int
	// version is 4 or 6, or 0 if the frame is not IP or not sound as such; the
	// fields below are 0 then.
	version int
	// proto is the transport protocol and l4 where its header begins, which may
	// be the end of the frame.
	proto uint8
	l4    int
	// end is where the packet ends: a short frame is padded.
	end int
	// fragment tells a fragment, whose transport header may be missing. routed
	// tells a routing header: the pseudo-header has another destination then.
	fragment, routed bool
}

// parseHeaders finds the headers of a frame. It reports false if there is not
// even an Ethernet header.
func parseHeaders(data []byte) (h headers, ok bool) {
	if len(data) < minFrame {
		return h, false
	}
	h.typ = binary.BigEndian.Uint16(data[12:])
	h.l3 = minFrame
	for range maxTags {
		if h.typ != ether8021Q && h.typ != etherQinQ && h.typ != etherQinQ1 || len(data) < h.l3+4 {
			break
		}
		h.typ = binary.BigEndian.Uint16(data[h.l3+2:])
		h.l3 += 4
	}
	switch h.typ {
	case etherIPv4:
		h.ipv4(data)
	case etherIPv6:
		h.ipv6(data)
	}
	return h, true
}

func (h *headers) ipv4(data []byte) {
	p := data[h.l3:]
	if len(p) < 20 || p[0]>>4 != 4 {
		return
	}
	ihl := int(p[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(p[2:]))
	if ihl < 20 || len(p) < ihl || total < ihl || total > len(p) {
		return
	}
	h.version = 4
	h.proto = p[9]
	h.l4 = h.l3 + ihl
	h.end = h.l3 + total
	h.fragment = binary.BigEndian.Uint16(p[6:])&0x3fff != 0 // MF or an offset
}

func (h *headers) ipv6(data []byte) {
	p := data[h.l3:]
	if len(p) < 40 || p[0]>>4 != 6 {
		return
	}
	length := int(binary.BigEndian.Uint16(p[4:]))
	if length > len(p)-40 {
		return
	}
	next, at, end := p[6], h.l3+40, h.l3+40+length
	var fragment, routed bool
	for range maxExts {
		size := 8
		switch next {
		case extRouting:
			routed = true
		case extFragment:
			fragment = true
		case extHopByHop, extOptions:
		default:
			h.version, h.proto, h.l4, h.end = 6, next, at, end
			h.fragment, h.routed = fragment, routed
			return
		}
		if end-at < 8 {
			return
		}
		if next != extFragment {
			size += int(data[at+1]) * 8
		}
		if end-at < size {
			return
		}
		if next == extFragment && binary.BigEndian.Uint16(data[at+2:])&0xfff8 != 0 {
			// What follows is not the next header but the packet's middle.
			h.version, h.proto, h.l4, h.end, h.fragment = 6, data[at], at+size, end, true
			return
		}
		next = data[at]
		at += size
	}
}

// pseudoSum returns the folded sum of the pseudo-header, with a transport length
// of n bytes, which must not exceed 65535.
func (h *headers) pseudoSum(data []byte, n int) uint16 {
	p := data[h.l3:]
	var addrs []byte
	if h.version == 4 {
		addrs = p[12:20]
	} else {
		addrs = p[8:40]
	}
	return Checksum(addrs, fold(uint32(h.proto)+uint32(n)))
}
