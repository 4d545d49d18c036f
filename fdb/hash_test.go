package fdb

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// patterns are sets of keys with more order than random ones: what real networks
// have, and what somebody would try who knows the hash but not the salt.
var patterns = []struct {
	name string
	key  func(i uint64) Key
}{
	{"counted up", func(i uint64) Key { return Key{MAC: 0x020000000000 + i, Tag: 1} }},
	{"first bytes counted", func(i uint64) Key { return Key{MAC: i << 32 & (1<<48 - 1), Tag: uint32(i >> 16)} }},
	{"every 256th", func(i uint64) Key { return Key{MAC: i << 8, Tag: 1} }},
	{"every 2^20th", func(i uint64) Key { return Key{MAC: i << 20, Tag: 1} }},
	{"odd stride", func(i uint64) Key { return Key{MAC: i * 0x9e3779b97f4b & (1<<48 - 1)} }},
	{"stride of a Fibonacci hash", func(i uint64) Key { return Key{MAC: i * 0x61c8864680b5 & (1<<48 - 1)} }},
	{"one MAC, all tags", func(i uint64) Key { return Key{MAC: 0xaabbccddeeff, Tag: uint32(i)} }},
	{"tags counted in the upper bits", func(i uint64) Key { return Key{MAC: 1, Tag: uint32(i << 15)} }},
	{"tag is the MAC", func(i uint64) Key { return Key{MAC: i, Tag: uint32(i)} }},
	{"tag undoes the MAC", func(i uint64) Key { return Key{MAC: i, Tag: -uint32(i)} }},
	{"grid of MACs and VIDs", func(i uint64) Key { return Key{MAC: i & 255, Tag: uint32(i >> 8)} }},
	{"few bits set", func(i uint64) Key {
		// i's two halves say which bits; 48*48*48 keys at most.
		return Key{MAC: 1<<(i%48) | 1<<(i/48%48), Tag: 1 << (i / (48 * 48) % 32)}
	}},
	{"Gray code", func(i uint64) Key { return Key{MAC: i ^ i>>1, Tag: 1} }},
	{"complements", func(i uint64) Key { return Key{MAC: (i>>1 ^ -(i & 1)) & (1<<48 - 1), Tag: 1} }},
}

// fill makes a table of the keys with load 1/2.
func fill(keys func(i uint64) Key, salt func() uint64) *Table[struct{}] {
	const n = 1 << 13
	tab := New[struct{}](Options{Salt: salt})
	for i := uint64(0); tab.Len() < n && i < 4*n; i++ {
		tab.Insert(keys(i), nil)
	}
	settle(tab)
	return tab
}

// Keys in whatever order take no more probes than random ones: at load 1/2 those
// take 1.5 on average, and the longest search of 8192 some tens.
func TestPatternsProbeLikeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	random := func(uint64) Key { return Key{MAC: rng.Uint64() >> 16, Tag: rng.Uint32()} }
	for salt := range uint64(2) {
		mean, longest := probes(fill(random, counter(salt)))
		t.Logf("random keys: mean %.3f, longest %d", mean, longest)
		for _, p := range patterns {
			mean, longest := probes(fill(p.key, counter(salt)))
			t.Logf("%s: mean %.3f, longest %d", p.name, mean, longest)
			if mean > 1.6 || longest > 60 {
				t.Errorf("%s, salt %d: searches take %.2f probes on average, %d at most", p.name, salt, mean, longest)
			}
		}
	}
}

// Keys that all share a home under one salt are scattered by any other. Under
// their own salt they show what an attack would do if the salt were known.
func TestHostileKeys(t *testing.T) {
	const n = 300
	known := newSalt(counter(31))
	hostile := keysAtHome(&known, 1<<12, 77, n)
	build := func(salt func() uint64) (mean float64, longest int) {
		tab := New[struct{}](Options{Salt: salt})
		for _, k := range hostile {
			tab.Insert(k, nil)
		}
		settle(tab)
		return probes(tab)
	}
	if mean, longest := build(counter(31)); mean < n/4 || longest < n/2 {
		t.Fatalf("the keys are not hostile: %.1f probes on average, %d at most", mean, longest)
	}
	for seed := range uint64(20) {
		if mean, longest := build(counter(100 + seed)); mean > 2 || longest > 40 {
			t.Errorf("salt %d: %.2f probes on average, %d at most", seed, mean, longest)
		}
	}
	// Not the same in each run, so with more room for chance.
	if mean, longest := build(nil); mean > 4 || longest > n/2 {
		t.Errorf("random salt: %.2f probes on average, %d at most", mean, longest)
	}
}

// Every bit of a key flips every bit of the fingerprint about half of the time,
// except the one that is always set.
func TestAvalanche(t *testing.T) {
	const rounds = 2000
	rng := rand.New(rand.NewPCG(41, 42))
	var flips [80][64]int
	for range rounds {
		s := newSalt(rng.Uint64)
		k := Key{MAC: rng.Uint64() >> 16, Tag: rng.Uint32()}
		h := s.fingerprint(k)
		for bit := range flips {
			o := k
			if bit < 48 {
				o.MAC ^= 1 << bit
			} else {
				o.Tag ^= 1 << (bit - 48)
			}
			diff := h ^ s.fingerprint(o)
			for i := range flips[bit] {
				flips[bit][i] += int(diff >> i & 1)
			}
		}
	}
	for bit := range flips {
		for i, n := range flips[bit] {
			if i == 1 {
				continue
			}
			// Six standard deviations: sqrt(2000)/2 = 22.
			if n < rounds/2-134 || n > rounds/2+134 {
				t.Errorf("key bit %d flips fingerprint bit %d in %d of %d cases", bit, i, n, rounds)
			}
		}
	}
}

// A salt source that is not random at all still gives a usable hash.
func TestPoorSalt(t *testing.T) {
	for _, word := range []uint64{0, 1, 1 << 63, ^uint64(0), ^uint64(1)} {
		t.Run(fmt.Sprintf("%#x", word), func(t *testing.T) {
			s := newSalt(func() uint64 { return word })
			seen := map[uint64]bool{}
			for i := range uint64(1000) {
				seen[s.fingerprint(Key{MAC: i})] = true
			}
			if len(seen) < 200 {
				t.Errorf("1000 keys have %d fingerprints", len(seen))
			}
		})
	}
}

// Tables do not share their salt.
func TestSaltIsPerTable(t *testing.T) {
	a, b := New[int](Options{}), New[int](Options{})
	if a.salt == b.salt || a.salt.mac == a.salt.tag {
		t.Error("salts are the same")
	}
}
