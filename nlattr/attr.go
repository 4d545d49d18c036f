package nlattr

import (
	"encoding/binary"
	"syscall"
)

// HeaderLen is NLA_HDRLEN, the length of struct nlattr.
const HeaderLen = 4

// Bits of nla_type (uapi/linux/netlink.h).
const (
	FlagNested       = 0x8000 // NLA_F_NESTED
	FlagNetByteOrder = 0x4000 // NLA_F_NET_BYTEORDER
	TypeMask         = 0x3fff // NLA_TYPE_MASK
)

var (
	ne = binary.NativeEndian
	be = binary.BigEndian
)

// Attr is one attribute of a message.
type Attr struct {
	// Type is nla_type without its flag bits.
	Type uint16
	// Nested tells whether NLA_F_NESTED was set.
	Nested bool
	// Data is the payload, without padding. It aliases the message.
	Data []byte
	// Off is where the attribute's header begins, in bytes from the start of
	// the nlmsghdr: the value for Error.Offset.
	Off int
}

// U8 returns the first byte, 0 if there is none.
func (a Attr) U8() uint8 {
	if len(a.Data) < 1 {
		return 0
	}
	return a.Data[0]
}

// U16 returns the leading 16 bits in host byte order, 0 if it is shorter.
func (a Attr) U16() uint16 {
	if len(a.Data) < 2 {
		return 0
	}
	return ne.Uint16(a.Data)
}

// BE16 returns the leading 16 bits in network byte order, 0 if it is shorter.
func (a Attr) BE16() uint16 {
	if len(a.Data) < 2 {
		return 0
	}
	return be.Uint16(a.Data)
}

// U32 returns the leading 32 bits in host byte order, 0 if it is shorter.
func (a Attr) U32() uint32 {
	if len(a.Data) < 4 {
		return 0
	}
	return ne.Uint32(a.Data)
}

// BE32 returns the leading 32 bits in network byte order, 0 if it is shorter.
func (a Attr) BE32() uint32 {
	if len(a.Data) < 4 {
		return 0
	}
	return be.Uint32(a.Data)
}

// U64 returns the leading 64 bits in host byte order, 0 if it is shorter.
func (a Attr) U64() uint64 {
	if len(a.Data) < 8 {
		return 0
	}
	return ne.Uint64(a.Data)
}

// Text returns the payload up to its first NUL.
func (a Attr) Text() string {
	for i, c := range a.Data {
		if c == 0 {
			return string(a.Data[:i])
		}
	}
	return string(a.Data)
}

// Nest parses the payload as attributes, liberally: trailing bytes are ignored.
func (a Attr) Nest() Attrs {
	as, _ := Parse(a.Data, a.Off+HeaderLen)
	return as
}

// Attrs are the attributes of one level of a message, in message order.
type Attrs []Attr

// Parse splits b into attributes as nla_for_each_attr does: it stops at the
// first header that lies about its length. off is where b begins in its message,
// counted from the nlmsghdr; leftover is the number of bytes not consumed.
func Parse(b []byte, off int) (as Attrs, leftover int) {
	for len(b) >= HeaderLen {
		n := int(ne.Uint16(b))
		if n < HeaderLen || n > len(b) {
			break
		}
		t := ne.Uint16(b[2:])
		as = append(as, Attr{Type: t & TypeMask, Nested: t&FlagNested != 0, Data: b[HeaderLen:n:n], Off: off})
		adv := min(Align(n), len(b))
		b, off = b[adv:], off+adv
	}
	return as, len(b)
}

// Get returns the attribute of type t. As in the kernel's tb[] arrays the last
// of several wins.
func (as Attrs) Get(t uint16) (Attr, bool) {
	for i := len(as) - 1; i >= 0; i-- {
		if as[i].Type == t {
			return as[i], true
		}
	}
	return Attr{}, false
}

// Has tells whether there is an attribute of type t.
func (as Attrs) Has(t uint16) bool {
	_, ok := as.Get(t)
	return ok
}

// Align rounds n up to NLA_ALIGNTO, which is NLMSG_ALIGNTO too.
func Align(n int) int { return (n + 3) &^ 3 }

// Kind is the type of a policy's attribute (NLA_* in include/net/netlink.h).
type Kind uint8

// Kinds of attributes. The zero Kind, NLA_UNSPEC, accepts any payload of at
// least Len bytes in liberal validation and is refused in strict validation.
const (
	Unspec Kind = iota
	U8
	U16
	U32
	U64
	S32
	Flag
	String    // at most Len bytes besides a trailing NUL
	NulString // String that must end in NUL
	Binary    // at most Len bytes; with Exact, exactly Len
	Nested
	MinLen // at least Len bytes (NLA_MIN_LEN)
	Reject
)

var fixedLen = [...]int{U8: 1, U16: 2, U32: 4, U64: 8, S32: 4, Reject: 0}

