package integration_test

import (
	"strings"
	"syscall"
	"testing"
)

// lan is a bridge of linkspan's with two hosts.
type lan struct {
	sw     *netns
	d      *linkspand
	ha, hb *netns
}

func newLAN(t testing.TB) *lan {
	t.Helper()
	l := &lan{sw: newNS(t)}
	l.d = daemon(t, l.sw)
	l.ha = host(t, l.sw, "p1", "02:00:00:00:00:01", "10.0.0.1/24", 1500)
	l.hb = host(t, l.sw, "p2", "02:00:00:00:00:02", "10.0.0.2/24", 1500)
	l.d.setup(t, "ip link add br0 type bridge", "ip link set p1 master br0", "ip link set p2 master br0", "ip link set br0 up")
	return l
}

func TestBridgeTraffic(t *testing.T) {
	l := newLAN(t)
	ping(t, l.ha, "10.0.0.2")
	udpEcho(t, l.ha, l.hb, "10.0.0.2", 0, 1, 1472, 4000, 20000)
	// Superframes, since veth takes them whole.
	transfer(t, l.ha, l.hb, "10.0.0.2", 32<<20)
	transfer(t, l.hb, l.ha, "10.0.0.1", 32<<20)
	fdb := l.d.run(t, "bridge fdb show br br0")
	for _, want := range []string{"02:00:00:00:00:01 dev p1 master br0", "02:00:00:00:00:02 dev p2 master br0"} {
		if !strings.Contains(fdb, want) {
			t.Errorf("%q was not learned:\n%s", want, fdb)
		}
	}
}

// TestBridgeHost: the machine itself takes part by an address on br0.
func TestBridgeHost(t *testing.T) {
	l := newLAN(t)
	l.sw.run(t, "ip addr add 10.0.0.9/24 dev br0")
	ping(t, l.ha, "10.0.0.9")
	ping(t, l.sw, "10.0.0.2")
	udpEcho(t, l.ha, l.sw, "10.0.0.9", 1, 1472, 4000)
	transfer(t, l.ha, l.sw, "10.0.0.9", 16<<20)
	transfer(t, l.sw, l.ha, "10.0.0.1", 16<<20)
}

// TestBridgeTags: a bridge that does not filter leaves tags alone.
func TestBridgeTags(t *testing.T) {
	l := newLAN(t)
	a, b := plug(t, l.ha, "eth0"), plug(t, l.hb, "eth0")
	for _, vid := range []uint16{0, 5, 4094} {
		f := etherFrame(t, "02:00:00:00:00:02", "02:00:00:00:00:01", vid, "tagged or not")
		a.send(f)
		if got := b.receive("tagged or not"); string(got) != string(f) {
			t.Errorf("VLAN %d: sent % x, received % x", vid, f, got)
		}
	}
	// With a tag inside the tag too.
	f := etherFrame(t, broadcast, "02:00:00:00:00:01", 7, "two tags")
	f = append(append(append([]byte(nil), f[:12]...), 0x81, 0, 0, 9), f[12:]...)
	a.send(f)
	if got := b.receive("two tags"); string(got) != string(f) {
		t.Errorf("two tags: sent % x, received % x", f, got)
	}
}

// TestBridgeFiltering: with vlan_filtering a tagged frame stays in its VLAN.
func TestBridgeFiltering(t *testing.T) {
	l := newLAN(t)
	if r := l.d.try(t, "ip link set br0 type bridge vlan_filtering 1"); r.code != 0 {
		t.Skipf("VLAN filtering is refused: %s", r.err)
	}
	a, b := plug(t, l.ha, "eth0"), plug(t, l.hb, "eth0")
	f := func(vid uint16, payload string) []byte {
		return etherFrame(t, broadcast, "02:00:00:00:00:01", vid, payload)
	}
	a.send(f(5, "dropped"))
	a.send(f(0, "in VLAN 1"))
	if n := count(b.until("in VLAN 1"), "dropped"); n != 0 {
		t.Error("a frame of VLAN 5 passed ports without it")
	}
	l.d.setup(t, "bridge vlan add vid 5 dev p1", "bridge vlan add vid 5 dev p2 untagged")
	a.send(f(5, "let through"))
	if got, want := b.receive("let through"), f(0, "let through"); string(got[:len("let through")+14]) != string(want[:len("let through")+14]) {
		t.Errorf("received % x", got)
	}
}

