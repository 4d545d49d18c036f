package integration_test

import (
	"fmt"
	"strings"
	"testing"
)

// vtep is a namespace whose bridges and tunnels are linkspan's or the kernel's.
// The same commands make either.
type vtep struct {
	*netns
	d *linkspand // nil: the kernel
}

func newVTEP(t testing.TB, kind string) *vtep {
	t.Helper()
	v := &vtep{netns: newNS(t)}
	if kind == "linkspan" {
		v.d = daemon(t, v.netns)
	}
	return v
}

// config runs command lines with the view of the VTEP's own drivers.
func (v *vtep) config(t testing.TB, lines ...string) {
	t.Helper()
	for _, l := range lines {
		v.ask(t, l)
	}
}

// ask runs one and returns what it prints.
func (v *vtep) ask(t testing.TB, line string) string {
	t.Helper()
	return v.tryAsk(t, line).ok(t, line)
}

func (v *vtep) tryAsk(t testing.TB, line string) result {
	t.Helper()
	if v.d != nil {
		return v.d.try(t, line)
	}
	return v.try(t, line)
}

// underlay is a network for tunnels: the addresses of its two ends.
type underlay struct {
	a, b string
	bits int
	mtu  int // that fits into it
}

var underlays = map[string]underlay{
	"IPv4": {"192.0.2.1", "192.0.2.2", 24, 1450},
	"IPv6": {"2001:db8::1", "2001:db8::2", 64, 1430},
}

// lay connects two VTEPs.
func (u underlay) lay(t testing.TB, a, b *vtep) {
	t.Helper()
	if u.bits == 64 {
		a.ipv6(t, true)
		b.ipv6(t, true)
	}
	veth(t, a.netns, "u0", b.netns, "u0")
	for v, addr := range map[*vtep]string{a: u.a, b: u.b} {
		nodad := ""
		if u.bits == 64 {
			nodad = " nodad"
		}
		v.run(t, fmt.Sprintf("ip addr add %s/%d dev u0%s", addr, u.bits, nodad))
	}
}

// vtepPairs are who talks to whom; the kernel with itself would test the test.
var vtepPairs = [][2]string{{"linkspan", "kernel"}, {"linkspan", "linkspan"}}

// TestVXLANHosts: hosts behind bridges with a tunnel between them.
func TestVXLANHosts(t *testing.T) {
	needTun(t)
	needKernelVXLAN(t)
	needKernelBridge(t)
	for family, u := range underlays {
		for _, kinds := range vtepPairs {
			t.Run(family+"/"+strings.Join(kinds[:], "-"), func(t *testing.T) {
				a, b := newVTEP(t, kinds[0]), newVTEP(t, kinds[1])
				u.lay(t, a, b)
				ha := host(t, a.netns, "p1", "02:00:00:00:00:01", "10.0.0.1/24", u.mtu)
				hb := host(t, b.netns, "p1", "02:00:00:00:00:02", "10.0.0.2/24", u.mtu)
				for v, ends := range map[*vtep][2]string{a: {u.a, u.b}, b: {u.b, u.a}} {
					v.config(t,
						"ip link add br0 type bridge",
						fmt.Sprintf("ip link add vx0 type vxlan id 100 local %s remote %s dstport 4789 dev u0", ends[0], ends[1]),
						"ip link set vx0 master br0", "ip link set p1 master br0",
						"ip link set vx0 up", "ip link set br0 up")
				}
				ping(t, ha, "10.0.0.2")
				udpEcho(t, ha, hb, "10.0.0.2", 0, 1, 100, 1000, u.mtu-28)
				udpEcho(t, hb, ha, "10.0.0.1", 2, 999)
				// Larger than the host's MTU: the host's own fragments.
				udpEcho(t, ha, hb, "10.0.0.2", 4000, 20000)
				transfer(t, ha, hb, "10.0.0.2", 16<<20)
				transfer(t, hb, ha, "10.0.0.1", 16<<20)
				t.Run("iperf3", func(t *testing.T) {
					iperf(t, ha, hb, "10.0.0.2", "64M")
					iperf(t, hb, ha, "10.0.0.1", "64M")
				})
				for v, far := range map[*vtep][2]string{a: {"02:00:00:00:00:02", u.b}, b: {"02:00:00:00:00:01", u.a}} {
					want := far[0] + " dst " + far[1] + " self"
					if fdb := v.ask(t, "bridge fdb show dev vx0"); !strings.Contains(fdb, want) {
						t.Errorf("%q was not learned:\n%s", want, fdb)
					}
				}
			})
		}
	}
}

// TestVXLANPlain: tunnels without a bridge, with addresses of their own.
func TestVXLANPlain(t *testing.T) {
	needTun(t)
	needKernelVXLAN(t)
	for family, u := range underlays {
		t.Run(family, func(t *testing.T) {
			a, b := newVTEP(t, "linkspan"), newVTEP(t, "kernel")
			u.lay(t, a, b)
			for v, ends := range map[*vtep][3]string{a: {u.a, u.b, "10.0.0.1/24"}, b: {u.b, u.a, "10.0.0.2/24"}} {
				v.config(t,
					fmt.Sprintf("ip link add vx0 type vxlan id 7 local %s remote %s dstport 8472", ends[0], ends[1]),
					"ip addr add "+ends[2]+" dev vx0", "ip link set vx0 up")
				v.run(t, fmt.Sprintf("ip link set vx0 mtu %d", u.mtu))
			}
			ping(t, a.netns, "10.0.0.2")
			udpEcho(t, a.netns, b.netns, "10.0.0.2", 1, 1000, 5000)
			transfer(t, a.netns, b.netns, "10.0.0.2", 16<<20)
			transfer(t, b.netns, a.netns, "10.0.0.1", 16<<20)
		})
	}
}
