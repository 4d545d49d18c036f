package netdev

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// benchRead reads batches until n frames came.
func benchRead(b *testing.B, r Reader, batch *Batch, n int) {
	for n > 0 {
		if err := r.Read(batch); err != nil {
			b.Fatal(err)
		}
		n -= len(batch.Frames)
	}
}

// perFrame reports the time for each of the frames of an iteration.
func perFrame(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/frame")
}

// BenchmarkPacket sends and receives batches of 64 frames over a veth, in one
// thread.
func BenchmarkPacket(b *testing.B) {
	const n = 64
	for _, c := range []struct {
		name string
		size int
		read bool
	}{{"send64", 60, false}, {"send1500", 1514, false}, {"both64", 60, true}, {"both1500", 1514, true}} {
		b.Run(c.name, func(b *testing.B) {
			ns := newTestNS(b)
			ip(b, ns, "link add v0 type veth peer name v1")
			up(b, ns, "v0", "v1")
			p0 := openPort(b, ns, "v0")
			var r Reader
			var batch *Batch
			if c.read {
				r = openPort(b, ns, "v1").Reader()
				batch = r.NewBatch()
			}
			d := NewDomain(SystemClock())
			o := p0.Output(d)
			f := NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", c.size))
			t := d.NewThread()
			b.ReportAllocs()
			for b.Loop() {
				t.Begin()
				for range n {
					t.Queue(o, f)
				}
				t.End()
				if c.read {
					benchRead(b, r, batch, n)
				}
			}
			perFrame(b, n)
		})
	}
}

// BenchmarkTAP sends frames to the host, and frames of the host from a packet
// socket to the TAP.
func BenchmarkTAP(b *testing.B) {
	const n = 32
	for _, read := range []bool{false, true} {
		name := "write"
		if read {
			name = "read"
		}
		b.Run(name, func(b *testing.B) {
			ns := newTestNS(b)
			tap := openTAP(b, TAPConfig{Name: "t0", NS: ns})
			ip(b, ns, "link set t0 up")
			d := NewDomain(SystemClock())
			o := tap.Output(d)
			if read {
				o = openPort(b, ns, "t0").Output(d)
			}
			f := NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 60))
			r := tap.Reader()
			batch := r.NewBatch()
			t := d.NewThread()
			b.ReportAllocs()
			for b.Loop() {
				t.Begin()
				for range n {
					t.Queue(o, f)
				}
				t.End()
				if read {
					benchRead(b, r, batch, n)
				}
			}
			perFrame(b, n)
		})
	}
}

// BenchmarkUDP sends and receives datagrams, alone and in trains, over a veth.
func BenchmarkUDP(b *testing.B) {
	for _, c := range []struct {
		name      string
		size, seg int
		n         int
		noCsum    bool
		read      bool
	}{
		{"send", 114, 0, 64, true, false},
		{"both", 114, 0, 64, true, true},
		{"sendMerged", 114, 0, 64, false, false},
		{"bothMerged", 114, 0, 64, false, true},
		{"sendTrain", 64 * 1000, 1000, 1, true, false},
		{"bothTrain", 64 * 1000, 1000, 1, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			na, nb := pair(b, 1500)
			d := NewDomain(SystemClock())
			o, err := NewSockets(d, na).Output(SendConfig{NoCsum: c.noCsum})
			if err != nil {
				b.Fatal(err)
			}
			defer o.Release()
			r, err := NewSockets(d, nb).Listen(ListenConfig{Port: 4789})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			batch := r.NewBatch()
			g := Datagram{
				Data: make([]byte, c.size-8), Dst: netip.MustParseAddrPort("10.0.0.2:4789"),
				SegSize: c.seg, Frames: 1, TTL: 64, TOS: 4, Src: netip.MustParseAddr("10.0.0.1"),
			}
			frames := c.n
			if c.seg != 0 {
				frames = c.size / c.seg
			}
			t := d.NewThread()
			b.ReportAllocs()
			for b.Loop() {
				t.Begin()
				w := t.Writer(o).(UDPWriter)
				for i := range c.n {
					g.Hash = uint32(i / 16)
					g.Head = w.Scratch(8)
					w.QueueDatagram(&g)
				}
				t.End()
				if c.read {
					benchRead(b, r, batch, frames)
				}
			}
			perFrame(b, frames)
		})
	}
}

// BenchmarkRTT is the round trip of a UDP datagram between two hosts whose ports
// are joined, by us and by a bridge of the kernel.
func BenchmarkRTT(b *testing.B) {
	for _, kernel := range []bool{false, true} {
		name := "linkspan"
		if kernel {
			name = "kernel"
		}
		b.Run(name, func(b *testing.B) {
			ns, h1, h2 := hosts(b)
			join(b, ns, kernel)
			var rx, tx *net.UDPConn
			do(b, h2, func() (err error) {
				rx, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2)})
				return err
			})
			do(b, h1, func() (err error) {
				tx, err = net.DialUDP("udp4", nil, rx.LocalAddr().(*net.UDPAddr))
				return err
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				var buf [100]byte
				for {
					n, from, err := rx.ReadFromUDPAddrPort(buf[:])
					if err != nil {
						return
					}
					rx.WriteToUDPAddrPort(buf[:n], from)
				}
			}()
			var buf [100]byte
			for b.Loop() {
				tx.Write([]byte("ping"))
				tx.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := tx.Read(buf[:]); err != nil {
					b.Fatal(err)
				}
			}
			tx.Close()
			rx.Close()
			<-done
		})
	}
}

// BenchmarkTCP sends 256 MiB between two hosts whose ports are joined, by us and
// by a bridge of the kernel.
func BenchmarkTCP(b *testing.B) {
	const size = 256 << 20
	for _, kernel := range []bool{false, true} {
		name := "linkspan"
		if kernel {
			name = "kernel"
		}
		b.Run(name, func(b *testing.B) {
			ns, h1, h2 := hosts(b)
			join(b, ns, kernel)
			var l net.Listener
			do(b, h2, func() (err error) {
				l, err = net.Listen("tcp", "10.0.0.2:0")
				return err
			})
			defer l.Close()
			chunk := make([]byte, 256<<10)
			b.SetBytes(size)
			for b.Loop() {
				done := make(chan int64)
				go func() {
					var n int64
					if c, err := l.Accept(); err == nil {
						n, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
						c.Close()
					}
					done <- n
				}()
				var c net.Conn
				do(b, h1, func() (err error) {
					c, err = net.Dial("tcp", l.Addr().String())
					return err
				})
				for range size / len(chunk) {
					if _, err := c.Write(chunk); err != nil {
						b.Fatal(err)
					}
				}
				c.Close()
				if n := <-done; n != size {
					b.Fatalf("%d bytes arrived", n)
				}
			}
		})
	}
}

// join joins the ports p1 and p2, by us or by a bridge of the kernel.
func join(b *testing.B, ns *NS, kernel bool) {
	b.Helper()
	if !kernel {
		patch(b, ns, "p1", "p2")
		return
	}
	if err := ns.Do(func() error { return runIP("link add br0 type bridge") }); err != nil {
		b.Skip(err)
	}
	ip(b, ns, "link set p1 master br0")
	ip(b, ns, "link set p2 master br0")
	ip(b, ns, "link set br0 up")
}
