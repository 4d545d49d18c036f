package nlattr

import (
	"bytes"
	"math"
	"testing"
)

// TestBuilders round-trips every builder, one behind the other: each leaves the
// message aligned and its padding zero.
func TestBuilders(t *testing.T) {
	var b []byte
	b = AppendU8(b, 1, math.MaxUint8)
	b = AppendU16(b, 2, 0x1234)
	b = AppendBE16(b, 3, 0x1234)
	b = AppendU32(b, 4, 0x12345678)
	b = AppendBE32(b, 5, 0x12345678)
	b = AppendU64(b, 6, 0x123456789abcdef0)
	b = AppendString(b, 7, "name")
	b = AppendString(b, 8, "")
	b = AppendFlag(b, 9)
	b = Append(b, 10, nil)
	for n := 1; n <= 9; n++ {
		b = Append(b, uint16(10+n), bytes.Repeat([]byte{0xff}, n))
	}
	b, outer := Nest(b, 20|FlagNested)
	b, inner := Nest(b, 1)
	b = EndNest(AppendU8(b, 5, 6), inner)
	b = EndNest(AppendString(b, 2, "in"), outer)
	b, empty := Nest(b, 21)
	b = EndNest(b, empty)

	as, left := Parse(b, 0)
	if left != 0 || len(b)%4 != 0 || len(as) != 21 {
		t.Fatalf("%d attributes, %d bytes left of %d", len(as), left, len(b))
	}
	for i, a := range as {
		if a.Type != uint16(i+1) {
			t.Fatalf("attribute %d has type %d", i, a.Type)
		}
		for at := a.Off + HeaderLen + len(a.Data); at%4 != 0; at++ {
			if b[at] != 0 {
				t.Errorf("padding behind attribute %d", a.Type)
			}
		}
	}
	if as[0].U8() != math.MaxUint8 || as[1].U16() != 0x1234 || as[2].BE16() != 0x1234 || as[3].U32() != 0x12345678 ||
		as[4].BE32() != 0x12345678 || as[5].U64() != 0x123456789abcdef0 {
		t.Error("numbers")
	}
	for i, n := range []int{1, 2, 2, 4, 4, 8, 5, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9} {
		if len(as[i].Data) != n {
			t.Errorf("attribute %d has %d bytes, want %d", i+1, len(as[i].Data), n)
		}
	}
	if as[6].Text() != "name" || as[6].Data[4] != 0 || as[7].Text() != "" {
		t.Error("strings")
	}
	in := as[19].Nest()
	if !as[19].Nested || len(in) != 2 || in[0].Nested || in[0].Nest()[0].U8() != 6 || in[1].Text() != "in" || in[1].Off != as[19].Off+4+12 {
		t.Errorf("nests %+v", in)
	}
	if as[20].Nested || len(as[20].Data) != 0 {
		t.Error("an empty nest")
	}
	if !bytes.Equal(b[as[2].Off+4:][:2], []byte{0x12, 0x34}) || !bytes.Equal(b[as[4].Off+4:][:4], []byte{0x12, 0x34, 0x56, 0x78}) {
		t.Error("network byte order")
	}
}

func TestAlign(t *testing.T) {
	for n, want := range []int{0, 4, 4, 4, 4, 8, 8} {
		if Align(n) != want {
			t.Errorf("Align(%d) = %d", n, Align(n))
		}
	}
}
