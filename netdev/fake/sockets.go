package fake

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
)

// Sockets stands in for netdev.Sockets: it records datagrams, and packets are
// injected by hand.
type Sockets struct {
	d   *netdev.Domain
	rec recorder[Sent]

	mu      sync.Mutex
	taken   map[port]bool
	readers map[port]*Socket
	outputs map[netdev.SendConfig]int
}

type port struct {
	number uint16
	v6     bool
}

// Sent is a datagram, or a train of them, that a tunnel sent.
type Sent struct {
	Config netdev.SendConfig
	// Datagram has the whole payload, Head included, as Data.
	Datagram netdev.Datagram
}

// Payloads returns the payloads of the datagrams that s is on the wire.
func (s Sent) Payloads() [][]byte {
	data, seg := s.Datagram.Data, s.Datagram.SegSize
	if seg <= 0 || seg >= len(data) {
		return [][]byte{data}
	}
	var l [][]byte
	for ; len(data) > seg; data = data[seg:] {
		l = append(l, data[:seg])
	}
	return append(l, data)
}

// NewSockets makes Sockets for the threads of d.
func NewSockets(d *netdev.Domain) *Sockets {
	return &Sockets{
		d:       d,
		taken:   map[port]bool{},
		readers: map[port]*Socket{},
		outputs: map[netdev.SendConfig]int{},
	}
}

// SetTaken makes a port look as if another process had it, or no longer.
func (s *Sockets) SetTaken(number uint16, v6, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[port{number, v6}] = taken
}

// Socket is the netdev.GroupReader that Listen returns.
type Socket struct {
	*Reader
	// Config is what Listen was asked for.
	Config netdev.ListenConfig

	mu     sync.Mutex
	groups map[Membership]bool
}

// Membership is a multicast group on an interface.
type Membership struct {
	Group   netip.Addr
	Ifindex int
}

var _ netdev.GroupReader = (*Socket)(nil)

// Join implements netdev.GroupReader.
func (s *Socket) Join(group netip.Addr, ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Membership{group, ifindex}
	if s.groups[m] {
		return fmt.Errorf("the socket is in group %s already: %w", group, unix.EADDRINUSE)
	}
	s.groups[m] = true
	return nil
}

// Leave implements netdev.GroupReader.
func (s *Socket) Leave(group netip.Addr, ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Membership{group, ifindex}
	if !s.groups[m] {
		return fmt.Errorf("the socket is not in group %s: %w", group, unix.EADDRNOTAVAIL)
	}
	delete(s.groups, m)
	return nil
}

// Joined reports whether the socket is in the group.
func (s *Socket) Joined(group netip.Addr, ifindex int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[Membership{group, ifindex}]
}

// Listen is netdev.Sockets' Listen. Its Reader is a *Socket.
func (s *Sockets) Listen(c netdev.ListenConfig) (netdev.Reader, error) {
	p := port{c.Port, c.IPv6}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[p] || s.readers[p] != nil {
		return nil, fmt.Errorf("UDP port %d is in use by another socket: %w", c.Port, unix.EADDRINUSE)
	}
	k := &Socket{Reader: NewReader(), Config: c, groups: map[Membership]bool{}}
	k.onClose = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.readers[p] == k {
			delete(s.readers, p)
		}
	}
	s.readers[p] = k
	return k, nil
}

// Socket returns the open socket of a port, or nil.
func (s *Sockets) Socket(number uint16, v6 bool) *Socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readers[port{number, v6}]
}

// Inject has the socket of a port receive a payload. It reports false if nobody
// listens there.
func (s *Sockets) Inject(number uint16, v6 bool, payload []byte, m netdev.UDPMeta) bool {
	k := s.Socket(number, v6)
	if k == nil {
		return false
	}
	k.PushPacket(Packet{Data: payload, Meta: m})
	return true
}

// Output is netdev.Sockets' Output.
func (s *Sockets) Output(c netdev.SendConfig) (*netdev.Output, error) {
	if c.Low >= c.High && (c.Low != 0 || c.High != 0) {
		return nil, fmt.Errorf("the range of source ports from %d to %d is empty: %w", c.Low, c.High, unix.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outputs[c]++
	return s.d.NewOwningOutput(
		func() netdev.Writer { return &udpWriter{s: s, c: c} },
		func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.outputs[c]--; s.outputs[c] == 0 {
				delete(s.outputs, c)
			}
		}), nil
}

// Outputs returns how many outputs of a SendConfig are not released.
func (s *Sockets) Outputs(c netdev.SendConfig) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outputs[c]
}

// Sent returns what was sent so far.
func (s *Sockets) Sent() []Sent { return s.rec.get(false) }

// Take returns what was sent since the last Take.
func (s *Sockets) Take() []Sent { return s.rec.get(true) }

// Wait waits until n datagrams were sent and reports false if that takes longer
// than timeout.
func (s *Sockets) Wait(n int, timeout time.Duration) bool { return s.rec.wait(n, timeout) }

type udpWriter struct {
	s      *Sockets
	c      netdev.SendConfig
	queued []netdev.Datagram
}

var _ netdev.UDPWriter = (*udpWriter)(nil)

func (w *udpWriter) Queue(*netdev.Frame) {}

func (w *udpWriter) Scratch(n int) []byte { return make([]byte, n) }

func (w *udpWriter) QueueDatagram(d *netdev.Datagram) { w.queued = append(w.queued, *d) }

func (w *udpWriter) Flush() {
	for _, d := range w.queued {
		data := append([]byte(nil), d.Head...)
		d.Data = append(data, d.Data...)
		d.Head = nil
		w.s.rec.add(Sent{w.c, d})
	}
	w.queued = w.queued[:0]
}
