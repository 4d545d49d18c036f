package bridge

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

func set(t *testing.T, p *Port, parts ...[]byte) {
	t.Helper()
	wantErr(t, "port attributes", p.SetInfo(attrs(parts...)), 0, "")
}

// probe sends one frame and checks who gets it.
func (r *rig) probe(what string, from int, dst, src uapi.MAC, want string) {
	r.t.Helper()
	var p *Port
	if from != 0 {
		p = r.port(from)
	}
	r.send(p, ether(dst, src))
	if got := r.got(); got != want {
		r.t.Errorf("%s: got by %q, want %q", what, got, want)
	}
}

func TestLearnAndForward(t *testing.T) {
	r := newRig(t, 3)
	r.probe("broadcast", 1, broadcast, macA, "p2 p3 host")
	r.probe("multicast", 1, 0x010000000001, macA, "p2 p3 host")
	r.probe("unknown", 1, macB, macA, "p2 p3")
	r.probe("known", 2, macA, macB, "p1")
	r.probe("same port", 1, macA, 0x020000000003, "")
	if n := r.port(1).drops.SamePort.Load(); n != 1 {
		t.Errorf("SamePort %d", n)
	}
	r.want("02:00:00:00:00:01 dev1 02", "02:00:00:00:00:02 dev2 02", "02:00:00:00:00:03 dev1 02")
	r.probe("to a port's own address", 2, portMAC(3), macB, "host")
	r.probe("to the bridge", 2, bridgeMAC, macB, "host")
	r.probe("moved", 3, macB, macA, "p2")
	r.want("02:00:00:00:00:01 dev3 02")
	r.probe("own source", 3, macB, portMAC(1), "p2")
	r.want()
	if c := r.b.HostCounters(); c.RxPackets.Load() != 4 {
		t.Errorf("rx %d", c.RxPackets.Load())
	}
}

func TestHostFrames(t *testing.T) {
	r := newRig(t, 2)
	r.send(r.port(1), ether(broadcast, macA))
	r.got()
	r.probe("known", 0, macA, bridgeMAC, "p1")
	r.probe("own address", 0, bridgeMAC, bridgeMAC, "")
	r.probe("a port's address leaves by it", 0, portMAC(2), bridgeMAC, "p2")
	r.probe("link-local", 0, 0x0180c2000002, bridgeMAC, "p1 p2")
	set(t, r.port(1), a8(unix.IFLA_BRPORT_MCAST_FLOOD, 0), a8(unix.IFLA_BRPORT_BCAST_FLOOD, 0), a8(unix.IFLA_BRPORT_UNICAST_FLOOD, 0))
	r.probe("broadcast in spite of the flag", 0, broadcast, bridgeMAC, "p1 p2")
	r.probe("multicast in spite of the flag", 0, 0x010000000001, bridgeMAC, "p1 p2")
	r.probe("unknown", 0, macB, bridgeMAC, "p2")
	r.want("02:00:00:00:00:01 dev1 02")
	r.up(false)
	r.probe("down", 0, macA, bridgeMAC, "")
	if r.b.drops.NoPort.Load() != 1 || r.b.HostCounters().TxPackets.Load() != 7 {
		t.Errorf("NoPort %d tx %d", r.b.drops.NoPort.Load(), r.b.HostCounters().TxPackets.Load())
	}
}

func TestFloodFlags(t *testing.T) {
	r := newRig(t, 3)
	p := r.port(2)
	for _, c := range []struct {
		attr       uint16
		uc, mc, bc string
	}{
		{unix.IFLA_BRPORT_UNICAST_FLOOD, "p3", "p2 p3 host", "p2 p3 host"},
		{unix.IFLA_BRPORT_MCAST_FLOOD, "p2 p3", "p3 host", "p2 p3 host"},
		{unix.IFLA_BRPORT_BCAST_FLOOD, "p2 p3", "p2 p3 host", "p3 host"},
	} {
		set(t, p, a8(c.attr, 0))
		r.probe("unicast", 1, macB, macA, c.uc)
		r.probe("multicast", 1, 0x010000000001, macA, c.mc)
		r.probe("broadcast", 1, broadcast, macA, c.bc)
		set(t, p, a8(c.attr, 1))
	}
	set(t, p, a8(unix.IFLA_BRPORT_PROXYARP, 1))
	r.probe("proxyarp", 1, broadcast, macA, "p3 host")
	r.probe("proxyarp", 0, broadcast, bridgeMAC, "p1 p3")
}

