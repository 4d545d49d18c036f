package fdb

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is a Table's contract in the simplest form: a map for what is there and a
// slice for its order, the newest last.
type model struct {
	tab   *Table[int]
	rows  map[Key]*Entry[int]
	order []Key
	gone  []*Entry[int] // some deleted entries
	count int           // for values
}

func (m *model) insert(t *rapid.T, k Key) {
	m.count++
	e, created := m.tab.Insert(k, func(v *int) { *v = m.count })
	if was, ok := m.rows[k]; ok {
		if created || e != was {
			t.Fatalf("Insert(%v) = %p, %v, but %p was there", k, e, created, was)
		}
		return
	}
	if !created || e.Key() != k || e.V != m.count {
		t.Fatalf("Insert(%v) = %v with V %d, %v", k, e.Key(), e.V, created)
	}
	m.rows[k] = e
	m.order = append(m.order, k)
}

func (m *model) delete(t *rapid.T, k Key) {
	e, ok := m.rows[k]
	if got := m.tab.Lookup(k); got != e {
		t.Fatalf("Lookup(%v) = %p, want %p", k, got, e)
	}
	if m.tab.Delete(e) != ok {
		t.Fatalf("Delete(%v) = %v", k, !ok)
	}
	if !ok {
		return
	}
	delete(m.rows, k)
	m.order = slices.DeleteFunc(m.order, func(o Key) bool { return o == k })
	m.gone = append(m.gone, e)
	if len(m.gone) > 10 {
		m.gone = m.gone[1:]
	}
}

// walk iterates, and each turn does what turn says. Wanted are the entries that
// were there at the start, unless deleted before their turn.
func (m *model) walk(t *rapid.T, turn func(i int, k Key)) {
	want := slices.Clone(m.order)
	slices.Reverse(want)
	start := make(map[Key]*Entry[int], len(m.rows))
	for k, e := range m.rows {
		start[k] = e
	}
	skip := func() {
		for len(want) > 0 && !start[want[0]].Linked() {
			want = want[1:]
		}
	}
	i := 0
	for e := range m.tab.All() {
		skip()
		if len(want) == 0 || e != start[want[0]] {
			t.Fatalf("turn %d of the loop is %v, want the first of %v", i, e.Key(), want)
		}
		want = want[1:]
		turn(i, e.Key())
		i++
	}
	if skip(); len(want) != 0 {
		t.Fatalf("the loop did not see %v", want)
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			tab:  New[int](Options{Salt: counter(rapid.Uint64().Draw(t, "salt"))}),
			rows: map[Key]*Entry[int]{},
		}
		// Few keys, so that there are hits, in a range that is drawn, so that
		// tables of several sizes come up.
		limit := rapid.SampledFrom([]uint64{4, 30, 300}).Draw(t, "keys")
		key := rapid.Custom(func(t *rapid.T) Key {
			return Key{MAC: rapid.Uint64Range(0, limit).Draw(t, "mac"), Tag: rapid.Uint32Range(0, 1).Draw(t, "tag")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) { m.insert(t, key.Draw(t, "key")) },
			"delete": func(t *rapid.T) { m.delete(t, key.Draw(t, "key")) },
			"insert range": func(t *rapid.T) {
				from := key.Draw(t, "from")
				for i := range rapid.Uint64Range(1, limit).Draw(t, "n") {
					m.insert(t, Key{MAC: (from.MAC + i) % (limit + 1), Tag: from.Tag})
				}
			},
			"delete range": func(t *rapid.T) {
				from := key.Draw(t, "from")
				for i := range rapid.Uint64Range(1, limit).Draw(t, "n") {
					m.delete(t, Key{MAC: (from.MAC + i) % (limit + 1), Tag: from.Tag})
				}
			},
			"delete gone": func(t *rapid.T) {
				for _, e := range m.gone {
					if e.Linked() || m.tab.Delete(e) {
						t.Fatalf("deleted entry %v is still there", e.Key())
					}
				}
			},
			"iterate": func(t *rapid.T) { m.walk(t, func(int, Key) {}) },
			"iterate and write": func(t *rapid.T) {
				every := rapid.IntRange(1, 4).Draw(t, "every")
				kind := rapid.SampledFrom([]string{"current", "any", "around", "insert", "again"}).Draw(t, "kind")
				m.walk(t, func(i int, k Key) {
					if i%every != 0 {
						return
					}
					switch kind {
					case "current":
						m.delete(t, k)
					case "any":
						m.delete(t, key.Draw(t, "key"))
					case "around":
						// The neighbours, which are often the next ones.
						m.delete(t, Key{MAC: k.MAC + 1, Tag: k.Tag})
						m.delete(t, k)
						m.delete(t, Key{MAC: k.MAC - 1, Tag: k.Tag})
					case "insert":
						m.insert(t, key.Draw(t, "key"))
					case "again":
						m.delete(t, k)
						m.insert(t, k)
					}
				})
			},
			"": func(t *rapid.T) {
				check(t, m.tab)
				if m.tab.Len() != len(m.rows) {
					t.Fatalf("Len = %d, want %d", m.tab.Len(), len(m.rows))
				}
				for k, e := range m.rows {
					if m.tab.Lookup(k) != e {
						t.Fatalf("Lookup(%v) = %p, want %p", k, m.tab.Lookup(k), e)
					}
				}
			},
		})
	})
}
