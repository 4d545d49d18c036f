package rtnl_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// flood makes n events of a bridge's table, about 76 bytes each, and reports the
// address of the last.
func flood(t *testing.T, c *client, br int32, n int) uapi.MAC {
	t.Helper()
	const batch = 500
	for done := 0; done < n; done += batch {
		var packet []byte
		for i := range batch {
			m := uapi.MAC(0x020100000000 + done + i)
			packet = append(packet, rtnltest.Message{
				Type: unix.RTM_NEWNEIGH, Flags: unix.NLM_F_REQUEST | create, Body: neigh(br, perm, self, mac(m)),
			}.Bytes()...)
		}
		if err := c.Send(append(packet, last...)); err != nil {
			t.Fatal(err)
		}
		if got := c.masked(t); got != nil {
			t.Fatalf("refused: %s", got[0])
		}
	}
	return uapi.MAC(0x020100000000 + n - 1)
}

// overflow is how many events are more than a client's socket and its place in the
// daemon hold. The socket's buffer, 8 MiB with the privilege to have that, counts
// what a datagram costs the kernel, which is more than 512 bytes.
const overflow = rtnl.OutboxLimit/76 + (8<<20)/512

// TestSlowSubscriber: a subscriber that does not read loses events and is told so;
// another one that reads gets all, in order, meanwhile.
func TestSlowSubscriber(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0")
	slow, quick, quiet := w.monitor(), w.monitor(), w.monitor()
	quiet.option(unix.NETLINK_NO_ENOBUFS, 1)

	const n = overflow/500*500 + 500
	read := make(chan error, 1)
	go func() {
		for want := uapi.MAC(0x020100000000); want < 0x020100000000+n; want++ {
			b, err := quick.Receive()
			if err != nil {
				read <- fmt.Errorf("event %x: %w", uint64(want), err)
				return
			}
			for _, m := range rtnltest.Messages(b) {
				if got := addressOf(m); got != want {
					read <- fmt.Errorf("event of %v, want %v", got, want)
					return
				}
			}
		}
		read <- nil
	}()
	lastMAC := flood(t, c, br, n)
	if err := <-read; err != nil {
		t.Fatal(err)
	}

	got := drainAll(t, slow)
	if len(got) >= n || len(got) < rtnl.OutboxLimit/200 {
		t.Fatalf("the slow one has %d of %d events", len(got), n)
	}
	for i, m := range got[:len(got)-1] {
		if addressOf(m) != uapi.MAC(0x020100000000+i) {
			t.Fatalf("event %d is of %v", i, addressOf(m))
		}
	}
	end := got[len(got)-1]
	if refusalOf(end.Error()).errno != unix.ENOBUFS || end.Type != unix.NLMSG_ERROR || end.Seq != 0 {
		t.Errorf("after what was kept comes %+v, not ENOBUFS", end)
	}
	for _, m := range drainAll(t, quiet) {
		if m.Type == unix.NLMSG_ERROR {
			t.Error("a socket with NETLINK_NO_ENOBUFS is told of the loss")
		}
	}

	// It works as before from here on.
	c.must(unix.RTM_DELNEIGH, 0, neigh(br, perm, self, mac(lastMAC)))
	for name, k := range map[string]*client{"slow": slow, "quick": quick, "quiet": quiet} {
		if got := k.Pending(); len(got) != 1 || addressOf(got[0]) != lastMAC || got[0].Type != unix.RTM_DELNEIGH {
			t.Errorf("%s: %d events after the loss", name, len(got))
		}
	}
}

func addressOf(m rtnltest.Message) uapi.MAC {
	if m.Type != unix.RTM_NEWNEIGH && m.Type != unix.RTM_DELNEIGH {
		return 0
	}
	return uapi.MACFrom(m.Body[uapi.NdmsgLen+4:]) // NDA_LLADDR comes first
}

