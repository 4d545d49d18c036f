package netdev_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
)

// handler is a netdev.Handler.
type handler func(t *netdev.Thread, frames []netdev.Frame)

func (h handler) Input(t *netdev.Thread, frames []netdev.Frame) { h(t, frames) }

func names(l []fake.Packet) string {
	s := ""
	for _, p := range l {
		s += string(p.Data) + " "
	}
	return s
}

func TestDomainForwards(t *testing.T) {
	clock := &fake.Clock{}
	clock.Advance(7 * time.Second)
	d := netdev.NewDomain(clock)
	r := fake.NewReader()
	a, b := fake.NewOutput(d), fake.NewOutput(d)
	var now atomic.Int64
	ended := make(chan error, 1)
	d.Start(r, handler(func(t *netdev.Thread, frames []netdev.Frame) {
		now.Store(int64(t.Now))
		for i := range frames {
			t.Queue(a.Out(), &frames[i])
			if i%2 == 0 {
				t.Queue(b.Out(), &frames[i])
			}
		}
	}), func(err error) { ended <- err })
	r.Push([]byte("f0"), []byte("f1"), []byte("f2"))
	if !a.Wait(3, time.Second) {
		t.Fatal("no frames")
	}
	if got := names(a.Take()); got != "f0 f1 f2 " {
		t.Errorf("a got %s", got)
	}
	if time.Duration(now.Load()) != 7*time.Second {
		t.Errorf("Now is %v", time.Duration(now.Load()))
	}
	r.Fail(errors.New("unplugged"))
	if err := <-ended; err.Error() != "unplugged" {
		t.Errorf("ended with %v", err)
	}
	d.Wait()
}

// TestThreadFlush checks that what was queued before Flush is sent before it
// returns, and that the frames may be changed then.
func TestThreadFlush(t *testing.T) {
	d := netdev.NewDomain(&fake.Clock{})
	o := fake.NewOutput(d)
	th := d.NewThread()
	th.Begin()
	f := netdev.NewFrame([]byte("one"))
	th.Queue(o.Out(), f)
	if len(o.Frames()) != 0 {
		t.Error("sent before Flush")
	}
	th.Flush()
	copy(f.Data, "two")
	th.Queue(o.Out(), f)
	th.End()
	if got := names(o.Frames()); got != "one two " {
		t.Errorf("got %s", got)
	}
}

// TestOutputIDReuse checks that a thread that knew an output does not send to it
// what is for a later one of the same id.
func TestOutputIDReuse(t *testing.T) {
	d := netdev.NewDomain(&fake.Clock{})
	th := d.NewThread()
	send := func(o *fake.Output, s string) {
		th.Begin()
		th.Queue(o.Out(), netdev.NewFrame([]byte(s)))
		th.End()
	}
	keep := fake.NewOutput(d)
	send(keep, "keep")
	for i := range 5 {
		o := fake.NewOutput(d)
		send(o, fmt.Sprint(i))
		if got := names(o.Frames()); got != fmt.Sprint(i, " ") {
			t.Errorf("output %d got %s", i, got)
		}
		o.Out().Release()
		o.Out().Release() // once only
	}
	a, b := fake.NewOutput(d), fake.NewOutput(d)
	send(a, "a")
	send(b, "b")
	send(keep, "keep")
	if names(a.Frames()) != "a " || names(b.Frames()) != "b " || names(keep.Frames()) != "keep keep " {
		t.Errorf("got %s, %s and %s", names(a.Frames()), names(b.Frames()), names(keep.Frames()))
	}
}

// TestSynchronize checks that it waits for a batch that has begun, and only for
// that.
func TestSynchronize(t *testing.T) {
	d := netdev.NewDomain(&fake.Clock{})
	d.Synchronize()
	th := d.NewThread()
	th.Begin()
	done := make(chan struct{})
	go func() {
		d.Synchronize()
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("returned within the batch")
	case <-time.After(20 * time.Millisecond):
	}
	th.End()
	<-done
	// The thread may be in another batch by now.
	th.Begin()
	other := d.NewThread()
	other.Begin()
	other.End()
	go func() {
		time.Sleep(10 * time.Millisecond)
		th.End()
		th.Begin()
	}()
	d.Synchronize()
	th.End()
}

// TestReleaseGracePeriod has threads that send to whatever output is published,
// while outputs are replaced: nothing may be sent after Release.
func TestReleaseGracePeriod(t *testing.T) {
	d := netdev.NewDomain(netdev.SystemClock())
	type counted struct {
		*netdev.Output
		closed *atomic.Bool
	}
	var late atomic.Int64
	open := func() counted {
		closed := &atomic.Bool{}
		return counted{d.NewOwningOutput(
			func() netdev.Writer { return &strictWriter{closed: closed, late: &late} },
			func() { closed.Store(true) }), closed}
	}
	var current atomic.Pointer[netdev.Output]
	c := open()
	current.Store(c.Output)
	var readers []*fake.Reader
	for range 2 {
		r := fake.NewReader()
		readers = append(readers, r)
		d.Start(r, handler(func(t *netdev.Thread, frames []netdev.Frame) {
			for i := range frames {
				if o := current.Load(); o != nil {
					t.Queue(o, &frames[i])
				}
			}
		}), nil)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, r := range readers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.Push([]byte("x"), []byte("y"))
					time.Sleep(10 * time.Microsecond)
				}
			}
		})
	}
	for range 300 {
		n := open()
		current.Store(n.Output)
		c.Release()
		if !c.closed.Load() {
			t.Fatal("Release did not release")
		}
		c = n
	}
	close(stop)
	wg.Wait()
	for _, r := range readers {
		r.Close()
	}
	d.Wait()
	if n := late.Load(); n != 0 {
		t.Errorf("%d frames were sent after Release", n)
	}
}

// strictWriter counts what comes after its output was released.
type strictWriter struct {
	closed *atomic.Bool
	late   *atomic.Int64
	n      int
}

func (w *strictWriter) Queue(*netdev.Frame) {
	w.n++
	w.check()
}

func (w *strictWriter) Flush() {
	if w.n > 0 {
		w.check()
	}
	w.n = 0
}

func (w *strictWriter) check() {
	if w.closed.Load() {
		w.late.Add(1)
	}
}

func TestSystemClock(t *testing.T) {
	c := netdev.SystemClock()
	a := c.Now()
	done := make(chan struct{})
	c.AfterFunc(time.Millisecond, func() { close(done) })
	<-done
	if b := c.Now(); a < 0 || b-a < time.Millisecond {
		t.Errorf("from %v to %v", a, b)
	}
	stop := c.AfterFunc(time.Hour, func() {})
	if !stop() || stop() {
		t.Error("stop")
	}
}

// BenchmarkThread is the cost of a batch of 64 frames without input and output.
func BenchmarkThread(b *testing.B) {
	d := netdev.NewDomain(netdev.SystemClock())
	var closed atomic.Bool
	o := d.NewOutput(func() netdev.Writer { return &strictWriter{closed: &closed} })
	t := d.NewThread()
	f := netdev.NewFrame(make([]byte, 60))
	b.ReportAllocs()
	for b.Loop() {
		t.Begin()
		for range 64 {
			t.Queue(o, f)
		}
		t.End()
	}
}
