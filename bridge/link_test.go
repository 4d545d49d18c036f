package bridge

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

func TestRegister(t *testing.T) {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, bridgeMAC, true)
	r.want("02:00:00:00:00:b0 dev10 80", "del 02:00:00:00:00:b0 dev10 80", "02:00:00:00:00:b0 dev10 80", "carrier false")
	r.b.Close()
	r.want("del 02:00:00:00:00:b0 dev10 80")

	r.b = r.newBridge(bridgeIndex, bridgeMAC, false)
	r.want("02:00:00:00:00:b0 dev10 80")
	r.up(true)
	if !r.b.CarrierOn() {
		t.Error("a fresh bridge has carrier")
	}
}

// TestFeatures: the bridge is announced when its first real port joins and when the
// last leaves, tunnels there or not.
func TestFeatures(t *testing.T) {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, bridgeMAC, true)
	ports := map[int]*Port{}
	for i, s := range []struct {
		port    int
		tunnel  bool
		joins   bool
		changes bool
	}{
		{1, true, true, true}, {2, true, true, false}, {3, false, true, true}, {4, false, true, false},
		{3, false, false, false}, {4, false, false, true}, {1, true, false, false}, {2, true, false, true},
	} {
		r.events()
		if s.joins {
			l := portLink(s.port)
			l.Tunnel = s.tunnel
			ports[s.port] = r.addLink(l)
		} else {
			r.release(ports[s.port])
		}
		if got := slices.Contains(r.events(), "f0 br0 features"); got != s.changes {
			t.Errorf("step %d: features changed: %v", i, got)
		}
	}
}

// TestJoinUp follows a run of the kernel: a port that is up joins a bridge that is up
// and has a random address.
func TestJoinUp(t *testing.T) {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, 0x0a0000000001, false)
	r.up(true)
	r.events()
	p1 := r.add(5)
	r.want(
		"f0 br0 features",
		"02:00:00:00:10:05 dev5 80",
		"del 0a:00:00:00:00:01 dev10 80",
		"address 02:00:00:00:10:05",
		"carrier false",
		"f7 p5 state 3", "carrier true", "f7 p5 state 3", "f7 p5 state 3",
		"f0 br0",
	)
	if !r.b.CarrierOn() {
		t.Error("no carrier")
	}
	l := portLink(2)
	l.Up, l.Carrier = false, false
	p2 := r.addLink(l)
	r.want("02:00:00:00:10:02 dev2 80", "address 02:00:00:00:10:02", "f7 p2 state 0", "f0 br0")
	change(p2, func(l *netdev.LinkState) { l.Up = true })
	r.want("f7 p2 state 0")
	change(p2, func(l *netdev.LinkState) { l.Carrier = true })
	r.want("f7 p2 state 3", "f7 p2 state 3")
	change(p1, func(l *netdev.LinkState) { l.MTU = 1400 })
	r.want("mtu 1400")
	r.release(p2)
	r.want("f7 p2 state 0", "f7 del p2", "released p2", "del 02:00:00:00:10:02 dev10 80", "address 02:00:00:00:10:05", "f0 br0")
	change(p1, func(l *netdev.LinkState) { l.MAC = portMAC(0x77) })
	r.want("02:00:00:00:10:77 dev5 80", "del 02:00:00:00:10:05 dev10 80", "address 02:00:00:00:10:77", "f0 br0", "f7 p5 state 3")
	change(p1, func(l *netdev.LinkState) { l.Up = false })
	r.want("f7 p5 state 0", "carrier false")
	change(p1, func(l *netdev.LinkState) { l.Up = true })
	r.want("f7 p5 state 3", "carrier true", "f7 p5 state 3")
	r.up(false)
	r.want("f7 p5 state 0", "carrier false")
	r.up(true)
	r.want("f7 p5 state 3", "carrier true", "f7 p5 state 3")
	r.b.SetUserAddress(portMAC(0x99))
	r.want("02:00:00:00:10:99 dev10 80")
	change(p1, func(l *netdev.LinkState) { l.MAC = portMAC(0x78) })
	r.want("del 02:00:00:00:10:77 dev5 80", "02:00:00:00:10:78 dev5 80", "f7 p5 state 3")
	r.release(p1)
	r.want("f7 p5 state 0", "carrier false", "f7 del p5", "del 02:00:00:00:10:78 dev5 80", "released p5", "mtu 1500", "f0 br0 features")
}

