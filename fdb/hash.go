package fdb

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// salt is a table's secret. Whoever sends frames chooses the keys, and must not
// be able to choose ones that share a home.
type salt struct {
	mac, tag, last uint64
}

func newSalt(word func() uint64) salt {
	if word == nil {
		word = func() uint64 {
			var b [8]byte
			rand.Read(b[:]) // never fails
			return binary.NativeEndian.Uint64(b[:])
		}
	}
	// Multiplying by 0 or by 2^64-1 and folding gives the same for all values.
	// Neither half of a key reaches bits 62 and 63, so with these at 0 and 1 no
	// key makes such a factor.
	factor := func() uint64 { return word()&^(1<<62) | 1<<63 }
	return salt{mac: factor(), tag: factor(), last: factor()}
}

// fingerprint hashes k to one of the values that a full slot can have. Its upper
// bits are the key's home in an array of any size (see slots.home), so an entry
// can be moved without hashing again.
//
// One multiplication is not enough. It is almost universal, which bounds how many
// keys share a home, but it leaves equally spaced keys (addresses counted up)
// equally spaced, and linear probing then sees runs that random keys would not
// form. The second one, of a value that the sender of the keys cannot know,
// leaves nothing of their order.
func (s *salt) fingerprint(k Key) uint64 {
	x := fold(k.MAC^s.mac, uint64(k.Tag)^s.tag)
	return fold(x, s.last) | full
}

// fold multiplies to 128 bits and adds the halves without carry.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