func TestPortStates(t *testing.T) {
	r := newRig(t, 2)
	for _, c := range []struct {
		state  uint8
		in     string
		learns bool
	}{{0, "", false}, {1, "", false}, {2, "", true}, {3, "p2 host", true}} {
		r.b.flush(flushDesc{mask: fdbLocal})
		r.events()
		wantErr(t, "state", r.port(1).SetSTPState(c.state), 0, "")
		r.probe("in", 1, broadcast, macA, c.in)
		if got := r.row(macA) != ""; got != c.learns {
			t.Errorf("state %d: learned %v", c.state, got)
		}
		out := "p1 host"
		if c.state != 3 {
			out = "host"
		}
		r.probe("out", 2, broadcast, macB, out)
	}
}

func TestHairpinAndIsolation(t *testing.T) {
	r := newRig(t, 3)
	set(t, r.port(1), a8(unix.IFLA_BRPORT_MODE, 1))
	r.probe("hairpin", 1, broadcast, macA, "p1 p2 p3 host")
	r.probe("hairpin unicast", 1, macA, macA, "p1")
	set(t, r.port(1), a8(unix.IFLA_BRPORT_ISOLATED, 1))
	set(t, r.port(2), a8(unix.IFLA_BRPORT_ISOLATED, 1))
	r.probe("isolated", 1, broadcast, macA, "p3 host")
	r.probe("isolated known", 2, macA, macB, "")
	r.probe("from the bridge", 0, broadcast, bridgeMAC, "p1 p2 p3")
	r.probe("to isolated", 3, macA, 0x020000000003, "p1")
}

func TestLocked(t *testing.T) {
	r := newRig(t, 2)
	p := r.port(1)
	set(t, p, a8(unix.IFLA_BRPORT_LOCKED, 1))
	r.probe("unknown", 1, broadcast, macA, "")
	r.want()
	_ = r.b.FDBAdd(p, FDBRequest{MAC: macA, State: noarp, NLFlags: create})
	r.probe("known", 1, broadcast, macA, "p2 host")
	r.probe("owned by another", 2, broadcast, macB, "p1 host")
	r.events()
	r.probe("no roaming", 1, broadcast, macB, "")
	r.probe("local", 1, broadcast, portMAC(2), "")
	r.want()
	set(t, p, a8(unix.IFLA_BRPORT_MAB, 1))
	x := uapi.MAC(0x020000000009)
	r.probe("mab", 1, broadcast, x, "")
	r.want("02:00:00:00:00:09 dev1 02 locked")
	r.probe("still locked", 1, broadcast, x, "")
	r.probe("to the locked station", 2, x, macB, "p1")
	r.want()
	r.probe("roams and is free", 2, broadcast, x, "p1 host")
	r.want("02:00:00:00:00:09 dev2 02")
	r.probe("link-local", 1, 0x0180c2000002, x+1, "")
	r.want("02:00:00:00:00:0a dev1 02")
	r.send(p, ether(broadcast, x+2))
	r.events()
	set(t, p, a8(unix.IFLA_BRPORT_MAB, 0))
	r.want("del 02:00:00:00:00:0b dev1 02 locked")
}

func TestLinkLocal(t *testing.T) {
	r := newRig(t, 2)
	group := func(x int) uapi.MAC { return 0x0180c2000000 | uapi.MAC(x) }
	open := func(bridge, port uint16, stp uint32) {
		r.b.cfg.stp = stp != 0
		r.b.cfg.groupFwdMask = bridge
		r.port(1).groupFwdMask = port
		r.b.publish()
	}
	for _, c := range []struct {
		bridge, port uint16
		stp          uint32
		open         map[int]bool
	}{
		{open: map[int]bool{0: true}},
		{stp: 1, open: map[int]bool{}},
		{stp: 1, port: 1, open: map[int]bool{0: true}},
		{bridge: 0x4008, open: map[int]bool{0: true, 3: true, 14: true}},
		{port: 0x8005, open: map[int]bool{0: true, 2: true, 15: true}},
	} {
		open(c.bridge, c.port, c.stp)
		for x := range 16 {
			want := ""
			if c.open[x] {
				want = "p2 host"
			}
			r.probe(group(x).String(), 1, group(x), macA+uapi.MAC(x), want)
		}
	}
	if r.row(macA+2) == "" || r.row(macA+1) != "" {
		t.Error("all but pause frames teach their source")
	}
	r.probe("ordinary", 1, group(16), macA, "p2 host")
	_ = r.b.SetInfo(attrs(boolopt(1, 1)))
	r.probe("no learning", 1, group(3), 0x020000000099, "")
	if r.row(0x020000000099) != "" {
		t.Error("no_linklocal_learn has no effect")
	}
}