// drainAll reads what waits in the socket and in the daemon. The daemon fills the
// socket up in its own time, so the end is where the answer to a request comes,
// which waits in the same line.
func drainAll(t *testing.T, c *client) (ms []rtnltest.Message) {
	t.Helper()
	if err := c.Send(last); err != nil {
		t.Fatal(err)
	}
	lost := false
	for {
		b, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rtnltest.Messages(b) {
			if m.Seq == 0xfeedbeef {
				// What was lost comes behind what waits.
				if v, _ := c.Session.Option(unix.NETLINK_NO_ENOBUFS); v == 0 && !lost {
					b, err := c.Receive()
					if err != nil {
						t.Fatal(err)
					}
					ms = append(ms, rtnltest.Messages(b)...)
				}
				return ms
			}
			lost = lost || m.Type == unix.NLMSG_ERROR
			ms = append(ms, m)
		}
	}
}

// TestRepliesAreNeverLost: a client that sends without reading gets all answers.
func TestRepliesAreNeverLost(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	for i := range 30 {
		w.srv.Kernel.AddNIC(fmt.Sprint("nic", i))
	}
	const n = 300
	for i := range uint32(n) {
		m := rtnltest.Message{Type: unix.RTM_GETLINK, Flags: unix.NLM_F_REQUEST | dumpFlag, Seq: i + 1, Body: link(0)}
		if err := c.Send(m.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for seq := uint32(1); seq <= n; {
		b, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rtnltest.Messages(b) {
			if m.Seq != seq {
				t.Fatalf("an answer to %d, want %d", m.Seq, seq)
			}
			if m.Type == unix.NLMSG_DONE {
				seq++
			}
		}
	}
}

// TestGroups: each session gets what it joined, from then on and until it leaves.
func TestGroups(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0", withMAC())
	c.must(unix.RTM_GETLINK, 0, link(1)) // linkwatch has run
	links, neighs, both, none := w.client(), w.client(), w.client(), w.client()
	links.option(unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_LINK)
	if e := neighs.Session.Bind(0, 1<<(unix.RTNLGRP_NEIGH-1), 0); e != 0 {
		t.Fatal(e)
	}
	both.option(unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_LINK)
	both.option(unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_NEIGH)
	change := func() {
		c.must(unix.RTM_NEWNEIGH, uapi.NLMCreate|uapi.NLMReplace, neigh(br, perm, self, mac(testMAC)))
		c.must(unix.RTM_NEWLINK, 0, link(br, kind("bridge", u32(unix.IFLA_BR_AGEING_TIME, 100))))
	}
	linkEvent, neighEvent := "NEWLINK br0 up", "NEWNEIGH br0 "+testMAC.String()+" state 0x80 master br0"
	change()
	lines(t, "links", links.events(), []string{linkEvent})
	lines(t, "neighs", neighs.events(), []string{neighEvent})
	lines(t, "both", both.events(), []string{neighEvent, linkEvent})
	lines(t, "none", none.events(), nil)
	both.option(unix.NETLINK_DROP_MEMBERSHIP, unix.RTNLGRP_NEIGH)
	if e := neighs.Session.Bind(neighs.pid(), 1<<(unix.RTNLGRP_LINK-1), 0); e != 0 {
		t.Fatal(e)
	}
	c.must(unix.RTM_DELNEIGH, 0, neigh(br, perm, self, mac(testMAC)))
	change()
	lines(t, "links", links.events(), []string{linkEvent})
	lines(t, "neighs that are links now", neighs.events(), []string{linkEvent})
	lines(t, "both without neighs", both.events(), []string{linkEvent})
}

func (c *client) pid() uint32 {
	p, _ := c.Session.Name()
	return p
}

// TestForeignEventsAreForThoseWhoJoined later than they happened: not.
func TestForeignEventsBeforeJoining(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.srv.Kernel.AddNIC(fmt.Sprint("nic", i))
		lines(t, "events", w.monitor().events(), nil)
	}
}
