package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// pair makes two namespaces joined by a veth, 10.0.0.1 and fd00::1 to 2.
func pair(t testing.TB, mtu int) (a, b *NS) {
	t.Helper()
	a, b = newTestNS(t), newTestNS(t)
	ip(t, a, fmt.Sprintf("link add eth0 mtu %d type veth peer name eth0 mtu %d netns /proc/%d/fd/%d",
		mtu, mtu, unix.Getpid(), b.FD()))
	for i, ns := range []*NS{a, b} {
		do(t, ns, func() error { return writeFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "0") })
		ip(t, ns, fmt.Sprintf("addr add 10.0.0.%d/24 dev eth0", i+1))
		ip(t, ns, fmt.Sprintf("addr add fd00::%d/64 dev eth0 nodad", i+1))
		ip(t, ns, "link set eth0 up")
	}
	// Until the carrier is on and the neighbours are known datagrams get lost.
	for _, n := range []struct{ from, to *NS }{{a, b}, {b, a}} {
		mac := hwaddr(t, n.to, "eth0")
		i := 2
		if n.to == a {
			i = 1
		}
		ip(t, n.from, fmt.Sprintf("neigh replace 10.0.0.%d lladdr %s dev eth0", i, mac))
		ip(t, n.from, fmt.Sprintf("neigh replace fd00::%d lladdr %s dev eth0", i, mac))
		up(t, n.from, "eth0")
	}
	return a, b
}

