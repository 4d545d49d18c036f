package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// packetRead and packetBatch are how many frames one system call gives and takes.
// Reading has less, for each buffer must hold a superframe.
const (
	packetRead  = 32
	packetBatch = 64
)

// downPoll is how often, in milliseconds, a port whose device is down looks
// whether it is gone: the kernel reports the first, but not then the second.
const downPoll = 250

// PacketConfig names the device of a PacketPort.
type PacketConfig struct {
	// Ifindex is the device's index in its namespace.
	Ifindex int
	// NS is where the device is, nil for the caller's namespace.
	NS *NS
}

// PacketPort reads and writes the frames of a network device through a packet
// socket (packet(7)). Superframes and partial checksums stay what they are
// (PACKET_VNET_HDR), and VLAN tags are in the frame.
type PacketPort struct {
	endpoint
	ifindex  int
	reader   *packetReader
	stats    Counters
	overruns uint64 // under mu
}

// OpenPacketPort opens the device. From its return on, frames that the device
// receives queue up for the Reader. It fails with EPERM without CAP_NET_RAW and
// with ENODEV where there is no such device. The device may be down.
func OpenPacketPort(c PacketConfig) (*PacketPort, error) {
	if c.Ifindex <= 0 {
		return nil, fmt.Errorf("interface index %d is not valid: %w", c.Ifindex, unix.ENODEV)
	}
	var fd int
	err := c.NS.Do(func() (err error) {
		// Protocol 0 takes no frames: what came in before bind would be of any
		// device.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("opening a packet socket needs CAP_NET_RAW: %w", err)
		}
		return nil, fmt.Errorf("cannot open a packet socket: %w", err)
	}
	p := &PacketPort{ifindex: c.Ifindex}
	p.fd = fd
	if err := p.setup(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return p, nil
}

func (p *PacketPort) setup() error {
	for _, o := range []struct {
		opt  int
		name string
	}{
		{unix.PACKET_VNET_HDR, "PACKET_VNET_HDR"},
		{unix.PACKET_AUXDATA, "PACKET_AUXDATA"},
		{unix.PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING"},
	} {
		if err := unix.SetsockoptInt(p.fd, unix.SOL_PACKET, o.opt, 1); err != nil {
			return fmt.Errorf("the kernel refuses %s on a packet socket: %w", o.name, err)
		}
	}
	setBuffers(p.fd, socketBuffer)
	sll := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: p.ifindex}
	if err := unix.Bind(p.fd, sll); err != nil {
		return fmt.Errorf("cannot bind a packet socket to interface %d: %w", p.ifindex, err)
	}
	g, err := newGate(p.fd)
	if err != nil {
		return fmt.Errorf("cannot make an eventfd: %w", err)
	}
	p.sendFD.Store(int64(p.fd))
	p.reader = &packetReader{p: p, gate: g}
	return nil
}

// Ifindex returns the index that the port was opened with.
func (p *PacketPort) Ifindex() int { return p.ifindex }

// SetPromisc makes the device receive frames for any address, without IFF_PROMISC
// being seen in its flags, until Close or ClearPromisc.
func (p *PacketPort) SetPromisc() error {
	return p.membership(unix.PACKET_ADD_MEMBERSHIP, unix.PACKET_MR_PROMISC)
}

// ClearPromisc takes SetPromisc back.
func (p *PacketPort) ClearPromisc() error {
	return p.membership(unix.PACKET_DROP_MEMBERSHIP, unix.PACKET_MR_PROMISC)
}

// SetAllmulti makes the device receive all multicast frames until Close or
// ClearAllmulti.
func (p *PacketPort) SetAllmulti() error {
	return p.membership(unix.PACKET_ADD_MEMBERSHIP, unix.PACKET_MR_ALLMULTI)
}

// ClearAllmulti takes SetAllmulti back.
func (p *PacketPort) ClearAllmulti() error {
	return p.membership(unix.PACKET_DROP_MEMBERSHIP, unix.PACKET_MR_ALLMULTI)
}

func (p *PacketPort) membership(op int, typ uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	m := unix.PacketMreq{Ifindex: int32(p.ifindex), Type: typ}
	if err := unix.SetsockoptPacketMreq(p.fd, unix.SOL_PACKET, op, &m); err != nil {
		return fmt.Errorf("cannot change the promiscuity of interface %d: %w", p.ifindex, err)
	}
	return nil
}

// Reader returns the port's only receive queue. Its Read ends with ENODEV once
// the device is gone; while the device is down it waits.
func (p *PacketPort) Reader() Reader { return p.reader }

// Counters returns what the port itself counts: frames and bytes both ways,
// RxLengthErrors for frames that are too short or too long, RxErrors for frames
// that the kernel cannot describe, TxDropped for frames that the device did not
// take for want of room or for their size, and TxErrors for other failures.
func (p *PacketPort) Counters() *Counters { return &p.stats }

// Overruns returns how many frames the kernel dropped since the port was opened
// because the socket's buffer was full.
func (p *PacketPort) Overruns() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		// Reading the statistics resets them.
		if s, err := unix.GetsockoptTpacketStats(p.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.overruns += uint64(s.Drops)
		}
	}
	return p.overruns
}

// Output makes a way out of the device for the threads of d.
func (p *PacketPort) Output(d *Domain) *Output {
	return p.output(d, func() Writer { return newPacketWriter(p) })
}

// Close ends the reader, releases the port's outputs (they must be unpublished
// before) and closes the socket. It must not be called from a Handler. Further
// calls do nothing.
func (p *PacketPort) Close() error { return p.close(p.reader) }

// gone reports whether the socket lost its device for good.
func (p *PacketPort) gone() bool {
	sa, err := unix.Getsockname(p.fd)
	if err != nil {
		return true
	}
	sll, ok := sa.(*unix.SockaddrLinklayer)
	// packet_notifier sets it to -1 when the device is unregistered or moved to
	// another namespace.
	return !ok || sll.Ifindex != p.ifindex
}
