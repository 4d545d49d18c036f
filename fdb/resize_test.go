package fdb

import (
	"math/rand/v2"
	"testing"
)

// work is what there is of resizing, to see how much of it one write does.
type work struct {
	size   int // slots of all arrays
	left   int
	chunks int
}

func (t *Table[V]) work() work {
	v, w := t.view.Load(), work{left: t.resize.left}
	for _, s := range []*slots[V]{v.cur, v.old, t.resize.next} {
		if s != nil {
			w.size += s.size()
			w.chunks += s.made
		}
	}
	return w
}

// No write moves more than moveSlots slots or makes more than one chunk, from
// nothing to sizes of many chunks and back.
func TestWritesAreBounded(t *testing.T) {
	const n = 50_000
	tab := New[int](Options{Salt: counter(3)})
	before := tab.work()
	after := func() {
		t.Helper()
		now := tab.work()
		if before.left > 0 && before.left-now.left > moveSlots {
			t.Fatalf("one write moved %d slots", before.left-now.left)
		}
		if now.chunks > before.chunks+1 {
			t.Fatalf("one write made %d chunks", now.chunks-before.chunks)
		}
		before = now
	}
	for mac := range uint64(n) {
		mustInsert(t, tab, Key{MAC: mac})
		after()
		if mac%9973 == 0 {
			check(t, tab)
		}
	}
	check(t, tab)
	if before.size > 4*n {
		t.Errorf("%d slots for %d entries", before.size, n)
	}
	for mac := range uint64(n) {
		mustDelete(t, tab, Key{MAC: mac})
		after()
		if mac%9973 == 0 {
			check(t, tab)
		}
	}
	check(t, tab)
	// Each time it is halved the table is a few writes late.
	if size := tab.view.Load().cur.size(); size > 1024 {
		t.Errorf("%d slots are left in an empty table", size)
	}
	for mac := range uint64(200) {
		mustInsert(t, tab, Key{MAC: mac})
		after()
		mustDelete(t, tab, Key{MAC: mac})
		after()
	}
	check(t, tab)
	if size := tab.view.Load().cur.size(); size != minSlots {
		t.Errorf("%d slots are left after more writes", size)
	}
}

// A table that replaces its entries over and over neither grows nor shrinks: the
// graves are cleaned away.
func TestChurnKeepsSize(t *testing.T) {
	for _, n := range []int{1, 5, 100, 1000, 3000} {
		tab := New[int](Options{Salt: counter(5)})
		mac := uint64(0)
		for ; mac < uint64(n); mac++ {
			mustInsert(t, tab, Key{MAC: mac})
		}
		largest := 0
		for range 20*n + 1000 {
			mustDelete(t, tab, Key{MAC: mac - uint64(n)})
			mustInsert(t, tab, Key{MAC: mac})
			mac++
			largest = max(largest, tab.view.Load().cur.size())
		}
		check(t, tab)
		if largest > max(4*n, minSlots) {
			t.Errorf("%d entries came to have %d slots", n, largest)
		}
	}
}

// Deleting what is still in the old array, what was moved, and inserting it
// again, at every point of a move.
func TestWritesDuringMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	tab := New[int](Options{Salt: counter(9)})
	mac := uint64(0)
	for moves := 0; moves < 9; mac++ {
		mustInsert(t, tab, Key{MAC: mac})
		if tab.resize.left == 0 {
			continue
		}
		for moves++; tab.resize.left > 0; {
			k := Key{MAC: rng.Uint64N(mac + 1)}
			if e := tab.Lookup(k); e != nil {
				tab.Delete(e)
			} else {
				mustInsert(t, tab, k)
			}
			if moves < 7 || tab.resize.left%512 == 0 {
				check(t, tab)
			}
		}
		for m := range mac {
			tab.Insert(Key{MAC: m}, nil)
		}
	}
}

// The old array is empty when it is given up, and without it nothing is lost.
func TestMoveEmptiesOld(t *testing.T) {
	tab := New[int](Options{Salt: counter(11)})
	mac := uint64(0)
	for range 6 {
		for tab.resize.left == 0 {
			mustInsert(t, tab, Key{MAC: mac})
			mac++
		}
		old := tab.view.Load().old
		for tab.resize.left > 0 {
			mustInsert(t, tab, Key{MAC: mac})
			mac++
		}
		if n := old.check(t, &tab.salt); n != 0 || old.used != 0 {
			t.Errorf("the old array of %d slots has %d entries, %d slots in use", old.size(), n, old.used)
		}
		check(t, tab)
	}
}
