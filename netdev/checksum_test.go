package netdev

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// slowSum is RFC 1071 word by word.
func slowSum(b []byte, initial uint16) uint16 {
	sum := uint32(initial)
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		sum += w
		if sum > 0xffff {
			sum = sum&0xffff + 1
		}
	}
	return uint16(sum)
}

// sameSum compares sums: 0 and 0xffff are both zero.
func sameSum(a, b uint16) bool { return a%0xffff == b%0xffff }

func TestChecksum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		b := make([]byte, rnd.IntN(300))
		for j := range b {
			switch i % 3 {
			case 0:
				b[j] = byte(rnd.Uint32())
			case 1:
				b[j] = 0xff // carries everywhere
			case 2:
				b[j] = byte(rnd.Uint32()&1) * 0xff
			}
		}
		init := uint16(rnd.Uint32())
		if got, want := Checksum(b, init), slowSum(b, init); !sameSum(got, want) {
			t.Fatalf("Checksum(% x, %#x) = %#x, want %#x", b, init, got, want)
		}
	}
	// The example of RFC 1071, 3.
	if got := Checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}, 0); got != 0xddf2 {
		t.Errorf("got %#x", got)
	}
	if got := Checksum(nil, 0x1234); got != 0x1234 {
		t.Errorf("nothing added gives %#x", got)
	}
}

func TestCompleteChecksum(t *testing.T) {
	udp := udpFrame(4, 50)
	whole := append([]byte{}, udp...)
	h, _ := parseHeaders(udp)
	binary.BigEndian.PutUint16(udp[h.l4+6:], h.pseudoSum(udp, len(udp)-h.l4))
	f := NewFrame(udp)
	f.Hdr = VnetHdr{Flags: VnetNeedsCsum, CsumStart: uint16(h.l4), CsumOffset: 6}
	if !CompleteChecksum(f) || string(f.Data) != string(whole) || f.Hdr != (VnetHdr{}) {
		t.Errorf("got % x\nwant % x", f.Data, whole)
	}
	for _, hdr := range []VnetHdr{
		{Flags: VnetNeedsCsum, CsumStart: 0xffff, CsumOffset: 0xffff},
		{Flags: VnetNeedsCsum, CsumStart: uint16(len(udp) - 1)},
		{Flags: VnetNeedsCsum, CsumOffset: uint16(len(udp) - 1)},
		{Flags: VnetNeedsCsum, GSOType: GSOTCPv4},
	} {
		f := NewFrame(whole)
		f.Hdr = hdr
		if CompleteChecksum(f) || string(f.Data) != string(whole) {
			t.Errorf("%+v was taken", hdr)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{64, 1448, 65000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			data := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Checksum(data, 0)
			}
		})
	}
}
