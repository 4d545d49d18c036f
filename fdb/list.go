package fdb

import "iter"

// list has the entries in the order of their insertion. Only the writer uses it.
type list[V any] struct {
	newest *Entry[V]
	// walks are the iterations that are under way, seldom more than one.
	walks *walk[V]
}

// walk is where an iteration goes on. Removing an entry moves the walks that
// would have come to it, so a deleted entry needs no links: whoever holds it
// would keep all the entries deleted after it in memory.
type walk[V any] struct {
	next  *Entry[V]
	outer *walk[V] // another walk
}

// push puts e in front of all others.
func (l *list[V]) push(e *Entry[V]) {
	e.older = l.newest
	if e.older != nil {
		e.older.newer = e
	}
	l.newest = e
}

func (l *list[V]) remove(e *Entry[V]) {
	for w := l.walks; w != nil; w = w.outer {
		if w.next == e {
			w.next = e.older
		}
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	}
	e.newer, e.older = nil, nil
}

func (l *list[V]) all() iter.Seq[*Entry[V]] {
	return func(yield func(*Entry[V]) bool) {
		w := &walk[V]{next: l.newest, outer: l.walks}
		l.walks = w
		defer l.end(w)
		for w.next != nil {
			e := w.next
			w.next = e.older
			if !yield(e) {
				return
			}
		}
	}
}

// end forgets w, which need not be the walk that began last: iter.Pull lets them
// end in any order.
func (l *list[V]) end(w *walk[V]) {
	for p := &l.walks; *p != nil; p = &(*p).outer {
		if *p == w {
			*p = w.outer
			return
		}
	}
}
