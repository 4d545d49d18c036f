package bridge

import "github.com/linkspan/linkspan/netdev"

// minGCDelay is the least time between two runs, 10 ms.
const minGCDelay = ticks(3)

// collector is the worker that deletes expired rows. Like the kernel's it needs no
// RTNL lock. Its fields are under fdbMu.
type collector struct {
	stop    func() bool
	at      ticks
	gen     uint64
	pending bool
	closed  bool
}

// schedule makes the worker run after d, whatever was planned (mod_delayed_work).
func (g *collector) schedule(clock netdev.Clock, d ticks, run func()) {
	g.cancel()
	if g.closed {
		return
	}
	g.pending = true
	g.at = ticksOf(clock.Now()) + d
	g.stop = clock.AfterFunc(d.duration(), run)
}

func (g *collector) cancel() {
	g.gen++
	if g.pending {
		g.pending = false
		g.stop()
	}
}

func (g *collector) close() {
	g.cancel()
	g.closed = true
}

// scheduleGC makes the worker run after d.
func (b *Bridge) scheduleGC(d ticks) {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	b.scheduleGCLocked(d)
}

func (b *Bridge) scheduleGCLocked(d ticks) {
	gen := b.gc.gen + 1 // what cancel makes of it
	b.gc.schedule(b.env.Clock, d, func() { b.runGC(gen) })
}

// gcLeft is IFLA_BR_GC_TIMER in 1/100 s.
func (b *Bridge) gcLeft(now ticks) uint64 {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	if !b.gc.pending {
		return 0
	}
	return max(b.gc.at-now, 0).cs()
}

// runGC is one run of the worker (br_fdb_cleanup). It deletes what has expired,
// reports tracked rows that went quiet, and plans the next run for the earliest
// expiry.
func (b *Bridge) runGC(gen uint64) {
	b.fdbMu.Lock()
	if b.gc.gen != gen || !b.gc.pending {
		b.fdbMu.Unlock()
		return
	}
	b.gc.pending = false
	b.fdbMu.Unlock()

	hold := ticks(b.hold.Load())
	next, now := hold, b.now()
	b.eachRow(func(e *entry) {
		left := ticks(e.V.updated.Load()) + hold - now
		f := e.V.flags.Load()
		switch {
		case f&(fdbStatic|fdbExtLearned) != 0 && f&fdbNotify == 0:
		case left > 0:
			next = min(next, left)
		case f&(fdbStatic|fdbExtLearned) == 0:
			b.deleteRow(e)
		case f&fdbNotifyInactive == 0:
			e.V.change(fdbNotifyInactive, 0)
			b.notifyRow(newNeigh, e)
		}
	})

	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	if b.gc.gen == gen && !b.gc.pending {
		b.scheduleGCLocked(max(next, minGCDelay))
	}
}
