package bridge

import (
	"encoding/binary"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

func ip4(a, b, c, d byte) [16]byte { return [16]byte{a, b, c, d} }

var (
	groupG = ip4(239, 1, 1, 1)
	groupH = ip4(239, 1, 1, 2)
)

func entry4(ifindex int, state uint8, addr [16]byte) mdbEntry {
	return mdbEntry{ifindex: ifindex, state: state, addr: addr, proto: groupIPv4}
}

func (e mdbEntry) attr() []byte { return nlattr.Append(nil, uapi.MDBASetEntry, e.append(nil)) }

func setAttrs(p ...[]byte) []byte { return nest(uapi.MDBASetEntryAttrs, p...) }

func source(a, b, c, d byte) []byte { return abytes(uapi.MDBEAttrSource, a, b, c, d) }

func sources(last ...byte) []byte {
	var list [][]byte
	for _, x := range last {
		list = append(list, nest(1, abytes(1, 10, 0, 0, x)))
	}
	return nest(uapi.MDBEAttrSrcList, list...)
}

func mode(m uint8) []byte { return a8(uapi.MDBEAttrGroupMode, m) }

func (r *rig) mdb(typ, flags uint16, e mdbEntry, more ...[]byte) error {
	return r.b.MDBRequest(typ, flags, attrs(append([][]byte{e.attr()}, more...)...))
}

func (r *rig) mdbAdd(e mdbEntry, more ...[]byte) {
	r.t.Helper()
	wantErr(r.t, "mdb add", r.mdb(unix.RTM_NEWMDB, 0, e, more...), 0, "")
}

func TestMDBErrors(t *testing.T) {
	const (
		einval = syscall.EINVAL
		erange = syscall.ERANGE
	)
	r := newRig(t, 2)
	change(r.port(2), func(l *netdev.LinkState) { l.Up = false })
	o := newRig(t, 1)
	r.other[77] = o.port(1)
	l2 := mdbEntry{ifindex: 1, addr: [16]byte{1, 0, 0, 0, 0, 1}}
	with := func(e mdbEntry, f func(*mdbEntry)) mdbEntry { f(&e); return e }
	perm := entry4(1, 1, groupG)
	for _, c := range []struct {
		name  string
		e     mdbEntry
		more  []byte
		errno syscall.Errno
		msg   string
	}{
		{"ifindex 0", entry4(0, 0, ip4(1, 2, 3, 4)), nil, einval, "Zero entry ifindex is not allowed"},
		{"not multicast", entry4(1, 9, ip4(198, 51, 100, 1)), nil, einval, "IPv4 entry group address is not multicast or 0.0.0.0"},
		{"0.0.0.1", entry4(1, 1, ip4(0, 0, 0, 1)), nil, einval, "IPv4 entry group address is not multicast or 0.0.0.0"},
		{"0.0.0.0", entry4(1, 1, ip4(0, 0, 0, 0)), nil, einval, "bridge: IPv4 entry group address 0.0.0.0 is not allowed"},
		{"local", entry4(1, 1, ip4(224, 0, 0, 5)), nil, einval, "IPv4 entry group address is local multicast"},
		{"all nodes", mdbEntry{ifindex: 1, state: 1, proto: groupIPv6, addr: [16]byte{0: 0xff, 1: 2, 15: 1}}, nil, einval, "IPv6 entry group address is link-local all nodes"},
		{"L2 unicast", mdbEntry{ifindex: 1, state: 1, addr: [16]byte{2}}, nil, einval, "L2 entry group is not multicast"},
		{"protocol", mdbEntry{ifindex: 1, state: 9, proto: 0x1234}, nil, einval, "Unknown entry protocol"},
		{"state", with(perm, func(e *mdbEntry) { e.state, e.vid = 2, 5000 }), nil, einval, "Unknown entry state"},
		{"vid", with(perm, func(e *mdbEntry) { e.vid = 4095 }), nil, einval, "Invalid entry VLAN id"},
		{"no device", entry4(98, 1, groupG), nil, syscall.ENODEV, "bridge: Port net device doesn't exist"},
		{"no port", entry4(99, 1, groupG), nil, einval, "bridge: Net device is not a bridge port"},
		{"foreign port", entry4(77, 1, groupG), nil, einval, "bridge: Port belongs to a different bridge device"},
		{"host permanent", entry4(bridgeIndex, 1, groupG), nil, einval, "bridge: Flags are not allowed for host groups"},
		{"host with source", entry4(bridgeIndex, 0, groupG), setAttrs(source(192, 0, 2, 9)), einval, "bridge: Groups with sources cannot be manually host joined"},
		{"host mode", entry4(bridgeIndex, 0, groupG), setAttrs(mode(0)), einval, "bridge: Filter mode cannot be set for host groups"},
		{"host protocol", entry4(bridgeIndex, 0, groupG), setAttrs(a8(4, 5)), einval, "bridge: Protocol cannot be set for host groups"},
		{"L2 temporary", l2, nil, einval, "bridge: Only permanent L2 entries allowed"},
		{"L2 source", with(l2, func(e *mdbEntry) { e.state = 1 }), setAttrs(source(1, 2, 3, 4)), einval, "bridge: Invalid protocol used with source address"},
		{"disabled port", entry4(2, 0, groupG), nil, einval, "bridge: Port is in disabled state and entry is not permanent"},
		{"not nested", perm, plain(uapi.MDBASetEntryAttrs, mode(0)), einval, "NLA_F_NESTED is missing"},
		{"unknown attribute", perm, setAttrs(a8(11, 0)), einval, "Unknown attribute type"},
		{"vxlan attribute", perm, setAttrs(a32(5, 0)), einval, "Unsupported attribute"},
		{"source length", perm, setAttrs(abytes(1, 1, 2, 3)), erange, "binary attribute size out of range"},
		{"source length 5", perm, setAttrs(abytes(1, 1, 2, 3, 4, 5)), einval, "bridge: IPv4 invalid source address length"},
		{"source multicast", perm, setAttrs(source(239, 1, 1, 2)), einval, "bridge: IPv4 multicast source address is not allowed"},
		{"mode 2", perm, setAttrs(mode(2)), erange, "integer out of range"},
		{"protocol 3", perm, setAttrs(a8(4, 3)), erange, "integer out of range"},
		{"include nothing", perm, setAttrs(mode(1)), einval, "bridge: Cannot add (*, G) INCLUDE with an empty source list"},
		{"mode of (S, G)", perm, setAttrs(source(1, 2, 3, 4), mode(0)), einval, "bridge: Filter mode can only be set for (*, G) entries"},
		{"list without mode", perm, setAttrs(sources(1)), einval, "bridge: Source list cannot be set without filter mode"},
		{"list of (S, G)", perm, setAttrs(source(1, 2, 3, 4), sources(1)), einval, "bridge: Source list can only be set for (*, G) entries"},
		{"list entry not nested", perm, setAttrs(mode(0), nest(2, plain(1, abytes(1, 1, 2, 3, 4)))), einval, "NLA_F_NESTED is missing"},
		{"list entry empty", perm, setAttrs(mode(0), nest(2, nest(1))), einval, ""},
		{"list entry IPv6", perm, setAttrs(mode(0), nest(2, nest(1, abytes(1, make([]byte, 16)...)))), einval, "bridge: IPv4 invalid source address length"},
		{"32 sources", perm, setAttrs(mode(0), sources(slices.Repeat([]byte{1}, 32)...)), einval, "bridge: Exceeded maximum number of source entries (31)"},
	} {
		wantErr(t, c.name, r.mdb(unix.RTM_NEWMDB, 0, c.e, c.more), c.errno, c.msg)
	}
	wantErr(t, "missing", r.b.MDBRequest(unix.RTM_NEWMDB, 0, nil), einval, "Missing MDBA_SET_ENTRY attribute")
	wantErr(t, "length", r.b.MDBRequest(unix.RTM_NEWMDB, 0, attrs(abytes(1, make([]byte, 27)...))), einval, "Invalid attribute length")
	if len(r.b.mdb.list) != 0 {
		t.Errorf("%d groups", len(r.b.mdb.list))
	}
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_SNOOPING, 0)))
	wantErr(t, "snooping off", r.mdb(unix.RTM_NEWMDB, 0, perm), einval, "bridge: Bridge's multicast processing is disabled")
	r.up(false)
	wantErr(t, "down", r.mdb(unix.RTM_DELMDB, 0, perm), einval, "bridge: Bridge device is not running")
}

