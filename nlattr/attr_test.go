package nlattr

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	a := AppendU32(nil, 3, 7)
	odd := Append(nil, 5|FlagNested, []byte{1, 2, 3, 4, 5})
	lie := func(b []byte, n uint16) []byte {
		b = bytes.Clone(b)
		ne.PutUint16(b, n)
		return b
	}
	for _, c := range []struct {
		name  string
		in    []byte
		types []uint16
		left  int
	}{
		{"nothing", nil, nil, 0},
		{"less than a header", []byte{4, 0, 1}, nil, 3},
		{"one", a, []uint16{3}, 0},
		{"an empty one", []byte{4, 0, 9, 0}, []uint16{9}, 0},
		{"two", append(bytes.Clone(a), odd...), []uint16{3, 5}, 0},
		{"no padding at the end", odd[:9], []uint16{5}, 0},
		{"half the padding at the end", odd[:10], []uint16{5}, 0},
		{"bytes behind", append(bytes.Clone(a), 1, 2, 3), []uint16{3}, 3},
		{"length 0", append(bytes.Clone(a), lie(a, 0)...), []uint16{3}, 8},
		{"length 3", lie(a, 3), nil, 8},
		{"length beyond the end", lie(a, 9), nil, 8},
		{"length to the end", append(lie(a, 16), a...), []uint16{3}, 0},
		{"flags are no type", AppendFlag(nil, FlagNested|FlagNetByteOrder|TypeMask), []uint16{TypeMask}, 0},
	} {
		as, left := Parse(c.in, 100)
		var types []uint16
		for _, a := range as {
			types = append(types, a.Type)
			if !bytes.HasPrefix(c.in[a.Off-100+HeaderLen:], a.Data) || cap(a.Data) != len(a.Data) {
				t.Errorf("%s: attribute %d is not where it says", c.name, a.Type)
			}
		}
		if fmt.Sprint(types) != fmt.Sprint(c.types) || left != c.left {
			t.Errorf("%s: types %v, %d left; want %v, %d", c.name, types, left, c.types, c.left)
		}
	}
}

func TestAttrs(t *testing.T) {
	b, mark := Nest(nil, 9|FlagNested)
	b = EndNest(AppendU8(AppendU32(b, 1, 5), 2, 6), mark)
	b = AppendU32(AppendU32(b, 3, 1), 3, 2)
	as, _ := Parse(b, 32)
	if a, ok := as.Get(3); !ok || a.U32() != 2 {
		t.Error("not the last of two counts")
	}
	if as.Has(4) || !as.Has(9) {
		t.Error("Has")
	}
	if a, ok := as.Get(4); ok || a.Data != nil || a.U32() != 0 || a.Nest() != nil {
		t.Error("an absent attribute has a value")
	}
	nest, _ := as.Get(9)
	in := nest.Nest()
	if !nest.Nested || len(in) != 2 || in[0].Off != 36 || in[1].Off != 44 || in[1].U8() != 6 {
		t.Errorf("nest %+v", in)
	}
}

// TestNumbers: what is too short is 0, what is too long counts as far as it goes.
func TestNumbers(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for n := range len(data) {
		a := Attr{Data: data[:n]}
		want := func(size int, f func([]byte) uint64) uint64 {
			if n < size {
				return 0
			}
			return f(data)
		}
		for _, c := range []struct {
			name      string
			got, want uint64
		}{
			{"U8", uint64(a.U8()), want(1, func(b []byte) uint64 { return uint64(b[0]) })},
			{"U16", uint64(a.U16()), want(2, func(b []byte) uint64 { return uint64(ne.Uint16(b)) })},
			{"BE16", uint64(a.BE16()), want(2, func(b []byte) uint64 { return uint64(be.Uint16(b)) })},
			{"U32", uint64(a.U32()), want(4, func(b []byte) uint64 { return uint64(ne.Uint32(b)) })},
			{"BE32", uint64(a.BE32()), want(4, func(b []byte) uint64 { return uint64(be.Uint32(b)) })},
			{"U64", a.U64(), want(8, func(b []byte) uint64 { return ne.Uint64(b) })},
		} {
			if c.got != c.want {
				t.Errorf("%s of %d bytes: %#x, want %#x", c.name, n, c.got, c.want)
			}
		}
	}
	for in, want := range map[string]string{"": "", "a": "a", "a\x00": "a", "\x00a": "", "ab\x00cd\x00": "ab"} {
		if got := (Attr{Data: []byte(in)}).Text(); got != want {
			t.Errorf("text of %q: %q", in, got)
		}
	}
}

