package rtnl_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl/rtnltest"
)

// recorded is an exchange of testdata/packets.txt.
type recorded struct {
	name    string
	options []string
	sent    []byte
	want    []string
}

func readRecorded(t *testing.T) (all []recorded) {
	b, err := os.ReadFile("testdata/packets.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
		case "<":
			if all[len(all)-1].sent, err = hex.DecodeString(rest); err != nil {
				t.Fatal(err)
			}
		case ">":
			all[len(all)-1].want = append(all[len(all)-1].want, rest)
		default:
			words := strings.Fields(line)
			r := recorded{name: line}
			for _, w := range words {
				if w == "ext" || w == "cap" || w == "strict" {
					r.options = append(r.options, w)
				}
			}
			all = append(all, r)
		}
	}
	return all
}

var optionNames = map[string]int{
	"ext": unix.NETLINK_EXT_ACK, "cap": unix.NETLINK_CAP_ACK, "strict": unix.NETLINK_GET_STRICT_CHK,
}

// last is a request whose answer, one datagram, tells that nothing else comes.
var last = rtnltest.Message{Type: unix.NLMSG_NOOP, Flags: unix.NLM_F_ACK, Seq: 0xfeedbeef}.Bytes()

// TestRecordedPackets sends what was sent to a kernel and wants its answers, byte
// for byte: forms of acknowledgements, several messages in a packet, messages that
// are no requests, control messages, lengths that lie.
func TestRecordedPackets(t *testing.T) {
	all := readRecorded(t)
	if len(all) < 40 {
		t.Fatalf("only %d exchanges", len(all))
	}
	worlds(t, func(t *testing.T, w *world) {
		for _, r := range all {
			c := w.client()
			c.option(unix.NETLINK_EXT_ACK, 0)
			for _, o := range r.options {
				c.option(optionNames[o], 1)
			}
			if err := c.Send(r.sent); err != nil {
				t.Fatal(err)
			}
			if err := c.Send(last); err != nil {
				t.Fatal(err)
			}
			lines(t, r.name, c.masked(t), r.want)
		}
	})
}

// masked returns the datagrams before the answer to last, in hex, with port ids
// masked.
func (c *client) masked(t *testing.T) (out []string) {
	for {
		b, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		ms := rtnltest.Messages(b)
		if len(ms) == 1 && ms[0].Seq == 0xfeedbeef {
			return out
		}
		pid := bytes.Clone(b[12:16])
		if ne.Uint32(pid) == 0 {
			t.Error("an answer without a port id")
		}
		out = append(out, hex.EncodeToString(bytes.ReplaceAll(b, pid, []byte("PPPP"))))
	}
}

// TestPacketsThatAreNoMessages must leave the session as it was.
func TestPacketsThatAreNoMessages(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, b := range [][]byte{{1}, make([]byte, 15), make([]byte, 4096), bytes.Repeat([]byte{0xff}, 100)} {
			if err := c.Send(b); err != nil {
				t.Fatal(err)
			}
		}
		if c.index("lo") != 1 {
			t.Error("lo is gone")
		}
	})
}

// TestOneAnswerForEach sends a packet of many requests, as a batch of ip does.
func TestOneAnswerForEach(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		var packet []byte
		const n = 50
		for i := range uint32(n) {
			m := rtnltest.Message{Type: unix.RTM_GETLINK, Flags: unix.NLM_F_REQUEST, Seq: i + 1, Body: link(1)}
			switch i % 3 {
			case 1:
				m.Flags |= unix.NLM_F_ACK
			case 2:
				m.Body = link(unknownIdx)
			}
			packet = append(packet, m.Bytes()...)
		}
		if err := c.Send(append(packet, last...)); err != nil {
			t.Fatal(err)
		}
		var got []rtnltest.Message
		for len(got) == 0 || got[len(got)-1].Seq != 0xfeedbeef {
			b, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rtnltest.Messages(b)...)
		}
		for i := range uint32(n) {
			want := []uint16{unix.RTM_NEWLINK}
			switch i % 3 {
			case 1:
				want = append(want, unix.NLMSG_ERROR)
			case 2:
				want = []uint16{unix.NLMSG_ERROR}
			}
			for _, typ := range want {
				if len(got) == 0 || got[0].Seq != i+1 || got[0].Type != typ {
					t.Fatalf("request %d: got %+v, want type %d", i+1, got[0], typ)
				}
				got = got[1:]
			}
		}
	})
}

// TestLargestPacket is what a client may send at once.
func TestLargestPacket(t *testing.T) {
	c := newWorld(t).client()
	one := rtnltest.Message{Type: unix.RTM_SETLINK, Flags: unix.NLM_F_REQUEST, Body: link(1)}.Bytes()
	packet := append(bytes.Repeat(one, (200<<10)/len(one)), last...)
	if err := c.Send(packet); errors.Is(err, unix.EMSGSIZE) {
		t.Skip("this machine's sockets take less: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 30 * time.Second
	if got := c.masked(t); got != nil {
		t.Errorf("%d answers that nobody asked for", len(got))
	}
}
