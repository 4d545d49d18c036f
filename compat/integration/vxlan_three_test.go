package integration_test

import (
	"slices"
	"strings"
	"testing"
)

// star is a VTEP a with two remotes and a host behind each of the three. The
// remotes do not know each other.
type star struct {
	a, b, c    *vtep
	ha, hb, hc *netns
}

const (
	toA, toB, toC = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	group         = "00:00:00:00:00:00"
)

// newStar connects the VTEPs by a switch of the kernel's. With a network of its
// own for each remote the kernel's tunnel may lose what it sends to an address
// that has moved: vxlan_snoop leaves the old remote's route in the entry's cache.
func newStar(t testing.TB, kindA, kindB, kindC string) *star {
	t.Helper()
	s := &star{a: newVTEP(t, kindA), b: newVTEP(t, kindB), c: newVTEP(t, kindC)}
	sw := newNS(t)
	sw.run(t, "ip link add sw type bridge mcast_snooping 0")
	sw.run(t, "ip link set sw up")
	for _, v := range []struct {
		*vtep
		port, addr string
	}{{s.a, "to-a", toA}, {s.b, "to-b", toB}, {s.c, "to-c", toC}} {
		veth(t, sw, v.port, v.netns, "u0")
		sw.run(t, "ip link set "+v.port+" master sw")
		v.run(t, "ip addr add "+v.addr+"/24 dev u0")
	}
	s.ha = host(t, s.a.netns, "p1", "02:00:00:00:00:01", "10.0.0.1/24", 1450)
	s.hb = host(t, s.b.netns, "p1", "02:00:00:00:00:02", "10.0.0.2/24", 1450)
	s.hc = host(t, s.c.netns, "p1", "02:00:00:00:00:03", "10.0.0.3/24", 1450)
	for _, v := range []*vtep{s.a, s.b, s.c} {
		v.config(t,
			"ip link add br0 type bridge",
			"ip link add vx0 type vxlan id 100 dstport 4789",
			"ip link set vx0 master br0", "ip link set p1 master br0",
			"ip link set vx0 up", "ip link set br0 up")
	}
	s.a.config(t, "bridge fdb append "+group+" dev vx0 dst "+toB, "bridge fdb append "+group+" dev vx0 dst "+toC)
	s.b.config(t, "bridge fdb append "+group+" dev vx0 dst "+toA)
	s.c.config(t, "bridge fdb append "+group+" dev vx0 dst "+toA)
	return s
}

// stars: who is in the middle and at the ends.
var stars = [][3]string{{"linkspan", "kernel", "linkspan"}, {"kernel", "linkspan", "linkspan"}}

func eachStar(t *testing.T, f func(t *testing.T, s *star)) {
	needTun(t)
	needKernelVXLAN(t)
	needKernelBridge(t)
	for _, k := range stars {
		t.Run(strings.Join(k[:], "-"), func(t *testing.T) { f(t, newStar(t, k[0], k[1], k[2])) })
	}
}

// TestVXLANFlood: what has no known destination goes to every remote once, and
// what came from one remote does not go to the other.
func TestVXLANFlood(t *testing.T) {
	eachStar(t, func(t *testing.T, s *star) {
		ping(t, s.ha, "10.0.0.2")
		ping(t, s.ha, "10.0.0.3")
		a, b, c := plug(t, s.ha, "eth0"), plug(t, s.hb, "eth0"), plug(t, s.hc, "eth0")
		a.send(etherFrame(t, broadcast, "02:00:00:00:00:01", 0, "to everybody"))
		b.send(etherFrame(t, broadcast, "02:00:00:00:00:02", 0, "from b"))
		a.receive("from b")
		a.send(etherFrame(t, broadcast, "02:00:00:00:00:01", 0, "the end"))
		for name, far := range map[string]*cable{"b": b, "c": c} {
			got := far.until("the end")
			if n := count(got, "to everybody"); n != 1 {
				t.Errorf("the broadcast reached host %s %d times", name, n)
			}
			if n := count(got, "from b"); n != 0 {
				t.Errorf("host %s got the broadcast of another remote's host", name)
			}
		}
	})
}

// TestVXLANMove: an address that turns up behind another VTEP is moved there.
func TestVXLANMove(t *testing.T) {
	eachStar(t, func(t *testing.T, s *star) {
		const mac = "02:00:00:00:00:aa"
		a, b, c := plug(t, s.ha, "eth0"), plug(t, s.hb, "eth0"), plug(t, s.hc, "eth0")
		at := func() (dst []string) {
			for _, l := range strings.Split(s.a.ask(t, "bridge fdb show dev vx0"), "\n") {
				if f := strings.Fields(l); len(f) > 2 && f[0] == mac && f[1] == "dst" {
					dst = append(dst, f[2])
				}
			}
			return dst
		}
		for i, move := range []struct {
			from, other *cable
			dst         string
		}{{b, c, toB}, {c, b, toC}, {b, c, toB}} {
			move.from.send(etherFrame(t, "02:00:00:00:00:01", mac, 0, "here I am"))
			a.receive("here I am")
			if dst := at(); !slices.Equal(dst, []string{move.dst}) {
				t.Fatalf("move %d: %s is at %q, want %s", i, mac, dst, move.dst)
			}
			// And it is followed, only there. Different destinations may overtake
			// each other, so the second frame waits for the first.
			a.send(etherFrame(t, mac, "02:00:00:00:00:01", 0, "to the mover"))
			move.from.receive("to the mover")
			a.send(etherFrame(t, broadcast, "02:00:00:00:00:01", 0, "the end"))
			if n := count(move.from.until("the end"), "to the mover"); n != 0 {
				t.Errorf("move %d: the answer arrived again", i)
			}
			if n := count(move.other.until("the end"), "to the mover"); n != 0 {
				t.Errorf("move %d: the answer also went to the old place", i)
			}
		}
	})
}