// policy is like those of the kernel: a hole, and rules that are strict in every
// parse.
var testPolicy = Policy{
	1: {Kind: U8}, 2: {Kind: U16}, 3: {Kind: U32}, 4: {Kind: U64}, 5: {Kind: S32, Ranged: true, Min: -5, Max: 5},
	6: {Kind: Flag}, 7: {Kind: String, Len: 3}, 8: {Kind: NulString, Len: 3}, 9: {Kind: Binary, Len: 4},
	10: {Kind: Binary, Len: 6, Exact: true}, 11: {Kind: Binary, Ranged: true, Min: 4, Max: 16}, 12: {Kind: Nested},
	13: {Len: 4}, 14: {}, 15: {Kind: Reject}, 16: {Kind: Reject, Msg: "bridge: read-only"},
	17: {Kind: U8, Ranged: true, Min: 0, Max: 1}, 18: {Kind: String}, 19: {Kind: NulString},
	31: {Kind: U8, Ranged: true, Min: 0, Max: 1, Strict: true}, 32: {Kind: Nested, Strict: true}, 33: {Kind: U32, Mask: 5, Strict: true},
	34: {Strict: true},
}

// TestValidate goes through the texts of lib/nlattr.c.
func TestValidate(t *testing.T) {
	const (
		unknown   = "Unknown attribute type"
		length    = "invalid attribute length"
		missing   = "NLA_F_NESTED is missing"
		nested    = "NLA_F_NESTED not expected"
		unsupp    = "Unsupported attribute"
		size      = "binary attribute size out of range"
		number    = "integer out of range"
		reserved  = "reserved bit set"
		einval    = syscall.EINVAL
		erange    = syscall.ERANGE
		ok        = syscall.Errno(0)
		withNest  = FlagNested
		threeMode = -1
	)
	for _, c := range []struct {
		typ   uint16
		data  string
		mode  int // threeMode is all of them
		errno syscall.Errno
		text  string
	}{
		{0, "", int(Liberal), ok, ""}, {0, "", int(Strict), einval, unknown}, {0, "", int(DeprecatedStrict), einval, unknown},
		{20, "x", int(Liberal), ok, ""}, {20, "x", int(Strict), einval, unknown}, {20, "x", int(DeprecatedStrict), einval, unknown},

		{1, "", int(Liberal), erange, failedPolicy}, {1, "", int(DeprecatedStrict), erange, failedPolicy}, {1, "", int(Strict), einval, length},
		{1, "a", threeMode, ok, ""}, {1, "ab", int(Liberal), ok, ""}, {1, "ab", int(DeprecatedStrict), ok, ""}, {1, "ab", int(Strict), einval, length},
		{2, "a", int(Liberal), erange, failedPolicy}, {2, "ab", threeMode, ok, ""}, {2, "abc", int(Strict), einval, length},
		{3, "abc", int(Liberal), erange, failedPolicy}, {3, "abcd", threeMode, ok, ""}, {3, "abcde", int(Liberal), ok, ""},
		{4, "abcdefg", int(Liberal), erange, failedPolicy}, {4, "abcdefgh", threeMode, ok, ""},
		{5, "\x05\x00\x00\x00", threeMode, ok, ""}, {5, "\x06\x00\x00\x00", threeMode, erange, number},
		{5, "\xfb\xff\xff\xff", threeMode, ok, ""}, {5, "\xfa\xff\xff\xff", threeMode, erange, number}, {5, "\x05", int(Liberal), erange, failedPolicy},

		{6, "", threeMode, ok, ""}, {6, "a", threeMode, erange, failedPolicy},
		{7, "", threeMode, erange, failedPolicy}, {7, "abc", threeMode, ok, ""}, {7, "abc\x00", threeMode, ok, ""},
		{7, "abcd", threeMode, erange, failedPolicy}, {7, "abc\x00\x00", threeMode, erange, failedPolicy}, {7, "\x00", threeMode, ok, ""},
		{18, "", threeMode, erange, failedPolicy}, {18, "as long as you like", threeMode, ok, ""},
		{8, "", threeMode, einval, failedPolicy}, {8, "abc", threeMode, einval, failedPolicy}, {8, "abc\x00", threeMode, ok, ""},
		{8, "abcd\x00", threeMode, einval, failedPolicy}, {8, "\x00", threeMode, ok, ""}, {8, "a\x00bcd", threeMode, erange, failedPolicy},
		{19, "abc", threeMode, einval, failedPolicy}, {19, "a long one\x00", threeMode, ok, ""},

		{9, "", threeMode, ok, ""}, {9, "abcd", threeMode, ok, ""}, {9, "abcde", threeMode, erange, failedPolicy},
		{10, "abcde", threeMode, erange, size}, {10, "abcdef", threeMode, ok, ""}, {10, "abcdefg", threeMode, erange, size},
		{11, "abc", threeMode, erange, size}, {11, "abcd", threeMode, ok, ""}, {11, strings.Repeat("a", 17), threeMode, erange, size},

		{12, "", int(Liberal), ok, ""}, {12, "", int(Strict), einval, missing}, {12, "", int(DeprecatedStrict), ok, ""},
		{12 | withNest, "", threeMode, ok, ""}, {12 | withNest, "abc", threeMode, erange, failedPolicy}, {12 | withNest, "\x04\x00\x01\x00", threeMode, ok, ""},
		{3 | withNest, "abcd", int(Liberal), ok, ""}, {3 | withNest, "abcd", int(Strict), einval, nested}, {3 | withNest, "abcd", int(DeprecatedStrict), ok, ""},
		{3 | FlagNetByteOrder, "abcd", threeMode, ok, ""},

		{13, "abc", int(Liberal), erange, failedPolicy}, {13, "abcd", int(Liberal), ok, ""}, {13, "abcde", int(DeprecatedStrict), ok, ""}, {13, "abcd", int(Strict), einval, unsupp},
		{14, "", int(Liberal), ok, ""}, {14 | withNest, "anything", int(DeprecatedStrict), ok, ""}, {14, "", int(Strict), einval, unsupp},
		{15, "", threeMode, einval, failedPolicy}, {16, "", threeMode, einval, "bridge: read-only"},
		{17, "\x01", threeMode, ok, ""}, {17, "\x02", threeMode, erange, number}, {17, "\x02\x00", int(Strict), einval, length},

		{31, "\x01", threeMode, ok, ""}, {31, "\x02", threeMode, erange, number}, {31, "", threeMode, einval, length}, {31, "\x01\x00", threeMode, einval, length},
		{31 | withNest, "\x01", threeMode, einval, nested},
		{32, "", threeMode, einval, missing}, {32 | withNest, "", threeMode, ok, ""},
		{33, "\x05\x00\x00\x00", threeMode, ok, ""}, {33, "\x04\x00\x00\x00", threeMode, ok, ""}, {33, "\x02\x00\x00\x00", threeMode, einval, reserved},
		{34, "", threeMode, einval, unsupp},
	} {
		as, left := Parse(Append(AppendU8(nil, 1, 7), c.typ, []byte(c.data)), 16)
		for _, mode := range []Mode{Liberal, Strict, DeprecatedStrict} {
			if c.mode != threeMode && Mode(c.mode) != mode {
				continue
			}
			name := fmt.Sprintf("type %#x %q mode %d", c.typ, c.data, mode)
			err := testPolicy.Validate(as, left, mode)
			if c.errno == 0 {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			var e *Error
			if !errors.As(err, &e) || e.Errno != c.errno || e.Msg != c.text || e.Offset != 16+8 {
				t.Errorf("%s: %v (%+v), want %v %q", name, err, e, c.errno, c.text)
			}
		}
	}
}

// TestValidateOrder: the first attribute at fault counts, trailing bytes last.
func TestValidateOrder(t *testing.T) {
	b := AppendFlag(AppendU8(AppendU8(nil, 1, 1), 17, 9), 3)
	as, left := Parse(append(b, 1, 2), 0)
	check := func(as Attrs, left int, mode Mode, want string, off int) {
		t.Helper()
		var e *Error
		err := testPolicy.Validate(as, left, mode)
		if want == "" && err != nil || want != "" && (!errors.As(err, &e) || e.Msg != want || e.Offset != off) {
			t.Errorf("mode %d: %+v, want %q @%d", mode, err, want, off)
		}
	}
	check(as, left, Liberal, "integer out of range", 8)
	check(as[2:], left, Strict, "invalid attribute length", 16)
	check(as[:1], left, Liberal, "", 0)
	check(as[:1], left, Strict, LeftoverText, 0)
	check(as[:1], left, DeprecatedStrict, LeftoverText, 0)
	check(nil, 0, Strict, "", 0)
}

func TestErrors(t *testing.T) {
	e := Errf(syscall.EINVAL, "all of %s", "it")
	if e.Msg != "all of it" || e.Error() != "all of it: invalid argument" || !errors.Is(e, syscall.EINVAL) {
		t.Errorf("%v", e)
	}
	if e := Errno(syscall.ENOENT); e.Error() != syscall.ENOENT.Error() {
		t.Errorf("%v", e)
	}
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		msg   string
	}{
		{e, syscall.EINVAL, "all of it"},
		{fmt.Errorf("around: %w", e), syscall.EINVAL, "all of it"},
		{syscall.EBUSY, syscall.EBUSY, ""},
		{fmt.Errorf("around: %w", syscall.EBUSY), syscall.EBUSY, ""},
		{errors.New("what?"), syscall.EIO, "what?"},
	} {
		if got := AsError(c.err); got.Errno != c.errno || got.Msg != c.msg {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