func TestMDBDuplicatesAndLimits(t *testing.T) {
	r := newRig(t, 2)
	host := entry4(bridgeIndex, 0, groupG)
	r.mdbAdd(entry4(1, 1, groupG))
	r.mdbAdd(entry4(1, 1, groupG), setAttrs(source(10, 0, 0, 1)))
	r.mdbAdd(host)
	for _, c := range []struct {
		flags uint16
		e     mdbEntry
		more  []byte
		errno syscall.Errno
		msg   string
	}{
		{0, entry4(1, 0, groupG), nil, syscall.EEXIST, "bridge: (*, G) group is already joined by port"},
		{0, entry4(1, 1, groupG), setAttrs(source(10, 0, 0, 1)), syscall.EEXIST, "bridge: (S, G) group is already joined by port"},
		{0, host, nil, syscall.EEXIST, "bridge: Group is already joined by host"},
		{replace, host, nil, 0, ""},
		{replace, entry4(1, 0, groupG), nil, 0, ""},
	} {
		wantErr(t, "again", r.mdb(unix.RTM_NEWMDB, c.flags, c.e, c.more), c.errno, c.msg)
	}
	for _, e := range []mdbEntry{entry4(2, 1, groupG), entry4(1, 1, groupH), entry4(bridgeIndex, 0, groupH)} {
		wantErr(t, "missing", r.mdb(unix.RTM_DELMDB, 0, e), syscall.EINVAL, "")
	}
	set(t, r.port(1), a32(unix.IFLA_BRPORT_MCAST_MAX_GROUPS, 2))
	wantErr(t, "limit", r.mdb(unix.RTM_NEWMDB, 0, entry4(1, 1, groupH)), syscall.ENOMEM, "bridge: Port is already in 2 groups, and mcast_max_groups=2")
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_MCAST_HASH_MAX, 2)))
	wantErr(t, "hash_max", r.mdb(unix.RTM_NEWMDB, 0, entry4(2, 1, groupH)), syscall.E2BIG, "")
	if r.b.mcast.snooping {
		t.Error("snooping still on")
	}
	_, err := r.b.MDBGet(attrs(abytes(1, entry4(0, 0, groupH).append(nil)...)))
	wantErr(t, "get", err, syscall.ENOENT, "bridge: MDB entry not found")
	body, err := r.b.MDBGet(attrs(abytes(1, entry4(0, 0, groupG).append(nil)...)))
	wantErr(t, "get", err, 0, "")
	if got, want := describeMDB(body), "mdb 239.1.1.1 dev10 state 0 flags 0 timer 26000; mdb 239.1.1.1 dev1 state 0 flags 0 timer 26000 proto 4"; got != want {
		t.Error(got)
	}
}

