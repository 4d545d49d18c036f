package rtnl

import (
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/vxlan"
)

// Kernel is the rtnetlink of the kernel in one network namespace: the seam at
// which tests put a fake.
type Kernel interface {
	// Dial opens a socket to the kernel.
	Dial() (KernelConn, error)
	// Join makes Events deliver the notifications of a group.
	Join(group uint32) error
	// Events calls f with each notification that is queued now, oldest first,
	// and returns without waiting. msg is one message, only valid in f. lost
	// tells that the kernel dropped some since the last call.
	Events(f func(group uint32, msg []byte)) (lost bool, err error)
	// Wait returns once Events has something to say; netdev.ErrClosed after
	// Close.
	Wait() error
	Close() error
}

// KernelConn is a socket to the kernel's rtnetlink.
type KernelConn interface {
	// PortID is the socket's port id, which the kernel's answers carry.
	PortID() uint32
	// SetOptions sets NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK.
	SetOptions(extAck, capAck, strict bool)
	// Do sends a packet and calls reply with every datagram that answers it,
	// dumps to their end. b is only valid in the call.
	Do(packet []byte, reply func(b []byte)) error
	Close() error
}

// TAP is an emulated device's presence in the kernel.
type TAP interface {
	Name() string
	Ifindex() int
	Reader() netdev.Reader
	Output(d *netdev.Domain) *netdev.Output
	// SetCarrier sets netif_carrier_ok of the device.
	SetCarrier(on bool) error
	// SetSnoopers joins or leaves the all-snoopers groups 224.0.0.106 and
	// ff02::6a on the device. To do what is done already is no error.
	SetSnoopers(on bool) error
	Close() error
}

// Port is the frame I/O of a real device that is a bridge's port.
type Port interface {
	Reader() netdev.Reader
	Output(d *netdev.Domain) *netdev.Output
	// SetAllmulti and SetPromisc count as a bridge's do, without the user's
	// flag; each makes the kernel notify.
	SetAllmulti() error
	SetPromisc() error
	// Seize keeps received frames from the host's own stack from now on.
	Seize() error
	Close() error
}

// IO opens the frame I/O of one network namespace.
type IO interface {
	// OpenTAP makes a TAP device. A name may hold %d as dev_alloc_name takes
	// it; ifindex 0 is the kernel's choice.
	OpenTAP(name string, ifindex int) (TAP, error)
	// OpenPort opens a device without taking its frames from the host yet.
	OpenPort(ifindex int) (Port, error)
	// Speed is ethtool's speed of a device in Mbit/s, 0 if unknown.
	Speed(name string) int
	vxlan.SocketOpener
}
