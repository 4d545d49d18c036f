// Package fake has in-memory stand-ins for what package netdev gets from the
// system: a clock that is moved by hand, queues that are filled by hand, and
// outputs and sockets that record what was sent. They need no privilege.
package fake

import (
	"slices"
	"sync"
	"time"

	"github.com/linkspan/linkspan/netdev"
)

// Clock is a netdev.Clock that stands still until Advance. The zero value is
// ready to use and shows 0.
type Clock struct {
	mu     sync.Mutex
	now    time.Duration
	timers []*timer // by time, those of one time in the order of their making
}

type timer struct {
	at time.Duration
	f  func()
}

var _ netdev.Clock = (*Clock)(nil)

// Now returns the time.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc has Advance call f once d has passed. A timer of no or negative
// duration is due with the next Advance, also with Advance(0).
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c.now + max(d, 0), f}
	i, _ := slices.BinarySearchFunc(c.timers, t, func(a, b *timer) int {
		if a.at <= b.at {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i < 0 {
			return false
		}
		c.timers = slices.Delete(c.timers, i, i+1)
		return true
	}
}

// Advance moves the clock by d. It runs the timers that become due meanwhile,
// those that they start among them, in order and each at its own time, in the
// calling goroutine. Two Advances must not run at once.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.now + d
	for len(c.timers) > 0 && c.timers[0].at <= end {
		t := c.timers[0]
		c.timers = slices.Delete(c.timers, 0, 1)
		c.now = max(c.now, t.at)
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	c.now = end
}

// Timers returns how many timers are waiting.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Next returns how long until the next timer is due; ok is false without timers.
func (c *Clock) Next() (d time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0].at - c.now, true
}
