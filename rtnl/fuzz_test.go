package rtnl_test

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// Indexes of the fuzzers' devices.
const (
	fuzzPort   = 3 // p1, a veth, in br0
	fuzzVeth   = 5 // p2, a veth
	fuzzNIC    = 6 // eth0
	fuzzBridge = 10
	fuzzTunnel = 11 // in br0
	fuzzLone   = 12 // a tunnel with VNI filter
)

// fuzzWorld has one of each kind.
func fuzzWorld(t testing.TB) (*world, *client) {
	w := newWorld(t)
	c := w.client()
	w.veth("p1", "q1")
	w.veth("p2", "q2")
	w.srv.Kernel.AddNIC("eth0")
	for _, m := range fuzzSetup() {
		c.must(m.Type, m.Flags, m.Body)
	}
	return w, c
}

func fuzzSetup() []rtnltest.Message {
	newLink, setLink, newNeigh := uint16(unix.RTM_NEWLINK), uint16(unix.RTM_SETLINK), uint16(unix.RTM_NEWNEIGH)
	up := func(i int32) rtnltest.Message {
		return rtnltest.Message{Type: setLink, Body: upOrDown(i, true)}
	}
	return []rtnltest.Message{
		{Type: newLink, Flags: create, Body: link(fuzzBridge, named("br0"), withMAC(), kind("bridge", u32(unix.IFLA_BR_FORWARD_DELAY, 0)))},
		up(fuzzBridge),
		{Type: newLink, Flags: create, Body: link(fuzzTunnel, named("vx0"), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 7), attr(unix.IFLA_VXLAN_GROUP, []byte{10, 0, 0, 1})))},
		{Type: newLink, Flags: create, Body: link(fuzzLone, named("vx1"), kind("vxlan",
			u8(unix.IFLA_VXLAN_COLLECT_METADATA, 1), u8(unix.IFLA_VXLAN_VNIFILTER, 1), attr(unix.IFLA_VXLAN_PORT, []byte{0x12, 0xb5})))},
		up(fuzzLone),
		{Type: setLink, Body: link(fuzzPort, masterIs(fuzzBridge))},
		{Type: setLink, Body: link(fuzzTunnel, masterIs(fuzzBridge))},
		up(fuzzTunnel),
		{Type: newNeigh, Flags: create, Body: neigh(fuzzPort, noarp, master, mac(testMAC))},
		{Type: newNeigh, Flags: create, Body: neigh(fuzzTunnel, reach, self, mac(testMAC), attr(uapi.NDADst, []byte{10, 0, 0, 2}))},
	}
}