// TestMDBSources follows a run of the kernel with igmp_version 3.
func TestMDBSources(t *testing.T) {
	r := newRig(t, 3)
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_IGMP_VERSION, 3)))
	r.events()
	const g = "mdb 239.1.1.1 "
	r.mdbAdd(entry4(1, 0, groupG), setAttrs(mode(1), sources(1, 2)))
	r.want(g+"dev1 state 0 flags 0 src 10.0.0.1 proto 4 mode 1", g+"dev1 state 0 flags 0 src 10.0.0.2 proto 4 mode 1",
		g+"dev1 state 0 flags 0 proto 4 list 10.0.0.2 10.0.0.1 mode 1")
	r.mdbAdd(entry4(2, 1, groupG), setAttrs(mode(0), sources(1, 3)))
	r.want(g+"dev2 state 1 flags 8 src 10.0.0.1 proto 4 mode 1", g+"dev2 state 1 flags 8 src 10.0.0.3 proto 4 mode 1",
		g+"dev2 state 1 flags 0 proto 4 list 10.0.0.3 10.0.0.1 mode 0", g+"dev2 state 0 flags 0 src 10.0.0.2 proto 2 mode 1")
	r.mdbAdd(entry4(3, 1, groupG))
	r.want(g+"dev3 state 1 flags 0 proto 4 mode 0", g+"dev3 state 0 flags 0 src 10.0.0.3 proto 2 mode 1",
		g+"dev3 state 0 flags 0 src 10.0.0.1 proto 2 mode 1", g+"dev3 state 0 flags 0 src 10.0.0.2 proto 2 mode 1")
	r.mdbAdd(entry4(bridgeIndex, 0, groupG))
	r.want(g + "dev10 state 0 flags 0 timer 26000")
	wantErr(t, "replace", r.mdb(unix.RTM_NEWMDB, replace, entry4(1, 0, groupG), setAttrs(mode(1), sources(2, 4), a8(4, 9))), 0, "")
	got := r.events()
	slices.Sort(got[2:4]) // the order of other ports is not defined
	want := []string{
		g + "dev1 state 0 flags 0 src 10.0.0.2 proto 9 mode 1", g + "dev1 state 0 flags 0 src 10.0.0.4 proto 9 mode 1",
		g + "dev2 state 0 flags 0 src 10.0.0.4 proto 2 mode 1", g + "dev3 state 0 flags 0 src 10.0.0.4 proto 2 mode 1",
		"del " + g + "dev1 state 0 flags 0 src 10.0.0.1 proto 4 mode 1", "del " + g + "dev3 state 0 flags 4 src 10.0.0.1 proto 2 mode 1",
		g + "dev1 state 0 flags 0 proto 9 list 10.0.0.4 10.0.0.2 mode 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("replace:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantErr(t, "add (S, G)", r.mdb(unix.RTM_NEWMDB, 0, entry4(2, 1, groupG), setAttrs(source(10, 0, 0, 2))), syscall.EEXIST, "bridge: (S, G) group is already joined by port")
	wantErr(t, "del 3", r.mdb(unix.RTM_DELMDB, 0, entry4(3, 0, groupG)), 0, "")
	got = r.events()
	// The kernel drops its part in what p1 and p2 have of their own.
	if got[0] != "del "+g+"dev3 state 1 flags 0 proto 4 mode 0" || len(got) != 4 {
		t.Errorf("del 3:\n%s", strings.Join(got, "\n"))
	}
	wantErr(t, "bulk", r.mdb(unix.RTM_DELMDB, uapi.NLMBulk, mdbEntry{}), 0, "")
	if len(r.b.mdb.list) != 0 || r.b.mdb.table.Len() != 0 || r.port(1).mcast.groups != 0 {
		t.Error("groups left")
	}
}

