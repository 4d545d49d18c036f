package netdev

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testFrame is an Ethernet frame of n bytes.
func testFrame(dst, src string, n int) []byte {
	b := make([]byte, n)
	d, _ := net.ParseMAC(dst)
	s, _ := net.ParseMAC(src)
	copy(b, d)
	copy(b[6:], s)
	binary.BigEndian.PutUint16(b[12:], 0x88b5) // for local experiments
	for i := 14; i < n; i++ {
		b[i] = byte(i)
	}
	return b
}

func openPort(t testing.TB, ns *NS, name string) *PacketPort {
	t.Helper()
	p, err := OpenPacketPort(PacketConfig{Ifindex: ifindex(t, ns, name), NS: ns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPacketRoundTrip(t *testing.T) {
	checkFDs(t)
	ns := newTestNS(t)
	ip(t, ns, "link add v0 type veth peer name v1")
	up(t, ns, "v0", "v1")
	d := NewDomain(SystemClock())
	p0, p1 := openPort(t, ns, "v0"), openPort(t, ns, "v1")
	if err := p0.SetPromisc(); err != nil {
		t.Fatal(err)
	}
	if err := p0.SetAllmulti(); err != nil {
		t.Fatal(err)
	}
	got := collect(d, p1.Reader(), 1000)
	own := collect(d, p0.Reader(), 10)
	out := p0.Output(d)
	var frames []*Frame
	for i := range 300 {
		frames = append(frames, NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 14+i)))
	}
	once(d, out, frames...)
	for i := range frames {
		if f := next(t, got); !bytes.Equal(f.Data, frames[i].Data) {
			t.Fatalf("frame %d: got % x, want % x", i, f.Data, frames[i].Data)
		}
	}
	none(t, own)
	if n := p0.Counters().TxPackets.Load(); n != 300 {
		t.Errorf("TxPackets = %d", n)
	}
	if n := p1.Counters().RxPackets.Load(); n != 300 {
		t.Errorf("RxPackets = %d", n)
	}
	// A frame that is too big for the device is skipped, the rest goes.
	big := NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 3000))
	once(d, out, big, frames[7])
	if f := next(t, got); len(f.Data) != 21 {
		t.Errorf("got %d bytes after a frame that is too big", len(f.Data))
	}
	if n := p0.Counters().TxDropped.Load(); n != 1 {
		t.Errorf("TxDropped = %d", n)
	}
	if p1.Overruns() != 0 {
		t.Error("overruns")
	}
	p0.Close()
	p1.Close()
	p1.Close()
	d.Wait()
}

// TestPacketTag checks that tags are in the frame, also the outer one that the
// kernel takes off before a packet socket sees the frame.
func TestPacketTag(t *testing.T) {
	ns := newTestNS(t)
	ip(t, ns, "link add v0 type veth peer name v1")
	up(t, ns, "v0", "v1")
	d := NewDomain(SystemClock())
	p0, p1 := openPort(t, ns, "v0"), openPort(t, ns, "v1")
	got := collect(d, p1.Reader(), 10)
	out := p0.Output(d)
	plain := testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 60)
	for _, tags := range [][]uint16{{0x8100, 5}, {0x88a8, 0xe009}, {0x8100, 0}, {0x8100, 7, 0x88a8, 8}} {
		f := NewFrame(plain)
		for i := 0; i < len(tags); i += 2 {
			f.PushTag(tags[i], tags[i+1])
		}
		once(d, out, f)
		if g := next(t, got); !bytes.Equal(g.Data, f.Data) {
			t.Errorf("got % x, want % x", g.Data, f.Data)
		}
	}
	p0.Close()
	p1.Close()
	d.Wait()
}

func TestPacketDownAndGone(t *testing.T) {
	checkFDs(t)
	ns := newTestNS(t)
	ip(t, ns, "link add v0 type veth peer name v1")
	p := openPort(t, ns, "v0") // down
	p1 := openPort(t, ns, "v1")
	d := NewDomain(SystemClock())
	c := make(chan Frame, 10)
	ended := make(chan error, 1)
	d.Start(p.Reader(), handlerFunc(func(_ *Thread, frames []Frame) {
		for i := range frames {
			c <- *NewFrame(frames[i].Data)
		}
	}), func(err error) { ended <- err })
	f := NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 60))
	for range 3 {
		once(d, p1.Output(d), f)
		none(t, c)
		up(t, ns, "v0", "v1")
		// The carrier comes a little later.
		for len(c) == 0 {
			once(d, p1.Output(d), f)
			time.Sleep(10 * time.Millisecond)
		}
		next(t, c)
		ip(t, ns, "link set v0 down")
		ip(t, ns, "link set v1 down")
	}
	if n := p1.Counters().TxDropped.Load(); n < 3 {
		t.Errorf("TxDropped = %d", n)
	}
	ip(t, ns, "link del v0")
	select {
	case err := <-ended:
		if !errors.Is(err, unix.ENODEV) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the reader did not end with its device")
	}
	once(d, p.Output(d), f) // gone
	if n := p.Counters().TxDropped.Load(); n != 1 {
		t.Errorf("TxDropped = %d", n)
	}
	p.Close()
	p1.Close()
	d.Wait()
}

func TestPacketErrors(t *testing.T) {
	ns := newTestNS(t)
	for _, i := range []int{-1, 0, 4711} {
		if _, err := OpenPacketPort(PacketConfig{Ifindex: i, NS: ns}); !errors.Is(err, unix.ENODEV) {
			t.Errorf("ifindex %d: %v", i, err)
		}
	}
}

