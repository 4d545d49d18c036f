package bridge

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

const (
	macA = uapi.MAC(0x020000000001)
	macB = uapi.MAC(0x020000000002)

	reachable = uapi.NUDReachable
	noarp     = uapi.NUDNoARP
	permanent = uapi.NUDPermanent
	create    = uapi.NLMCreate
	excl      = uapi.NLMExcl
	replace   = uapi.NLMReplace
	appendTo  = uapi.NLMAppend
)

func ext(parts ...[]byte) nlattr.Attr { return attrs(nest(uapi.NDAFDBExtAttrs, parts...))[0] }

func activity(v uint8) nlattr.Attr { return ext(a8(uapi.NFEAActivityNotify, v)) }

func TestFDBAddChecks(t *testing.T) {
	const locked = `bridge: Cannot add FDB entry with "locked" flag set`
	plainExt := attrs(plain(uapi.NDAFDBExtAttrs))[0]
	for _, c := range []struct {
		name  string
		down  bool // the port is
		self  bool // towards the bridge
		r     FDBRequest
		errno syscall.Errno
		msg   string
	}{
		{name: "state 0", r: FDBRequest{NLFlags: create}, errno: syscall.EINVAL},
		{name: "stale", r: FDBRequest{NLFlags: create, State: uapi.NUDStale}, errno: syscall.EINVAL},
		{name: "delay and reachable", r: FDBRequest{NLFlags: create, State: 0x0a}},
		{name: "zero", r: FDBRequest{NLFlags: create, State: noarp, MAC: 1 << 48}, errno: syscall.EINVAL},
		{name: "broadcast", r: FDBRequest{NLFlags: create, State: noarp, MAC: broadcast}},
		{name: "locked", r: FDBRequest{NLFlags: create, State: noarp, FlagsExt: 2}, errno: syscall.EINVAL, msg: locked},
		{name: "managed", r: FDBRequest{NLFlags: create, State: noarp, FlagsExt: 0xd}},
		{name: "vlan", r: FDBRequest{NLFlags: create, State: noarp, VID: 1}, errno: syscall.EINVAL},
		{name: "dynamic, down", down: true, r: FDBRequest{NLFlags: create, State: reachable}, errno: syscall.EPERM},
		{name: "static, down", down: true, r: FDBRequest{NLFlags: create, State: noarp}},
		{name: "extern, down", down: true, r: FDBRequest{State: reachable, Flags: uapi.NTFExtLearned}},
		{name: "use, down", down: true, r: FDBRequest{State: reachable, Flags: uapi.NTFUse}},
		{name: "sticky permanent", r: FDBRequest{NLFlags: create, State: permanent, Flags: uapi.NTFSticky}, errno: syscall.EINVAL},
		{name: "self dynamic", self: true, r: FDBRequest{NLFlags: create, State: reachable}, errno: syscall.EINVAL},
		{name: "self static", self: true, r: FDBRequest{NLFlags: create, State: noarp}, errno: syscall.EINVAL},
		{name: "self permanent", self: true, r: FDBRequest{NLFlags: create, State: permanent | noarp}},
		{name: "self use", self: true, r: FDBRequest{State: permanent, Flags: uapi.NTFUse}, errno: syscall.EINVAL},
		{name: "self extern", self: true, r: FDBRequest{State: reachable, Flags: uapi.NTFExtLearned},
			errno: syscall.EINVAL, msg: "bridge: FDB entry towards bridge must be permanent"},
		{name: "self sticky", self: true, r: FDBRequest{NLFlags: create, State: permanent, Flags: uapi.NTFSticky}, errno: syscall.EINVAL},
		{name: "ext not nested", r: FDBRequest{NLFlags: create, State: noarp, Ext: plainExt, HasExt: true},
			errno: syscall.EINVAL, msg: "NLA_F_NESTED is missing"},
		{name: "ext unknown", r: FDBRequest{NLFlags: create, State: noarp, Ext: ext(a8(3, 1)), HasExt: true},
			errno: syscall.EINVAL, msg: "Unknown attribute type"},
		{name: "ext length", r: FDBRequest{NLFlags: create, State: noarp, Ext: ext(a16(1, 1)), HasExt: true},
			errno: syscall.EINVAL, msg: "invalid attribute length"},
		{name: "ext flag length", r: FDBRequest{NLFlags: create, State: noarp, Ext: ext(a8(2, 1)), HasExt: true},
			errno: syscall.ERANGE, msg: "Attribute failed policy validation"},
		{name: "activity 4", r: FDBRequest{NLFlags: create, State: noarp, Ext: activity(4), HasExt: true}, errno: syscall.EINVAL},
		{name: "activity 2", r: FDBRequest{NLFlags: create, State: noarp, Ext: activity(2), HasExt: true}, errno: syscall.EINVAL},
		{name: "activity 3", r: FDBRequest{NLFlags: create, State: noarp, Ext: activity(3), HasExt: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			p := r.port(1)
			if c.down {
				change(p, func(l *netdev.LinkState) { l.Up = false })
			}
			if c.self {
				p = nil
			}
			switch c.r.MAC {
			case 0:
				c.r.MAC = macA
			case 1 << 48:
				c.r.MAC = 0
			}
			r.events()
			wantErr(t, "add", r.b.FDBAdd(p, c.r), c.errno, c.msg)
			if n := len(r.events()); c.errno != 0 && n != 0 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestFDBAddNLFlags(t *testing.T) {
	for _, c := range []struct {
		flags           uint16
		absent, present syscall.Errno
	}{
		{create | excl, 0, syscall.EEXIST},
		{create | excl | replace, 0, syscall.EEXIST},
		{create | replace, 0, 0},
		{create | appendTo, 0, 0},
		{create, 0, 0},
		{0, syscall.ENOENT, 0},
		{replace, syscall.ENOENT, 0},
		{excl, syscall.ENOENT, syscall.EEXIST},
	} {
		r := newRig(t, 2)
		req := FDBRequest{MAC: macA, State: reachable, NLFlags: c.flags}
		wantErr(t, fmt.Sprintf("%#x absent", c.flags), r.b.FDBAdd(r.port(1), req), c.absent, "")
		req.NLFlags = create
		wantErr(t, "prepare", r.b.FDBAdd(r.port(1), req), 0, "")
		r.events()
		req.NLFlags = c.flags
		wantErr(t, fmt.Sprintf("%#x present", c.flags), r.b.FDBAdd(r.port(2), req), c.present, "")
		if c.present == 0 {
			r.want("02:00:00:00:00:01 dev2 02")
		} else {
			r.want()
		}
	}
}

// step is one request of a scenario and the events it causes.
type step struct {
	what  string
	port  int // 0 is the bridge
	r     FDBRequest
	event []string
}

func runSteps(t *testing.T, r *rig, steps []step) {
	t.Helper()
	for _, s := range steps {
		if s.r.MAC == 0 {
			s.r.MAC = macA
		}
		if err := r.b.FDBAdd(r.port(s.port), s.r); err != nil {
			t.Errorf("%s: %v", s.what, err)
		}
		t.Log(s.what)
		r.want(s.event...)
	}
}

func TestFDBReplace(t *testing.T) {
	r := newRig(t, 2)
	runSteps(t, r, []step{
		{"static", 1, FDBRequest{State: 0x42, NLFlags: create}, []string{"02:00:00:00:00:01 dev1 40"}},
		{"static again is a change: bits are combined", 1, FDBRequest{State: 0x42}, []string{"02:00:00:00:00:01 dev1 40"}},
		{"pure static is none", 1, FDBRequest{State: noarp}, nil},
		{"dynamic", 1, FDBRequest{State: reachable}, []string{"02:00:00:00:00:01 dev1 02"}},
		{"dynamic again", 1, FDBRequest{State: reachable}, nil},
		{"moved", 2, FDBRequest{State: reachable}, []string{"02:00:00:00:00:01 dev2 02"}},
		{"sticky", 2, FDBRequest{State: reachable, Flags: uapi.NTFSticky}, []string{"02:00:00:00:00:01 dev2 02 flags 40"}},
		{"not sticky", 2, FDBRequest{State: reachable}, []string{"02:00:00:00:00:01 dev2 02"}},
		{"permanent", 2, FDBRequest{State: 0xc0}, []string{"02:00:00:00:00:01 dev2 80"}},
		{"to the bridge", 0, FDBRequest{State: permanent}, []string{"02:00:00:00:00:01 dev10 80"}},
		{"back, dynamic", 1, FDBRequest{State: reachable}, []string{"02:00:00:00:00:01 dev1 02"}},
	})
}

func TestFDBActivity(t *testing.T) {
	r := newRig(t, 2)
	with := func(v uint8) FDBRequest {
		return FDBRequest{State: noarp, NLFlags: create, Ext: activity(v), HasExt: true}
	}
	runSteps(t, r, []step{
		{"on", 1, with(1), []string{"02:00:00:00:00:01 dev1 40 activity 1"}},
		{"on, inactive", 1, with(3), []string{"02:00:00:00:00:01 dev1 40 activity 3"}},
		{"taking inactive back does nothing", 1, with(1), nil},
		{"off", 1, FDBRequest{State: noarp}, []string{"02:00:00:00:00:01 dev1 40"}},
		{"zero is off too", 1, with(0), nil},
		{"on again", 1, with(1), []string{"02:00:00:00:00:01 dev1 40 activity 1"}},
	})
	r.clock.Advance(300 * time.Second)
	r.want("02:00:00:00:00:01 dev1 40 activity 3")
	r.send(r.port(1), ether(macB, macA))
	r.want("02:00:00:00:00:01 dev1 40 activity 1")
	body, _ := r.b.FDBGet(macA, 0)
	if p := parseRow(body); p.updated != 0 || p.used != 30000 {
		t.Errorf("used %d updated %d", p.used, p.updated)
	}
	r.clock.Advance(299 * time.Second)
	r.want()
}

func TestFDBDontRefresh(t *testing.T) {
	r := newRig(t, 2)
	req := FDBRequest{MAC: macA, State: noarp, NLFlags: create}
	_ = r.b.FDBAdd(r.port(1), req)
	r.clock.Advance(10 * time.Second)
	req.Ext, req.HasExt = ext(nlattr.AppendFlag(nil, uapi.NFEADontRefresh)), true
	_ = r.b.FDBAdd(r.port(2), req)
	body, _ := r.b.FDBGet(macA, 0)
	if p := parseRow(body); p.used != 0 || p.updated != 1000 || p.ndm.Ifindex != 2 {
		t.Errorf("%+v", p)
	}
}

func TestFDBUse(t *testing.T) {
	r := newRig(t, 2)
	use := FDBRequest{State: 0xc0, Flags: uapi.NTFUse | uapi.NTFExtLearned, NLFlags: excl}
	runSteps(t, r, []step{
		{"created dynamic", 1, use, []string{"02:00:00:00:00:01 dev1 02"}},
		{"refreshed", 1, use, nil},
		{"moved", 2, use, []string{"02:00:00:00:00:01 dev2 02"}},
		{"sticky", 2, FDBRequest{State: noarp, Flags: uapi.NTFSticky}, []string{"02:00:00:00:00:01 dev2 40 flags 40"}},
		{"sticky stays", 1, use, nil},
	})
	wantErr(t, "ageing 0", r.b.SetInfo(attrs(a32(unix.IFLA_BR_AGEING_TIME, 0))), 0, "")
	runSteps(t, r, []step{{"no learning", 1, FDBRequest{MAC: macB, State: reachable, Flags: uapi.NTFUse}, nil}})
}

func TestFDBExternLearn(t *testing.T) {
	r := newRig(t, 2)
	x := FDBRequest{State: 0xc0, Flags: uapi.NTFExtLearned | uapi.NTFSticky, NLFlags: excl}
	runSteps(t, r, []step{
		{"created", 1, x, []string{"02:00:00:00:00:01 dev1 02 flags 10"}},
		{"refreshed", 1, x, nil},
		{"moved", 2, x, []string{"02:00:00:00:00:01 dev2 02 flags 10"}},
		{"static sticky keeps extern", 2, FDBRequest{State: noarp, Flags: uapi.NTFSticky}, []string{"02:00:00:00:00:01 dev2 40 flags 50"}},
		{"moved though sticky", 1, x, []string{"02:00:00:00:00:01 dev1 40 flags 50"}},
		{"towards the bridge", 0, FDBRequest{MAC: macB, State: permanent, Flags: uapi.NTFExtLearned}, []string{"02:00:00:00:00:02 dev10 80 flags 10"}},
	})
}

func TestFDBDel(t *testing.T) {
	r := newRig(t, 2)
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: noarp, NLFlags: create})
	r.events()
	wantErr(t, "wrong port", r.b.FDBDel(r.port(2), macA, 0), syscall.ENOENT, "")
	wantErr(t, "self", r.b.FDBDel(nil, macA, 0), syscall.ENOENT, "")
	wantErr(t, "vlan", r.b.FDBDel(r.port(1), macA, 5), syscall.ENOENT, "")
	wantErr(t, "del", r.b.FDBDel(r.port(1), macA, 0), 0, "")
	wantErr(t, "own address of the port", r.b.FDBDel(r.port(1), portMAC(1), 0), 0, "")
	wantErr(t, "again", r.b.FDBDel(r.port(1), macA, 0), syscall.ENOENT, "")
	r.want("del 02:00:00:00:00:01 dev1 40", "del 02:00:00:00:10:01 dev1 80")
}

// TestRowLayout checks the whole message, byte order and attribute order included.
func TestRowLayout(t *testing.T) {
	r := newRig(t, 1)
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: noarp, NLFlags: create, Ext: activity(3), HasExt: true})
	r.clock.Advance(1500 * time.Millisecond)
	body, _ := r.b.FDBGet(macA, 0)
	as, _ := nlattr.Parse(body[uapi.NdmsgLen:], 0)
	var types []uint16
	for _, a := range as {
		types = append(types, a.Type)
	}
	if fmt.Sprint(types) != "[2 9 15 3 14]" || !as[4].Nested || len(as[3].Data) != 16 {
		t.Errorf("attributes %v", types)
	}
	if p := parseRow(body); p.master != bridgeIndex || p.used != 150 || p.updated != 150 || p.ndm.Family != unix.AF_BRIDGE {
		t.Errorf("%+v", p)
	}
}

