package bridge

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/uapi"
)

type packet = fake.Packet

func takers(r *rig) (out []interface{ Take() []packet }) {
	for _, o := range r.outs {
		out = append(out, o)
	}
	return append(out, r.host)
}

// sink swallows frames.
type sink struct{}

func (sink) Transmit(*netdev.Thread, *netdev.Frame) {}

// benchRig is a bridge with ports that swallow everything.
func benchRig(t testing.TB, ports int) *rig {
	r := newBare(t)
	r.deaf = true
	env := Env{Clock: r.clock, Notify: r, Domain: r.dom, Hooks: r, Lookup: r.lookup}
	r.b = New(env, netdev.LinkState{Name: "br0", Ifindex: bridgeIndex, MAC: bridgeMAC, MTU: 1500}, sink{}, true)
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_FORWARD_DELAY, 0)))
	r.up(true)
	for i := range ports {
		if _, err := r.b.AddPort(portLink(100+i), sink{}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// batches returns a batch of 64 frames from that many sources.
func batch(dst func(i int) uapi.MAC) []netdev.Frame {
	fs := make([]netdev.Frame, 64)
	for i := range fs {
		fs[i] = *netdev.NewFrame(ether(dst(i), macA+uapi.MAC(i)))
	}
	return fs
}

// cases are what the frame path does all day; none may allocate.
func benchCases(t testing.TB) map[string]func() {
	r := benchRig(t, 4)
	p1, p2 := r.port(100), r.port(101)
	back := batch(func(i int) uapi.MAC { return macA })
	for i := range back {
		copy(back[i].Data[6:], uapi.MAC(0x020000aa0000+uint64(i)).Append(nil))
	}
	p2.Input(r.thr, back)
	known := batch(func(i int) uapi.MAC { return 0x020000aa0000 + uapi.MAC(i) })
	flood := batch(func(int) uapi.MAC { return 0x020000bb0000 })
	bcast := batch(func(int) uapi.MAC { return broadcast })
	mcast := batch(func(int) uapi.MAC { return 0x01005e010101 })
	for i := range mcast {
		copy(mcast[i].Data[12:], udp4(groupG, 1)[12:])
	}
	wantErr(t, "querier", r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_QUERIER, 1))), 0, "")
	r.mdbAdd(entry4(101, 1, groupG))
	r.clock.Advance(time.Minute)
	run := func(p *Port, fs []netdev.Frame, step time.Duration) func() {
		return func() {
			r.thr.Begin()
			r.thr.Now += step
			p.Input(r.thr, fs)
			r.thr.End()
		}
	}
	refresh := time.Duration(0)
	return map[string]func(){
		"unicast":   run(p1, known, 0),
		"flood":     run(p1, flood, 0),
		"broadcast": run(p1, bcast, 0),
		"multicast": run(p1, mcast, 0),
		"host":      func() { r.thr.Begin(); r.b.HostInput(r.thr, known); r.thr.End() },
		"refresh": func() {
			// Every batch is in another tick, so that all sources are written.
			refresh += tick
			r.thr.Begin()
			r.thr.Now += refresh
			p1.Input(r.thr, known)
			r.thr.End()
		},
	}
}

func TestFramePathDoesNotAllocate(t *testing.T) {
	for name, f := range benchCases(t) {
		f()
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s: %v allocations in a batch", name, n)
		}
	}
}

// BenchmarkInput reports nanoseconds per frame.
func BenchmarkInput(b *testing.B) {
	for name, f := range benchCases(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/frame")
		})
	}
}

// BenchmarkFDBDump dumps a table of 100000 rows.
func BenchmarkFDBDump(b *testing.B) {
	r := benchRig(b, 1)
	p := r.port(100)
	for i := range 100_000 {
		_ = r.b.FDBAdd(p, FDBRequest{MAC: 0x020000000000 + uapi.MAC(i+1), State: noarp, NLFlags: create})
	}
	b.ResetTimer()
	for range b.N {
		n := 0
		r.b.FDBDump(p, func([]byte) { n++ })
	}
}