// Rule is one attribute's entry in a policy (struct nla_policy).
type Rule struct {
	Kind Kind
	// Len is the length in bytes that the Kind speaks of.
	Len int
	// Exact makes a Binary be of exactly Len bytes (NLA_POLICY_EXACT_LEN).
	Exact bool
	// Ranged makes a number lie in Min..Max, or a Binary's length.
	Ranged   bool
	Min, Max int64
	// Strict validates this attribute strictly even in a liberal parse
	// (strict_start_type).
	Strict bool
	// Mask, if not 0, holds the bits that a number may have (NLA_POLICY_MASK).
	Mask uint64
	// Msg is the text of a Reject.
	Msg string
}

// Policy maps attribute types to rules; a type it lacks is above maxtype.
type Policy map[uint16]Rule

// Mode selects the strictness (enum netlink_validation).
type Mode uint8

// Validation modes: Liberal ignores unknown types, longer payloads and trailing
// bytes; Strict refuses them; DeprecatedStrict refuses unknown types and trailing
// bytes and is liberal otherwise.
const (
	Liberal Mode = iota
	Strict
	DeprecatedStrict
)

// LeftoverText is what the kernel says of trailing bytes, also where it takes them.
const LeftoverText = "bytes leftover after parsing attributes"

const failedPolicy = "Attribute failed policy validation"

// Validate checks as against p as __nla_validate_parse does. leftover is what
// Parse returned; it matters in Strict mode alone.
func (p Policy) Validate(as Attrs, leftover int, mode Mode) error {
	for _, a := range as {
		r, known := p[a.Type]
		if a.Type == 0 || !known {
			if mode != Liberal {
				return ErrAttr(syscall.EINVAL, a, "Unknown attribute type")
			}
			continue
		}
		if err := r.check(a, mode); err != nil {
			return err
		}
	}
	if leftover > 0 && mode != Liberal {
		return Errf(syscall.EINVAL, LeftoverText)
	}
	return nil
}

// check mirrors validate_nla.
func (r Rule) check(a Attr, mode Mode) error {
	n := len(a.Data)
	strict := mode == Strict || r.Strict
	fixed := 0
	if int(r.Kind) < len(fixedLen) {
		fixed = fixedLen[r.Kind]
	}
	refuse := func(errno syscall.Errno, text string) error {
		e := ErrAttr(errno, a, "%s", text)
		e.Policy = r.describe()
		return e
	}
	if strict && fixed != 0 && n != fixed {
		return refuse(syscall.EINVAL, "invalid attribute length")
	}
	if strict && r.Kind == Nested && !a.Nested {
		return refuse(syscall.EINVAL, "NLA_F_NESTED is missing")
	}
	if strict && r.Kind != Nested && r.Kind != Unspec && a.Nested {
		return refuse(syscall.EINVAL, "NLA_F_NESTED not expected")
	}
	bad := func(errno syscall.Errno) error { return refuse(errno, failedPolicy) }
	switch r.Kind {
	case Reject:
		if r.Msg != "" {
			return ErrAttr(syscall.EINVAL, a, "%s", r.Msg)
		}
		return bad(syscall.EINVAL)
	case Flag:
		if n > 0 {
			return bad(syscall.ERANGE)
		}
	case NulString, String:
		if err := r.checkString(a, bad); err != nil {
			return err
		}
	case Binary:
		if !r.Ranged && !r.Exact && r.Len > 0 && n > r.Len {
			return bad(syscall.ERANGE)
		}
		if r.Exact && n != r.Len || r.Ranged && (int64(n) < r.Min || int64(n) > r.Max) {
			return refuse(syscall.ERANGE, "binary attribute size out of range")
		}
	case Nested:
		if n > 0 && n < HeaderLen {
			return bad(syscall.ERANGE)
		}
	case Unspec:
		if strict {
			return ErrAttr(syscall.EINVAL, a, "Unsupported attribute")
		}
		if n < r.Len {
			return bad(syscall.ERANGE)
		}
	case MinLen:
		if n < r.Len {
			return bad(syscall.ERANGE)
		}
	default:
		if n < fixed {
			return bad(syscall.ERANGE)
		}
		v := r.number(a)
		if r.Ranged && (v < r.Min || v > r.Max) {
			return refuse(syscall.ERANGE, "integer out of range")
		}
		if r.Mask != 0 && uint64(v)&^r.Mask != 0 {
			return ErrAttr(syscall.EINVAL, a, "reserved bit set")
		}
	}
	return nil
}

func (r Rule) checkString(a Attr, bad func(syscall.Errno) error) error {
	n := len(a.Data)
	if r.Kind == NulString {
		within := n
		if r.Len > 0 {
			within = min(n, r.Len+1)
		}
		terminated := false
		for _, c := range a.Data[:within] {
			terminated = terminated || c == 0
		}
		if !terminated {
			return bad(syscall.EINVAL)
		}
	}
	if n < 1 {
		return bad(syscall.ERANGE)
	}
	if r.Len > 0 {
		if a.Data[n-1] == 0 {
			n--
		}
		if n > r.Len {
			return bad(syscall.ERANGE)
		}
	}
	return nil
}

func (r Rule) number(a Attr) int64 {
	switch r.Kind {
	case U8:
		return int64(a.U8())
	case U16:
		return int64(a.U16())
	case U32:
		return int64(a.U32())
	case S32:
		return int64(int32(a.U32()))
	}
	return int64(a.U64())
}
