package fdb

import (
	"fmt"
	"iter"
	"slices"
	"testing"
)

func TestKeys(t *testing.T) {
	keys := []Key{
		{}, {MAC: 1}, {Tag: 1}, {MAC: 1, Tag: 1}, {MAC: 1, Tag: 4095}, {MAC: 4095, Tag: 1},
		{MAC: 1<<48 - 1}, {Tag: 1<<32 - 1}, {MAC: 1<<48 - 1, Tag: 1<<32 - 1}, {MAC: 1 << 32}, {MAC: 1 << 47, Tag: 1 << 31},
	}
	tab := New[Key](Options{})
	for i, k := range keys {
		if e := tab.Lookup(k); e != nil {
			t.Errorf("Lookup(%v) before Insert = %v", k, e.Key())
		}
		e, created := tab.Insert(k, func(v *Key) { *v = k })
		if !created || e.Key() != k || e.V != k || !e.Linked() || tab.Len() != i+1 {
			t.Errorf("Insert(%v) = %v with V %v, linked %v, created %v; Len %d", k, e.Key(), e.V, e.Linked(), created, tab.Len())
		}
		check(t, tab)
	}
	for i, k := range keys {
		e := tab.Lookup(k)
		if e == nil || e.Key() != k || e.V != k {
			t.Fatalf("Lookup(%v) = %p", k, e)
		}
		if !tab.Delete(e) || tab.Lookup(k) != nil || e.Linked() || e.Key() != k || e.V != k {
			t.Errorf("Delete(%v) left linked %v, key %v", k, e.Linked(), e.Key())
		}
		if tab.Delete(e) {
			t.Errorf("second Delete(%v) = true", k)
		}
		if tab.Len() != len(keys)-i-1 {
			t.Errorf("Len = %d after %d deletions", tab.Len(), i+1)
		}
		check(t, tab)
	}
}

func TestInsertKeepsWhatIsThere(t *testing.T) {
	tab, k := New[int](Options{}), Key{MAC: 5, Tag: 6}
	first, _ := tab.Insert(k, func(v *int) { *v = 1 })
	again, created := tab.Insert(k, func(*int) { t.Error("init called for an entry that was there") })
	if created || again != first || first.V != 1 {
		t.Errorf("second Insert = %p, %v, want %p, false; V = %d", again, created, first, first.V)
	}
	tab.Delete(first)
	fresh, created := tab.Insert(k, nil)
	if !created || fresh == first || fresh.V != 0 || first.Linked() {
		t.Errorf("Insert after Delete gave created %v, V %d; the deleted entry is linked: %v", created, fresh.V, first.Linked())
	}
	if tab.Delete(first) || tab.Len() != 1 {
		t.Error("deleting the old entry hit the new one")
	}
}

func TestInsertInitPanics(t *testing.T) {
	tab := New[int](Options{})
	mustInsert(t, tab, Key{MAC: 1})
	func() {
		defer func() { _ = recover() }()
		tab.Insert(Key{MAC: 2}, func(*int) { panic("no") })
	}()
	if tab.Lookup(Key{MAC: 2}) != nil || tab.Len() != 1 {
		t.Error("an entry whose init panicked was inserted")
	}
	check(t, tab)
}

func TestInitRunsBeforePublication(t *testing.T) {
	tab := New[int](Options{})
	tab.Insert(Key{MAC: 1}, func(*int) {
		if tab.Lookup(Key{MAC: 1}) != nil || tab.Len() != 0 {
			t.Error("entry is visible while init runs")
		}
	})
}

func TestDeleteForeign(t *testing.T) {
	a, b := New[int](Options{}), New[int](Options{})
	e := mustInsert(t, a, Key{MAC: 1})
	mustInsert(t, b, Key{MAC: 1})
	if b.Delete(e) || b.Delete(nil) || b.Len() != 1 || !e.Linked() {
		t.Error("Delete of nil or of another table's entry did something")
	}
	check(t, a)
	check(t, b)
}

// Two keys can have the same fingerprint. With a random salt nobody finds such a
// pair; with equal words for MAC and Tag, swapping the two gives one.
func TestSameFingerprint(t *testing.T) {
	tab := New[int](Options{Salt: func() uint64 { return 0xfeedfacecafebeef }})
	a, b := Key{MAC: 1, Tag: 2}, Key{MAC: 2, Tag: 1}
	if tab.salt.fingerprint(a) != tab.salt.fingerprint(b) {
		t.Fatal("the test's keys do not collide")
	}
	ea := mustInsert(t, tab, a)
	if tab.Lookup(b) != nil {
		t.Fatal("found a key by another's fingerprint")
	}
	eb := mustInsert(t, tab, b)
	if tab.Lookup(a) != ea || tab.Lookup(b) != eb {
		t.Fatal("colliding keys are confused")
	}
	check(t, tab)
	tab.Delete(ea)
	if tab.Lookup(a) != nil || tab.Lookup(b) != eb {
		t.Fatal("deleting one of two colliding keys")
	}
	check(t, tab)
}

// One run of slots, over the end of the array, with every entry deleted in every
// order of three and another one put into what is left.
func TestRunOverTheEnd(t *testing.T) {
	for _, home := range []uint64{0, 7, minSlots - 2, minSlots - 1} {
		salt := newSalt(counter(1))
		keys := keysAtHome(&salt, minSlots, home, 5)
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			t.Run(fmt.Sprint(home, order), func(t *testing.T) {
				tab := New[int](Options{Salt: counter(1)})
				for _, k := range keys[:4] {
					mustInsert(t, tab, k)
				}
				for _, i := range order {
					mustDelete(t, tab, keys[i])
					check(t, tab)
				}
				mustInsert(t, tab, keys[4])
				check(t, tab)
				mustDelete(t, tab, keys[3])
				mustDelete(t, tab, keys[4])
				check(t, tab)
				if used := tab.view.Load().cur.used; used != 0 {
					t.Errorf("%d slots in use in an empty table", used)
				}
			})
		}
	}
}

