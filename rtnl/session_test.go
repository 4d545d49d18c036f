package rtnl_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// What these tests want of bind(2), getsockname(2), setsockopt(2) and
// getsockopt(2) was read off AF_NETLINK sockets of Linux 6.18.

func TestBind(t *testing.T) {
	w := newWorld(t)
	session := func() *rtnl.Session { return w.srv.Client(t).Session }
	type bind struct {
		pid, groups uint32
		want        unix.Errno
	}
	const tgid = 4000
	taken := session()
	if e := taken.Bind(77, 0, tgid); e != 0 {
		t.Fatal(e)
	}
	for _, c := range []struct {
		name        string
		binds       []bind
		pid, groups uint32
	}{
		{"unbound", nil, 0, 0},
		{"by the process's id", []bind{{0, 0, 0}}, tgid, 0},
		{"by an id", []bind{{4242, 5, 0}}, 4242, 5},
		{"to a port that is taken", []bind{{77, 1, unix.EADDRINUSE}}, 0, 0},
		{"again to the same", []bind{{4243, 0, 0}, {4243, 6, 0}}, 4243, 6},
		{"again to another", []bind{{4244, 1, 0}, {4245, 2, unix.EINVAL}}, 4244, 1},
		{"again to 0", []bind{{4246, 1, 0}, {0, 2, unix.EINVAL}}, 4246, 1},
		{"groups are replaced", []bind{{4247, 0xff, 0}, {4247, 0x101, 0}}, 4247, 0x101},
		{"all groups", []bind{{4248, ^uint32(0), 0}}, 4248, ^uint32(0)},
	} {
		s := session()
		for _, b := range c.binds {
			if e := s.Bind(b.pid, b.groups, tgid); e != b.want {
				t.Errorf("%s: bind(%d, %#x): %v", c.name, b.pid, b.groups, e)
			}
		}
		if pid, groups := s.Name(); pid != c.pid || groups != c.groups {
			t.Errorf("%s: name (%d, %#x), want (%d, %#x)", c.name, pid, groups, c.pid, c.groups)
		}
	}
}

func TestAutobind(t *testing.T) {
	w := newWorld(t)
	first, second := w.client(), w.client()
	if pid, _ := first.Session.Name(); pid != 0 {
		t.Fatal("bound before the first message")
	}
	first.must(unix.RTM_GETLINK, 0, link(1))
	second.must(unix.RTM_GETLINK, 0, link(1))
	a, _ := first.Session.Name()
	b, _ := second.Session.Name()
	if a != uint32(os.Getpid()) {
		t.Errorf("the first socket's port is %#x, not the process's id", a)
	}
	if b == 0 || b == a || b < 1<<31 {
		t.Errorf("the second socket's port is %#x", b)
	}
	first.Session.Autobind(1)
	if p, _ := first.Session.Name(); p != a {
		t.Error("bound again")
	}
	// A port is free again once its socket is closed.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third := w.client()
	third.Session.Autobind(uint32(os.Getpid()))
	if p, _ := third.Session.Name(); p != a {
		t.Errorf("the port of a closed socket is not given again: %#x", p)
	}
}

func TestMemberships(t *testing.T) {
	s := newWorld(t).srv.Client(t).Session
	set := func(opt int, g uint32, want unix.Errno) {
		t.Helper()
		if e := s.SetOption(opt, g); e != want {
			t.Errorf("option %d group %d: %v, want %v", opt, g, e, want)
		}
	}
	is := func(want ...uint32) {
		t.Helper()
		if got := s.Memberships(); !slices.Equal(got, want) {
			t.Errorf("memberships %#x, want %#x", got, want)
		}
		if _, groups := s.Name(); groups != want[0] {
			t.Errorf("the name has groups %#x", groups)
		}
	}
	const add, drop = unix.NETLINK_ADD_MEMBERSHIP, unix.NETLINK_DROP_MEMBERSHIP
	is(0, 0)
	if e := s.Bind(4242, 5, 0); e != 0 {
		t.Fatal(e)
	}
	for _, g := range []uint32{1, 32, 33, 36, 37, 38, 39} {
		set(add, g, 0)
	}
	for _, g := range []uint32{0, 40, 64, 65, 100, ^uint32(0)} {
		set(add, g, unix.EINVAL)
		set(drop, g, unix.EINVAL)
	}
	is(0x80000005, 0x79)
	set(add, 1, 0)
	if e := s.Bind(4242, 2, 0); e != 0 {
		t.Fatal(e)
	}
	is(2, 0x79)
	set(drop, 33, 0)
	set(drop, 2, 0)
	set(drop, 7, 0)
	is(0, 0x78)
}