func udpSend(d *Domain, o *Output, data ...*Datagram) {
	t := d.NewThread()
	t.Begin()
	w := t.Writer(o).(UDPWriter)
	for _, g := range data {
		w.QueueDatagram(g)
	}
	t.End()
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

func TestUDPRoundTrip(t *testing.T) {
	checkFDs(t)
	a, b := pair(t, 1500)
	d := NewDomain(SystemClock())
	sa, sb := NewSockets(d, a), NewSockets(d, b)
	for _, v6 := range []bool{false, true} {
		for _, noCsum := range []bool{false, true} {
			t.Run(fmt.Sprintf("v6=%v,nocsum=%v", v6, noCsum), func(t *testing.T) {
				r, err := sb.Listen(ListenConfig{Port: 4789, IPv6: v6, ZeroCsum6RX: noCsum})
				if err != nil {
					t.Fatal(err)
				}
				got := collect(d, r, 1000)
				o, err := sa.Output(SendConfig{IPv6: v6, Low: 40000, High: 41000, NoCsum: noCsum})
				if err != nil {
					t.Fatal(err)
				}
				dst, src := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
				if v6 {
					dst, src = netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")
				}
				var stats Counters
				base := Datagram{Dst: netip.AddrPortFrom(dst, 4789), Stats: &stats, Frames: 1}
				one := base
				one.Head, one.Data = pattern(8, 1), pattern(100, 2)
				full := one
				full.Src, full.TTL, full.TOS, full.Hash = src, 7, 0xb9, 12345
				full.Ifindex = int32(ifindex(t, a, "eth0"))
				train := full
				train.Data, train.SegSize, train.Frames = pattern(20*1000-8-300, 3), 1000, 20
				long := base // more than one system call takes
				long.Data, long.SegSize, long.Frames = pattern(150*1400-17, 4), 1400, 150
				frag := base // longer than the MTU: in fragments
				frag.Data = pattern(4000, 5)
				fragTrain := base // each segment in fragments
				fragTrain.Data, fragTrain.SegSize, fragTrain.Frames = pattern(5*2000, 6), 2000, 5
				all := []*Datagram{&one, &full, &train, &long, &frag, &fragTrain}
				var want [][]byte
				for _, g := range all {
					udpSend(d, o, g) // one flush each, to keep the order over all hashes
					p := append(append([]byte{}, g.Head...), g.Data...)
					for g.SegSize > 0 && len(p) > g.SegSize {
						want = append(want, p[:g.SegSize])
						p = p[g.SegSize:]
					}
					want = append(want, p)
				}
				for i, w := range want {
					f := next(t, got)
					if !bytes.Equal(f.Data, w) {
						t.Fatalf("datagram %d: got %d bytes, want %d", i, len(f.Data), len(w))
					}
					m := f.Meta
					if m.Src != src || m.SrcPort < 40000 || m.SrcPort >= 41000 || int(m.Ifindex) != ifindex(t, b, "eth0") {
						t.Errorf("datagram %d: %+v", i, m)
					}
					if tos := uint8(0xb9); i >= 1 && i <= 20 && m.TOS != tos {
						t.Errorf("datagram %d: TOS %#x", i, m.TOS)
					}
				}
				none(t, got)
				if n := stats.TxErrors.Load() + stats.TxDropped.Load(); n != 0 {
					t.Errorf("%d failures", n)
				}
				o.Release()
				r.Close()
				d.Wait()
			})
		}
	}
}

// TestUDPTrainRoom checks that a tag that is put into a datagram of a train does
// not reach into the one before, and that a train may be longer than a batch.
func TestUDPTrainRoom(t *testing.T) {
	a, b := pair(t, 1500)
	d := NewDomain(SystemClock())
	r, err := NewSockets(d, b).Listen(ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o, err := NewSockets(d, a).Output(SendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Release()
	const size, n = 100, 20
	data := pattern(size*n, 1)
	udpSend(d, o, &Datagram{Dst: netip.MustParseAddrPort("10.0.0.2:4789"), Data: data, SegSize: size})
	batch := NewBatch(2, MaxFrame, 7)
	for i := 0; i < n; {
		if err := r.Read(batch); err != nil {
			t.Fatal(err)
		}
		var want [][]byte
		for j := range batch.Frames {
			f := &batch.Frames[j]
			want = append(want, data[(i+j)*size+8:(i+j+1)*size])
			f.Trim(8)
			if !f.PushTag(0x8100, 5) {
				t.Error("no room for a tag")
			}
		}
		for j := range batch.Frames {
			f := &batch.Frames[j]
			if !bytes.Equal(f.Data[:12], want[j][:12]) || !bytes.Equal(f.Data[16:], want[j][12:]) {
				t.Errorf("datagram %d is damaged", i+j)
			}
			if i+j > 0 && f.Room() != 4 {
				t.Errorf("datagram %d has %d bytes of room", i+j, f.Room())
			}
		}
		i += len(batch.Frames)
	}
}

// TestUDPMerge checks that datagrams that are sent as one train arrive as what
// they were, in order, and each with its own addresses and options.
func TestUDPMerge(t *testing.T) {
	a, b := pair(t, 1500)
	d := NewDomain(SystemClock())
	r, err := NewSockets(d, b).Listen(ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	got := collect(d, r, 2000)
	o, err := NewSockets(d, a).Output(SendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	var stats Counters
	for range 20 {
		var all []*Datagram
		for i := range 150 {
			g := &Datagram{
				Dst:  netip.MustParseAddrPort("10.0.0.2:4789"),
				Head: pattern(8, i), Stats: &stats, Frames: 1,
				TOS: uint8(rnd.IntN(20) / 19 * 8),
			}
			// Mostly equal sizes, some shorter, some longer, some empty, some
			// that need fragments.
			g.Data = pattern([]int{100, 100, 100, 100, 100, 100, 50, 1400, 1600, 0}[rnd.IntN(10)], i)
			if rnd.IntN(30) == 0 {
				g.Data, g.SegSize, g.Frames = pattern(2992, i), 1000, 3
			}
			all = append(all, g)
		}
		udpSend(d, o, all...)
		for i, g := range all {
			for p := append(append([]byte{}, g.Head...), g.Data...); len(p) > 0; {
				n := len(p)
				if g.SegSize > 0 {
					n = min(g.SegSize, n)
				}
				f := next(t, got)
				if !bytes.Equal(f.Data, p[:n]) || f.Meta.TOS != g.TOS {
					t.Fatalf("datagram %d: got %d bytes, TOS %d, want %d, %d", i, len(f.Data), f.Meta.TOS, n, g.TOS)
				}
				p = p[n:]
			}
		}
	}
	// All of a train that fails is counted.
	var lost Counters
	var all []*Datagram
	for range 10 {
		all = append(all, &Datagram{Dst: netip.MustParseAddrPort("203.0.113.1:1"), Data: []byte("x"), Stats: &lost, Frames: 1})
	}
	udpSend(d, o, all...)
	if n := lost.TxCarrierErrors.Load(); n != 10 {
		t.Errorf("TxCarrierErrors = %d", n)
	}
	none(t, got)
	if n := stats.TxErrors.Load() + stats.TxDropped.Load(); n != 0 {
		t.Errorf("%d failures", n)
	}
	r.Close()
	o.Release()
	d.Wait()
}

func TestUDPFailures(t *testing.T) {
	a, b := pair(t, 1500)
	d := NewDomain(SystemClock())
	sa, sb := NewSockets(d, a), NewSockets(d, b)
	r, err := sb.Listen(ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	got := collect(d, r, 1000)
	o, err := sa.Output(SendConfig{DF: true})
	if err != nil {
		t.Fatal(err)
	}
	var route, size, sizeTrain, source, good Counters
	to := func(addr string, n int, s *Counters) *Datagram {
		return &Datagram{Dst: netip.AddrPortFrom(netip.MustParseAddr(addr), 4789), Data: pattern(n, 0), Stats: s, Frames: 1}
	}
	tr := to("10.0.0.2", 8000, &sizeTrain)
	tr.SegSize, tr.Frames = 2000, 4
	src := to("10.0.0.2", 100, &source)
	src.Src = netip.MustParseAddr("192.0.2.1")
	udpSend(d, o,
		to("10.0.0.2", 100, &good), to("203.0.113.1", 100, &route), to("10.0.0.2", 1473, &size),
		tr, src, to("10.0.0.2", 1472, &good))
	for _, n := range []int{100, 1472} {
		if f := next(t, got); len(f.Data) != n {
			t.Errorf("got %d bytes, want %d", len(f.Data), n)
		}
	}
	check := func(name string, s *Counters, errs, carrier, dropped uint64) {
		t.Helper()
		if s.TxErrors.Load() != errs || s.TxCarrierErrors.Load() != carrier || s.TxDropped.Load() != dropped {
			t.Errorf("%s: %d errors, %d carrier errors, %d dropped", name,
				s.TxErrors.Load(), s.TxCarrierErrors.Load(), s.TxDropped.Load())
		}
	}
	check("good", &good, 0, 0, 0)
	check("no route", &route, 1, 1, 0)
	check("too big", &size, 0, 0, 1)
	check("train too big", &sizeTrain, 0, 0, 4)
	if n := source.TxErrors.Load(); n != 1 {
		t.Errorf("foreign source: %d errors", n)
	}
	r.Close()
	o.Release()
	d.Wait()
}

func TestUDPPorts(t *testing.T) {
	checkFDs(t)
	ns := newTestNS(t)
	d := NewDomain(SystemClock())
	s := NewSockets(d, ns)
	r, err := s.Listen(ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(ListenConfig{Port: 4789}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("second Listen: %v", err)
	} else {
		t.Log(err)
	}
	r6, err := s.Listen(ListenConfig{Port: 4789, IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.Close()
	// The port is free as soon as Close returns.
	r, err = s.Listen(ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	before := openFDs(t)
	o1, err := s.Output(SendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	with := openFDs(t)
	if with-before != poolSize {
		t.Errorf("%d sockets", with-before)
	}
	o2, err := s.Output(SendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if openFDs(t) != with {
		t.Error("equal configurations do not share sockets")
	}
	o1.Release()
	o1.Release()
	if openFDs(t) != with {
		t.Error("sockets in use were closed")
	}
	got := collect(d, r, 10)
	udpSend(d, o2, &Datagram{Dst: netip.MustParseAddrPort("127.0.0.1:4789"), Data: []byte("x")})
	next(t, got)
	o2.Release()
	if openFDs(t) != before {
		t.Error("sockets were not closed")
	}
	for _, c := range []SendConfig{{Low: 5000, High: 5003}, {Low: 5000, High: 5003, DF: true}, {Low: 4789, High: 4790}} {
		o, err := s.Output(c)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		udpSend(d, o, &Datagram{Dst: netip.MustParseAddrPort("127.0.0.1:4789"), Data: []byte("x")})
		if p := next(t, got).Meta.SrcPort; c.Low == 5000 && (p < 5000 || p > 5002) {
			t.Errorf("%+v sends from port %d", c, p)
		}
		defer o.Release()
	}
	if _, err := s.Output(SendConfig{Low: 9, High: 9}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("empty range: %v", err)
	}
	r.Close()
	r6.Close()
	d.Wait()
}

// TestUDPGroups has a datagram to a group.
func TestUDPGroups(t *testing.T) {
	a, b := pair(t, 1500)
	d := NewDomain(SystemClock())
	sa, sb := NewSockets(d, a), NewSockets(d, b)
	for _, group := range []netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff05::123")} {
		v6 := group.Is6()
		rd, err := sb.Listen(ListenConfig{Port: 4789, IPv6: v6})
		if err != nil {
			t.Fatal(err)
		}
		r := rd.(GroupReader)
		dev := ifindex(t, b, "eth0")
		if err := r.Join(group, dev); err != nil {
			t.Fatal(err)
		}
		if err := r.Join(group, dev); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("second Join: %v", err)
		}
		o, err := sa.Output(SendConfig{IPv6: v6})
		if err != nil {
			t.Fatal(err)
		}
		got := collect(d, r, 10)
		g := &Datagram{Dst: netip.AddrPortFrom(group, 4789), Data: []byte("x"), Ifindex: int32(ifindex(t, a, "eth0"))}
		udpSend(d, o, g)
		next(t, got)
		if err := r.Leave(group, dev); err != nil {
			t.Fatal(err)
		}
		udpSend(d, o, g)
		none(t, got)
		r.Close()
		if err := r.Join(group, dev); !errors.Is(err, ErrClosed) {
			t.Errorf("Join after Close: %v", err)
		}
		o.Release()
	}
	d.Wait()
}
