package fdb

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// readTime is how long each of the tests here runs.
const readTime = 400 * time.Millisecond

// row is a value that readers can check: it has the key that it was made for.
type row struct {
	key  Key
	seen atomic.Uint64
}

// stable keys are in the table during all of a test, passing ones come and go.
func stable(i uint64) Key  { return Key{MAC: i, Tag: 1} }
func passing(i uint64) Key { return Key{MAC: i, Tag: 2} }

// withReaders runs write while readers look up stable keys, which they must find,
// passing ones, which must be right if they are found, and keys that never are.
func withReaders(t *testing.T, stables int, write func(tab *Table[row], deadline time.Time)) {
	tab := New[row](Options{})
	insert := func(k Key) *Entry[row] {
		e, _ := tab.Insert(k, func(r *row) { r.key = k })
		return e
	}
	entries := make([]*Entry[row], stables)
	for i := range entries {
		entries[i] = insert(stable(uint64(i)))
	}
	var stop atomic.Bool
	var lookups atomic.Uint64
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(51, uint64(reader)))
			n := uint64(0)
			for ; !stop.Load(); n++ {
				i := rng.Uint64N(uint64(stables))
				e := tab.Lookup(stable(i))
				if e != entries[i] || e.V.key != stable(i) || !e.Linked() {
					t.Errorf("lookup %d of stable key %d: %p, want %p", n, i, e, entries[i])
					break
				}
				e.V.seen.Store(n)
				k := passing(rng.Uint64N(1 << 13))
				if e := tab.Lookup(k); e != nil && (e.Key() != k || e.V.key != k) {
					t.Errorf("lookup of %v found %v with value of %v", k, e.Key(), e.V.key)
					break
				}
				if e := tab.Lookup(Key{MAC: i, Tag: 3}); e != nil {
					t.Errorf("found %v, which was never inserted", e.Key())
					break
				}
				if tab.Len() < stables {
					t.Errorf("Len = %d with %d stable entries", tab.Len(), stables)
					break
				}
			}
			lookups.Add(n)
		})
	}
	write(tab, time.Now().Add(readTime))
	stop.Store(true)
	wg.Wait()
	check(t, tab)
	t.Logf("%d rounds of lookups", lookups.Load())
}

// The table grows to many times its size and shrinks back, over and over.
func TestReadersDuringGrowthAndShrink(t *testing.T) {
	for _, stables := range []int{1, 10, 500} {
		withReaders(t, stables, func(tab *Table[row], deadline time.Time) {
			for rounds := uint64(1); time.Now().Before(deadline); rounds++ {
				n := uint64(stables) << (rounds%4 + 1)
				for i := range n {
					k := passing(i)
					tab.Insert(k, func(r *row) { r.key = k })
				}
				if rounds%2 == 0 {
					for i := range n {
						tab.Delete(tab.Lookup(passing(i)))
					}
					continue
				}
				for e := range tab.All() {
					if e.Key().Tag == 2 {
						tab.Delete(e)
					}
				}
			}
		})
	}
}

// Entries are replaced at a size where no growth is due, so that graves are
// filled again and arrays are replaced by others of the same size.
func TestReadersDuringChurn(t *testing.T) {
	for _, passings := range []uint64{1, 20, 700} {
		withReaders(t, 300, func(tab *Table[row], deadline time.Time) {
			rng := rand.New(rand.NewPCG(61, passings))
			for i := uint64(0); i&63 != 0 || time.Now().Before(deadline); i++ {
				k := passing(rng.Uint64N(2 * passings))
				if e := tab.Lookup(k); e != nil {
					tab.Delete(e)
				} else {
					tab.Insert(k, func(r *row) { r.key = k })
				}
			}
		})
	}
}

// The same few keys share a run of slots and are deleted and inserted in turn:
// slots become graves, empty and full again under the readers' eyes.
func TestReadersInOneRun(t *testing.T) {
	tab := New[row](Options{Salt: counter(71)})
	keys := keysAtHome(&tab.salt, minSlots, minSlots-2, 8)
	set := func(k Key) func(*row) { return func(r *row) { r.key = k } }
	for _, k := range keys {
		tab.Insert(k, set(k))
	}
	last := tab.Lookup(keys[7])
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if e := tab.Lookup(keys[7]); e != last {
					t.Errorf("stable key behind the run: %p, want %p", e, last)
					return
				}
				k := keys[i%7]
				if e := tab.Lookup(k); e != nil && (e.Key() != k || e.V.key != k) {
					t.Errorf("lookup of %v found %v", k, e.Key())
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(72, 73))
	for deadline := time.Now().Add(readTime); time.Now().Before(deadline); {
		k := keys[rng.IntN(7)]
		if e := tab.Lookup(k); e != nil {
			tab.Delete(e)
		} else {
			tab.Insert(k, set(k))
		}
	}
	stop.Store(true)
	wg.Wait()
	check(t, tab)
}
