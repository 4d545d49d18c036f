package rtnl_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// vethInfo is IFLA_LINKINFO of a veth pair.
func vethInfo(peer string) []byte {
	return nest(unix.IFLA_LINKINFO, str(unix.IFLA_INFO_KIND, "veth"), nest(unix.IFLA_INFO_DATA, attr(1, link(0, named(peer)))))
}

// TestPassThrough: the kernel's own answers carry the client's port id.
func TestPassThrough(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	for _, r := range []struct {
		name       string
		typ, flags uint16
		body       []byte
		want       []string
	}{
		{"get", unix.RTM_GETLINK, 0, link(1), []string{"NEWLINK lo up running lower", "ACK"}},
		{"get of none", unix.RTM_GETLINK, 0, link(unknownIdx), []string{`ACK ENODEV "" @0`}},
		{"refused with a text", unix.RTM_SETLINK, 0, link(1, u16(unix.IFLA_MTU, 1)), []string{`ACK ERANGE "` + policyText + `" @32`}},
		{"create", unix.RTM_NEWLINK, create, link(0, named("v1"), vethInfo("v2")), []string{"ACK"}},
		{"create again", unix.RTM_NEWLINK, create, link(0, named("v1"), vethInfo("v2")), []string{`ACK EEXIST "" @0`}},
		{"unknown to the kernel", unix.RTM_NEWNEXTHOP, create, make([]byte, 8), []string{"ACK " + refused(unix.EOPNOTSUPP, "").String()}},
		{"delete", unix.RTM_DELLINK, 0, link(0, named("v1")), []string{"ACK"}},
	} {
		all, _ := c.Exchange(r.typ, r.flags, r.body)
		lines(t, r.name, w.describe(all), r.want)
		for _, m := range all {
			if m.PortID != c.pid() {
				t.Errorf("%s: port id %#x, want %#x", r.name, m.PortID, c.pid())
			}
		}
	}
	all, err := c.Exchange(unix.RTM_GETLINK, dumpFlag, link(0))
	if err != nil || len(all) != 2 || all[0].PortID != c.pid() || all[1].PortID != c.pid() {
		t.Errorf("a dump: %+v, %v", all, err)
	}
}

// TestEventsCarryTheRequestersPort: an event of the kernel's that names the
// session's own socket to the kernel names the client's to clients.
func TestEventsCarryTheRequestersPort(t *testing.T) {
	w := newWorld(t)
	c, mon := w.client(), w.monitor()
	c.must(unix.RTM_GETLINK, 0, link(1))
	port := w.srv.Kernel.LastPort()
	for want, named := range map[uint32]uint32{c.pid(): port, 0: 0, 12345: 12345} {
		m := rtnltest.Message{Type: unix.RTM_NEWLINK, Seq: 7, PortID: named, Body: link(77, str(unix.IFLA_IFNAME, "x"))}
		w.srv.Kernel.Announce(unix.RTNLGRP_LINK, m.Bytes())
		b, err := mon.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if got := rtnltest.Messages(b); len(got) != 1 || got[0].PortID != want || got[0].Seq != 7 {
			t.Errorf("port %#x: %+v, want port %#x", named, got, want)
		}
	}
	// A session that is gone is nobody's port any more.
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ports := w.srv.Namespace.Traces(); ports != 0 {
		t.Errorf("%d ports are remembered", ports)
	}
}

// TestKernelPortIsEnslaved: a device of the kernel's kind is made as a port.
func TestKernelPortIsEnslaved(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0")
	c.must(unix.RTM_NEWLINK, create, link(0, named("v1"), masterIs(br), vethInfo("v2")))
	v1 := c.index("v1")
	_, as := c.linkOf(v1)
	if m, ok := as.Get(unix.IFLA_MASTER); !ok || int32(m.U32()) != br {
		t.Errorf("master %v %v", ok, m)
	}
	// The master cannot be one: nothing is left of the device.
	c.table(t, unix.RTM_NEWLINK, create, []row{
		{name: "no such master", body: link(0, named("w1"), masterIs(unknownIdx), vethInfo("w2")), want: refusal{}},
	})
	w.srv.Kernel.Fault(func(op, dev string) error {
		if op == "port" {
			return fmt.Errorf("cannot open %s: %w", dev, unix.EPERM)
		}
		return nil
	})
	if _, err := c.Do(unix.RTM_NEWLINK, create, link(0, named("x1"), masterIs(br), vethInfo("x2"))); refusalOf(err).errno != unix.EPERM {
		t.Errorf("a port that cannot be opened: %v", err)
	}
	if c.index("x1") != 0 || c.index("x2") != 0 {
		t.Error("the pair is still there")
	}
}

