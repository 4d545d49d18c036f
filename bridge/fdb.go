package bridge

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// Flags of a row (BR_FDB_* in net/bridge/br_private.h; the values are our own).
const (
	fdbLocal          = 1 << iota // deliver to the bridge device
	fdbStatic                     // does not age
	fdbSticky                     // does not move when seen elsewhere
	fdbUser                       // made or touched by the control plane
	fdbExtLearned                 // belongs to an external agent; does not age
	fdbOffloaded                  // never set: for flush masks alone
	fdbNotify                     // activity is tracked
	fdbNotifyInactive             // and was found to have ceased
	fdbLocked                     // source of an unauthorised station (MAB)
	fdbLearned                    // counts in nLearned
)

// row is what the table holds of an address. Its fields are written with fdbMu
// held, except that the frame path stores updated and used without.
type row struct {
	dst   atomic.Pointer[Port] // nil is the bridge itself
	flags atomic.Uint32
	// updated is when the address was last seen as a source, used when it was
	// last a destination or touched by a user; both in ticks.
	updated, used atomic.Int64
}

type entry = fdb.Entry[row]

func key(mac uapi.MAC, vid uint16) fdb.Key { return fdb.Key{MAC: uint64(mac), Tag: uint32(vid)} }

func (r *row) has(flags uint32) bool { return r.flags.Load()&flags != 0 }

// change sets and clears flags and tells whether that changed anything. fdbMu is
// held.
func (r *row) change(set, clear uint32) bool {
	old := r.flags.Load()
	f := old&^clear | set
	r.flags.Store(f)
	return f != old
}

// state is the NUD_* that a row shows (fdb_to_nud).
func (b *Bridge) state(r *row, now ticks) uint16 {
	switch f := r.flags.Load(); {
	case f&fdbLocal != 0:
		return uapi.NUDPermanent
	case f&fdbStatic != 0:
		return uapi.NUDNoARP
	case f&fdbExtLearned == 0 && ticks(r.updated.Load()+b.hold.Load()) <= now:
		return uapi.NUDStale
	}
	return uapi.NUDReachable
}

// createRow adds a row that is not there yet. It returns nil where a learned row
// would be one too many. fdbMu is held.
func (b *Bridge) createRow(dst *Port, mac uapi.MAC, vid uint16, flags uint32) *entry {
	if flags&(fdbUser|fdbLocal) == 0 {
		if limit := b.maxLearned.Load(); limit != 0 && b.nLearned.Load() >= limit {
			return nil
		}
		flags |= fdbLearned
		b.nLearned.Add(1)
	}
	now := int64(b.now())
	e, _ := b.fdb.Insert(key(mac, vid), func(r *row) {
		r.dst.Store(dst)
		r.flags.Store(flags)
		r.updated.Store(now)
		r.used.Store(now)
	})
	return e
}

// unlearn takes a row out of the count of learned ones. fdbMu is held.
func (b *Bridge) unlearn(r *row) {
	if r.change(0, fdbLearned) {
		b.nLearned.Add(^uint32(0))
	}
}

// deleteRow removes a row and reports it (fdb_delete). fdbMu is held.
func (b *Bridge) deleteRow(e *entry) {
	if !b.fdb.Delete(e) {
		return
	}
	b.unlearn(&e.V)
	b.notifyRow(unix.RTM_DELNEIGH, e)
}

// notifyRow publishes the row as it is (fdb_notify). fdbMu is held.
func (b *Bridge) notifyRow(typ uint16, e *entry) {
	if !b.env.Notify.Wanted(unix.RTNLGRP_NEIGH) {
		return
	}
	b.msg = b.appendRow(b.msg[:0], e, b.now())
	b.env.Notify.Publish(notify.Change{Group: unix.RTNLGRP_NEIGH, Type: typ, Body: b.msg})
}

