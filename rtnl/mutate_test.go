package rtnl_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl/rtnltest"
)

// TestMutatedRequests cuts every request of the fuzzer's corpus at every length and
// puts the values at which lengths and signs change into every byte of it. Each
// message is answered exactly once, and all of it leaves nothing.
func TestMutatedRequests(t *testing.T) {
	seeds := fuzzSeeds()
	seeds = seeds[:len(seeds)-2] // the last two are packets of all others
	for i, seed := range seeds {
		w, other := fuzzWorld(t)
		c := w.client()
		c.option(unix.NETLINK_GET_STRICT_CHK, uint32(i&1))
		n := uint32(0)
		send := func(b []byte) {
			t.Helper()
			n++
			ne.PutUint32(b[8:], n)
			if err := c.Send(b); err != nil {
				t.Fatal(err)
			}
			c.answered(t, n, b)
		}
		for size := 16; size <= len(seed); size++ {
			b := bytes.Clone(seed[:size])
			ne.PutUint32(b, uint32(size))
			send(b)
		}
		for at := 16; at < len(seed); at++ {
			for _, v := range []byte{0, 1, 4, 0x7f, 0x80, 0xff} {
				if seed[at] != v {
					b := bytes.Clone(seed)
					b[at] = v
					send(b)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("request %x", seed)
		}
		alive(t, w, other)
	}
}

// answered reads up to the end of the answer to a message: an acknowledgement, or
// an NLMSG_DONE.
func (c *client) answered(t *testing.T, seq uint32, request []byte) {
	t.Helper()
	for {
		b, err := c.Receive()
		if err != nil {
			t.Fatalf("%v: %x", err, request)
		}
		checkDatagram(t, b)
		for _, m := range rtnltest.Messages(b) {
			if m.Seq != seq {
				t.Fatalf("an answer to %d instead of %d: %x", m.Seq, seq, request)
			}
			if m.Type == unix.NLMSG_ERROR || m.Type == unix.NLMSG_DONE {
				return
			}
		}
	}
}