// fuzzSeeds are requests of all kinds that concern us.
func fuzzSeeds() (seeds [][]byte) {
	add := func(typ, flags uint16, bodies ...[]byte) {
		for _, b := range bodies {
			seeds = append(seeds, rtnltest.Message{Type: typ, Flags: flags | unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: 1, Body: b}.Bytes())
		}
	}
	for _, m := range fuzzSetup() {
		add(m.Type, m.Flags, m.Body)
	}
	br := make([]byte, 8)
	br[0] = unix.AF_BRIDGE
	ne.PutUint32(br[4:], fuzzBridge)
	tunnel := bytes.Clone(br)
	ne.PutUint32(tunnel[4:], fuzzLone)
	entry := append(u32(0, fuzzPort), 1, 0, 0, 0) // struct br_mdb_entry begins so
	entry = append(entry[4:], make([]byte, 20)...)
	vlan := func(flags, vid uint16) []byte {
		return attr(uapi.IFLABridgeVLANInfo, ne.AppendUint16(ne.AppendUint16(nil, flags), vid))
	}
	m := mac(testMAC)
	add(unix.RTM_GETLINK, 0, link(fuzzBridge), link(0, named("vx0")), []byte{0})
	add(unix.RTM_GETLINK, dumpFlag, link(0), link(0, masterIs(fuzzBridge)), link(0, kind("bridge")), link7(0, u32(unix.IFLA_EXT_MASK, 2)))
	add(unix.RTM_SETLINK, 0, link(fuzzPort, masterIs(0)), link(fuzzBridge, u32(unix.IFLA_MTU, 65535), named("brx"), withMAC()),
		upOrDown(fuzzTunnel, false), upOrDown(fuzzBridge, false), link(fuzzNIC, masterIs(fuzzBridge)),
		link7(fuzzPort, nest(unix.IFLA_PROTINFO|nlattr.FlagNested, u8(unix.IFLA_BRPORT_STATE, 1), u16(unix.IFLA_BRPORT_PRIORITY, 5))),
		link7(fuzzPort, nest(unix.IFLA_AF_SPEC, u16(uapi.IFLABridgeFlags, 1), vlan(8, 2), vlan(16, 9))), link7(fuzzBridge, nest(unix.IFLA_AF_SPEC, u16(uapi.IFLABridgeFlags, 2), vlan(0, 5))))
	add(unix.RTM_NEWLINK, 0, link(fuzzBridge, kind("bridge", u32(unix.IFLA_BR_STP_STATE, 1), attr(unix.IFLA_BR_GROUP_ADDR, []byte{1, 0x80, 0xc2, 0, 0, 5}))),
		link(fuzzTunnel, kind("vxlan", u8(unix.IFLA_VXLAN_TTL, 5), attr(unix.IFLA_VXLAN_GROUP, []byte{10, 0, 0, 9}))),
		link(fuzzPort, nest(unix.IFLA_LINKINFO, nest(unix.IFLA_INFO_SLAVE_DATA, u8(unix.IFLA_BRPORT_MODE, 1)))))
	add(unix.RTM_NEWLINK, create, link(0, kind("bridge")), link(0, named("vx9"), masterIs(fuzzBridge), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 9), u32(unix.IFLA_VXLAN_LINK, fuzzBridge))),
		link(0, named("v1"), masterIs(fuzzBridge), vethInfo("v2")), link(0, named("n"), u32(unix.IFLA_NET_NS_FD, 3), kind("bridge")))
	add(unix.RTM_DELLINK, 0, link(fuzzBridge), link(0, named("vx0")), link(fuzzPort), link(0, u32(unix.IFLA_GROUP, 0)), link7(fuzzPort))
	add(unix.RTM_NEWNEIGH, create, neigh(fuzzPort, perm, master|self, m, u16(uapi.NDAVLAN, 5)), neigh(fuzzBridge, perm, self, m),
		neigh(fuzzTunnel, reach, self, m, attr(uapi.NDADst, make([]byte, 16)), u32(uapi.NDAVNI, 8), u32(uapi.NDANhID, 1)),
		neigh(fuzzPort, noarp, master|uapi.NTFSticky, m, u32(uapi.NDAFlagsExt, 2), nest(uapi.NDAFDBExtAttrs|nlattr.FlagNested, u8(uapi.NFEAActivityNotify, 3))))
	add(unix.RTM_DELNEIGH, 0, neigh(fuzzPort, 0, master, m), neigh(fuzzTunnel, 0, self, m))
	add(unix.RTM_DELNEIGH, uapi.NLMBulk, neigh(fuzzBridge, 0, self, u16(uapi.NDANdmStateMask, perm)), neigh(fuzzTunnel, 0, self, u32(uapi.NDAVNI, 7)), neigh(fuzzPort, 0, 0))
	add(unix.RTM_GETNEIGH, 0, neigh(fuzzPort, 0, 0, m), neigh(0, 0, 0, m, u32(uapi.NDAMaster, fuzzBridge)))
	add(unix.RTM_GETNEIGH, dumpFlag, neigh(fuzzBridge, 0, 0), neigh(0, 0, 0, u32(uapi.NDAMaster, fuzzBridge)), link7(0, masterIs(fuzzBridge)))
	add(unix.RTM_NEWMDB, create, append(bytes.Clone(br), attr(uapi.MDBASetEntry, entry)...))
	add(unix.RTM_DELMDB, uapi.NLMBulk, append(bytes.Clone(br), attr(uapi.MDBASetEntry, entry)...))
	add(unix.RTM_GETMDB, 0, append(bytes.Clone(br), attr(uapi.MDBAGetEntry, entry)...))
	add(unix.RTM_GETMDB, dumpFlag, br)
	add(unix.RTM_NEWTUNNEL, create, append(bytes.Clone(tunnel), nest(1, u32(1, 100), u32(2, 110), attr(3, []byte{10, 0, 0, 3}))...))
	add(unix.RTM_DELTUNNEL, 0, append(bytes.Clone(tunnel), nest(1, u32(1, 100))...))
	add(unix.RTM_GETTUNNEL, dumpFlag, tunnel, br)
	all := slices.Concat(seeds...)
	return append(seeds, all, all[:len(all)-7])
}

