package vxlan

import (
	"testing"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// TestMDBRefusals compares the texts with those of Linux 6.18.
func TestMDBRefusals(t *testing.T) {
	const ifindex = 7
	d := &Device{}
	d.link.Ifindex = ifindex
	entry := func(change func(e []byte)) []byte {
		e := make([]byte, 28)
		e[0], e[4], e[24] = ifindex, 1, 8
		copy(e[8:], []byte{239, 1, 1, 1})
		if change != nil {
			change(e)
		}
		return nlattr.Append(nil, uapi.MDBASetEntry, e)
	}
	with := func(e []byte, attrs ...[]byte) []byte {
		b, mark := nlattr.Nest(e, uapi.MDBASetEntryAttrs|nlattr.FlagNested)
		for _, a := range attrs {
			b = append(b, a...)
		}
		return nlattr.EndNest(b, mark)
	}
	dst := nlattr.Append(nil, uapi.MDBEAttrDst, []byte{192, 0, 2, 9})
	source := nlattr.Append(nil, uapi.MDBEAttrSource, []byte{192, 0, 2, 3})
	for _, c := range []struct {
		name  string
		body  []byte
		nl    uint16
		del   bool
		errno unix.Errno
		text  string
	}{
		{"nothing", nil, 0, true, unix.EINVAL, "Missing MDBA_SET_ENTRY attribute"},
		{"temporary", entry(func(e []byte) { e[4] = 0 }), uapi.NLMCreate, false, unix.EINVAL, "vxlan: MDB entry must be permanent"},
		{"port", entry(func(e []byte) { e[0] = 1 }), uapi.NLMCreate, false, unix.EINVAL, "vxlan: Port net device must be the VXLAN net device"},
		{"no attributes", entry(nil), uapi.NLMCreate, false, unix.EINVAL, "vxlan: Missing MDBA_SET_ENTRY_ATTRS attribute"},
		{"no remote", with(entry(nil), source), uapi.NLMCreate, false, unix.EINVAL, "vxlan: Missing remote destination IP address"},
		{
			"mode with source", with(entry(nil), dst, source, nlattr.AppendU8(nil, uapi.MDBEAttrGroupMode, 1)), 0, true, unix.EINVAL,
			"vxlan: Filter mode can only be set for (*, G) entries",
		},
		{"absent", with(entry(nil), dst), 0, true, unix.ENOENT, "vxlan: Did not find MDB entry"},
		{"no create", with(entry(nil), dst), 0, false, unix.ENOENT, "vxlan: Create not specified and entry does not exist"},
		{"create", with(entry(nil), dst), uapi.NLMCreate, false, unix.EOPNOTSUPP, "linkspan: a tunnel's multicast database cannot have entries"},
		{"flush", entry(func(e []byte) { e[0] = 1 }), uapi.NLMBulk, true, unix.EINVAL, "vxlan: Invalid port net device"},
	} {
		typ := uint16(unix.RTM_NEWMDB)
		if c.del {
			typ = unix.RTM_DELMDB
		}
		as, _ := nlattr.Parse(c.body, 24)
		err := d.MDBRequest(typ, c.nl, as, func(int) bool { return true })
		if err == nil {
			t.Errorf("%s: accepted", c.name)
		} else if e := nlattr.AsError(err); e.Errno != c.errno || e.Msg != c.text {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
