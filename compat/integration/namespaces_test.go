package integration_test

import (
	"strings"
	"testing"
)

// TestOtherNamespace: a daemon serves clients in the network namespaces where
// they are, and leaves those as clean as its own.
func TestOtherNamespace(t *testing.T) {
	n, other := newNS(t), newNS(t)
	d := daemon(t, n)
	ha := host(t, other, "p1", "02:00:00:00:00:01", "10.0.0.1/24", 1500)
	host(t, other, "p2", "02:00:00:00:00:02", "10.0.0.2/24", 1500)
	there := func(line string) result { return other.exec(t, d.shimArgs(strings.Fields(line)...), nil) }
	if there("ip link add br0 type bridge"); other.try(t, "ip link show type tun").out == "" {
		t.Skip("this daemon serves its own namespace only")
	}
	for _, line := range []string{"ip link set p1 master br0", "ip link set p2 master br0", "ip link set br0 up",
		"ip link add vx0 type vxlan id 1 dstport 4789", "ip link set vx0 up"} {
		there(line).ok(t, line)
	}
	ping(t, ha, "10.0.0.2")
	// The same names and numbers in the daemon's own are others.
	d.setup(t, "ip link add br0 type bridge", "ip link add vx0 type vxlan id 1 dstport 4789", "ip link set vx0 up")
	if out := d.run(t, "ip -br link show master br0"); out != "" {
		t.Errorf("ports of the other br0: %s", out)
	}
	// A namespace without devices is let go of while others are served.
	idle := newNS(t)
	for range 20 {
		idle.exec(t, d.shimArgs("ip", "link"), nil).ok(t, "ip link")
	}
	d.stop(t)
	if err := leftovers(other); err != nil {
		t.Errorf("in the other namespace: %v", err)
	}
	if log := d.errout.String(); strings.Contains(log, "bad file descriptor") {
		t.Errorf("at its end linkspand used a closed descriptor:\n%.500s", log)
	}
}
