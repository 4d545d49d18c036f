package bridge

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/uapi"
)

const newNeigh = unix.RTM_NEWNEIGH

// learn takes note that a frame with that source came in on the port
// (br_fdb_update). A source that is where it was costs one lookup and, at most
// once a tick, one store; everything else goes through fdbMu.
func (b *Bridge) learn(in *portView, src uapi.MAC, now ticks, flags uint32) {
	if b.hold.Load() == 0 {
		return
	}
	e := b.fdb.Lookup(key(src, 0))
	if e != nil {
		f := e.V.flags.Load()
		if f&fdbLocal != 0 {
			b.drops.OwnSource.Add(1)
			return
		}
		moves := f&fdbSticky == 0 && e.V.dst.Load() != in.p
		awakes := f&(fdbNotify|fdbNotifyInactive) == fdbNotify|fdbNotifyInactive
		if !moves && !awakes {
			if e.V.updated.Load() != int64(now) {
				e.V.updated.Store(int64(now))
			}
			return
		}
	} else if limit := b.maxLearned.Load(); limit != 0 && b.nLearned.Load() >= limit {
		// A full table must not make every frame of every stranger wait for fdbMu.
		return
	}
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	// The port may have gone out of service since the view was read, and its rows
	// with it. This one must not come after that.
	if pv := in.p.view.Load(); pv != nil && (pv.state == stateLearning || pv.state == stateForwarding) {
		b.learnLocked(in.p, src, flags)
	}
}

// learnLocked is br_fdb_update in full; flags are those of a new row. fdbMu is
// held.
func (b *Bridge) learnLocked(p *Port, src uapi.MAC, flags uint32) {
	if b.hold.Load() == 0 {
		return
	}
	e := b.fdb.Lookup(key(src, 0))
	if e == nil {
		if e = b.createRow(p, src, 0, flags); e != nil {
			b.notifyRow(newNeigh, e)
		}
		return
	}
	r := &e.V
	if r.has(fdbLocal) {
		return
	}
	modified := false
	if now := int64(b.now()); r.updated.Load() != now {
		r.updated.Store(now)
		modified = r.has(fdbNotify) && r.change(0, fdbNotifyInactive)
	}
	if r.dst.Load() != p && !r.has(fdbSticky) {
		r.dst.Store(p)
		r.change(0, fdbExtLearned|fdbLocked)
		modified = true
	}
	if flags&fdbUser != 0 {
		r.change(fdbUser, 0)
		b.unlearn(r)
	}
	if modified {
		b.notifyRow(newNeigh, e)
	}
}

// admit decides about a frame on a locked port (BR_PORT_LOCKED): its source must
// have a row that points to this port and is itself not locked. With MAB an unknown
// source gets a locked row, which tells the control plane about it.
func (b *Bridge) admit(in *portView, src uapi.MAC, now ticks) bool {
	e := b.fdb.Lookup(key(src, 0))
	switch {
	case e == nil:
		if in.flags&portMAB != 0 {
			b.learn(in, src, now, fdbLocked)
		}
		return false
	case e.V.dst.Load() != in.p || e.V.has(fdbLocal):
		return false
	case e.V.has(fdbLocked):
		if in.flags&portMAB != 0 {
			b.learn(in, src, now, fdbLocked)
		}
		return false
	}
	return true
}
