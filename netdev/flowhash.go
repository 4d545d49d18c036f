package netdev

import (
	"encoding/binary"
	"math/bits"
)

// Odd constants with well mixed bits (the golden ratio, and two of splitmix64's).
const (
	mixA = 0x9e3779b97f4a7c15
	mixB = 0xbf58476d1ce4e5b9
	mixC = 0x94d049bb133111eb
)

// FlowHash returns a hash of the flow that a frame belongs to: of addresses,
// protocol and ports of an IP packet, also behind VLAN tags, and else of the MAC
// addresses and the ethertype. Both directions of a flow have the same hash, and
// so have all fragments of a packet. Any bytes are taken for a frame.
func FlowHash(data []byte) uint32 {
	h, ok := parseHeaders(data)
	if !ok {
		return 0
	}
	var a, b, c uint64
	p := data[h.l3:]
	switch h.version {
	case 4:
		a = uint64(binary.BigEndian.Uint32(p[12:])) << 16
		b = uint64(binary.BigEndian.Uint32(p[16:])) << 16
	case 6:
		a = mix(binary.BigEndian.Uint64(p[8:])^mixB, binary.BigEndian.Uint64(p[16:])^mixC)
		b = mix(binary.BigEndian.Uint64(p[24:])^mixB, binary.BigEndian.Uint64(p[32:])^mixC)
	default:
		a = uint64(binary.BigEndian.Uint32(data))<<16 | uint64(binary.BigEndian.Uint16(data[4:]))
		b = uint64(binary.BigEndian.Uint32(data[6:]))<<16 | uint64(binary.BigEndian.Uint16(data[10:]))
		c = uint64(h.typ)
	}
	if h.version != 0 {
		c = uint64(h.proto)
		// TCP, UDP, SCTP (132), DCCP (33) and UDP-Lite (136) begin with ports.
		switch h.proto {
		case protoTCP, protoUDP, 132, 33, 136:
			if !h.fragment && h.end-h.l4 >= 4 {
				a ^= uint64(binary.BigEndian.Uint16(data[h.l4:]))
				b ^= uint64(binary.BigEndian.Uint16(data[h.l4+2:]))
			}
		}
	}
	if a > b {
		a, b = b, a
	}
	x := mix(mix(a^mixA, b^mixB)^c, mixC)
	return uint32(x ^ x>>32)
}

// mix hashes two words into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^mixC, b^mixA)
	return hi ^ lo
}
