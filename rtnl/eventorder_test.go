package rtnl_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl/rtnltest"
)

// TestOwnEventsComeBeforeTheAnswer on a socket that is in the groups itself.
func TestOwnEventsComeBeforeTheAnswer(t *testing.T) {
	w := newWorld(t)
	p1 := w.veth("p1", "q1")
	c := w.monitor()
	for _, r := range []struct {
		name       string
		typ, flags uint16
		body       []byte
		want       []string
	}{
		{"a bridge", unix.RTM_NEWLINK, create, link(10, named("br0"), kind("bridge")), []string{
			"NEWNEIGH #10 random state 0x80 master #10", "NEWLINK br0 change 0xffffffff", "ACK"}},
		{"a device of the kernel's", unix.RTM_SETLINK, 0, link(p1, u32(unix.IFLA_MTU, 1400)), []string{"NEWLINK p1 up running lower", "ACK"}},
		{"an error", unix.RTM_NEWLINK, create, link(11, named("br1"), kind("bridge", u16(unix.IFLA_BR_GROUP_FWD_MASK, 7))), []string{
			"NEWNEIGH #11 random state 0x80 master #11", "DELNEIGH #11 random state 0x80 master #11", `ACK EINVAL "" @0`}},
	} {
		all, _ := c.Exchange(r.typ, r.flags, r.body)
		lines(t, r.name, w.describe(all), r.want)
		for _, m := range all[:len(all)-1] {
			if m.Seq != 0 || m.PortID != 0 || m.Flags != 0 {
				t.Errorf("%s: an event's header is %+v", r.name, m)
			}
		}
	}
}

// TestAgeingIsAnnounced: time passes by the fake clock alone.
func TestAgeingIsAnnounced(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0")
	c.enslave(p1, br)
	c.must(unix.RTM_NEWNEIGH, create, neigh(p1, reach, master, mac(0x020000000001)))
	mon := w.monitor()
	w.srv.Clock.Advance(299e9)
	if got := mon.events(); len(got) > 0 && got[len(got)-1][:8] == "DELNEIGH" {
		t.Errorf("too early: %q", got)
	}
	w.srv.Clock.Advance(2e9)
	lines(t, "events", mon.events(), []string{"DELNEIGH p1 02:00:00:00:00:01 state 0x4 master br0"})
}

// TestLearningIsAnnounced: a frame comes in on a port.
func TestLearningIsAnnounced(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0", u32(unix.IFLA_MTU, 1500))
	c.enslave(p1, br)
	mon := w.monitor()
	frame := append(append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 2, 0, 0, 0, 0, 0x77), make([]byte, 60)...)
	if !w.srv.Kernel.Receive("p1", frame) {
		t.Fatal("the port is not open")
	}
	b, err := mon.Receive()
	if err != nil {
		t.Fatal(err)
	}
	lines(t, "event", w.describe(rtnltest.Messages(b)), []string{"NEWNEIGH p1 02:00:00:00:00:77 state 0x2 master br0"})
	if out := w.srv.Kernel.Wire("br0"); !out.Wait(1, rtnltest.DefaultTimeout) {
		t.Error("the host did not get the broadcast")
	}
}

// TestEcho: with NLM_F_ECHO the requester gets a copy, and the event says who it
// was.
func TestEcho(t *testing.T) { worlds(t, echo) }

func echo(t *testing.T, w *world) {
	c, mon := w.client(), w.monitor()
	for _, r := range []struct {
		typ, flags uint16
		body       []byte
		want       string
	}{
		{unix.RTM_NEWLINK, create, link(50, named("br0"), kind("bridge")), "NEWLINK br0 change 0xffffffff"},
		{unix.RTM_DELLINK, 0, link(50), "DELLINK br0 change 0xffffffff"},
	} {
		all, err := c.Exchange(r.typ, r.flags|unix.NLM_F_ECHO, r.body)
		if err != nil {
			t.Fatal(err)
		}
		lines(t, "answer", w.describe(all), []string{r.want, "ACK"})
		for _, m := range mon.Pending() {
			own := m.Type == r.typ
			if own != (m.PortID == all[0].PortID) || own != (m.Seq == all[0].Seq) {
				t.Errorf("event %d of port %#x, sequence %d; the request's were %#x, %d", m.Type, m.PortID, m.Seq, all[0].PortID, all[0].Seq)
			}
		}
	}
}
