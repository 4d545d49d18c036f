package nlattr

import "math"

// NL_POLICY_TYPE_ATTR_* (uapi/linux/netlink.h).
const (
	policyType      = 1
	policyMinSigned = 2
	policyMaxSigned = 3
	policyMin       = 4
	policyMax       = 5
	policyMinLength = 6
	policyMaxLength = 7
	policyMask      = 12
)

// policyTypes are the NL_ATTR_TYPE_* of the kinds. Unspec, MinLen and Reject have
// none: the kernel does not describe them.
var policyTypes = map[Kind]uint32{
	Flag: 1, U8: 2, U16: 3, U32: 4, U64: 5, S32: 8, Binary: 10, String: 11, NulString: 12, Nested: 13,
}

// describe returns the content of NLMSGERR_ATTR_POLICY, nil where the kernel sends
// none (netlink_policy_dump_write_attr).
func (r Rule) describe() []byte {
	typ, ok := policyTypes[r.Kind]
	if !ok {
		return nil
	}
	var b []byte
	switch r.Kind {
	case U8, U16, U32, U64:
		lo, hi := uint64(0), uint64(math.MaxUint64)
		if r.Kind != U64 {
			hi = 1<<(8*fixedLen[r.Kind]) - 1
		}
		switch {
		case r.Mask != 0:
			b = AppendU64(b, policyMask, r.Mask)
		default:
			if r.Ranged {
				lo, hi = uint64(r.Min), uint64(r.Max)
			}
			b = AppendU64(AppendU64(b, policyMin, lo), policyMax, hi)
		}
	case S32:
		lo, hi := int64(math.MinInt32), int64(math.MaxInt32)
		if r.Ranged {
			lo, hi = r.Min, r.Max
		}
		b = AppendU64(AppendU64(b, policyMinSigned, uint64(lo)), policyMaxSigned, uint64(hi))
	case String, NulString, Binary:
		lo, hi := int64(0), int64(r.Len)
		switch {
		case r.Exact:
			lo = hi
		case r.Ranged:
			lo, hi = r.Min, r.Max
		}
		if lo != 0 {
			b = AppendU32(b, policyMinLength, uint32(lo))
		}
		if hi != 0 {
			b = AppendU32(b, policyMaxLength, uint32(hi))
		}
	}
	return AppendU32(b, policyType, typ)
}