// patch joins two ports as a bridge would, and keeps their frames from the
// host. stop ends it.
func patch(t testing.TB, ns *NS, a, b string) (d *Domain, pa, pb *PacketPort) {
	t.Helper()
	d = NewDomain(SystemClock())
	pa, pb = openPort(t, ns, a), openPort(t, ns, b)
	for _, p := range []*PacketPort{pa, pb} {
		if err := p.SetPromisc(); err != nil {
			t.Fatal(err)
		}
		c, err := AttachIngress(p.Ifindex(), ns)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	d.Start(pa.Reader(), forward(pb.Output(d)), nil)
	d.Start(pb.Reader(), forward(pa.Output(d)), nil)
	t.Cleanup(func() {
		pa.Close()
		pb.Close()
		d.Wait()
	})
	return d, pa, pb
}

// hosts makes two namespaces with an address each, joined by veths to two ports
// p1 and p2 in a third.
func hosts(t testing.TB) (ns, h1, h2 *NS) {
	t.Helper()
	ns, h1, h2 = newTestNS(t), newTestNS(t), newTestNS(t)
	for i, h := range []*NS{h1, h2} {
		port := fmt.Sprintf("p%d", i+1)
		ip(t, ns, "link add "+port+" type veth peer name eth0")
		// A descriptor names the other namespace.
		ip(t, ns, fmt.Sprintf("link set eth0 netns /proc/%d/fd/%d", unix.Getpid(), h.FD()))
		ip(t, h, fmt.Sprintf("addr add 10.0.0.%d/24 dev eth0", i+1))
		ip(t, h, "link set eth0 up")
	}
	up(t, ns, "p1", "p2")
	up(t, h1, "eth0")
	up(t, h2, "eth0")
	return ns, h1, h2
}

// transfer sends n random bytes over TCP from h1 to h2 and compares digests.
func transfer(t testing.TB, h1, h2 *NS, addr string, n int) {
	t.Helper()
	var l net.Listener
	do(t, h2, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	defer l.Close()
	sum := make(chan []byte, 1)
	go func() {
		h := sha256.New()
		if c, err := l.Accept(); err == nil {
			io.Copy(h, c)
			c.Close()
		}
		sum <- h.Sum(nil)
	}()
	data := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	rnd.Read(data)
	var c net.Conn
	do(t, h1, func() (err error) {
		c, err = net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		return err
	})
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	c.Close()
	want := sha256.Sum256(data)
	select {
	case got := <-sum:
		if !bytes.Equal(got, want[:]) {
			t.Error("the data arrived damaged")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the data did not arrive")
	}
}

func TestPacketTCP(t *testing.T) {
	checkFDs(t)
	ns, h1, h2 := hosts(t)
	_, pa, _ := patch(t, ns, "p1", "p2")
	transfer(t, h1, h2, "10.0.0.2:0", 32<<20)
	s := pa.Counters()
	if size := s.RxBytes.Load() / s.RxPackets.Load(); size < 3000 {
		t.Errorf("a frame had %d bytes on average: superframes were not kept", size)
	}
	if n := s.RxErrors.Load() + s.TxErrors.Load() + s.RxLengthErrors.Load(); n != 0 {
		t.Errorf("%d errors", n)
	}
}

// popTag takes a VLAN tag out of a frame.
func popTag(f *Frame) bool {
	if len(f.Data) < 18 || binary.BigEndian.Uint16(f.Data[12:]) != 0x8100 {
		return false
	}
	copy(f.Data[4:16], f.Data[:12])
	f.Trim(4)
	if f.Hdr.Flags&VnetNeedsCsum != 0 {
		f.Hdr.CsumStart -= 4
	}
	return true
}

// TestPacketVLANTCP has superframes with a tag between two of our ports.
func TestPacketVLANTCP(t *testing.T) {
	ns, h1, h2 := hosts(t)
	ip(t, ns, "link add t1 type veth peer name t2")
	up(t, ns, "t1", "t2")
	d := NewDomain(SystemClock())
	var ports []*PacketPort
	for _, name := range []string{"p1", "t1", "t2", "p2"} {
		p := openPort(t, ns, name)
		p.SetPromisc()
		c, err := AttachIngress(p.Ifindex(), ns)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { c.Close() })
		ports = append(ports, p)
	}
	start := func(in, out *PacketPort, change func(f *Frame) bool) {
		o := out.Output(d)
		d.Start(in.Reader(), handlerFunc(func(t *Thread, frames []Frame) {
			for i := range frames {
				if change(&frames[i]) {
					t.Queue(o, &frames[i])
				}
			}
		}), nil)
	}
	push := func(f *Frame) bool { return f.PushTag(0x8100, 5) }
	start(ports[0], ports[1], push)
	start(ports[1], ports[0], popTag)
	start(ports[3], ports[2], push)
	start(ports[2], ports[3], popTag)
	transfer(t, h1, h2, "10.0.0.2:0", 16<<20)
	s := ports[2].Counters()
	if size := s.RxBytes.Load() / s.RxPackets.Load(); size < 3000 {
		t.Errorf("a frame had %d bytes on average: superframes were not kept", size)
	}
	for _, p := range ports {
		p.Close()
	}
	d.Wait()
}