func TestLastPortOfAutoBridge(t *testing.T) {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, 0x0a0000000001, false)
	p := r.add(1)
	r.events()
	r.release(p)
	if r.b.Link().MAC != 0 {
		t.Errorf("MAC %v", r.b.Link().MAC)
	}
	r.want("f7 p1 state 0", "f7 del p1", "released p1",
		"del 02:00:00:00:10:01 dev10 80", "address 00:00:00:00:00:00", "f0 br0", "f0 br0 features")
}

func TestReleaseAndClose(t *testing.T) {
	r := newRig(t, 2)
	static := FDBRequest{State: noarp, NLFlags: create}
	static.MAC = macA
	_ = r.b.FDBAdd(r.port(1), static)
	_ = r.b.FDBAdd(r.port(1), FDBRequest{MAC: macB, State: reachable, NLFlags: create})
	_ = r.b.FDBAdd(nil, FDBRequest{MAC: 0x020000000004, State: permanent, NLFlags: create})
	r.events()
	r.release(r.port(1))
	// The dynamic row goes with the port's service, the rest with the port.
	r.want("f7 p1 state 0", "del 02:00:00:00:00:02 dev1 02", "f7 del p1",
		"del 02:00:00:00:00:01 dev1 40", "del 02:00:00:00:10:01 dev1 80", "released p1")
	p := r.port(2)
	r.b.DelPort(p)
	r.b.Released(p, true)
	r.b.Close()
	r.want("f7 p2 state 0", "carrier false", "f7 del p2", "del 02:00:00:00:10:02 dev2 80",
		"del 02:00:00:00:00:04 dev10 80", "del 02:00:00:00:00:b0 dev10 80")
	if n := r.clock.Timers(); n != 0 {
		t.Errorf("%d timers left", n)
	}
}

func TestLocalRows(t *testing.T) {
	r := newRig(t, 1)
	l := portLink(2)
	l.MAC = portMAC(1) // the first owner keeps it
	p2 := r.addLink(l)
	r.want("f7 p2 state 3", "f7 p2 state 3", "f7 p2 state 3")
	r.release(r.port(1)) // silently re-pointed
	r.want("f7 p1 state 0", "f7 del p1", "released p1")
	if got := r.row(portMAC(1)); got != "02:00:00:00:10:01 dev2 80" {
		t.Error(got)
	}
	r.send(p2, ether(broadcast, macA))
	r.events()
	change(p2, func(l *netdev.LinkState) { l.MAC = macA }) // learned before
	r.want("del 02:00:00:00:10:01 dev2 80", "del 02:00:00:00:00:01 dev2 02", "02:00:00:00:00:01 dev2 80", "f7 p2 state 3")
	// A user's row survives a change of the address, and release hands over only
	// to a device that has it.
	_ = r.b.FDBAdd(p2, FDBRequest{MAC: macA, State: 0xc0})
	r.events()
	change(p2, func(l *netdev.LinkState) { l.MAC = macB })
	r.want("02:00:00:00:00:02 dev2 80", "f7 p2 state 3")
	r.b.SetUserAddress(macA) // a LOCAL row exists
	r.want("del 02:00:00:00:00:b0 dev10 80")
	r.release(p2)
	r.want("f7 p2 state 0", "carrier false", "f7 del p2", "del 02:00:00:00:00:02 dev2 80", "released p2", "f0 br0 features")
	r.wantRows("02:00:00:00:00:01 dev10 80")
}

func TestFlushOnDown(t *testing.T) {
	for _, backup := range []bool{false, true} {
		r := newRig(t, 2)
		p := r.port(1)
		if backup {
			wantErr(t, "backup", p.SetInfo(attrs(a32(unix.IFLA_BRPORT_BACKUP_PORT, 2))), 0, "")
		}
		_ = r.b.FDBAdd(p, FDBRequest{MAC: macA, State: noarp, NLFlags: create})
		_ = r.b.FDBAdd(p, FDBRequest{MAC: macB, State: reachable, Flags: uapi.NTFExtLearned})
		r.send(p, ether(broadcast, 0x020000000003))
		r.events()
		change(p, func(l *netdev.LinkState) { l.Carrier = false })
		if backup {
			r.want("f7 p1 state 0")
		} else {
			r.want("f7 p1 state 0", "del 02:00:00:00:00:03 dev1 02")
		}
	}
}