// appendRow adds the message of a row (fdb_fill_info): struct ndmsg and
// attributes.
func (b *Bridge) appendRow(buf []byte, e *entry, now ticks) []byte {
	r, k := &e.V, e.Key()
	f := r.flags.Load()
	m := uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(b.ifindex), State: b.state(r, now)}
	if p := r.dst.Load(); p != nil {
		m.Ifindex = int32(p.ifindex)
	}
	for _, c := range []struct {
		flag uint32
		ntf  uint8
	}{{fdbExtLearned, uapi.NTFExtLearned}, {fdbSticky, uapi.NTFSticky}} {
		if f&c.flag != 0 {
			m.Flags |= c.ntf
		}
	}
	buf = m.Append(buf)
	mac := uapi.MAC(k.MAC).Bytes()
	buf = nlattr.Append(buf, uapi.NDALLAddr, mac[:])
	buf = nlattr.AppendU32(buf, uapi.NDAMaster, uint32(b.ifindex))
	var ext uint32
	if f&fdbLocked != 0 {
		ext = uapi.NTFExtLocked
	}
	buf = nlattr.AppendU32(buf, uapi.NDAFlagsExt, ext)
	buf = appendCacheInfo(buf, age(now, ticks(r.used.Load())), age(now, ticks(r.updated.Load())))
	if k.Tag != 0 {
		buf = nlattr.AppendU16(buf, uapi.NDAVLAN, uint16(k.Tag))
	}
	if f&fdbNotify != 0 {
		v := uint8(activityNotify)
		if f&fdbNotifyInactive != 0 {
			v |= activityInactive
		}
		var mark int
		buf, mark = nlattr.Nest(buf, uapi.NDAFDBExtAttrs|nlattr.FlagNested)
		buf = nlattr.EndNest(nlattr.AppendU8(buf, uapi.NFEAActivityNotify, v), mark)
	}
	return buf
}

// appendCacheInfo adds NDA_CACHEINFO: struct nda_cacheinfo with ages in 1/100 s.
func appendCacheInfo(buf []byte, used, updated uint32) []byte {
	buf, mark := nlattr.Nest(buf, uapi.NDACacheInfo)
	for _, v := range []uint32{0, used, updated, 0} { // confirmed and refcnt are 0
		buf = appendNative32(buf, v)
	}
	return nlattr.EndNest(buf, mark)
}

// FDBGet returns the RTM_NEWNEIGH message of a row: struct ndmsg and attributes.
func (b *Bridge) FDBGet(mac uapi.MAC, vid uint16) (body []byte, ok bool) {
	e := b.fdb.Lookup(key(mac, vid))
	if e == nil {
		return nil, false
	}
	return b.appendRow(nil, e, b.now()), true
}

// FDBDump calls emit with the RTM_NEWNEIGH message of every row that points to
// p, nil being the bridge itself, newest first. The body is valid during the call
// only. Learning goes on meanwhile.
func (b *Bridge) FDBDump(p *Port, emit func(body []byte)) {
	var buf []byte
	var ends []int
	flush := func() {
		from := 0
		for _, to := range ends {
			emit(buf[from:to:to])
			from = to
		}
		buf, ends = buf[:0], ends[:0]
	}
	now := b.now()
	b.fdbMu.Lock()
	n := 0
	for e := range b.fdb.All() {
		if e.V.dst.Load() == p {
			buf = b.appendRow(buf, e, now)
			ends = append(ends, len(buf))
		}
		if n++; n%rowsPerHold == 0 {
			b.fdbMu.Unlock()
			flush()
			b.fdbMu.Lock()
		}
	}
	b.fdbMu.Unlock()
	flush()
}

// rowsPerHold is how many rows are walked before other writers get their turn.
// The table's walk stands writes between two of its steps.
const rowsPerHold = 1024

// eachRow calls f with every row, newest first, with fdbMu held but released now
// and then so that the frame path can learn. f may delete.
func (b *Bridge) eachRow(f func(e *entry)) {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	n := 0
	for e := range b.fdb.All() {
		f(e)
		if n++; n%rowsPerHold == 0 {
			b.fdbMu.Unlock()
			b.fdbMu.Lock()
		}
	}
}
