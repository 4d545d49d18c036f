package nlattr

import (
	"encoding/hex"
	"errors"
	"syscall"
	"testing"
)

// TestPolicyOfRefusals compares NLMSGERR_ATTR_POLICY with what Linux 6.18 sends.
func TestPolicyOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		data []byte
		want string
	}{
		{"u32", Rule{Kind: U32}, []byte{1, 2}, "0c00040000000000000000000c000500ffffffff000000000800010004000000"},
		{"u16", Rule{Kind: U16}, []byte{1}, "0c00040000000000000000000c000500ffff0000000000000800010003000000"},
		{"string", Rule{Kind: String, Len: 15}, make([]byte, 17), "080007000f000000080001000b000000"},
		{"nest", Rule{Kind: Nested, Strict: true}, make([]byte, 4), "080001000d000000"},
		{"mask", Rule{Kind: U32, Mask: 5, Strict: true}, []byte{1, 2}, "0c000c0005000000000000000800010004000000"},
		{"reserved bit", Rule{Kind: U32, Mask: 5}, []byte{8, 0, 0, 0}, ""},
		{"unspec", Rule{Len: 28}, []byte{1}, ""},
	} {
		err := Policy{7: c.rule}.Validate(Attrs{{Type: 7, Data: c.data, Off: 32}}, 0, Liberal)
		var e *Error
		if !errors.As(err, &e) || e.Offset != 32 || hex.EncodeToString(e.Policy) != c.want {
			t.Errorf("%s: %v, policy %x", c.name, err, e.Policy)
		}
	}
}

func TestDeprecatedStrict(t *testing.T) {
	p := Policy{1: {Kind: U16}, 2: {Kind: U16, Strict: true}}
	long := []byte{0, 0, 0, 0}
	for _, c := range []struct {
		name string
		as   Attrs
		left int
		want string
	}{
		{"longer", Attrs{{Type: 1, Data: long}}, 0, ""},
		{"longer and strict", Attrs{{Type: 2, Data: long}}, 0, "invalid attribute length"},
		{"unknown", Attrs{{Type: 3}}, 0, "Unknown attribute type"},
		{"leftover", nil, 1, LeftoverText},
	} {
		got := ""
		if err := p.Validate(c.as, c.left, DeprecatedStrict); err != nil {
			e := AsError(err)
			got = e.Msg
			if e.Errno != syscall.EINVAL {
				t.Errorf("%s: %v", c.name, e.Errno)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
