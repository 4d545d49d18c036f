package bridge

import (
	"slices"
	"syscall"
	"testing"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// flushRig has one row of every kind.
func flushRig(t *testing.T) *rig {
	r := newRig(t, 2)
	for i, q := range []FDBRequest{
		{State: noarp, NLFlags: create},
		{State: reachable, NLFlags: create},
		{State: permanent, NLFlags: create},
		{State: reachable, Flags: uapi.NTFExtLearned},
		{State: noarp, Flags: uapi.NTFSticky, NLFlags: create},
	} {
		q.MAC = macA + uapi.MAC(i)
		if err := r.b.FDBAdd(r.port(1+i%2), q); err != nil {
			t.Fatal(err)
		}
	}
	r.send(r.port(1), ether(broadcast, macA+5))
	r.events()
	return r
}

func TestFlush(t *testing.T) {
	const (
		static   = "02:00:00:00:00:01"
		dynamic  = "02:00:00:00:00:02"
		local    = "02:00:00:00:00:03"
		external = "02:00:00:00:00:04"
		sticky   = "02:00:00:00:00:05"
		learned  = "02:00:00:00:00:06"
		p1       = "02:00:00:00:10:01"
		p2       = "02:00:00:00:10:02"
		own      = "02:00:00:00:00:b0"
	)
	all := []string{learned, sticky, external, local, dynamic, static, p2, p1, own}
	stateMask := func(v uint16) []byte { return a16(uapi.NDANdmStateMask, v) }
	flagsMask := func(v uint8) []byte { return a8(uapi.NDANdmFlagsMask, v) }
	for _, c := range []struct {
		name  string
		port  int
		state uint16
		flags uint8
		attrs [][]byte
		gone  []string
	}{
		{name: "everything", gone: all},
		{name: "state without mask", state: noarp, gone: all},
		{name: "static", state: noarp, attrs: [][]byte{stateMask(0xc0)}, gone: []string{sticky, static}},
		{name: "dynamic", attrs: [][]byte{stateMask(0xc0)}, gone: []string{learned, external, dynamic}},
		{name: "permanent", state: permanent, attrs: [][]byte{stateMask(0x80)}, gone: []string{local, p2, p1, own}},
		{name: "outside the mask", state: permanent, attrs: [][]byte{stateMask(0x40)}},
		{name: "by user", flags: uapi.NTFUse, attrs: [][]byte{flagsMask(uapi.NTFUse)}, gone: []string{sticky, external, local, dynamic, static}},
		{name: "extern", flags: uapi.NTFExtLearned, attrs: [][]byte{flagsMask(uapi.NTFExtLearned)}, gone: []string{external}},
		{name: "sticky", flags: uapi.NTFSticky, attrs: [][]byte{flagsMask(uapi.NTFSticky)}, gone: []string{sticky}},
		{name: "offloaded", flags: uapi.NTFOffloaded, attrs: [][]byte{flagsMask(uapi.NTFOffloaded)}},
		{name: "port", attrs: [][]byte{a32(uapi.NDAIfindex, 2)}, gone: []string{external, dynamic, p2}},
		{name: "bridge", attrs: [][]byte{a32(uapi.NDAIfindex, bridgeIndex)}, gone: []string{own}},
		{name: "via port", port: 1, gone: []string{learned, sticky, local, static, p1}},
		{name: "via port, other", port: 1, attrs: [][]byte{a32(uapi.NDAIfindex, 2)}, gone: []string{external, dynamic, p2}},
		{name: "vlan", attrs: [][]byte{a16(uapi.NDAVLAN, 7)}},
	} {
		r := flushRig(t)
		ndm := uapi.Ndmsg{State: c.state, Flags: c.flags | uapi.NTFSelf}
		wantErr(t, c.name, r.b.FDBFlush(r.port(c.port), ndm, attrs(c.attrs...), 0), 0, "")
		var gone []string
		for _, e := range r.events() {
			gone = append(gone, e[4:21])
		}
		if !slices.Equal(gone, c.gone) {
			t.Errorf("%s: gone %v, want %v", c.name, gone, c.gone)
		}
	}
}

func TestFlushErrors(t *testing.T) {
	r := flushRig(t)
	o := newRig(t, 1)
	r.other[77] = o.port(1)
	for _, c := range []struct {
		name  string
		state uint16
		flags uint8
		attrs []byte
		left  int
		errno syscall.Errno
		msg   string
	}{
		{name: "flags", flags: uapi.NTFRouter, errno: syscall.EINVAL, msg: "Unsupported fdb flush ndm flag bits set"},
		{name: "state", state: 1, errno: syscall.EINVAL, msg: "Unsupported fdb flush ndm state bits set"},
		{name: "attribute before flags", flags: uapi.NTFRouter, attrs: a32(1, 3), errno: syscall.EINVAL, msg: "Unsupported attribute"},
		{name: "lladdr", attrs: abytes(2, 1, 2, 3, 4, 5, 6), errno: syscall.EINVAL, msg: "Unsupported attribute"},
		{name: "unknown", attrs: a32(40, 3), errno: syscall.EINVAL, msg: "Unknown attribute type"},
		{name: "vlan length", attrs: a32(uapi.NDAVLAN, 1), errno: syscall.EINVAL, msg: "invalid attribute length"},
		{name: "vlan 0", attrs: a16(uapi.NDAVLAN, 0), errno: syscall.ERANGE, msg: "integer out of range"},
		{name: "vlan 4095", attrs: a16(uapi.NDAVLAN, 4095), errno: syscall.ERANGE, msg: "integer out of range"},
		{name: "ifindex 0", attrs: a32(uapi.NDAIfindex, 0), errno: syscall.ERANGE, msg: "integer out of range"},
		{name: "ifindex -1", attrs: a32(uapi.NDAIfindex, 1<<32-1), errno: syscall.ERANGE, msg: "integer out of range"},
		{name: "leftover", left: 3, errno: syscall.EINVAL, msg: "bytes leftover after parsing attributes"},
		{name: "unknown device", attrs: a32(uapi.NDAIfindex, 98), errno: syscall.ENODEV, msg: "bridge: Unknown flush device ifindex"},
		{name: "no port", attrs: a32(uapi.NDAIfindex, 99), errno: syscall.EINVAL, msg: "bridge: Flush device is not a bridge or bridge port"},
		{name: "foreign port", attrs: a32(uapi.NDAIfindex, 77), errno: syscall.EINVAL, msg: "bridge: Port belongs to a different bridge device"},
	} {
		as, _ := nlattr.Parse(c.attrs, 0)
		wantErr(t, c.name, r.b.FDBFlush(nil, uapi.Ndmsg{State: c.state, Flags: c.flags}, as, c.left), c.errno, c.msg)
	}
	r.want()
}