func TestOptions(t *testing.T) {
	w := newWorld(t)
	flags := []int{
		unix.NETLINK_PKTINFO, unix.NETLINK_BROADCAST_ERROR, unix.NETLINK_NO_ENOBUFS, unix.NETLINK_LISTEN_ALL_NSID,
		unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK,
	}
	s := w.srv.Client(t).Session
	get := func(opt int, want uint32) {
		t.Helper()
		if v, e := s.Option(opt); v != want || e != 0 {
			t.Errorf("option %d: %d, %v; want %d", opt, v, e, want)
		}
	}
	for _, opt := range flags {
		get(opt, 0)
	}
	for i, opt := range flags {
		if e := s.SetOption(opt, uint32(i)+1); e != 0 {
			t.Errorf("set option %d: %v", opt, e)
		}
		for j, other := range flags {
			want := uint32(0)
			if j <= i {
				want = 1
			}
			get(other, want)
		}
	}
	for _, opt := range flags {
		if e := s.SetOption(opt, 0); e != 0 {
			t.Errorf("clear option %d: %v", opt, e)
		}
		get(opt, 0)
	}
	for _, opt := range []int{0, unix.NETLINK_RX_RING, unix.NETLINK_TX_RING, unix.NETLINK_LIST_MEMBERSHIPS, 13, 14, -1, 1 << 20} {
		if e := s.SetOption(opt, 1); e != unix.ENOPROTOOPT {
			t.Errorf("set option %d: %v", opt, e)
		}
		if _, e := s.Option(opt); e != unix.ENOPROTOOPT && opt != unix.NETLINK_LIST_MEMBERSHIPS {
			t.Errorf("get option %d: %v", opt, e)
		}
	}
	for _, opt := range []int{unix.NETLINK_ADD_MEMBERSHIP, unix.NETLINK_DROP_MEMBERSHIP} {
		if _, e := s.Option(opt); e != unix.ENOPROTOOPT {
			t.Errorf("get option %d: %v", opt, e)
		}
	}
	user := w.srv.ClientAs(t, rtnl.Caller{UID: 54321}).Session
	if e := user.SetOption(unix.NETLINK_LISTEN_ALL_NSID, 1); e != unix.EPERM {
		t.Errorf("NETLINK_LISTEN_ALL_NSID without CAP_NET_ADMIN: %v", e)
	}
}

// nobody is a caller who may not change anything.
var nobody = rtnl.Caller{PID: 9, UID: 54321, GID: 54321, NetAdmin: true}

// TestPermission: who may not change things gets EPERM before anything else is
// looked at, and may ask.
func TestPermission(t *testing.T) {
	w := newWorld(t)
	p1 := w.veth("p1", "q1")
	br := w.client().newBridge("br0")
	c := w.with(w.srv.ClientAs(t, nobody))
	denied := refused(unix.EPERM, "")
	for _, typ := range []uint16{
		unix.RTM_NEWLINK, unix.RTM_SETLINK, unix.RTM_DELLINK, unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH,
		unix.RTM_NEWMDB, unix.RTM_DELMDB, unix.RTM_NEWTUNNEL, unix.RTM_DELTUNNEL, unix.RTM_NEWADDR, unix.RTM_DELROUTE,
	} {
		c.table(t, typ, 0, []row{
			{name: "one byte", body: []byte{0}, want: denied},
			{name: "AF_BRIDGE", body: link7(br), want: denied},
			{name: "a whole one", body: link(p1, u32(unix.IFLA_MASTER, uint32(br))), want: denied},
			{name: "no body", body: nil, want: refusal{}},
		})
	}
	if _, err := c.Do(0x7f0, 0, []byte{0}); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("an unknown type: %v", err)
	}
	for _, r := range []struct {
		typ, flags uint16
		body       []byte
	}{
		{unix.RTM_GETLINK, 0, link(br)}, {unix.RTM_GETLINK, dumpFlag, link(0)}, {unix.RTM_GETLINK, dumpFlag, link7(0)},
		{unix.RTM_GETNEIGH, dumpFlag, neigh(0, 0, 0)}, {unix.RTM_GETMDB, dumpFlag, append([]byte{unix.AF_BRIDGE}, make([]byte, 7)...)},
	} {
		if _, err := c.Do(r.typ, r.flags, r.body); err != nil {
			t.Errorf("type %d: %v", r.typ, err)
		}
	}
}

// TestWhoMayChange goes through the rules of Session: root, the daemon's own uid,
// the group; and what is the kernel's only with CAP_NET_ADMIN.
func TestWhoMayChange(t *testing.T) {
	w := &world{t: t, srv: rtnltest.NewWith(t, rtnltest.Config{AdminGID: 700}), names: map[int32]string{}}
	p1 := w.veth("p1", "q1")
	br := w.client().newBridge("br0")
	for _, c := range []struct {
		name          string
		caller        rtnl.Caller
		ours, kernels error
	}{
		{"root", rtnl.Caller{NetAdmin: true}, nil, nil},
		{"root without CAP_NET_ADMIN", rtnl.Caller{}, nil, unix.EPERM},
		{"the daemon's uid", rtnl.Caller{UID: uint32(os.Geteuid()), GID: 5}, nil, unix.EPERM},
		{"somebody", rtnl.Caller{UID: 54321, GID: 5, NetAdmin: true}, unix.EPERM, unix.EPERM},
		{"the group", rtnl.Caller{UID: 54321, GID: 700}, nil, unix.EPERM},
		{"the group, with CAP_NET_ADMIN", rtnl.Caller{UID: 54321, GID: 5, Groups: []uint32{3, 700}, NetAdmin: true}, nil, nil},
		{"other groups", rtnl.Caller{UID: 54321, GID: 701, Groups: []uint32{3, 699}}, unix.EPERM, unix.EPERM},
	} {
		k := w.with(w.srv.ClientAs(t, c.caller))
		entry := neigh(br, 0x80, 2, mac(testMAC))
		if _, err := k.Do(unix.RTM_NEWNEIGH, uapi.NLMCreate, entry); !errors.Is(err, c.ours) && err != c.ours {
			t.Errorf("%s: an entry of a bridge: %v", c.name, err)
		}
		if _, err := k.Do(unix.RTM_SETLINK, 0, link(p1, u32(unix.IFLA_MTU, 1400))); !errors.Is(err, c.kernels) && err != c.kernels {
			t.Errorf("%s: a device of the kernel's: %v", c.name, err)
		}
	}
}
