package vxlan

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	etherLen = 14
	vlanLen  = 4
)

// inner is what the outer header takes over from a frame.
type inner struct {
	// l3 is where the network header begins, behind VLAN tags.
	l3 int
	// ip is 4 or 6 for a frame with a complete IP header of that version's
	// fixed length, else 0. The rest is 0 then.
	ip       uint8
	tos, ttl uint8
	// df asks for Don't Fragment, which a frame with a VLAN tag never does: the
	// kernel looks for IP right behind the addresses there.
	df    bool
	label uint32
}

// parseInner looks at a frame of at least an Ethernet header.
func parseInner(b []byte) (n inner) {
	n.l3 = etherLen
	proto := binary.BigEndian.Uint16(b[12:])
	for (proto == unix.ETH_P_8021Q || proto == unix.ETH_P_8021AD) && len(b) >= n.l3+vlanLen {
		proto = binary.BigEndian.Uint16(b[n.l3+2:])
		n.l3 += vlanLen
	}
	h := b[n.l3:]
	switch {
	case proto == unix.ETH_P_IP && len(h) >= 20:
		n.ip, n.tos, n.ttl = 4, h[1], h[8]
		n.df = n.l3 == etherLen && h[6]&0x40 != 0
	case proto == unix.ETH_P_IPV6 && len(h) >= 40:
		w := binary.BigEndian.Uint32(h)
		n.ip, n.tos, n.ttl = 6, uint8(w>>20), h[7]
		n.df = n.l3 == etherLen
		n.label = w & 0xfffff
	}
	return n
}

// Values of the ECN field (RFC 3168).
const (
	ecnNotECT = 0
	ecnECT1   = 1
	ecnECT0   = 2
	ecnCE     = 3
)

// encapECN returns an outer TOS with the ECN field that an inner one asks for
// (RFC 6040 compatibility mode as in INET_ECN_encapsulate: congestion that the
// frame met before the tunnel stays inside).
func encapECN(tos, innerTOS uint8) uint8 {
	ecn := innerTOS & 3
	if ecn == ecnCE {
		ecn = ecnECT0
	}
	return tos&^3 | ecn
}

// decapECN combines the ECN fields of a received datagram's headers (RFC 6040
// section 4.2). It returns the inner one, whether the combination is unusual
// enough for a line in the log, and false if the frame is to be dropped.
func decapECN(outer, innerECN uint8) (ecn uint8, odd, ok bool) {
	if innerECN == ecnNotECT {
		switch outer {
		case ecnCE:
			return innerECN, true, false
		case ecnNotECT:
			return innerECN, false, true
		}
		return innerECN, true, true
	}
	switch {
	case outer == ecnCE:
		return ecnCE, false, true
	case outer == ecnECT1 && innerECN == ecnECT0:
		return ecnECT1, false, true
	}
	return innerECN, false, true
}

// setECN4 changes the ECN field of an IPv4 header and its checksum with it
// (RFC 1624).
func setECN4(h []byte, ecn uint8) {
	old := binary.BigEndian.Uint16(h)
	h[1] = h[1]&^3 | ecn
	sum := uint32(^binary.BigEndian.Uint16(h[10:])) + uint32(^old) + uint32(binary.BigEndian.Uint16(h))
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
}

// setECN6 changes the ECN field of an IPv6 header's traffic class.
func setECN6(h []byte, ecn uint8) { h[1] = h[1]&^0x30 | ecn<<4 }
