package netdev

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// poolSize is over how many source ports a tunnel spreads its flows. The kernel
// has a port for every hash, but a socket here; receivers and equal-cost routes
// hash into fewer buckets than that.
const poolSize = 16

// ipv6FlowinfoSend is IPV6_FLOWINFO_SEND (uapi/linux/in6.h).
const ipv6FlowinfoSend = 33

// Sockets opens the UDP sockets of one network namespace: one for each port that
// tunnels receive on, and a pool of senders that tunnels of the same SendConfig
// share.
type Sockets struct {
	d  *Domain
	ns *NS

	mu    sync.Mutex
	pools map[SendConfig]*sendPool
}

// NewSockets makes Sockets for the threads of d; ns is nil for the caller's
// namespace, and must outlive the Sockets.
func NewSockets(d *Domain, ns *NS) *Sockets {
	return &Sockets{d: d, ns: ns, pools: map[SendConfig]*sendPool{}}
}

// Listen opens the socket that receives on a port, for any address. The Reader
// is a GroupReader. The error wraps EADDRINUSE if another socket has the port,
// and EACCES for a port below net.ipv4.ip_unprivileged_port_start without
// CAP_NET_BIND_SERVICE.
func (s *Sockets) Listen(c ListenConfig) (Reader, error) {
	var r *udpReader
	err := s.ns.Do(func() error {
		fd, err := listenSocket(c)
		if err != nil {
			return err
		}
		g, err := newGate(fd)
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("cannot make an eventfd: %w", err)
		}
		r = &udpReader{fd: fd, v6: c.IPv6, gate: g}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func family(v6 bool) int {
	if v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// sockopt is one option to set; must tells whether the socket is of no use
// without.
type sockopt struct {
	level, name, value int
	must               bool
}

func setOptions(fd int, opts []sockopt) error {
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil && o.must {
			return fmt.Errorf("the kernel refuses option %d.%d on a UDP socket: %w", o.level, o.name, err)
		}
	}
	return nil
}

func wildcard(v6 bool, port uint16) unix.Sockaddr {
	if v6 {
		return &unix.SockaddrInet6{Port: int(port)}
	}
	return &unix.SockaddrInet4{Port: int(port)}
}

func listenSocket(c ListenConfig) (fd int, err error) {
	fd, err = unix.Socket(family(c.IPv6), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, fmt.Errorf("cannot open a UDP socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	opts := []sockopt{
		{unix.SOL_UDP, unix.UDP_GRO, 1, false}, // Linux 5.0
	}
	if c.IPv6 {
		opts = append(opts,
			sockopt{unix.SOL_IPV6, unix.IPV6_V6ONLY, 1, true},
			sockopt{unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1, true},
			sockopt{unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1, true})
		if c.ZeroCsum6RX {
			opts = append(opts, sockopt{unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1, true})
		}
	} else {
		opts = append(opts,
			sockopt{unix.SOL_IP, unix.IP_PKTINFO, 1, true},
			sockopt{unix.SOL_IP, unix.IP_RECVTOS, 1, true})
	}
	if err = setOptions(fd, opts); err != nil {
		return fd, err
	}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, socketBuffer)
	if err = unix.Bind(fd, wildcard(c.IPv6, c.Port)); err != nil {
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			err = fmt.Errorf("UDP port %d is in use by another socket: %w", c.Port, err)
		case errors.Is(err, unix.EACCES):
			err = fmt.Errorf("no permission to receive on UDP port %d: %w", c.Port, err)
		default:
			err = fmt.Errorf("cannot receive on UDP port %d: %w", c.Port, err)
		}
		return fd, err
	}
	return fd, nil
}

// sendPool is the sending sockets of one SendConfig.
type sendPool struct {
	config  SendConfig
	senders []sender
	users   int // guarded by Sockets.mu
}

// sender sends from one source port.
type sender struct {
	fd int
	// trains is the socket for trains. The kernel cuts no train on a socket
	// without checksums, so that with NoCsum it is another one on the same port,
	// and the datagrams of trains have a checksum after all, as receivers have to
	// accept (RFC 7348, 5).
	trains int
}

// Output makes a way out for tunnels. Its Writer is a UDPWriter. The sockets are
// closed when the last Output of the SendConfig is released. Where other sockets
// have all ports of the range (it may be just the port that tunnels listen on),
// the namespace's ephemeral ports are used instead: receivers do not care, and
// the kernel's tunnels do not fail either. It fails with EINVAL for an empty
// range, and EACCES for ports that need a privilege.
func (s *Sockets) Output(c SendConfig) (*Output, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[c]
	if p == nil {
		p = &sendPool{config: c}
		err := s.ns.Do(p.open)
		if err != nil {
			p.close()
			return nil, err
		}
		s.pools[c] = p
	}
	p.users++
	return s.d.NewOwningOutput(func() Writer { return newUDPWriter(p) }, func() { s.drop(p) }), nil
}

// drop gives up one use of the pool.
func (s *Sockets) drop(p *sendPool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(s.pools, p.config)
	p.close()
}

func (p *sendPool) close() {
	for _, s := range p.senders {
		unix.Close(s.fd)
		if s.trains != s.fd {
			unix.Close(s.trains)
		}
	}
	p.senders = nil
}

// open opens the sockets.
func (p *sendPool) open() error {
	low, high := int(p.config.Low), int(p.config.High)
	if low == 0 && high == 0 {
		low, high = localPortRange()
	}
	if low >= high {
		return fmt.Errorf("the range of source ports from %d to %d is empty: %w", low, high, unix.EINVAL)
	}
	err := p.openRange(low, high)
	if errors.Is(err, unix.EADDRINUSE) {
		err = p.openRange(localPortRange())
	}
	return err
}

// openRange opens the sockets on random ports of a range.
func (p *sendPool) openRange(low, high int) error {
	want := min(poolSize, high-low)
	// Neighbouring ports of a random start, so that each is tried once; a stride
	// spreads them over the range.
	stride := max(1, (high-low)/poolSize)
	start := rand.IntN(high - low)
	var last error
	for try := 0; len(p.senders) < want && try < min(high-low, 64*poolSize); try++ {
		// After each round of strides go on one port further.
		i := (start + try%poolSize*stride + try/poolSize) % (high - low)
		if stride == 1 {
			i = (start + try) % (high - low)
		}
		s, err := openSender(p.config, uint16(low+i))
		if err == nil {
			p.senders = append(p.senders, s)
		} else if last = err; !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	if len(p.senders) == 0 {
		return fmt.Errorf("no UDP source port from %d to %d is free: %w", low, high-1, last)
	}
	return nil
}

// localPortRange returns the namespace's range of ephemeral ports, the end not
// included as in udp_flow_src_port.
func localPortRange() (low, high int) {
	// The file shows the reading thread's namespace.
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		if _, err = fmt.Sscan(string(b), &low, &high); err == nil && 0 < low && low < high && high < 1<<16 {
			return low, high
		}
	}
	return 32768, 60999 // the kernel's default
}

func openSender(c SendConfig, port uint16) (sender, error) {
	fd, err := sendSocket(c, port, c.NoCsum)
	if err != nil {
		return sender{}, err
	}
	s := sender{fd, fd}
	if c.NoCsum {
		if s.trains, err = sendSocket(c, port, false); err != nil {
			unix.Close(fd)
			return sender{}, err
		}
	}
	return s, nil
}

func sendSocket(c SendConfig, port uint16, noCsum bool) (fd int, err error) {
	fd, err = unix.Socket(family(c.IPv6), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, fmt.Errorf("cannot open a UDP socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	// What comes back to the source port is for nobody.
	drop := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	if err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &drop[0]}); err != nil {
		return fd, fmt.Errorf("the kernel refuses a filter on a UDP socket: %w", err)
	}
	opts := []sockopt{
		{unix.SOL_SOCKET, unix.SO_RCVBUF, 0, false},
		// Only our own senders share a port, and among the kernel's tunnels any
		// may send from any port.
		{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1, true},
		{unix.SOL_SOCKET, unix.SO_BROADCAST, 1, true},
	}
	if c.IPv6 {
		opts = append(opts,
			sockopt{unix.SOL_IPV6, unix.IPV6_V6ONLY, 1, true},
			sockopt{unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, discover(c.DF, unix.IPV6_PMTUDISC_DO, unix.IPV6_PMTUDISC_DONT), true},
			sockopt{unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, 0, true},
			// As the kernel's tunnels: labels are as asked for, and a source
			// address need not be the host's.
			sockopt{unix.SOL_IPV6, unix.IPV6_AUTOFLOWLABEL, 0, false},
			sockopt{unix.SOL_IPV6, ipv6FlowinfoSend, 1, false},
			sockopt{unix.SOL_IPV6, unix.IPV6_FREEBIND, 1, false})
		if noCsum {
			opts = append(opts, sockopt{unix.SOL_UDP, unix.UDP_NO_CHECK6_TX, 1, true})
		}
	} else {
		opts = append(opts,
			sockopt{unix.SOL_IP, unix.IP_MTU_DISCOVER, discover(c.DF, unix.IP_PMTUDISC_DO, unix.IP_PMTUDISC_DONT), true},
			sockopt{unix.SOL_IP, unix.IP_MULTICAST_LOOP, 0, true})
		if noCsum {
			opts = append(opts, sockopt{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1, true})
		}
	}
	if err = setOptions(fd, opts); err != nil {
		return fd, err
	}
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, socketBuffer)
	if err = unix.Bind(fd, wildcard(c.IPv6, port)); err != nil {
		return fd, fmt.Errorf("cannot send from UDP port %d: %w", port, err)
	}
	return fd, nil
}

func discover(df bool, do, dont int) int {
	if df {
		return do
	}
	return dont
}