// FuzzRequest sends any bytes as one packet of requests. Whatever they are, the
// session and the namespace answer what comes behind, and closing leaves nothing.
func FuzzRequest(f *testing.F) {
	for i, s := range fuzzSeeds() {
		f.Add(s, byte(i))
	}
	f.Fuzz(func(t *testing.T, packet []byte, options byte) {
		if len(packet) == 0 || len(packet) > 64<<10 {
			t.Skip()
		}
		w, other := fuzzWorld(t)
		c := w.client()
		if options&8 != 0 {
			c = w.with(w.srv.ClientAs(t, nobody))
		}
		for i, o := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK, unix.NETLINK_GET_STRICT_CHK} {
			c.option(o, uint32(options>>i&1))
		}
		if options&16 != 0 {
			for g := range uint32(32) {
				c.option(unix.NETLINK_ADD_MEMBERSHIP, g+1)
			}
		}
		if err := c.Send(packet); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(last); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			b, err := c.Receive()
			if err != nil {
				t.Fatalf("no answer to the next message: %v", err)
			}
			checkDatagram(t, b)
			ms := rtnltest.Messages(b)
			done = ms[len(ms)-1].Seq == 0xfeedbeef
		}
		alive(t, w, other)
	})
}

// checkDatagram wants whole, aligned messages.
func checkDatagram(t *testing.T, b []byte) {
	t.Helper()
	rest := b
	for len(rest) >= 16 {
		n := int(ne.Uint32(rest))
		if n < 16 || n > len(rest) {
			break
		}
		rest = rest[min(nlattr.Align(n), len(rest)):]
	}
	if len(rest) != 0 || len(b) == 0 {
		t.Errorf("a datagram that is no messages: %x", b)
	}
}

// alive asks for everything that there is, deletes it and looks for remains.
func alive(t *testing.T, w *world, c *client) {
	t.Helper()
	c.Pending()
	if c.index("lo") != 1 {
		t.Fatal("lo is gone")
	}
	for _, d := range []struct {
		typ  uint16
		body []byte
	}{{unix.RTM_GETLINK, link(0)}, {unix.RTM_GETLINK, link7(0)}, {unix.RTM_GETNEIGH, neigh(0, 0, 0)}, {unix.RTM_GETMDB, append([]byte{unix.AF_BRIDGE}, make([]byte, 7)...)}} {
		if _, err := c.Do(d.typ, dumpFlag, d.body); err != nil {
			t.Errorf("dump %d: %v", d.typ, err)
		}
	}
	w.srv.Clock.Advance(400e9)
	if err := w.srv.Close(); err != nil {
		t.Error(err)
	}
	if devices, ports := w.srv.Namespace.Traces(); devices != 0 || ports != 0 {
		t.Errorf("%d devices and %d ports are left", devices, ports)
	}
	if n := w.srv.Kernel.Conns(); n != 0 {
		t.Errorf("%d sockets are left", n)
	}
	if n := w.srv.Clock.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
	for _, name := range w.srv.Kernel.Names() {
		if l, _ := w.srv.Kernel.Link(name); l.OpenIOs != 0 || l.Promiscuity > 1 {
			t.Errorf("%s is left as %+v", name, l)
		}
	}
}

