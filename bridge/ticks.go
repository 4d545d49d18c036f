package bridge

import (
	"math"
	"time"
)

// tick is the kernel's jiffy with CONFIG_HZ=250. Times are kept in ticks, not in
// nanoseconds, because scripts can see it: a centisecond value that is no whole
// number of ticks reads back rounded, and ages on the wire are whole ticks too.
const tick = 4 * time.Millisecond

const second = ticks(time.Second / tick)

// ticks is a point in time or an interval in units of tick.
type ticks int64

func ticksOf(d time.Duration) ticks { return ticks(d / tick) }

// fromCS turns a wire value in 1/100 s into ticks as clock_t_to_jiffies does,
// its overflow included.
func fromCS(v uint64) ticks {
	if v >= math.MaxUint64/250*100 {
		return ticks(-1) // ~0UL
	}
	return ticks(v * 250 / 100)
}

// cs turns ticks into the wire's 1/100 s as jiffies_to_clock_t does.
func (t ticks) cs() uint64 {
	return uint64(t) * uint64(tick) / uint64(10*time.Millisecond)
}

// duration is the interval as a time.Duration, the largest there is where it
// does not fit.
func (t ticks) duration() time.Duration {
	if t < 0 || t > ticks(math.MaxInt64/tick) {
		return math.MaxInt64
	}
	return time.Duration(t) * tick
}

// clamp limits t, read as unsigned, to lo..hi.
func (t ticks) clamp(lo, hi ticks) ticks {
	return ticks(min(max(uint64(t), uint64(lo)), uint64(hi)))
}

// age is how long ago then was, in 1/100 s.
func age(now, then ticks) uint32 { return uint32(max(now-then, 0).cs()) }

// timer is a one-shot timer whose function runs with the RTNL lock held. All its
// methods are for holders of that lock. The zero value is a stopped timer.
type timer struct {
	stop func() bool
	at   ticks
	// gen tells a timer that fired but had to wait for the lock that it was
	// stopped or set anew meanwhile.
	gen     uint64
	pending bool
}

// set makes f run after d, as mod_timer does.
func (tm *timer) set(b *Bridge, d ticks, f func()) {
	tm.cancel()
	tm.gen++
	gen := tm.gen
	tm.pending = true
	tm.at = b.now() + d
	tm.stop = b.env.Clock.AfterFunc(d.duration(), func() {
		b.env.Hooks.Lock()
		defer b.env.Hooks.Unlock()
		if tm.gen != gen || !tm.pending {
			return
		}
		tm.pending = false
		f()
	})
}

// cancel stops the timer. Its function does not run any more.
func (tm *timer) cancel() {
	if tm.pending {
		tm.pending = false
		tm.stop()
	}
}

// left is the time to its expiry in 1/100 s, 0 if it is not running
// (br_timer_value).
func (tm *timer) left(now ticks) uint64 {
	if !tm.pending {
		return 0
	}
	return max(tm.at-now, 0).cs()
}
