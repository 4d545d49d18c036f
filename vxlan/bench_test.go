package vxlan

import (
	"fmt"
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// sink is a socket layer that takes datagrams and forgets them.
type sink struct{ d *netdev.Domain }

func (s sink) Listen(netdev.ListenConfig) (netdev.Reader, error) {
	return idle{make(chan struct{})}, nil
}

func (s sink) Output(netdev.SendConfig) (*netdev.Output, error) {
	return s.d.NewOutput(func() netdev.Writer { return &sinkWriter{scratch: make([]byte, 1<<20)} }), nil
}

type sinkWriter struct {
	scratch []byte
	used, n int
}

func (w *sinkWriter) Queue(*netdev.Frame) { w.n++ }
func (w *sinkWriter) Flush()              { w.used = 0 }
func (w *sinkWriter) Scratch(n int) []byte {
	b := w.scratch[w.used : w.used+n]
	w.used += n
	return b
}
func (w *sinkWriter) QueueDatagram(d *netdev.Datagram) { w.n += len(d.Head) }

// idle is a Reader that gives nothing.
type idle struct{ closed chan struct{} }

func (r idle) NewBatch() *netdev.Batch  { return netdev.NewBatch(1, 64, 1) }
func (r idle) Close() error             { close(r.closed); return nil }
func (r idle) Read(*netdev.Batch) error { <-r.closed; return netdev.ErrClosed }

type deaf struct{}

func (deaf) Wanted(uint32) bool    { return false }
func (deaf) Publish(notify.Change) {}

// benchDevice is a device that is up, over sinks, and a thread for it.
func benchDevice(b *testing.B, parts ...[]byte) (script, *netdev.Thread) {
	w := newWorld(b)
	w.reg.env.Sockets = sink{w.domain}
	w.reg.env.Notify = deaf{}
	out := w.domain.NewOutput(func() netdev.Writer { return &sinkWriter{} })
	s := script{w, w.must(parts...)}
	s.d.host = netdev.OutputEgress{Output: out}
	if err := s.d.Up(); err != nil {
		b.Fatal(err)
	}
	return s, w.domain.NewThread()
}

const batchLen = 64

// benchTransmit sends batches of copies of f.
func benchTransmit(b *testing.B, s script, t *netdev.Thread, data []byte) {
	frames := make([]netdev.Frame, batchLen)
	for i := range frames {
		frames[i] = *netdev.NewFrame(data)
	}
	t.Begin()
	s.d.HostInput(t, frames)
	t.End()
	b.ReportAllocs()
	for i := 0; i < b.N; i += batchLen {
		t.Begin()
		s.d.HostInput(t, frames)
		t.End()
	}
}

func udpFrame(dst, src uapi.MAC) []byte {
	return frame(dst, src, 0x800, ipv4(0, 64, false, 17, make([]byte, 26)...)...)
}

func BenchmarkTransmitUnicast(b *testing.B) {
	s, t := benchDevice(b, u32(xID, 10), ip(xGroup, "192.0.2.2"))
	s.add(flC, macA, "192.0.2.1")
	benchTransmit(b, s, t, udpFrame(macA, macB))
}

func BenchmarkTransmitDefault(b *testing.B) {
	s, t := benchDevice(b, u32(xID, 10), ip(xGroup, "192.0.2.2"))
	benchTransmit(b, s, t, udpFrame(macA, macB))
}

func BenchmarkTransmitFlood(b *testing.B) {
	for _, n := range []int{2, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, t := benchDevice(b, u32(xID, 10))
			for i := range n {
				s.add(flC|flA, 0, fmt.Sprintf("192.0.2.%d", i+1))
			}
			benchTransmit(b, s, t, udpFrame(macBC, macB))
		})
	}
}

// BenchmarkReceive takes learned frames from a socket to the host.
func BenchmarkReceive(b *testing.B) {
	s, t := benchDevice(b, u32(xID, 10))
	data := datagram(10, udpFrame(macA, macB))
	frames, fresh := make([]netdev.Frame, batchLen), make([]netdev.Frame, batchLen)
	for i := range fresh {
		fresh[i] = *netdev.NewFrame(data)
		fresh[i].Meta = meta("192.0.2.1")
	}
	run := func() {
		copy(frames, fresh) // receiving trims them
		t.Begin()
		s.d.sockets[0].Input(t, frames)
		t.End()
	}
	run()
	b.ReportAllocs()
	for i := 0; i < b.N; i += batchLen {
		run()
	}
	if s.d.Counters().RxPackets.Load() == 0 {
		b.Fatal("nothing received")
	}
}

// BenchmarkLearn meets a new address with each frame.
func BenchmarkLearn(b *testing.B) {
	s, _ := benchDevice(b, u32(xID, 10))
	m := meta("192.0.2.1")
	b.ReportAllocs()
	for i := range b.N {
		s.d.learn(0, &m, uapi.MAC(0x020000000000+i&0xffffff), 10)
	}
}

// BenchmarkDump shows a big table.
func BenchmarkDump(b *testing.B) {
	s, _ := benchDevice(b, u32(xID, 10))
	m := meta("192.0.2.1")
	const rows = 100000
	for i := range rows {
		s.d.learn(0, &m, uapi.MAC(0x020000000000+i), 10)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		s.d.FDBDump(func([]byte) { n++ })
		if n != rows {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// TestNoAllocations is the frame path's promise.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools allocate")
	}
	for name, f := range map[string]func(*testing.B){
		"unicast": BenchmarkTransmitUnicast, "default": BenchmarkTransmitDefault, "receive": BenchmarkReceive,
	} {
		if r := testing.Benchmark(f); r.AllocsPerOp() != 0 {
			t.Errorf("%s: %d allocations a frame", name, r.AllocsPerOp())
		}
	}
}