func TestMDBPortAndSnooping(t *testing.T) {
	r := newRig(t, 2)
	r.mdbAdd(entry4(1, 1, groupG))
	r.mdbAdd(entry4(1, 0, groupH))
	r.mdbAdd(entry4(2, 0, groupH))
	r.mdbAdd(entry4(bridgeIndex, 0, groupH))
	r.events()
	change(r.port(2), func(l *netdev.LinkState) { l.Up = false })
	r.want("f7 p2 state 0", "del mdb 239.1.1.2 dev2 state 0 flags 0 timer 26000 proto 4")
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_SNOOPING, 0)))
	r.want("del mdb 239.1.1.2 dev1 state 0 flags 0 timer 26000 proto 4")
	r.release(r.port(1))
	r.want("f7 p1 state 0", "carrier false", "f7 del p1", "del 02:00:00:00:10:01 dev1 80", "released p1", "del mdb 239.1.1.1 dev1 state 1 flags 0 proto 4")
	if got := describeMDB(append(make([]byte, 0), r.b.MDBDump()...)); got != "mdb 239.1.1.2 dev10 state 0 flags 0 timer 26000" {
		t.Error(got)
	}
	r.clock.Advance(260 * time.Second)
	r.want("del mdb 239.1.1.2 dev10 state 0 flags 0")
}