func TestAgeing(t *testing.T) {
	r := newRig(t, 2)
	wantErr(t, "ageing", r.b.SetInfo(attrs(a32(unix.IFLA_BR_AGEING_TIME, 100))), 0, "")
	r.clock.Advance(0)
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macB, State: reachable, Flags: uapi.NTFExtLearned})
	r.send(r.port(1), ether(broadcast, macA))
	r.events()
	r.clock.Advance(900 * time.Millisecond)
	r.send(r.port(1), ether(broadcast, macA)) // refreshed
	r.clock.Advance(990 * time.Millisecond)
	r.want()
	r.clock.Advance(120 * time.Millisecond)
	r.want("del 02:00:00:00:00:01 dev1 04")
	wantErr(t, "ageing 0", r.b.SetInfo(attrs(a32(unix.IFLA_BR_AGEING_TIME, 0))), 0, "")
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: reachable, NLFlags: create})
	r.want("02:00:00:00:00:01 dev1 04")
	r.clock.Advance(100 * time.Millisecond)
	r.want("del 02:00:00:00:00:01 dev1 04")
	r.send(r.port(1), ether(broadcast, macA))
	r.want()
}

func TestMaxLearned(t *testing.T) {
	r := newRig(t, 2)
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_FDB_MAX_LEARNED, 1)))
	r.got()
	r.send(r.port(1), ether(broadcast, macA), ether(broadcast, macB))
	r.want("02:00:00:00:00:01 dev1 02")
	if got := r.got(); got != "p2 p2 host host" {
		t.Errorf("forwarded to %q", got)
	}
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: noarp})
	r.send(r.port(1), ether(broadcast, macB))
	r.want("02:00:00:00:00:01 dev1 40", "02:00:00:00:00:02 dev1 02")
	if n := r.b.nLearned.Load(); n != 1 {
		t.Errorf("n_learned %d", n)
	}
	_ = r.b.FDBDel(r.port(1), macB, 0)
	if n := r.b.nLearned.Load(); n != 0 {
		t.Errorf("n_learned %d", n)
	}
}
