package uapi

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMAC(t *testing.T) {
	for _, c := range []struct {
		b                                      [6]byte
		s                                      string
		multicast, broadcast, valid, linkLocal bool
	}{
		{[6]byte{}, "00:00:00:00:00:00", false, false, false, false},
		{[6]byte{2, 0, 0, 0, 0, 1}, "02:00:00:00:00:01", false, false, true, false},
		{[6]byte{0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54}, "fe:dc:ba:98:76:54", false, false, true, false},
		{[6]byte{1, 0, 0x5e, 0, 0, 1}, "01:00:5e:00:00:01", true, false, false, false},
		{[6]byte{1, 0x80, 0xc2, 0, 0, 0}, "01:80:c2:00:00:00", true, false, false, true},
		{[6]byte{1, 0x80, 0xc2, 0, 0, 0xf}, "01:80:c2:00:00:0f", true, false, false, true},
		{[6]byte{1, 0x80, 0xc2, 0, 0, 0x10}, "01:80:c2:00:00:10", true, false, false, false},
		{[6]byte{0, 0x80, 0xc2, 0, 0, 0}, "00:80:c2:00:00:00", false, false, true, false},
		{[6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "ff:ff:ff:ff:ff:ff", true, true, false, false},
	} {
		m := MACFrom(append(c.b[:], 0x99))
		if m.Bytes() != c.b || !bytes.Equal(m.Append([]byte{7}), append([]byte{7}, c.b[:]...)) || m.String() != c.s {
			t.Errorf("%s: round trip gives %v", c.s, m)
		}
		if m.Multicast() != c.multicast || m.Broadcast() != c.broadcast || m.ValidUnicast() != c.valid || m.LinkLocal() != c.linkLocal {
			t.Errorf("%s: multicast %v, broadcast %v, valid unicast %v, link local %v", c.s, m.Multicast(), m.Broadcast(), m.ValidUnicast(), m.LinkLocal())
		}
	}
	// The order is that of the bytes on the wire.
	if a, b := MACFrom([]byte{0, 0, 0, 0, 1, 0}), MACFrom([]byte{0, 0, 0, 0, 0, 0xff}); a < b {
		t.Error("order of addresses")
	}
}

// TestNdmsg compares with the layout that the kernel's header has in package unix.
func TestNdmsg(t *testing.T) {
	if NdmsgLen != unix.SizeofNdMsg {
		t.Fatal("size")
	}
	for _, m := range []Ndmsg{
		{},
		{Family: 7, Ifindex: 0x12345678, State: 0xc0, Flags: 0x86, Type: 1},
		{Family: math.MaxUint8, Ifindex: -1, State: math.MaxUint16, Flags: math.MaxUint8, Type: math.MaxUint8},
	} {
		b := m.Append(nil)
		if got := ParseNdmsg(append(b, 1, 2, 3)); got != m {
			t.Errorf("%+v became %+v", m, got)
		}
		u := *(*unix.NdMsg)(unsafe.Pointer(&b[0]))
		if u != (unix.NdMsg{Family: m.Family, Ifindex: m.Ifindex, State: m.State, Flags: m.Flags, Type: m.Type}) {
			t.Errorf("%+v is %+v to the kernel", m, u)
		}
	}
	// The paddings are read, for they are checked, and never written.
	m := ParseNdmsg([]byte{7, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	if m.Pad1 != 1 || m.Pad2 == 0 {
		t.Errorf("paddings %d, %d", m.Pad1, m.Pad2)
	}
	if b := m.Append(nil); b[1]|b[2]|b[3] != 0 {
		t.Errorf("paddings are written: %x", b)
	}
}

func TestIfinfomsg(t *testing.T) {
	if IfinfomsgLen != unix.SizeofIfInfomsg {
		t.Fatal("size")
	}
	for _, m := range []Ifinfomsg{
		{},
		{Family: 7, Type: 772, Index: 0x12345678, Flags: 0x11043, Change: 0x100},
		{Family: math.MaxUint8, Type: math.MaxUint16, Index: -1, Flags: math.MaxUint32, Change: math.MaxUint32},
	} {
		b := m.Append(nil)
		if got := ParseIfinfomsg(append(b, 1)); got != m {
			t.Errorf("%+v became %+v", m, got)
		}
		u := *(*unix.IfInfomsg)(unsafe.Pointer(&b[0]))
		if u != (unix.IfInfomsg{Family: m.Family, Type: m.Type, Index: m.Index, Flags: m.Flags, Change: m.Change}) {
			t.Errorf("%+v is %+v to the kernel", m, u)
		}
	}
}

// TestConstants compares with package unix where it has them.
func TestConstants(t *testing.T) {
	for name, c := range map[string][2]int{
		"NDA_LLADDR":              {NDALLAddr, unix.NDA_LLADDR},
		"NDA_MASTER":              {NDAMaster, unix.NDA_MASTER},
		"NDA_FDB_EXT_ATTRS":       {NDAFDBExtAttrs, 14},
		"NTF_SELF":                {NTFSelf, unix.NTF_SELF},
		"NTF_MASTER":              {NTFMaster, unix.NTF_MASTER},
		"NTF_EXT_LEARNED":         {NTFExtLearned, unix.NTF_EXT_LEARNED},
		"NTF_STICKY":              {NTFSticky, 0x40},
		"NUD_REACHABLE":           {NUDReachable, unix.NUD_REACHABLE},
		"NUD_NOARP":               {NUDNoARP, unix.NUD_NOARP},
		"NUD_PERMANENT":           {NUDPermanent, unix.NUD_PERMANENT},
		"NLM_F_REPLACE":           {NLMReplace, unix.NLM_F_REPLACE},
		"NLM_F_EXCL":              {NLMExcl, unix.NLM_F_EXCL},
		"NLM_F_CREATE":            {NLMCreate, unix.NLM_F_CREATE},
		"NLM_F_APPEND":            {NLMAppend, unix.NLM_F_APPEND},
		"NLM_F_BULK":              {NLMBulk, unix.NLM_F_BULK},
		"IFLA_BRIDGE_VLAN_INFO":   {IFLABridgeVLANInfo, 2},
		"NDA_NDM_FLAGS_MASK":      {NDANdmFlagsMask, 17},
		"IFLA_VXLAN_MC_ROUTE":     {IFLAVXLANMCRoute, 34},
		"MDBE_ATTR_STATE_MASK":    {MDBEAttrStateMask, 10},
		"MDBA_MDB_EATTR_SRC_LIST": {MDBAMDBEAttrSrcList, 2},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %#x, want %#x", name, c[0], c[1])
		}
	}
}
