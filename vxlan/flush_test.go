package vxlan

import (
	"strings"
	"testing"

	"github.com/linkspan/linkspan/uapi"
)

// TestFlush is section 2.7.
func TestFlush(t *testing.T) {
	for _, c := range []struct {
		name  string
		state uint16
		flags uint8
		attrs []byte
		want  string // errno, or which rows are left
	}{
		{"everything", 0, 2, nil, ""},
		{"lladdr", 0, 2, lladdrAttr(macA), `EINVAL "Unsupported attribute"`},
		{"type 0", 0, 2, join(u32(uapi.NDAIfindex, 1), raw(0)), `EINVAL "Unknown attribute type"`},
		{"vni of 2 bytes", 0, 2, u16(uapi.NDAVNI, 1), `EINVAL "invalid attribute length"`},
		{"dst of 3 bytes", 0, 2, raw(uapi.NDADst, 1, 2, 3), `ERANGE "binary attribute size out of range"`},
		{"flag use", 0, 3, nil, `EINVAL "Unsupported fdb flush ndm flag bits set"`},
		{"state reachable", 2, 2, nil, `EINVAL "Unsupported fdb flush ndm state bits set"`},
		{"attributes before flags", 2, 3, u16(uapi.NDAVNI, 1), `EINVAL "invalid attribute length"`},
		{"vni", 0, 2, u32(uapi.NDAVNI, 7), "c b a 0 0"},
		{"port", 0, 2, be16(uapi.NDAPort, 4789), "d"},
		{"dst", 0, 2, ip(uapi.NDADst, "192.0.2.1"), "d c b 0"},
		{"dst of another family", 0, 2, ip(uapi.NDADst, "::"), "d c b a 0 0"},
		{"src vni", 0, 2, u32(uapi.NDASrcVNI, 55), "d b a 0 0"},
		{"not permanent", 0, 2, u16(uapi.NDANdmStateMask, 0x80), "d c a 0 0"},
		{"extern learn", 0, 0x12, u8(uapi.NDANdmFlagsMask, 0x10), "d c b 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, u32(xID, 10), be16(xPort, 4789))
			macD := macC + 1
			names := map[string]string{macA.String(): "a", macB.String(): "b", macC.String(): "c", macD.String(): "d", uapi.MAC(0).String(): "0"}
			s.add(flC|flA, 0, "192.0.2.1")
			s.add(flC|flA, 0, "192.0.2.2")
			s.addState(flC, 0x80, 0x12, macA, "192.0.2.1")
			s.addState(flC, 0x02, 2, macB, "192.0.2.3")
			s.add(flC, macC, "192.0.2.4", u32(uapi.NDASrcVNI, 55))
			s.add(flC, macD, "192.0.2.4", be16(uapi.NDAPort, 9), u32(uapi.NDAVNI, 7))
			err := flushFDB(s.d, neighMessage(testIfindex, c.state, c.flags, c.attrs))
			var left []string
			for _, r := range dump(s.d) {
				left = append(left, names[r[:17]])
			}
			got := strings.Join(left, " ")
			if err != nil {
				got = showErr(err)
			}
			expect(t, "result", got, c.want)
		})
	}
}
