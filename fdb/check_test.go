package fdb

import "testing"

// fatal is the part of testing.TB that rapid.T has too.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check looks at everything that has to hold between two writes.
func check[V any](t fatal, tab *Table[V]) {
	t.Helper()
	v := tab.view.Load()
	n := v.cur.check(t, &tab.salt)
	if v.old != nil {
		n += v.old.check(t, &tab.salt)
		if behind := v.old.at(tab.resize.pos); behind.fp.Load() != empty {
			t.Fatalf("the slot of old that was moved last is not empty")
		}
	}
	if (v.old != nil) != (tab.resize.left > 0) {
		t.Fatalf("old array %p with %d slots left", v.old, tab.resize.left)
	}
	listed := 0
	var newer *Entry[V]
	for e := tab.list.newest; e != nil; e = e.older {
		if e.newer != newer {
			t.Fatalf("entry %v: link to the newer one is wrong", e.Key())
		}
		if !e.Linked() || tab.Lookup(e.Key()) != e {
			t.Fatalf("entry %v is listed but not found", e.Key())
		}
		newer = e
		listed++
	}
	if n != listed || n != tab.Len() {
		t.Fatalf("%d entries in slots, %d listed, Len %d", n, listed, tab.Len())
	}
	if tab.list.walks != nil {
		t.Fatalf("a walk is registered outside of any loop")
	}
}

// check returns the number of entries.
func (s *slots[V]) check(t fatal, salt *salt) (entries int) {
	t.Helper()
	used := 0
	for i := range uint64(s.size()) {
		fp, e := s.at(i).fp.Load(), s.at(i).entry.Load()
		if fp != empty {
			used++
		}
		if (fp >= full) != (e != nil) {
			t.Fatalf("slot %d: fingerprint %#x with entry %p", i, fp, e)
		}
		if fp == grave && s.at((i+1)&s.mask).fp.Load() == empty {
			t.Fatalf("slot %d: grave in front of an empty slot", i)
		}
		if e == nil {
			continue
		}
		entries++
		if fp != salt.fingerprint(e.Key()) {
			t.Fatalf("slot %d: fingerprint %#x of another key", i, fp)
		}
		for j := s.home(fp); j != i; j = (j + 1) & s.mask {
			if s.at(j).fp.Load() == empty {
				t.Fatalf("slot %d: slot %d is empty on the way from home", i, j)
			}
		}
	}
	if used != s.used {
		t.Fatalf("%d slots in use, counted %d", used, s.used)
	}
	if s.used > s.size()/4*3+2 {
		t.Fatalf("%d of %d slots in use", s.used, s.size())
	}
	return entries
}

// probes returns the mean and the largest number of slots that finding an entry
// of the table takes.
func probes[V any](tab *Table[V]) (mean float64, longest int) {
	s, sum := tab.view.Load().cur, 0
	for e := range tab.All() {
		fp := tab.salt.fingerprint(e.Key())
		i, ok := s.locate(fp, e)
		if !ok {
			panic("table is being resized")
		}
		n := int((i-s.home(fp))&s.mask) + 1
		sum += n
		longest = max(longest, n)
	}
	return float64(sum) / float64(tab.Len()), longest
}

// keysAtHome returns n keys whose home in an array of the given size is home.
func keysAtHome(s *salt, size int, home uint64, n int) []Key {
	var keys []Key
	a := newSlots[int](size)
	for mac := uint64(0); len(keys) < n; mac++ {
		if k := (Key{MAC: mac, Tag: 1}); a.home(s.fingerprint(k)) == home {
			keys = append(keys, k)
		}
	}
	return keys
}

// counter returns an Options.Salt that gives the same words every time.
func counter(seed uint64) func() uint64 {
	return func() uint64 {
		seed += 0x9e3779b97f4a7c15
		return seed * (seed>>29 | 1)
	}
}

func mustInsert[V any](t testing.TB, tab *Table[V], k Key) *Entry[V] {
	t.Helper()
	e, created := tab.Insert(k, nil)
	if e == nil || !created {
		t.Fatalf("Insert(%v) = %p, %v", k, e, created)
	}
	return e
}

func mustDelete[V any](t testing.TB, tab *Table[V], k Key) {
	t.Helper()
	if !tab.Delete(tab.Lookup(k)) {
		t.Fatalf("key %v was not there to delete", k)
	}
}