// TestViewOfPorts: what a port's link message has beyond the kernel's own, and
// where it stands, also for a device without IFLA_LINKINFO of its own.
func TestViewOfPorts(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0")
	p1 := w.veth("p1", "q1")
	nic := int32(w.srv.Kernel.AddNIC("eth0"))
	vx := c.newVXLAN("vx0", u32(unix.IFLA_VXLAN_ID, 7))
	for _, d := range []struct {
		name, kind string
		index      int32
	}{{"a veth", "veth", p1}, {"a NIC", "", nic}, {"a tunnel", "vxlan", vx}} {
		_, before := c.linkOf(d.index)
		c.enslave(d.index, br)
		_, as := c.linkOf(d.index)
		var order []uint16
		for _, a := range as {
			order = append(order, a.Type)
		}
		if m, ok := as.Get(unix.IFLA_MASTER); !ok || int32(m.U32()) != br {
			t.Errorf("%s: no master in %v", d.name, order)
		}
		info, ok := as.Get(unix.IFLA_LINKINFO)
		if !ok {
			t.Errorf("%s: no IFLA_LINKINFO in %v", d.name, order)
			continue
		}
		in := info.Nest()
		k, _ := in.Get(unix.IFLA_INFO_KIND)
		slave, _ := in.Get(unix.IFLA_INFO_SLAVE_KIND)
		data, _ := in.Get(unix.IFLA_INFO_SLAVE_DATA)
		if k.Text() != d.kind || slave.Text() != "bridge" || !data.Nest().Has(unix.IFLA_BRPORT_STATE) {
			t.Errorf("%s: kind %q, slave kind %q, data %x", d.name, k.Text(), slave.Text(), data.Data)
		}
		for i, typ := range order {
			switch {
			case typ == unix.IFLA_MASTER && order[i+1] != unix.IFLA_CARRIER:
				t.Errorf("%s: IFLA_MASTER is not before IFLA_CARRIER: %v", d.name, order)
			case typ == unix.IFLA_LINKINFO && order[i-1] != unix.IFLA_XDP:
				t.Errorf("%s: IFLA_LINKINFO is not behind IFLA_XDP: %v", d.name, order)
			}
		}
		promisc, _ := as.Get(unix.IFLA_PROMISCUITY)
		allmulti, _ := as.Get(61)
		if promisc.U32() != 1 || allmulti.U32() != 1 {
			t.Errorf("%s: promiscuity %d, allmulti %d", d.name, promisc.U32(), allmulti.U32())
		}
		c.enslave(d.index, 0)
		_, after := c.linkOf(d.index)
		if len(after) != len(before) || after.Has(unix.IFLA_MASTER) {
			t.Errorf("%s: %d attributes after it left, %d before", d.name, len(after), len(before))
		}
	}
}

// TestPortIsTakenFromTheHost and given back.
func TestPortIsTakenFromTheHost(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0")
	p1 := w.veth("p1", "q1")
	is := func(n int, seized bool) {
		t.Helper()
		l, _ := w.srv.Kernel.Link("p1")
		if l.OpenIOs != n || l.Promiscuity != n || l.Allmulti != n || w.srv.Kernel.Seized("p1") != seized {
			t.Errorf("%+v, seized %v", l, w.srv.Kernel.Seized("p1"))
		}
	}
	is(0, false)
	c.enslave(p1, br)
	is(1, true)
	c.enslave(p1, 0)
	is(0, false)
	c.enslave(p1, br)
	c.must(unix.RTM_DELLINK, 0, link(br))
	is(0, false)
}

// TestLargeMTU is what a TAP cannot have, a bridge can.
func TestLargeMTU(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0")
	for _, mtu := range []uint32{65535, 9000, 65522, 65521} {
		c.must(unix.RTM_SETLINK, 0, link(br, u32(unix.IFLA_MTU, mtu)))
		_, as := c.linkOf(br)
		if a, _ := as.Get(unix.IFLA_MTU); a.U32() != mtu {
			t.Errorf("MTU %d is shown as %d", mtu, a.U32())
		}
		if l, _ := w.srv.Kernel.Link("br0"); l.MTU != int(min(mtu, 65521)) {
			t.Errorf("MTU %d is %d in the kernel", mtu, l.MTU)
		}
	}
	if info := uapi.ParseIfinfomsg(c.must(unix.RTM_GETLINK, 0, link(br))[0].Body); info.Index != br {
		t.Error("another device")
	}
}
