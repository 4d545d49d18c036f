// Package fdb is the forwarding table of a bridge or a tunnel: a hash table that
// many threads read without a lock while one writer changes it.
//
// # How it works
//
// A Table is an open-addressing array of slots with linear probing. A slot is a
// 64-bit fingerprint and a pointer to a heap object, the Entry. A reader walks
// the slots from the key's home to the first empty one and looks into an entry
// only where the fingerprint is the key's. What makes that safe beside a writer:
//
//   - An entry never changes its slot within an array, and no slot between its
//     home and itself is empty as long as it is there. Deleting therefore leaves
//     a grave, except at the end of a run of slots (see slots.vacate).
//   - A table is resized by moving its entries to another array, a few slots a
//     write. An entry is in the new array before it leaves the old one, and
//     readers look into the old one first. See resize.go.
//   - A reader that found nothing looks whether the pair of arrays is still the
//     one it searched, and starts again if not.
//
// An entry that was deleted while a reader holds it stays valid memory: the
// garbage collector is the grace period.
//
// Entries are also on a list in the order of insertion, which is what dumps and
// flushes walk. The order of the slots, which would tell about the salt, is
// never seen from outside.
package fdb

import (
	"iter"
	"sync/atomic"
)

// Key is what an entry is found by.
type Key struct {
	// MAC is the Ethernet address in the low 48 bits, its first byte the most
	// significant. The upper 16 bits are zero.
	MAC uint64
	// Tag is the VLAN id or the VNI.
	Tag uint32
}

// Entry is one row of a Table. It is the same object from its insertion on, and
// a deleted one never comes back.
type Entry[V any] struct {
	// The key is in front so that comparing it and using V touch one cache line.
	mac    uint64
	tag    uint32
	linked atomic.Bool

	// V is the caller's. Readers see what Insert's init function left in it;
	// whatever is changed later needs the caller's own atomics.
	V V

	newer, older *Entry[V] // see list
}

// Key returns what the entry is found by. It never changes.
func (e *Entry[V]) Key() Key { return Key{MAC: e.mac, Tag: e.tag} }

// Linked reports whether the entry is in its table: false once it was deleted.
// Any goroutine may call it.
func (e *Entry[V]) Linked() bool { return e.linked.Load() }

func (e *Entry[V]) is(k Key) bool { return e.mac == k.MAC && e.tag == k.Tag }

// Options change how New makes a table. The zero value is the ordinary choice.
type Options struct {
	// Salt is called a few times for the secret words of the hash. Tests set it
	// to know them; nil takes them from crypto/rand.
	Salt func() uint64
}

// Table maps Keys to Entries. Lookup and Len are for any goroutine at any time.
// Everything else is for one goroutine at a time: the caller has the lock.
type Table[V any] struct {
	// What readers need. It changes only where a resize starts or ends.
	salt salt
	view atomic.Pointer[view[V]]
	// The padding keeps what every write changes off the readers' cache line.
	_ [64]byte

	live   atomic.Int64 // entries; only the writer changes it
	list   list[V]
	resize resize[V]
}

// view is the arrays that entries are in. A view does not change: the next one
// replaces it.
type view[V any] struct {
	cur *slots[V]
	// old is the array that cur is being filled from, nil most of the time.
	old *slots[V]
}

// New makes an empty table.
func New[V any](o Options) *Table[V] {
	t := &Table[V]{salt: newSalt(o.Salt)}
	s := newSlots[V](minSlots)
	for !s.extend() {
	}
	t.view.Store(&view[V]{cur: s})
	return t
}

// Lookup returns the entry of k, nil if there is none. It takes no lock and does
// not allocate. An entry that is in the table from the call to the return is
// always found.
func (t *Table[V]) Lookup(k Key) *Entry[V] {
	fp := t.salt.fingerprint(k)
	for {
		v := t.view.Load()
		// An entry that has left old is in cur by then, so this order sees it.
		if v.old != nil {
			if e := v.old.find(fp, k); e != nil {
				return e
			}
		}
		if e := v.cur.find(fp, k); e != nil {
			return e
		}
		// If a resize ended and the next one began meanwhile, the entry may have
		// gone on from cur. A view takes many writes to change, so this loop is
		// short.
		if t.view.Load() == v {
			return nil
		}
	}
}

// Insert returns the entry of k and whether it made it. Of a new entry init,
// which may be nil, sets V before any reader can see it; if init panics the
// entry is not inserted. An entry that was there is returned as it is. Init must
// not write to the table.
func (t *Table[V]) Insert(k Key, init func(*V)) (e *Entry[V], created bool) {
	if e := t.Lookup(k); e != nil {
		return e, false
	}
	e = &Entry[V]{mac: k.MAC, tag: k.Tag}
	if init != nil {
		init(&e.V)
	}
	t.advance()
	e.linked.Store(true)
	t.list.push(e)
	t.view.Load().cur.put(t.salt.fingerprint(k), e)
	t.live.Add(1)
	return e, true
}

// Delete takes e out. It returns false if e is not in the table, which includes
// nil.
func (t *Table[V]) Delete(e *Entry[V]) bool {
	if e == nil || !e.Linked() {
		return false
	}
	s, i, ok := t.locate(e)
	if !ok {
		return false // of another table
	}
	s.vacate(i)
	t.list.remove(e)
	e.linked.Store(false)
	t.live.Add(-1)
	t.advance()
	return true
}

// locate returns the array and the slot that e is in.
func (t *Table[V]) locate(e *Entry[V]) (s *slots[V], i uint64, ok bool) {
	fp, v := t.salt.fingerprint(e.Key()), t.view.Load()
	if v.old != nil {
		if i, ok := v.old.locate(fp, e); ok {
			return v.old, i, true
		}
	}
	i, ok = v.cur.locate(fp, e)
	return v.cur, i, ok
}

// Len returns the number of entries.
func (t *Table[V]) Len() int { return int(t.live.Load()) }

// All iterates over the entries, the one inserted last first. The loop may
// insert and may delete any entry, the current one included: entries deleted
// before their turn and entries inserted since the start do not come, all others
// come once. It is for the writer, and no part of the loop may run beside another
// write.
func (t *Table[V]) All() iter.Seq[*Entry[V]] { return t.list.all() }