// FuzzLinkRewrite takes any bytes for the kernel's link message of each kind of
// device.
func FuzzLinkRewrite(f *testing.F) {
	w, c := fuzzWorld(f)
	devices := []int32{1, fuzzPort, fuzzVeth, fuzzNIC, fuzzBridge, fuzzTunnel, fuzzLone}
	for i, d := range devices {
		for _, m := range c.must(unix.RTM_GETLINK, 0, link(d)) {
			f.Add(m.Body, byte(i), true)
		}
	}
	f.Add([]byte{}, byte(4), false)
	f.Fuzz(func(t *testing.T, body []byte, device byte, set bool) {
		body = bytes.Clone(body)
		if len(body) > 32<<10 {
			t.Skip()
		}
		index := devices[int(device)%len(devices)]
		if set && len(body) >= uapi.IfinfomsgLen {
			ne.PutUint32(body[4:], uint32(index))
		}
		in := rtnltest.Message{Type: unix.RTM_NEWLINK, Seq: 5, PortID: 6, Body: body}.Bytes()
		want := bytes.Clone(in)
		out := w.srv.Namespace.RewriteLink(in)
		if !bytes.Equal(in, want) {
			t.Error("the kernel's message was changed in place")
		}
		got := rtnltest.Messages(out)
		if len(got) != 1 {
			t.Fatalf("%d messages from %x", len(got), in)
		}
		if m := got[0]; m.Type != unix.RTM_NEWLINK || m.Seq != 5 || m.PortID != 6 || len(m.Body) < min(len(body), uapi.IfinfomsgLen) {
			t.Errorf("header %+v", m)
		}
		ours := set && index >= fuzzBridge || index == fuzzPort
		if !ours && set && !bytes.Equal(got[0].Body, body) {
			t.Errorf("a foreign device's message was changed: %x", out)
		}
		if set && len(body) >= uapi.IfinfomsgLen && body[0] != unix.AF_BRIDGE && ours {
			if _, left := nlattr.Parse(got[0].Body[uapi.IfinfomsgLen:], 0); left != 0 {
				t.Errorf("%d bytes behind the attributes", left)
			}
		}
	})
}

// FuzzKernelEvent takes any bytes for a notification of the kernel's.
func FuzzKernelEvent(f *testing.F) {
	w, c := fuzzWorld(f)
	for _, d := range []int32{1, fuzzPort, fuzzVeth, fuzzNIC, fuzzBridge, fuzzTunnel, fuzzLone} {
		for _, m := range c.must(unix.RTM_GETLINK, 0, link(d)) {
			down := bytes.Clone(m.Body)
			down[8] &^= unix.IFF_UP
			f.Add(uint32(unix.RTNLGRP_LINK), rtnltest.Message{Type: unix.RTM_NEWLINK, Body: m.Body}.Bytes(), byte(0))
			f.Add(uint32(unix.RTNLGRP_LINK), rtnltest.Message{Type: unix.RTM_NEWLINK, Body: down}.Bytes(), byte(1))
			f.Add(uint32(unix.RTNLGRP_LINK), rtnltest.Message{Type: unix.RTM_DELLINK, Body: m.Body}.Bytes(), byte(2))
		}
	}
	if err := w.srv.Close(); err != nil {
		f.Fatal(err)
	}
	nh := append(append(make([]byte, 8), u32(1, 5)...), attr(2, []byte{6, 0, 0, 0, 1, 0, 0, 0})...)
	f.Add(uint32(unix.RTNLGRP_NEXTHOP), rtnltest.Message{Type: unix.RTM_NEWNEXTHOP, Body: nh}.Bytes(), byte(0))
	f.Add(uint32(unix.RTNLGRP_NEXTHOP), rtnltest.Message{Type: unix.RTM_DELNEXTHOP, Body: nh}.Bytes(), byte(0))
	f.Add(uint32(unix.RTNLGRP_NEIGH), rtnltest.Message{Type: unix.RTM_NEWNEIGH, Body: neigh(fuzzPort, perm, self, mac(1))}.Bytes(), byte(4))
	f.Fuzz(func(t *testing.T, group uint32, event []byte, how byte) {
		if len(event) > 64<<10 {
			t.Skip()
		}
		w, c := fuzzWorld(t)
		mon := w.monitor()
		w.srv.Kernel.Announce(group, event)
		switch how & 3 {
		case 1: // twice
			w.srv.Kernel.Announce(group, event)
		case 2: // before the next is seen
			w.srv.Kernel.Delete("p1")
		case 3:
			w.srv.Kernel.Lose()
		}
		c.must(unix.RTM_GETLINK, 0, link(1))
		if how&4 != 0 {
			_, _ = c.Do(unix.RTM_SETLINK, 0, link(fuzzNIC, masterIs(fuzzBridge)))
			_, _ = c.Do(unix.RTM_DELLINK, 0, link(fuzzBridge))
		}
		mon.Pending()
		alive(t, w, c)
	})
}
