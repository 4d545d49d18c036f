package integration_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/songgao/water"
)

// TestTAPPort makes another program's TAP a port, as a virtual machine's is: what
// that program writes reaches the other ports, and the other way round.
func TestTAPPort(t *testing.T) {
	n := newNS(t)
	needTun(t)
	far := newNS(t)
	veth(t, n, "p1", far, "q1")
	var tap *water.Interface
	err := n.do(func() (err error) {
		tap, err = water.New(water.Config{
			DeviceType:             water.TAP,
			PlatformSpecificParams: water.PlatformSpecificParams{Name: "vm0"},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	d := daemon(t, n)
	d.setup(t,
		"ip link add br0 type bridge forward_delay 0",
		"ip link set vm0 up",
		"ip link set vm0 master br0",
		"ip link set p1 master br0",
		"ip link set br0 up",
	)
	far.run(t, "ip link set q1 up")
	await(t, "both ports forward", func() bool {
		return strings.Count(d.run(t, "bridge link show"), "state forwarding") == 2
	})
	q := plug(t, far, "q1")
	const out, back = "from the virtual machine", "to the virtual machine"
	if _, err := tap.Write(etherFrame(t, "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:61", 0, out)); err != nil {
		t.Fatal(err)
	}
	q.receive(out)
	got := make(chan struct{})
	go func() {
		buf := make([]byte, 1<<16)
		for {
			k, err := tap.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(buf[:k], []byte(back)) {
				close(got)
				return
			}
		}
	}()
	q.send(etherFrame(t, "02:00:00:00:00:61", "02:00:00:00:00:62", 0, back))
	select {
	case <-got:
	case <-time.After(20 * time.Second):
		t.Fatal("a frame to the learned address did not reach the TAP")
	}
}
