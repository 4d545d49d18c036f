package netdev

import "github.com/linkspan/linkspan/uapi"

// LinkState is what a bridge or a tunnel must know of a network device.
type LinkState struct {
	Name    string
	Ifindex int
	MAC     uapi.MAC
	// MTU is in bytes, without the Ethernet header.
	MTU int
	// Up is IFF_UP, the administrative state. Carrier is IFF_LOWER_UP without
	// regard to Up (netif_carrier_ok).
	Up, Carrier bool
	// SpeedMbps is ethtool's speed in Mbit/s, 0 if unknown.
	SpeedMbps int
	// Promisc tells that frames for any address are wanted, by a user or a packet
	// socket.
	Promisc bool
	// Tunnel tells that the device is a tunnel of ours, which can offload less
	// than a real device.
	Tunnel bool
}

// Egress takes a frame that leaves the frame path's decision: a device's output
// or another device's transmit function. It is called on the frame path.
type Egress interface {
	Transmit(t *Thread, f *Frame)
}

// OutputEgress is the Egress that queues to an Output.
type OutputEgress struct{ *Output }

// Transmit queues f.
func (o OutputEgress) Transmit(t *Thread, f *Frame) { t.Queue(o.Output, f) }