func TestMDBTimersAndBulk(t *testing.T) {
	r := newRig(t, 2)
	r.mdbAdd(entry4(1, 0, groupG))
	r.mdbAdd(entry4(1, 1, groupH))
	r.mdbAdd(mdbEntry{ifindex: bridgeIndex, state: 1, addr: [16]byte{1, 0, 0, 0, 0, 1}})
	r.events()
	r.clock.Advance(260 * time.Second)
	r.want("del mdb 239.1.1.1 dev1 state 0 flags 0 proto 4")
	bulk := func(e mdbEntry, more ...[]byte) {
		t.Helper()
		wantErr(t, "bulk", r.mdb(unix.RTM_DELMDB, uapi.NLMBulk, e, more...), 0, "")
	}
	bulk(mdbEntry{}, setAttrs(a8(uapi.MDBEAttrStateMask, 1)))
	bulk(mdbEntry{ifindex: 2})
	bulk(mdbEntry{vid: 7})
	bulk(mdbEntry{}, setAttrs(a8(uapi.MDBEAttrRTProt, 5)))
	r.want()
	bulk(mdbEntry{}, setAttrs(a8(uapi.MDBEAttrRTProt, 4)))
	r.want("del mdb 239.1.1.2 dev1 state 1 flags 0 proto 4")
	bulk(mdbEntry{state: 1}, setAttrs(a8(uapi.MDBEAttrStateMask, 1)))
	r.want("del mdb 01:00:00:00:00:01 dev10 state 1 flags 0")
	for _, c := range []struct {
		e    mdbEntry
		more []byte
		msg  string
	}{
		{mdbEntry{state: 2}, nil, "Unknown entry state"},
		{mdbEntry{flags: 1}, nil, "Entry flags cannot be set"},
		{mdbEntry{vid: 4095}, nil, "Invalid entry VLAN id"},
		{entry4(0, 0, groupG), nil, "Entry address cannot be set"},
		{mdbEntry{proto: groupIPv4}, nil, "Entry address cannot be set"},
		{mdbEntry{}, setAttrs(a8(uapi.MDBEAttrStateMask, 2)), "reserved bit set"},
		{mdbEntry{}, setAttrs(mode(0)), "Unsupported attribute"},
	} {
		wantErr(t, c.msg, r.mdb(unix.RTM_DELMDB, uapi.NLMBulk, c.e, c.more), syscall.EINVAL, c.msg)
	}
}

func TestRouterPorts(t *testing.T) {
	r := newRig(t, 2)
	p := r.port(1)
	router := func(v uint8) { t.Helper(); set(t, p, a8(unix.IFLA_BRPORT_MULTICAST_ROUTER, v)) }
	router(2)
	r.want("router dev1")
	if got := describeMDB(r.b.MDBDump()); got != "router dev1" {
		t.Error(got)
	}
	router(1)
	r.want("del router dev1")
	router(2)
	router(0)
	r.want("router dev1", "del router dev1")
	router(3)
	r.clock.Advance(200 * time.Second)
	router(3)
	r.clock.Advance(254 * time.Second)
	r.want("router dev1")
	r.clock.Advance(time.Second)
	r.want("del router dev1")
	if p.mcast.router != 1 {
		t.Errorf("router %d", p.mcast.router)
	}
	router(2)
	r.events()
	change(p, func(l *netdev.LinkState) { l.Up = false })
	r.want("f7 p1 state 0", "del router dev1")
	change(p, func(l *netdev.LinkState) { l.Up = true })
	r.want("f7 p1 state 3", "router dev1", "f7 p1 state 3")
}

// udp4 is an IPv4 frame to a group.
func udp4(dst [16]byte, src byte) []byte {
	f := ether(0x01005e000000|uapi.MAC(dst[1]&0x7f)<<16|uapi.MAC(dst[2])<<8|uapi.MAC(dst[3]), macA)
	binary.BigEndian.PutUint16(f[12:], groupIPv4)
	ip := f[14:34]
	copy(ip, []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, src})
	copy(ip[16:], dst[:4])
	binary.BigEndian.PutUint16(ip[10:], checksum(0, ip))
	return f
}

