package nlattr

import (
	"bytes"
	"testing"
)

func fuzzCorpus(f *testing.F) {
	b, mark := Nest(nil, 12|FlagNested)
	b = EndNest(AppendString(AppendU32(b, 1, 2), 3, "name"), mark)
	for _, s := range [][]byte{
		nil, {1}, {4, 0, 1, 0}, {3, 0, 1, 0}, {0xff, 0xff, 1, 0}, b, append(bytes.Clone(b), 1, 2, 3),
		AppendU8(nil, 31, 2), AppendString(nil, 7, "abcd"), Append(nil, 8, []byte("abc")), Append(nil, 11, make([]byte, 20)),
		append(Append(nil, 5, []byte{1, 2, 3, 4, 5}), AppendU64(nil, 4, 5)...),
	} {
		f.Add(s)
	}
}

// FuzzParse: what Parse returns and what it leaves is the input, cut where the
// headers say.
func FuzzParse(f *testing.F) {
	fuzzCorpus(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		as, left := Parse(b, 16)
		if left < 0 || left > len(b) {
			t.Fatalf("%d bytes left of %d", left, len(b))
		}
		at := 0
		for _, a := range as {
			if a.Off != 16+at || a.Type > TypeMask {
				t.Fatalf("attribute at %d, want %d", a.Off, 16+at)
			}
			n := HeaderLen + len(a.Data)
			if int(ne.Uint16(b[at:])) != n || !bytes.Equal(b[at+HeaderLen:at+n], a.Data) || cap(a.Data) != len(a.Data) {
				t.Fatalf("attribute at %d has %d bytes", at, len(a.Data))
			}
			at += min(Align(n), len(b)-at)
			a.U8()
			a.U16()
			a.BE16()
			a.U32()
			a.BE32()
			a.U64()
			if text := a.Text(); len(text) > len(a.Data) {
				t.Error("a text out of nowhere")
			}
			for _, in := range a.Nest() {
				if in.Off < a.Off+HeaderLen || in.Off+HeaderLen+len(in.Data) > a.Off+n {
					t.Errorf("a nested attribute outside of its nest")
				}
			}
		}
		if at+left != len(b) {
			t.Errorf("%d bytes parsed and %d left of %d", at, left, len(b))
		}
		if left >= HeaderLen {
			if n := int(ne.Uint16(b[at:])); n >= HeaderLen && n <= left {
				t.Error("it stopped before an attribute")
			}
		}
		var again []byte
		for _, a := range as {
			typ := a.Type
			if a.Nested {
				typ |= FlagNested
			}
			again = Append(again, typ, a.Data)
		}
		back, _ := Parse(again, 16)
		if len(back) != len(as) {
			t.Fatalf("%d attributes after a round trip, %d before", len(back), len(as))
		}
		for i := range as {
			if back[i].Type != as[i].Type || back[i].Nested != as[i].Nested || !bytes.Equal(back[i].Data, as[i].Data) {
				t.Errorf("attribute %d changed in a round trip", i)
			}
		}
	})
}

// FuzzValidate: no bytes upset a policy; what a strict mode takes, the liberal one
// takes too.
func FuzzValidate(f *testing.F) {
	fuzzCorpus(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		as, left := Parse(b, 16)
		liberal := testPolicy.Validate(as, left, Liberal)
		deprecated := testPolicy.Validate(as, left, DeprecatedStrict)
		strict := testPolicy.Validate(as, left, Strict)
		if strict == nil && deprecated != nil || deprecated == nil && liberal != nil {
			t.Errorf("strict %v, deprecated %v, liberal %v", strict, deprecated, liberal)
		}
		for _, err := range []error{liberal, deprecated, strict} {
			if err == nil {
				continue
			}
			e := AsError(err)
			if e.Errno == 0 || e.Msg == "" {
				t.Errorf("refused without a reason: %+v", e)
			}
			if e.Offset != 0 && (e.Offset < 16 || e.Offset+HeaderLen > 16+len(b)) {
				t.Errorf("offset %d in a message of %d bytes", e.Offset, 16+len(b))
			}
		}
	})
}
