package fdb

// moveSlots is how many slots of the old array one write moves: four cache lines
// in a row. A move of an array of n slots thus takes n/16 writes, and at most
// that many entries join those it moves; that is what plan's sizes allow for.
const moveSlots = 16

// resize is where the writer is with changing the array, in three stages.
//
//  1. While next is set its chunks are allocated, one a write. Readers do not
//     know of it.
//  2. While left is not 0 the view has two arrays. New entries go to cur, and
//     every write moves moveSlots slots of old to it.
//  3. Else there is nothing to do, and plan watches the load.
//
// Old is walked backwards and from behind an empty slot. So the slot behind the
// one that is moved is always empty, and the one that is moved becomes empty too:
// old has no graves from moving, and in the part that is done a reader finds an
// empty slot at once.
type resize[V any] struct {
	next *slots[V]
	pos  uint64 // the slot of old that was moved last
	left int    // slots of old that are to be moved
}

// advance does one write's share of resizing. It runs before the write of an
// insert, so that there is room for it, and may change the view.
func (t *Table[V]) advance() {
	r, v := &t.resize, t.view.Load()
	switch {
	case v.old != nil:
		t.move(v)
		return
	case r.next == nil:
		size := t.plan(v.cur)
		if size == 0 {
			return
		}
		r.next = newSlots[V](size)
	}
	if r.next.extend() {
		t.startMove(v.cur, r.next)
		r.next = nil
	}
}

// plan returns the size of the array that should replace cur, 0 to leave it.
//
// Three quarters of the slots may be in use. Where too many are, the next array
// is twice as large if at least half of the slots have entries, and of the same
// size if graves are the reason. A table with less than one entry in eight slots
// is halved. So what is moved fills at most half of the next array, and with what
// is inserted during the move at most 9/16 of it; and a table does not swing
// between two sizes.
func (t *Table[V]) plan(cur *slots[V]) int {
	size, live := cur.size(), t.Len()
	switch {
	case cur.used >= size/4*3 && live >= size/2:
		return size * 2
	case cur.used >= size/4*3:
		return size
	case live < size/8 && size > minSlots:
		return size / 2
	}
	return 0
}

// startMove shows readers the two arrays.
func (t *Table[V]) startMove(old, cur *slots[V]) {
	// A quarter of the slots is empty, so the first one is not far.
	t.resize.pos = 0
	for old.at(t.resize.pos).fp.Load() != empty {
		t.resize.pos++
	}
	t.resize.left = old.size()
	t.view.Store(&view[V]{cur: cur, old: old})
}

// move takes the next slots of v.old, and leaves the old array to the garbage
// collector after the last.
func (t *Table[V]) move(v *view[V]) {
	r := &t.resize
	for range min(moveSlots, r.left) {
		r.pos = (r.pos - 1) & v.old.mask
		r.left--
		sl := v.old.at(r.pos)
		if fp := sl.fp.Load(); fp != empty {
			// Not a grave, since the slot behind is empty.
			v.cur.put(fp, sl.entry.Load())
			v.old.vacate(r.pos)
		}
	}
	if r.left == 0 {
		t.view.Store(&view[V]{cur: v.cur})
	}
}