func TestDrops(t *testing.T) {
	r := newRig(t, 2)
	p, f := r.port(1), ether(broadcast, macA)
	r.send(p, f[:13], nil, ether(broadcast, 0), ether(broadcast, 0x010000000001))
	if d := &p.drops; d.Short.Load() != 2 || d.BadSource.Load() != 2 || r.got() != "" {
		t.Error("not dropped")
	}
	change(r.port(2), func(l *netdev.LinkState) { l.MTU = 100 })
	big := func(n int) []byte { return append(ether(broadcast, macA), make([]byte, n-60)...) }
	r.send(p, big(118), big(119))
	if got := r.got(); got != "p2 host host" {
		t.Errorf("got by %q", got)
	}
	gso := netdev.NewFrame(big(5000))
	gso.Hdr.GSOType = netdev.GSOTCPv4
	r.thr.Begin()
	p.InputFrame(r.thr, gso)
	r.thr.End()
	if got := r.got(); got != "p2 host" {
		t.Errorf("superframe got by %q", got)
	}
	r.b.DelPort(p)
	r.send(p, f)
	if p.drops.PortState.Load() != 1 || r.row(macA) != "" {
		t.Error("a released port takes frames")
	}
}

func TestSticky(t *testing.T) {
	r := newRig(t, 2)
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macA, State: noarp, Flags: uapi.NTFSticky, NLFlags: create})
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macB, State: noarp, NLFlags: create})
	r.events()
	r.send(r.port(2), ether(broadcast, macA), ether(broadcast, macB))
	r.want("02:00:00:00:00:02 dev2 40") // static roams, sticky does not
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macB, State: noarp, Flags: uapi.NTFExtLearned})
	r.events()
	r.send(r.port(2), ether(broadcast, macB))
	r.want("02:00:00:00:00:02 dev2 40") // and is the agent's no more
}

func TestBackupPort(t *testing.T) {
	r := newRig(t, 3)
	set(t, r.port(1), a32(unix.IFLA_BRPORT_BACKUP_PORT, 2))
	r.send(r.port(1), ether(broadcast, macA))
	r.got()
	change(r.port(1), func(l *netdev.LinkState) { l.Carrier = false })
	r.probe("known", 3, macA, macB, "p2")
	r.probe("flood", 3, 0x020000000077, macB, "p2")
	r.probe("same port", 2, macA, 0x020000000003, "")
	r.release(r.port(2))
	if r.port(1).backup != nil {
		t.Error("backup port is gone but not forgotten")
	}
	r.probe("without backup", 3, macA, macB, "")
}

func TestPromisc(t *testing.T) {
	r := newRig(t, 2)
	r.send(r.port(1), ether(broadcast, macA))
	r.got()
	l := r.b.Link()
	l.Promisc = true
	r.b.LinkChanged(l)
	r.probe("known", 2, macA, macB, "p1 host")
	r.probe("refused", 1, macA, macB+1, "host")
	r.probe("local once", 2, bridgeMAC, macB, "host")
	r.probe("broadcast once", 2, broadcast, macB, "p1 host")
}

func TestUsedAndUpdated(t *testing.T) {
	r := newRig(t, 2)
	r.send(r.port(1), ether(broadcast, macA))
	r.clock.Advance(time.Second)
	r.send(r.port(2), ether(macA, macB))
	r.clock.Advance(time.Second)
	body, _ := r.b.FDBGet(macA, 0)
	if p := parseRow(body); p.used != 100 || p.updated != 200 {
		t.Errorf("used %d updated %d", p.used, p.updated)
	}
}
