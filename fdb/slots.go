package fdb

import (
	"math/bits"
	"sync/atomic"
)

// What a slot's fingerprint can be: empty, grave, or the fingerprint of a key,
// which has the bit full set.
const (
	// empty ends every search.
	empty = 0
	// grave was an entry's slot. Searches go on behind it.
	grave = 1
	full  = 2
)

const (
	// minSlots is the size of a new table, 256 bytes.
	minSlots = 16
	// chunkSlots is how many slots are allocated at once: 64 KiB, which take a
	// few microseconds to clear. Clearing the 32 MiB that a million entries need
	// would stop the writer for a time that frames notice.
	chunkSlots = 1 << chunkBits
	chunkBits  = 12
)

// slot is one place for an entry. Four of them make a cache line.
type slot[V any] struct {
	fp atomic.Uint64
	// entry is set before fp is and cleared after it, so a reader that saw a
	// fingerprint may find nil or, where the slot was used again, another entry.
	entry atomic.Pointer[Entry[V]]
}

// slots is an array of slots with linear probing. Two things hold after every
// single store to it:
//
//   - No slot from an entry's home up to the entry is empty, so that a search
//     for it arrives, no matter what the writer does meanwhile.
//   - No grave is in front of an empty slot, where it would only lengthen
//     searches. This one may be broken while the writer is inside vacate.
type slots[V any] struct {
	chunks [][]slot[V] // all of chunkSlots, or a single smaller one
	mask   uint64      // number of slots - 1
	shift  uint        // 64 - log2 of the number of slots

	// For the writer.
	made int // chunks that extend has made
	used int // slots that are not empty
}

// newSlots makes an array of n slots, a power of two of at least 2. Its chunks
// are still to be made: see extend.
func newSlots[V any](n int) *slots[V] {
	return &slots[V]{
		chunks: make([][]slot[V], max(1, n/chunkSlots)),
		mask:   uint64(n) - 1,
		shift:  uint(64 - bits.Len64(uint64(n)-1)),
	}
}

// extend makes one more chunk and reports whether the array is complete. Readers
// must not see it earlier.
func (s *slots[V]) extend() (complete bool) {
	s.chunks[s.made] = make([]slot[V], min(s.size(), chunkSlots))
	s.made++
	return s.made == len(s.chunks)
}

func (s *slots[V]) size() int { return int(s.mask) + 1 }

// at returns slot i.
func (s *slots[V]) at(i uint64) *slot[V] {
	return &s.chunks[i>>chunkBits][i&(chunkSlots-1)]
}

// home is where the search for a fingerprint starts: its uppermost bits. With
// them an array of another size has the entries in the same order, so that a move
// walks both arrays evenly.
func (s *slots[V]) home(fp uint64) uint64 { return fp >> (s.shift & 63) }

// find returns the entry of k, whose fingerprint is fp. It is for readers.
func (s *slots[V]) find(fp uint64, k Key) *Entry[V] {
	for i := s.home(fp); ; i = (i + 1) & s.mask {
		sl := s.at(i)
		switch sl.fp.Load() {
		case fp:
			if e := sl.entry.Load(); e != nil && e.is(k) {
				return e
			}
		case empty:
			return nil
		}
	}
}

// locate returns the slot of e, whose fingerprint is fp.
func (s *slots[V]) locate(fp uint64, e *Entry[V]) (i uint64, ok bool) {
	for i = s.home(fp); ; i = (i + 1) & s.mask {
		sl := s.at(i)
		if sl.fp.Load() == empty {
			return 0, false
		}
		if sl.entry.Load() == e {
			return i, true
		}
	}
}

// put stores e, which is not there yet and whose fingerprint is fp, in the first
// slot that has no entry.
func (s *slots[V]) put(fp uint64, e *Entry[V]) {
	i := s.home(fp)
	for s.at(i).fp.Load() >= full {
		i = (i + 1) & s.mask
	}
	sl := s.at(i)
	if sl.fp.Load() == empty {
		s.used++
	}
	sl.entry.Store(e)
	sl.fp.Store(fp)
}

// vacate takes the entry out of slot i.
//
// Where the slot behind is empty no search has to get past slot i, so it becomes
// empty too, and with it the graves in front of it, which only led here. They are
// emptied from the back, for the same reason one by one.
func (s *slots[V]) vacate(i uint64) {
	sl := s.at(i)
	if s.at((i+1)&s.mask).fp.Load() != empty {
		sl.fp.Store(grave)
		sl.entry.Store(nil)
		return
	}
	sl.fp.Store(empty)
	sl.entry.Store(nil)
	s.used--
	for i = (i - 1) & s.mask; s.at(i).fp.Load() == grave; i = (i - 1) & s.mask {
		s.at(i).fp.Store(empty)
		s.used--
	}
}
