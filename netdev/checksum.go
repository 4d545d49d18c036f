package netdev

import (
	"encoding/binary"
	"math/bits"
)

// Checksum adds b, as 16-bit words in network byte order of which the last may
// be half, to the ones' complement sum initial (RFC 1071). The result is not
// complemented.
func Checksum(b []byte, initial uint16) uint16 {
	// The sum does not care about byte order as long as the result is swapped:
	// so words are read as the machine likes it, eight bytes at once.
	sum := uint64(bits.ReverseBytes16(initial))
	var carry uint64
	for len(b) >= 64 {
		w := b[:64]
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[0:]), 0)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[8:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[16:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[24:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[32:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[40:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[48:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(w[56:]), carry)
		// A sum that just wrapped is small: this cannot wrap again.
		sum += carry
		b = b[64:]
	}
	for len(b) >= 8 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), 0)
		sum += carry
		b = b[8:]
	}
	var last [8]byte
	copy(last[:], b)
	sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(last[:]), 0)
	sum += carry
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>32 + sum&0xffffffff
	return bits.ReverseBytes16(fold(uint32(sum)))
}

// fold makes a ones' complement sum of 16 bits of one of 32.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}

// finish returns what a checksum field holds for a sum: its complement, but not
// 0, which in UDP means that there is no checksum (CSUM_MANGLED_0).
func finish(sum uint16) uint16 {
	if sum == 0xffff {
		return 0xffff
	}
	return ^sum
}

// CompleteChecksum does what VnetNeedsCsum asks for, so that the frame can be
// sent without its Hdr. It reports false if the header lies about where the
// checksum is, or if the frame is a superframe: that has no checksum of its own.
func CompleteChecksum(f *Frame) bool {
	if f.Hdr.GSOType != GSONone {
		return false
	}
	if f.Hdr.Flags&VnetNeedsCsum == 0 {
		return true
	}
	if !complete(f.Data, int(f.Hdr.CsumStart), int(f.Hdr.CsumOffset)) {
		return false
	}
	f.Hdr.Flags &^= VnetNeedsCsum
	f.Hdr.CsumStart, f.Hdr.CsumOffset = 0, 0
	return true
}

// complete puts the checksum of data[start:] offset bytes behind start, where the
// sum of the pseudo-header is now (skb_checksum_help).
func complete(data []byte, start, offset int) bool {
	if start+offset+2 > len(data) {
		return false
	}
	sum := Checksum(data[start:], 0)
	binary.BigEndian.PutUint16(data[start+offset:], finish(sum))
	return true
}
