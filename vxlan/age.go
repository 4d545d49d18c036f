package vxlan

import (
	"time"

	"github.com/linkspan/linkspan/uapi"
)

// gcInterval is FDB_AGE_INTERVAL: how long after coming up, and then how often,
// a device looks for entries that are too old.
const gcInterval = 10 * time.Second

// ager is the ageing timer of a device. Its fields belong to Device.mu.
type ager struct {
	stop func() bool
	// run counts the timer's settings: a run that was overtaken by another does
	// nothing.
	run uint64
}

// armGC sets the timer anew. d.mu is held.
func (d *Device) armGC(after time.Duration) {
	d.disarmGC()
	run := d.gc.run
	d.gc.stop = d.env.Clock.AfterFunc(after, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.gc.run == run && d.running {
			d.armGC(d.age())
		}
	})
}

// disarmGC stops the timer. d.mu is held.
func (d *Device) disarmGC() {
	d.gc.run++
	if d.gc.stop != nil {
		d.gc.stop()
		d.gc.stop = nil
	}
}

// age removes what is too old and returns when to look again: in gcInterval, or
// earlier if an entry ends before that (vxlan_cleanup). d.mu is held.
func (d *Device) age() time.Duration {
	now := d.env.Clock.Now()
	next := gcInterval
	limit := time.Duration(d.ageing) * time.Second
	for e := range d.table.All() {
		if e.V.state()&(uapi.NUDPermanent|uapi.NUDNoARP) != 0 || e.V.flags()&uapi.NTFExtLearned != 0 {
			continue
		}
		left := time.Duration(e.V.updated.Load()) + limit - now
		if left > 0 {
			next = min(next, left)
			continue
		}
		// The notification shows what became of it.
		e.V.setMeta(uapi.NUDStale, e.V.flags())
		d.destroy(e)
	}
	return next
}