func macs[V any](seq iter.Seq[*Entry[V]]) []uint64 {
	m := []uint64{}
	for e := range seq {
		m = append(m, e.Key().MAC)
	}
	return m
}

func TestAll(t *testing.T) {
	tests := []struct {
		name string
		// loop is what each turn of the loop does beside noting the entry.
		loop func(tab *Table[int], e *Entry[int])
		want []uint64
		left []uint64
	}{
		{"nothing", func(*Table[int], *Entry[int]) {}, []uint64{4, 3, 2, 1}, []uint64{4, 3, 2, 1}},
		{"delete current", func(tab *Table[int], e *Entry[int]) { tab.Delete(e) }, []uint64{4, 3, 2, 1}, []uint64{}},
		{"delete next", func(tab *Table[int], e *Entry[int]) {
			tab.Delete(tab.Lookup(Key{MAC: e.Key().MAC - 1}))
		}, []uint64{4, 2}, []uint64{4, 2}},
		{"delete current and next", func(tab *Table[int], e *Entry[int]) {
			tab.Delete(e)
			tab.Delete(tab.Lookup(Key{MAC: e.Key().MAC - 1}))
		}, []uint64{4, 2}, []uint64{}},
		{"delete next, then current", func(tab *Table[int], e *Entry[int]) {
			tab.Delete(tab.Lookup(Key{MAC: e.Key().MAC - 1}))
			tab.Delete(e)
		}, []uint64{4, 2}, []uint64{}},
		{"delete all", func(tab *Table[int], _ *Entry[int]) {
			for e := range tab.All() {
				tab.Delete(e)
			}
		}, []uint64{4}, []uint64{}},
		{"delete those before", func(tab *Table[int], e *Entry[int]) {
			tab.Delete(tab.Lookup(Key{MAC: e.Key().MAC + 1}))
		}, []uint64{4, 3, 2, 1}, []uint64{1}},
		{"delete the last", func(tab *Table[int], _ *Entry[int]) {
			tab.Delete(tab.Lookup(Key{MAC: 1}))
		}, []uint64{4, 3, 2}, []uint64{4, 3, 2}},
		{"insert", func(tab *Table[int], e *Entry[int]) {
			tab.Insert(Key{MAC: e.Key().MAC + 10}, nil)
		}, []uint64{4, 3, 2, 1}, []uint64{11, 12, 13, 14, 4, 3, 2, 1}},
		{"delete and insert again", func(tab *Table[int], e *Entry[int]) {
			tab.Delete(e)
			tab.Insert(e.Key(), nil)
		}, []uint64{4, 3, 2, 1}, []uint64{1, 2, 3, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := New[int](Options{})
			for mac := range uint64(4) {
				mustInsert(t, tab, Key{MAC: mac + 1})
			}
			got := []uint64{}
			for e := range tab.All() {
				got = append(got, e.Key().MAC)
				tt.loop(tab, e)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("loop saw %v, want %v", got, tt.want)
			}
			if left := macs(tab.All()); !slices.Equal(left, tt.left) {
				t.Errorf("left are %v, want %v", left, tt.left)
			}
			check(t, tab)
		})
	}
}

func TestAllEnds(t *testing.T) {
	tab := New[int](Options{})
	if got := macs(tab.All()); len(got) != 0 {
		t.Errorf("empty table has %v", got)
	}
	seq := tab.All()
	for mac := range uint64(5) {
		mustInsert(t, tab, Key{MAC: mac})
	}
	for range 2 { // a sequence can be used again
		if got := macs(seq); !slices.Equal(got, []uint64{4, 3, 2, 1, 0}) {
			t.Errorf("All = %v", got)
		}
	}
	for range tab.All() {
		break
	}
	func() {
		defer func() { _ = recover() }()
		for range tab.All() {
			panic("out of the loop")
		}
	}()
	check(t, tab) // no walk is left over

	// Walks that end in another order than they began.
	next1, stop1 := iter.Pull(tab.All())
	next2, stop2 := iter.Pull(tab.All())
	next1()
	next2()
	mustDelete(t, tab, Key{MAC: 3})
	stop1()
	mustDelete(t, tab, Key{MAC: 2})
	if e, ok := next2(); !ok || e.Key().MAC != 1 {
		t.Errorf("the other walk went on with %v, %v", e, ok)
	}
	stop2()
	check(t, tab)
}

// A deleted entry that somebody holds must not hold others.
func TestDeletedEntryHasNoLinks(t *testing.T) {
	tab := New[int](Options{})
	for mac := range uint64(3) {
		mustInsert(t, tab, Key{MAC: mac})
	}
	e := tab.Lookup(Key{MAC: 1})
	for range tab.All() {
		tab.Delete(e)
	}
	if e.newer != nil || e.older != nil {
		t.Error("deleted entry has links")
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	tab := New[int](Options{})
	mac := uint64(0)
	measure := func(state string) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() {
			if tab.Lookup(Key{MAC: mac / 2}) == nil || tab.Lookup(Key{MAC: 1, Tag: 9}) != nil {
				t.Fatal("Lookup is wrong")
			}
		}); n != 0 {
			t.Errorf("Lookup %s makes %v allocations", state, n)
		}
	}
	for ; tab.Len() < 1000 || tab.resize.left > 0; mac++ {
		mustInsert(t, tab, Key{MAC: mac})
	}
	measure("at rest")
	for ; tab.resize.left == 0; mac++ {
		mustInsert(t, tab, Key{MAC: mac})
	}
	measure("during a move")
}
