package rtnltest_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const create = uapi.NLMCreate | uapi.NLMExcl

// newBridge is the body of a RTM_NEWLINK.
func newBridge(name string) []byte {
	b := uapi.Ifinfomsg{}.Append(nil)
	b = nlattr.AppendString(b, unix.IFLA_IFNAME, name)
	b, mark := nlattr.Nest(b, unix.IFLA_LINKINFO)
	return nlattr.EndNest(nlattr.AppendString(b, unix.IFLA_INFO_KIND, "bridge"), mark)
}

func ask(ifindex int) []byte { return uapi.Ifinfomsg{Index: int32(ifindex)}.Append(nil) }

// Example makes a bridge without any privilege and reads it back.
func Example() {
	srv, err := rtnltest.Start(rtnltest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	c, err := srv.Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Do(unix.RTM_NEWLINK, create, newBridge("br0"))
	fmt.Println("create:", err)
	_, err = c.Do(unix.RTM_NEWLINK, create, newBridge("br0"))
	fmt.Println("again:", err)
	fmt.Println(srv.Kernel.Names())
	// Output:
	// create: <nil>
	// again: file exists
	// [lo br0]
}

// TestNetlinkConn uses the server through github.com/mdlayher/netlink.
func TestNetlinkConn(t *testing.T) {
	srv := rtnltest.New(t)
	conn, mon := srv.Client(t).Netlink(), srv.Client(t).Netlink()
	defer conn.Close()
	defer mon.Close()
	for _, opt := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.GetStrictCheck} {
		if err := conn.SetOption(opt, true); err != nil {
			t.Error(err)
		}
	}
	if err := mon.JoinGroup(unix.RTNLGRP_LINK); err != nil {
		t.Fatal(err)
	}
	execute := func(typ uint16, flags netlink.HeaderFlags, body []byte) ([]netlink.Message, error) {
		return conn.Execute(netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.Request | flags}, Data: body})
	}
	if _, err := execute(unix.RTM_NEWLINK, netlink.Acknowledge|netlink.Create|netlink.Excl, newBridge("br0")); err != nil {
		t.Fatal(err)
	}
	events, err := mon.Receive()
	if err != nil || len(events) != 1 || events[0].Header.Type != unix.RTM_NEWLINK {
		t.Errorf("events %v, %v", events, err)
	}
	_, err = execute(unix.RTM_NEWLINK, netlink.Acknowledge|netlink.Create|netlink.Excl, newBridge("a name that is too long"))
	var op *netlink.OpError
	if !errors.As(err, &op) || op.Message != "Attribute failed policy validation" || op.Offset != 32 || !errors.Is(err, unix.ERANGE) {
		t.Errorf("a name too long: %v", err)
	}
	links, err := execute(unix.RTM_GETLINK, netlink.Dump, ask(0))
	if err != nil || len(links) != 2 {
		t.Errorf("a dump of %d, %v", len(links), err)
	}
	if err := mon.LeaveGroup(unix.RTNLGRP_LINK); err != nil {
		t.Error(err)
	}
}

func TestReceiveEnds(t *testing.T) {
	srv := rtnltest.New(t)
	c := srv.Client(t)
	c.Timeout = time.Millisecond
	if _, err := c.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing to receive: %v", err)
	}
	c.Timeout = rtnltest.DefaultTimeout
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); !errors.Is(err, unix.EPIPE) {
		t.Errorf("a server that is closed: %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestForeignLinks: the fake kernel's own devices have the attributes, in the
// order, that Linux 6.18 gives them.
func TestForeignLinks(t *testing.T) {
	srv := rtnltest.New(t)
	p1, _ := srv.Kernel.AddVeth("p1", "q1")
	eth := srv.Kernel.AddNIC("eth0")
	tun := srv.Kernel.AddTun("tun0")
	c := srv.Client(t)
	common := []uint16{3, 13, 16, 17, 67, 4, 50, 51, 27, 30, 61, 31, 40, 41, 58, 63, 64, 59, 60, 66, 32, 33, 35, 47, 48, 68, 69, 39}
	tail := []uint16{6, 26, 14, 62, 65}
	addresses, stats := []uint16{1, 2}, []uint16{23, 7, 43}
	for _, d := range []struct {
		name  string
		index int
		want  []uint16
	}{
		{"lo", 1, slices.Concat(common, addresses, stats, tail)},
		{"veth", p1, slices.Concat(common, addresses, stats, []uint16{18, 5}, tail)},
		{"NIC", eth, slices.Concat(common, addresses, stats, tail)},
		{"tun", tun, slices.Concat(common, stats, []uint16{18}, tail)},
	} {
		ms, err := c.Do(unix.RTM_GETLINK, 0, ask(d.index))
		if err != nil || len(ms) != 1 {
			t.Fatalf("%s: %v", d.name, err)
		}
		as, left := nlattr.Parse(ms[0].Body[uapi.IfinfomsgLen:], 0)
		var got []uint16
		for _, a := range as {
			got = append(got, a.Type)
		}
		if left != 0 || !slices.Equal(got, d.want) {
			t.Errorf("%s: %v, want %v", d.name, got, d.want)
		}
	}
}

// TestFrames: a port's frames are put in and taken out by hand.
func TestFrames(t *testing.T) {
	srv := rtnltest.New(t)
	c := srv.Client(t)
	do := func(typ, flags uint16, body []byte) {
		t.Helper()
		if _, err := c.Do(typ, flags, body); err != nil {
			t.Fatal(err)
		}
	}
	do(unix.RTM_NEWLINK, create, newBridge("br0"))
	br, _ := srv.Kernel.Link("br0")
	up := uapi.Ifinfomsg{Index: int32(br.Ifindex), Flags: unix.IFF_UP, Change: unix.IFF_UP}
	do(unix.RTM_SETLINK, 0, up.Append(nil))
	if srv.Kernel.Wire("p1") != nil || srv.Kernel.Receive("p1", nil) {
		t.Error("a device that is not there is open")
	}
	for _, p := range []string{"p1", "p2"} {
		i, _ := srv.Kernel.AddVeth(p, "peer-"+p)
		srv.Kernel.SetUp("peer-"+p, true)
		srv.Kernel.SetUp(p, true)
		do(unix.RTM_SETLINK, 0, nlattr.AppendU32(ask(i), unix.IFLA_MASTER, uint32(br.Ifindex)))
		if !srv.Kernel.Seized(p) {
			t.Errorf("%s is not seized", p)
		}
	}
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 0x88, 0xb5}, make([]byte, 50)...)
	srv.Kernel.Receive("p1", frame)
	for _, out := range []string{"p2", "br0"} {
		if o := srv.Kernel.Wire(out); o == nil || !o.Wait(1, rtnltest.DefaultTimeout) {
			t.Errorf("nothing came out of %s", out)
		} else if f := o.Take(); len(f) != 1 || string(f[0].Data) != string(frame) {
			t.Errorf("%s: %d frames", out, len(f))
		}
	}
	if f := srv.Kernel.Wire("p1").Take(); len(f) != 0 {
		t.Error("it came back")
	}
}