func TestMulticastForwarding(t *testing.T) {
	r := newRig(t, 4)
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_QUERIER, 1)))
	r.mdbAdd(entry4(2, 1, groupG))
	r.mdbAdd(mdbEntry{ifindex: 3, state: 1, addr: [16]byte{1, 0, 0, 0, 0, 1}})
	set(t, r.port(4), a8(unix.IFLA_BRPORT_MULTICAST_ROUTER, 2))
	try := func(what string, f []byte, want string) {
		t.Helper()
		r.send(r.port(1), f)
		if got := r.got(); got != want {
			t.Errorf("%s: got by %q, want %q", what, got, want)
		}
	}
	all := "p2 p3 p4 host"
	try("before the querier is relied upon", udp4(groupG, 1), all)
	r.clock.Advance(11 * time.Second)
	try("member and router", udp4(groupG, 1), "p2 p4")
	try("unregistered", udp4(groupH, 1), "p4")
	try("local group", udp4(ip4(224, 0, 0, 5), 1), all)
	try("L2 group", ether(0x010000000001, macA), "p3 p4")
	try("other L2", ether(0x010000000002, macA), all)
	r.mdbAdd(entry4(bridgeIndex, 0, groupG))
	try("host joined", udp4(groupG, 1), "p2 p4 host")
	r.send(nil, udp4(groupG, 1))
	if got := r.got(); got != "p2 p4" {
		t.Errorf("from the host: %q", got)
	}
	bad := udp4(groupG, 1)
	bad[20]++
	try("checksum", bad, "")
	if r.port(1).drops.Malformed.Load() != 1 {
		t.Error("not counted")
	}
	set(t, r.port(2), a8(unix.IFLA_BRPORT_MCAST_FLOOD, 0))
	try("a member without mcast_flood", udp4(groupG, 1), "p2 p4 host")
	wantErr(t, "source", r.mdb(unix.RTM_NEWMDB, replace, entry4(2, 1, groupG), setAttrs(mode(1), sources(1))), 0, "")
	try("sources do not count in version 2", udp4(groupG, 7), "p2 p4 host")
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_IGMP_VERSION, 3)))
	try("INCLUDE, its source, which the host does not follow in version 2", udp4(groupG, 1), "p2 p4")
	try("INCLUDE, another source", udp4(groupG, 7), "p4 host")
	report := udp4(groupG, 1)
	report[14+9], report[34] = 2, igmpReportV2
	copy(report[38:], groupG[:4])
	binary.BigEndian.PutUint16(report[24:], 0)
	binary.BigEndian.PutUint16(report[24:], checksum(0, report[14:34]))
	binary.BigEndian.PutUint16(report[36:], checksum(0, report[34:42]))
	try("a report", report, "p4")
	try("registered, reported", udp4(groupG, 7), "p4 host")
	try("unregistered, but hosts report groups", udp4(groupH, 7), "p3 p4 host")
	tagged := udp4(groupG, 7)
	tagged = slices.Insert(tagged, 12, 0x81, 0, 0, 5)
	try("tagged", tagged, "p4 host")
	_ = r.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_SNOOPING, 0)))
	try("snooping off", udp4(groupG, 7), "p3 p4 host")
}

func TestClassifyControl(t *testing.T) {
	igmp := func(typ byte, group [4]byte, dst [16]byte) *netdev.Frame {
		f := udp4(dst, 1)
		f[14+9] = 2
		binary.BigEndian.PutUint16(f[24:], 0)
		binary.BigEndian.PutUint16(f[24:], checksum(0, f[14:34]))
		m := f[34:42]
		copy(m, []byte{typ, 0, 0, 0, group[0], group[1], group[2], group[3]})
		binary.BigEndian.PutUint16(m[2:], checksum(0, m))
		return netdev.NewFrame(f)
	}
	hosts := ip4(224, 0, 0, 1)
	for _, c := range []struct {
		name            string
		f               *netdev.Frame
		ok, ctl, routed bool
	}{
		{"report", igmp(igmpReportV2, [4]byte{239, 1, 1, 1}, groupG), true, true, true},
		{"leave", igmp(igmpLeave, [4]byte{239, 1, 1, 1}, ip4(224, 0, 0, 2)), true, true, false},
		{"query", igmp(igmpQuery, [4]byte{}, hosts), true, true, false},
		{"general query elsewhere", igmp(igmpQuery, [4]byte{}, groupG), false, true, false},
		{"other", igmp(0x99, [4]byte{}, groupG), true, false, true},
	} {
		got, ok := classify(c.f)
		if ok != c.ok || got.control != c.ctl || got.routersOnly != c.routed {
			t.Errorf("%s: %+v %v", c.name, got, ok)
		}
	}
}
