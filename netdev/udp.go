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
	// Label is the outer IPv6 flow label, 20 bits.
	Label uint32
	// Hash picks the source port within the socket's range: datagrams of one
	// hash keep their order.
	Hash uint32
	// Stats counts what could not be sent. It may be nil.
	Stats *Counters
	// Frames and Bytes are what the sender has counted in Stats' TxPackets and
	// TxBytes for the payload: they are taken back if it cannot be sent.
	Frames, Bytes uint32
}

// ListenConfig says on which port a tunnel receives.
type ListenConfig struct {
	// Port is the UDP port in host byte order.
	Port uint16
	// IPv6 takes IPv6 datagrams only, else IPv4 only.
	IPv6 bool
	// ZeroCsum6RX takes IPv6 datagrams without a checksum too (RFC 6935).
	ZeroCsum6RX bool
}

// SendConfig says how a tunnel sends. Outputs of equal SendConfigs share their
// sockets.
type SendConfig struct {
	IPv6 bool
	// Low and High are the range [Low,High) of source ports. 0,0 is the
	// namespace's net.ipv4.ip_local_port_range.
	Low, High uint16
	// DF forbids fragmentation: what exceeds the path's MTU is dropped.
	DF bool
	// NoCsum sends datagrams without a UDP checksum.
	NoCsum bool
}

// GroupReader is the Reader that a tunnel's socket is: it can be in multicast
// groups, until Close.
type GroupReader interface {
	Reader
	// Join joins group on the interface, 0 for the one that the route to the
	// group leads to. The error wraps setsockopt's errno: EADDRINUSE if the
	// socket has joined already.
	Join(group netip.Addr, ifindex int) error
	// Leave takes Join back.
	Leave(group netip.Addr, ifindex int) error
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
