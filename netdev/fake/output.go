package fake

import (
	"sync"
	"time"

	"github.com/linkspan/linkspan/netdev"
)

// Output records the frames that are sent to it.
type Output struct {
	out *netdev.Output
	rec recorder[Packet]
}

// NewOutput makes an Output for the threads of d.
func NewOutput(d *netdev.Domain) *Output {
	o := &Output{}
	o.out = d.NewOutput(func() netdev.Writer { return &writer{o: o} })
	return o
}

// Out returns what frames are queued to.
func (o *Output) Out() *netdev.Output { return o.out }

// Egress returns the Output as a bridge port's or a tunnel's egress.
func (o *Output) Egress() netdev.Egress { return netdev.OutputEgress{Output: o.out} }

// Frames returns copies of the frames that were sent so far.
func (o *Output) Frames() []Packet { return o.rec.get(false) }

// Take returns the frames that were sent since the last Take.
func (o *Output) Take() []Packet { return o.rec.get(true) }

// Wait waits until n frames were sent and reports false if that takes longer
// than timeout.
func (o *Output) Wait(n int, timeout time.Duration) bool { return o.rec.wait(n, timeout) }

// writer records at Flush, so that whoever changes a queued frame is found out.
type writer struct {
	o      *Output
	queued []*netdev.Frame
}

func (w *writer) Queue(f *netdev.Frame) { w.queued = append(w.queued, f) }

func (w *writer) Flush() {
	for _, f := range w.queued {
		w.o.rec.add(Packet{append([]byte(nil), f.Data...), f.Hdr, f.Meta})
	}
	w.queued = w.queued[:0]
}

// recorder is a list that goroutines add to.
type recorder[T any] struct {
	mu   sync.Mutex
	list []T
	wake chan struct{} // closed at the next add, nil if nobody waits
}

func (r *recorder[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, v)
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

func (r *recorder[T]) get(take bool) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := append([]T(nil), r.list...)
	if take {
		r.list = nil
	}
	return l
}

func (r *recorder[T]) wait(n int, timeout time.Duration) bool {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		r.mu.Lock()
		if len(r.list) >= n {
			r.mu.Unlock()
			return true
		}
		if r.wake == nil {
			r.wake = make(chan struct{})
		}
		wake := r.wake
		r.mu.Unlock()
		select {
		case <-wake:
		case <-t.C:
			return false
		}
	}
}
