package netdev

import "net/netip"

// Datagram is one UDP datagram, or with SegSize a train of equal ones, as a
// tunnel sends it.
type Datagram struct {
	// Head and Data are the payload, one behind the other. Head may be empty.
	Head, Data []byte
	// SegSize, if not 0, cuts the payload into datagrams of so many bytes, the
	// last of which may be shorter (UDP_SEGMENT).
	SegSize int
	// Dst is the outer destination.
	Dst netip.AddrPort
	// Src is the outer source address; the zero Addr leaves it to the route.
	Src netip.Addr
	// Ifindex binds the datagram to an interface, 0 leaves it to the route.
	Ifindex int32
	// TTL is the outer TTL or hop limit, 0 for the default.
	TTL uint8
	// TOS is the outer TOS or traffic class, ECN bits included.
	TOS uint8
	// Hash picks the source port within the socket's range: datagrams of one
	// hash keep their order.
	Hash uint32
	// Stats counts what could not be sent. It may be nil.
	Stats *Counters
	// Frames is how many frames the payload carries, for Stats.
	Frames uint32
}

// UDPWriter sends datagrams of one Thread. It is a Writer whose Queue is not
// used.
type UDPWriter interface {
	Writer
	// Scratch returns n bytes that stay untouched until the next Flush, for
	// heads and for segmented payloads.
	Scratch(n int) []byte
	// QueueDatagram takes a copy of d, but not of its bytes, for the next Flush.
	QueueDatagram(d *Datagram)
}