// TestBridgePortVanishes: the cable of a port is cut, or the port deleted, while
// frames flow; the rest of the bridge goes on.
func TestBridgePortVanishes(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, l *lan, hc *netns){
		"the port, under the shim": func(t *testing.T, l *lan, _ *netns) { l.d.run(t, "ip link del p3") },
		"the port, by the kernel":  func(t *testing.T, l *lan, _ *netns) { l.sw.run(t, "ip link del p3") },
		"the peer":                 func(t *testing.T, _ *lan, hc *netns) { hc.run(t, "ip link del eth0") },
		"released":                 func(t *testing.T, l *lan, _ *netns) { l.d.run(t, "ip link set p3 nomaster") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			hc := host(t, l.sw, "p3", "02:00:00:00:00:03", "10.0.0.3/24", 1500)
			l.d.run(t, "ip link set p3 master br0")
			flow := startFlow(t, l.ha, l.hb, "10.0.0.2")
			startFlow(t, hc, l.hb, "10.0.0.2")
			cut(t, l, hc)
			flow.progress(t)
			gone := func() bool {
				return !strings.Contains(l.d.run(t, "bridge link show"), "p3") &&
					!strings.Contains(l.d.run(t, "bridge fdb show br br0"), "p3 ")
			}
			await(t, "p3 leaves the bridge", gone)
			flow.progress(t)
			if name == "released" {
				if err := l.sw.do(func() error { return noPrograms("p3") }); err != nil {
					t.Error(err)
				}
				l.sw.run(t, "ip addr add 10.0.0.4/24 dev p3")
				ping(t, hc, "10.0.0.4")
			}
		})
	}
}

// TestBridgeDeleted: deleting a bridge, in either view, frees its ports, and the
// host gets their frames again.
func TestBridgeDeleted(t *testing.T) {
	for name, del := range map[string]func(t *testing.T, l *lan){
		"under the shim": func(t *testing.T, l *lan) { l.d.run(t, "ip link del br0") },
		"by the kernel":  func(t *testing.T, l *lan) { l.sw.run(t, "ip link del br0") },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			l.sw.run(t, "ip addr add 10.0.0.9/24 dev p1")
			if reaches(t, l.ha, "10.0.0.9") {
				t.Error("the host's stack answers on a port")
			}
			startFlow(t, l.ha, l.hb, "10.0.0.2")
			del(t, l)
			await(t, "br0 is gone and its ports are free", func() bool {
				return l.d.try(t, "ip link show br0").code != 0 && l.d.run(t, "bridge link show") == "" && leftDevices(l.sw) == nil
			})
			ping(t, l.ha, "10.0.0.9")
			// The name can be taken again.
			l.d.setup(t, "ip link add br0 type bridge", "ip link set p1 master br0", "ip link set p2 master br0", "ip link set br0 up")
			ping(t, l.ha, "10.0.0.2")
		})
	}
}

// TestDaemonEnds while traffic flows, and while clients are connected: nothing
// of it is left (see stop) and the host gets its frames back.
func TestDaemonEnds(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			l := newLAN(t)
			l.sw.run(t, "ip addr add 10.0.0.9/24 dev p1")
			l.d.setup(t, "ip link add vx0 type vxlan id 1 dstport 4789", "ip link set vx0 master br0", "ip link set vx0 up")
			startFlow(t, l.ha, l.hb, "10.0.0.2")
			startFlow(t, l.hb, l.ha, "10.0.0.1")
			raw := newDialer(t, l.d).dial()
			raw.send(message(syscall.RTM_GETLINK, 0, 1, newLink("br0", "", nil)))
			raw.receive()
			if sig == syscall.SIGKILL {
				// Not what stop does, but the kernel takes everything away too.
				l.d.stopped = true
				_ = l.d.cmd.Process.Kill()
				<-l.d.done
				await(t, "nothing is left", func() bool { return leftovers(l.sw) == nil })
			} else {
				_ = l.d.cmd.Process.Signal(sig)
				l.d.stop(t)
			}
			ping(t, l.ha, "10.0.0.9")
			// And another one can start where it was.
			d := daemon(t, l.sw)
			d.setup(t, "ip link add br0 type bridge", "ip link set p1 master br0", "ip link set p2 master br0", "ip link set br0 up")
			ping(t, l.ha, "10.0.0.2")
		})
	}
}
