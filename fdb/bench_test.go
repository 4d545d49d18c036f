package fdb

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
)

// benchSizes are the numbers of entries to measure with. 10M takes some seconds
// to fill and more than 1 GB, so it must be asked for: LINKSPAN_BENCH_10M=1.
func benchSizes() []int {
	sizes := []int{1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20}
	if !testing.Short() && os.Getenv("LINKSPAN_BENCH_10M") != "" {
		sizes = append(sizes, 10<<20)
	}
	return sizes
}

// bySize runs f for each size with a table of that many entries and a stream of
// their keys in random order, whose length is a power of two.
func bySize(b *testing.B, f func(b *testing.B, t *Table[uint64], hits []Key)) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := New[uint64](Options{})
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			keys := randomKeys(rng, n)
			for _, k := range keys {
				t.Insert(k, nil)
			}
			settle(t)
			hits := make([]Key, 1<<20)
			for i := range hits {
				hits[i] = keys[rng.IntN(n)]
			}
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			f(b, t, hits)
		})
	}
}

// randomKeys returns n different keys.
func randomKeys(rng *rand.Rand, n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		// The low bits make them different, the others random.
		keys[i] = Key{MAC: rng.Uint64()<<24&(1<<48-1) | uint64(i), Tag: uint32(rng.IntN(4096))}
	}
	rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// settle writes until the table is not being resized.
func settle[V any](t *Table[V]) {
	for t.resize.next != nil || t.resize.left > 0 {
		e, _ := t.Insert(Key{MAC: 1<<48 - 1, Tag: 1<<32 - 1}, nil)
		t.Delete(e)
	}
}

// sink keeps results alive.
type sink struct{ v uint64 }

func BenchmarkHit(b *testing.B) {
	bySize(b, func(b *testing.B, t *Table[uint64], hits []Key) {
		var s sink
		for i := range b.N {
			s.v += t.Lookup(hits[i&(len(hits)-1)]).V
		}
		runtime.KeepAlive(&s)
	})
}

// BenchmarkHitMap is what BenchmarkHit is to be compared with: the same lookups
// in a Go map behind a sync.RWMutex.
func BenchmarkHitMap(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var mu sync.RWMutex
			m := make(map[Key]*Entry[uint64])
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			keys := randomKeys(rng, n)
			for _, k := range keys {
				m[k] = &Entry[uint64]{mac: k.MAC, tag: k.Tag}
			}
			hits := make([]Key, 1<<20)
			for i := range hits {
				hits[i] = keys[rng.IntN(n)]
			}
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			var s sink
			for i := range b.N {
				mu.RLock()
				e := m[hits[i&(len(hits)-1)]]
				mu.RUnlock()
				s.v += e.V
			}
			runtime.KeepAlive(&s)
		})
	}
}

func BenchmarkMiss(b *testing.B) {
	bySize(b, func(b *testing.B, t *Table[uint64], hits []Key) {
		found := 0
		for i := range b.N {
			k := hits[i&(len(hits)-1)]
			k.Tag += 1 << 20
			if t.Lookup(k) != nil {
				found++
			}
		}
		if found != 0 {
			b.Fatalf("%d keys found that were not inserted", found)
		}
	})
}

// BenchmarkHitMoving has the resize stopped in its middle, which is what readers
// meet where the writes end there.
func BenchmarkHitMoving(b *testing.B) {
	t := New[uint64](Options{})
	var keys []Key
	for i := 0; t.Len() < 1<<16 || t.resize.left == 0 || t.resize.left > t.view.Load().old.size()/2; i++ {
		k := Key{MAC: uint64(i)}
		t.Insert(k, nil)
		keys = append(keys, k)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if t.Lookup(keys[i&(1<<16-1)]) == nil {
			b.Fatal("key not found")
		}
	}
}

// BenchmarkInsert grows one table from nothing; the entry is the allocation.
func BenchmarkInsert(b *testing.B) {
	t := New[uint64](Options{})
	b.ReportAllocs()
	for i := range b.N {
		t.Insert(Key{MAC: uint64(i)}, nil)
	}
}

// BenchmarkDelete shrinks a table to nothing, in random order.
func BenchmarkDelete(b *testing.B) {
	t := New[uint64](Options{})
	keys := randomKeys(rand.New(rand.NewPCG(3, 4)), b.N)
	for _, k := range keys {
		t.Insert(k, nil)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, k := range keys {
		t.Delete(t.Lookup(k))
	}
}

// BenchmarkChurn replaces entries of a table that keeps its number of them.
func BenchmarkChurn(b *testing.B) {
	const n = 64 << 10
	t := New[uint64](Options{})
	for i := range n {
		t.Insert(Key{MAC: uint64(i)}, nil)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		t.Delete(t.Lookup(Key{MAC: uint64(i)}))
		t.Insert(Key{MAC: uint64(i + n)}, nil)
	}
}