func TestMTU(t *testing.T) {
	r := newRig(t, 0)
	l := portLink(1)
	l.MTU = 9000
	p := r.addLink(l)
	if r.b.Link().MTU != 9000 {
		t.Errorf("mtu %d", r.b.Link().MTU)
	}
	r.b.SetUserMTU(9000) // no change: not the user's
	change(p, func(l *netdev.LinkState) { l.MTU = 1280 })
	r.b.SetUserMTU(1300)
	r.events()
	change(p, func(l *netdev.LinkState) { l.MTU = 1400 })
	r.release(p)
	if r.b.Link().MTU != 1300 {
		t.Errorf("mtu %d", r.b.Link().MTU)
	}
}

func TestPortNumbers(t *testing.T) {
	r := newRig(t, 3)
	r.release(r.port(2))
	p := r.add(7)
	if p.no != 2 {
		t.Errorf("number %d", p.no)
	}
	for i := 4; i <= maxPorts; i++ {
		r.add(i + 1000)
	}
	_, err := r.b.NewPort(portLink(9000), nil)
	wantErr(t, "one too many", err, syscall.EXFULL, "")
	l := portLink(1)
	for _, mac := range []uapi.MAC{0, broadcast, 0x010000000000} {
		l.MAC = mac
		_, err = r.b.NewPort(l, nil)
		wantErr(t, mac.String(), err, syscall.EINVAL, "")
	}
}

func TestForwardDelayTimer(t *testing.T) {
	r := newRig(t, 0)
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_FORWARD_DELAY, 1500)))
	r.add(1)
	r.events()
	r.clock.Advance(14 * time.Second)
	r.want()
	r.clock.Advance(time.Second)
	r.want("f7 p1 state 3")
}

func TestKernelSTP(t *testing.T) {
	r := newRig(t, 1)
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_STP_STATE, 1)))
	if r.port(1).state != stateForwarding || r.b.cfg.forwardDelay != 2*second {
		t.Error("a forwarding port stays so, and forward_delay is clamped")
	}
	r.events()
	p := r.add(2)
	r.want("02:00:00:00:10:02 dev2 80", "f7 p2 state 1", "f7 p2 state 1", "f7 p2 state 1")
	wantErr(t, "state", p.SetSTPState(3), syscall.EBUSY, "")
	r.clock.Advance(2 * time.Second)
	r.want("f7 p2 state 2")
	r.clock.Advance(2 * time.Second)
	r.want("f7 p2 state 3")
	if !r.b.stp.topology || r.b.cfg.ageing != 4*second || r.b.hold.Load() != int64(2*second) {
		t.Error("no topology change")
	}
	r.clock.Advance(22 * time.Second)
	if r.b.stp.topology || r.b.cfg.ageing != 300*second {
		t.Error("topology change does not end")
	}
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_STP_STATE, 0)))
	wantErr(t, "state", p.SetSTPState(3), 0, "")
}

func TestSTPStates(t *testing.T) {
	r := newRig(t, 2)
	p := r.port(1)
	for _, c := range []struct {
		up, carrier bool
		state       uint8
		errno       syscall.Errno
		now         uint8
	}{
		{true, true, 0, 0, 0}, {true, true, 1, 0, 1}, {true, true, 2, 0, 2}, {true, true, 3, 0, 3},
		{true, true, 4, 0, 3}, {true, true, 5, syscall.EINVAL, 3},
		{true, false, 3, syscall.ENETDOWN, 0}, {true, false, 0, 0, 0}, {false, false, 0, syscall.ENETDOWN, 0},
	} {
		change(p, func(l *netdev.LinkState) { l.Up, l.Carrier = c.up, c.carrier })
		wantErr(t, "state", p.SetSTPState(c.state), c.errno, "")
		if p.state != c.now {
			t.Errorf("%+v: now %d", c, p.state)
		}
	}
	_ = r.port(2).SetSTPState(1)
	if r.b.CarrierOn() {
		t.Error("carrier without a forwarding port")
	}
}
