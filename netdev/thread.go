package netdev

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a Reader returns once it was closed.
var ErrClosed = errors.New("netdev: closed")

// Reader is one receive queue of a device.
type Reader interface {
	// NewBatch makes a batch of the size this queue reads well with.
	NewBatch() *Batch
	// Read waits for at least one frame and fills b with what is there. It
	// returns ErrClosed after Close, and other errors where the device is gone;
	// an error ends the thread that reads.
	Read(b *Batch) error
	// Close makes Read return. It may be called from any goroutine, once.
	Close() error
}

// Writer sends frames of one Thread to one Output.
type Writer interface {
	// Queue takes f for the next Flush. Neither f nor its bytes may change
	// before that.
	Queue(f *Frame)
	// Flush sends what is queued. What the device does not take is dropped and
	// counted on the device's side.
	Flush()
}

// Handler decides about the frames of a batch: it queues each to outputs or
// drops it. It runs on one thread at a time for each Reader, on many for all.
type Handler interface {
	Input(t *Thread, frames []Frame)
}

// Output is a way out of the frame path. It hands every Thread a Writer of its
// own.
type Output struct {
	open     func() Writer
	release  func() // may be nil
	id       int
	d        *Domain
	released bool // guarded by d.mu
}

// Thread is one locked OS thread that reads a queue and runs its frames to
// completion. All its methods are for the Handler that it calls.
type Thread struct {
	// Now is the clock's time at the start of the batch.
	Now time.Duration

	d       *Domain
	writers []slot
	dirty   []int // ids of outputs with queued frames
	// busy is odd while a batch is worked on: see Domain.Synchronize.
	busy atomic.Uint64
}

type slot struct {
	out *Output
	w   Writer
	set bool // in dirty
}

// Queue sends f out by o at the end of the batch.
func (t *Thread) Queue(o *Output, f *Frame) { t.Writer(o).Queue(f) }

// Writer returns the thread's Writer for o and makes sure that it is flushed at
// the end of the batch.
func (t *Thread) Writer(o *Output) Writer {
	if o.id >= len(t.writers) || t.writers[o.id].out != o {
		t.open(o)
	}
	s := &t.writers[o.id]
	if !s.set {
		s.set = true
		t.dirty = append(t.dirty, o.id)
	}
	return s.w
}

// open is the slow path of Writer: the first frame to an output.
func (t *Thread) open(o *Output) {
	for o.id >= len(t.writers) {
		t.writers = append(t.writers, slot{})
	}
	if t.writers[o.id].set {
		// The slot's former output is gone but frames for it are queued.
		t.Flush()
	}
	t.writers[o.id] = slot{out: o, w: o.open()}
}

// Flush sends everything queued so far. The frames may be changed afterwards.
func (t *Thread) Flush() {
	for _, id := range t.dirty {
		s := &t.writers[id]
		s.w.Flush()
		s.set = false
	}
	t.dirty = t.dirty[:0]
}

// Clock tells monotonic time since some fixed moment. Devices take it as an
// interface so that tests can move it.
type Clock interface {
	Now() time.Duration
	// AfterFunc calls f in its own goroutine once d has passed, unless the
	// returned function was called before; that function reports whether it
	// came in time.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Domain is a set of threads that share outputs, and the grace period among
// them. One network namespace has one Domain.
type Domain struct {
	clock Clock

	mu      sync.Mutex
	threads map[*Thread]struct{}
	free    []int // ids of outputs that are gone
	next    int
	wg      sync.WaitGroup
}

// NewDomain makes a Domain without threads.
func NewDomain(clock Clock) *Domain {
	return &Domain{clock: clock, threads: map[*Thread]struct{}{}}
}

// NewOutput registers a way out; open makes the Writer of one thread.
func (d *Domain) NewOutput(open func() Writer) *Output {
	return d.NewOwningOutput(open, nil)
}

// NewOwningOutput is NewOutput for an output that owns something: Release calls
// release, if not nil, once no thread uses the output any more.
func (d *Domain) NewOwningOutput(open func() Writer, release func()) *Output {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := &Output{open: open, release: release, d: d}
	if n := len(d.free); n > 0 {
		o.id, d.free = d.free[n-1], d.free[:n-1]
	} else {
		o.id = d.next
		d.next++
	}
	return o
}

// Release forgets the output. The caller has unpublished it; when Release
// returns no thread uses it any more and its descriptors may be closed. Further
// calls do nothing. It must not be called from a Handler.
func (o *Output) Release() {
	o.d.mu.Lock()
	again := o.released
	o.released = true
	o.d.mu.Unlock()
	if again {
		return
	}
	o.d.Synchronize()
	o.d.mu.Lock()
	o.d.free = append(o.d.free, o.id)
	o.d.mu.Unlock()
	if o.release != nil {
		o.release()
	}
}

// NewThread makes a thread without a goroutine, for tests and for frames that
// the control plane sends. Between Begin and End it counts as working.
func (d *Domain) NewThread() *Thread {
	t := &Thread{d: d}
	d.mu.Lock()
	d.threads[t] = struct{}{}
	d.mu.Unlock()
	return t
}

// Begin starts a batch: what the thread reads from published state from now on
// stays valid until End.
func (t *Thread) Begin() {
	t.Now = t.d.clock.Now()
	t.busy.Add(1)
}

// End flushes and ends the batch.
func (t *Thread) End() {
	t.Flush()
	t.busy.Add(1)
}

// Start runs a thread that reads r and hands its batches to h until r ends.
// ended, if not nil, is called with the reason after the last batch; it must not
// wait for the Domain.
func (d *Domain) Start(r Reader, h Handler, ended func(error)) {
	t := d.NewThread()
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		b := r.NewBatch()
		err := r.Read(b)
		for ; err == nil; err = r.Read(b) {
			t.Begin()
			h.Input(t, b.Frames)
			t.End()
		}
		d.mu.Lock()
		delete(d.threads, t)
		d.mu.Unlock()
		if ended != nil {
			ended(err)
		}
	}()
}

// Synchronize waits until every thread that is in a batch now has ended it:
// what was unpublished before the call is unused after it. It must not be called
// from a Handler.
func (d *Domain) Synchronize() {
	d.mu.Lock()
	type seen struct {
		t *Thread
		n uint64
	}
	var busy []seen
	for t := range d.threads {
		if n := t.busy.Load(); n&1 == 1 {
			busy = append(busy, seen{t, n})
		}
	}
	d.mu.Unlock()
	for _, s := range busy {
		for s.t.busy.Load() == s.n {
			runtime.Gosched()
		}
	}
}

// Wait waits until all threads that Start made have ended; their readers must
// have been closed.
func (d *Domain) Wait() { d.wg.Wait() }
