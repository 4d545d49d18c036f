package rtnl_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// dump returns the rows of an AF_BRIDGE neighbour dump as lines.
func (c *client) dump(body []byte) []string {
	c.w.t.Helper()
	return c.w.describe(c.must(unix.RTM_GETNEIGH, dumpFlag, body))
}

// devices returns the names of the devices that the rows are of, once each.
func (c *client) devices(ms []rtnltest.Message) (names []string) {
	for _, m := range ms {
		info := uapi.ParseIfinfomsg(m.Body) // struct ndmsg has its index there too
		if n := c.w.name(info.Index); len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	return names
}

// TestFDBDumpFilters: which devices' rows come for which request, and which
// requests are refused. On the kernel every Ethernet device has rows of its own,
// so devices without any cannot be told from those left out; those of the table
// have some.
func TestFDBDumpFilters(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		for i, dev := range []int32{d.veth, d.port} {
			c.must(unix.RTM_NEWNEIGH, create, neigh(dev, perm, self, mac(uapi.MAC(0x020000000010+i))))
		}
		c.must(unix.RTM_NEWNEIGH, create, neigh(d.port, noarp, master, mac(testMAC)))
		c.must(unix.RTM_NEWNEIGH, create, neigh(d.br, perm, self, mac(testMAC+1)))
		c.must(unix.RTM_NEWNEIGH, create, neigh(d.vx, reach, self, mac(testMAC), attr(uapi.NDADst, []byte{10, 0, 0, 1})))
		m := func(i int32) []byte { return u32(uapi.NDAMaster, uint32(i)) }
		im := func(i int32) []byte { return u32(unix.IFLA_MASTER, uint32(i)) }
		all := []string{"p1", "p2", "br0", "vx0"}
		header := refused(unix.EINVAL, "Invalid header for fdb dump request")
		values := refused(unix.EINVAL, "Invalid values in header for fdb dump request")
		leftover := refused(unix.EINVAL, leftoverText)
		unsupported := refused(unix.EINVAL, "Unsupported attribute in fdb dump request")
		type dumpRow struct {
			name string
			body []byte
			want []string
			err  refusal
		}
		run := func(rows []dumpRow) {
			for _, r := range rows {
				ms, err := c.Do(unix.RTM_GETNEIGH, dumpFlag, r.body)
				if refusalOf(err) != r.err {
					t.Errorf("%s: %v, want %v", r.name, refusalOf(err), r.err)
				}
				got := slices.DeleteFunc(c.devices(ms), func(n string) bool { return !slices.Contains(all, n) })
				if !slices.Equal(got, r.want) {
					t.Errorf("%s: rows of %q, want %q", r.name, got, r.want)
				}
			}
		}
		c.option(unix.NETLINK_GET_STRICT_CHK, 1)
		run([]dumpRow{
			{"all", neigh(0, 0, 0), all, refusal{}},
			{"a bridge", neigh(d.br, 0, 0), []string{"br0"}, refusal{}},
			{"a port", neigh(d.port, 0, 0), []string{"p1"}, refusal{}},
			{"a tunnel", neigh(d.vx, 0, 0), []string{"vx0"}, refusal{}},
			{"a veth", neigh(d.veth, 0, 0), []string{"p2"}, refusal{}},
			{"no such device", neigh(unknownIdx, 0, 0), nil, refusal{}},
			{"by NDA_IFINDEX", neigh(d.veth, 0, 0, u32(uapi.NDAIfindex, uint32(d.port))), []string{"p1"}, refusal{}},
			{"master", neigh(0, 0, 0, m(d.br)), []string{"p1", "br0"}, refusal{}},
			{"master and port", neigh(d.port, 0, 0, m(d.br)), []string{"p1"}, refusal{}},
			{"master and no port", neigh(d.veth, 0, 0, m(d.br)), nil, refusal{}},
			{"master 0", neigh(0, 0, 0, m(0)), all, refusal{}},
			{"no such master", neigh(0, 0, 0, m(unknownIdx)), nil, refused(unix.ENODEV, "")},
			{"short", neigh(0, 0, 0)[:11], nil, header},
			{"flags", neigh(0, 0, self), nil, values},
			{"state", neigh(0, 2, 0), nil, values},
			{"ifinfomsg", link7(0), nil, leftover},
			{"unsupported attribute", neigh(0, 0, 0, mac(1)), nil, unsupported},
			{"unknown attribute", neigh(0, 0, 0, attr(unknownNDA, nil)), nil, refusal{unix.EINVAL, unknownText, ndmOff}},
			{"short NDA_IFINDEX", neigh(0, 0, 0, u16(uapi.NDAIfindex, 1)), nil, refused(unix.EINVAL, "Invalid IFINDEX attribute in fdb dump request")},
			{"short NDA_MASTER", neigh(0, 0, 0, u16(uapi.NDAMaster, 1)), nil, refused(unix.EINVAL, "Invalid MASTER attribute in fdb dump request")},
		})
		c.option(unix.NETLINK_GET_STRICT_CHK, 0)
		run([]dumpRow{
			{"legacy: all", link7(0), all, refusal{}},
			{"legacy: a bridge", link7(d.br), []string{"br0"}, refusal{}},
			{"legacy: a port", link7(d.port), []string{"p1"}, refusal{}},
			{"legacy: a tunnel", link7(d.vx), []string{"vx0"}, refusal{}},
			{"legacy: no such device", link7(unknownIdx), nil, refusal{}},
			{"legacy: master", link7(0, im(d.br)), []string{"p1", "br0"}, refusal{}},
			{"legacy: master and port", link7(d.port, im(d.br)), []string{"p1"}, refusal{}},
			{"legacy: no such master", link7(0, im(unknownIdx)), nil, refused(unix.ENODEV, "")},
			{"legacy: a ndmsg is no filter", neigh(d.br, 0, 0), all, refusal{}},
			{"legacy: nor with room for an attribute", neigh(d.br, 0, 0, m(d.br)), all, refusal{}},
			{"legacy: nor are its other fields", neigh(0, 2, self), all, refusal{}},
			{"legacy: short", neigh(0, 0, 0)[:11], nil, refused(unix.EINVAL, shortText)},
		})
	})
}

// TestFDBDumpOrder: by device; of a bridge's rows the newest first.
func TestFDBDumpOrder(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.option(unix.NETLINK_GET_STRICT_CHK, 1)
	p1, p2 := w.veth("p1", "q1"), w.veth("p2", "q2")
	w.srv.Kernel.AddSelf("p1", 0x333300000001)
	br := c.newBridge("br0")
	c.enslave(p1, br)
	c.enslave(p2, br)
	for i, p := range []int32{p1, p2, p1, p2} {
		c.must(unix.RTM_NEWNEIGH, create, neigh(p, noarp, master, mac(uapi.MAC(0x020000000001+i))))
	}
	c.must(unix.RTM_NEWNEIGH, create, neigh(br, perm, self, mac(0x020000000009)))
	lines(t, "rows", c.dump(neigh(0, 0, 0)), []string{
		"NEWNEIGH p1 02:00:00:00:00:03 state 0x40 master br0",
		"NEWNEIGH p1 02:00:00:00:00:01 state 0x40 master br0",
		"NEWNEIGH p1 02:00:00:00:10:01 state 0x80 master br0",
		"NEWNEIGH p1 33:33:00:00:00:01 state 0x80 flags 0x2",
		"NEWNEIGH p2 02:00:00:00:00:04 state 0x40 master br0",
		"NEWNEIGH p2 02:00:00:00:00:02 state 0x40 master br0",
		"NEWNEIGH p2 02:00:00:00:10:02 state 0x80 master br0",
		"NEWNEIGH br0 01:00:5e:00:00:6a state 0x80 flags 0x2",
		"NEWNEIGH br0 33:33:00:00:00:6a state 0x80 flags 0x2",
		"NEWNEIGH br0 02:00:00:00:00:09 state 0x80 master br0",
	})
}

// TestDumpParts: a long dump comes in parts that every client has room for.
func TestDumpParts(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0")
	c.enslave(p1, br)
	const n = 1000
	for i := range uapi.MAC(n) {
		c.must(unix.RTM_NEWNEIGH, create, neigh(p1, noarp, master, mac(0x020000000000+i)))
	}
	var links []int32
	for i := range 20 {
		links = append(links, c.newVXLAN("vx"+string(rune('a'+i)), u32(unix.IFLA_VXLAN_ID, uint32(i))))
	}
	for _, r := range []struct {
		name string
		typ  uint16
		body []byte
		rows int
	}{
		{"fdb", unix.RTM_GETNEIGH, link7(p1), n + 1},
		{"bridge links", unix.RTM_GETLINK, link7(0), 1},
	} {
		rows, parts := 0, 0
		if err := c.Send(rtnltest.Message{Type: r.typ, Flags: unix.NLM_F_REQUEST | dumpFlag, Seq: 99, Body: r.body}.Bytes()); err != nil {
			t.Fatal(err)
		}
		pid, _ := c.Session.Name()
		for done := false; !done; parts++ {
			b, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > rtnl.Part {
				t.Errorf("%s: a part of %d bytes", r.name, len(b))
			}
			for _, m := range rtnltest.Messages(b) {
				if m.Flags != unix.NLM_F_MULTI || m.Seq != 99 || m.PortID != pid {
					t.Fatalf("%s: header %+v", r.name, m)
				}
				if done = m.Type == unix.NLMSG_DONE; done {
					if len(m.Body) != 4 || m.Error() != nil {
						t.Errorf("%s: NLMSG_DONE with %x", r.name, m.Body)
					}
					break
				}
				rows++
			}
		}
		if rows != r.rows || rows > 100 && parts < 5 {
			t.Errorf("%s: %d rows in %d parts", r.name, rows, parts)
		}
		if more := c.Pending(); more != nil {
			t.Errorf("%s: %d messages behind the end", r.name, len(more))
		}
	}
	all := c.must(unix.RTM_GETLINK, dumpFlag, link(0))
	for _, i := range links {
		if !slices.ContainsFunc(all, func(m rtnltest.Message) bool { return uapi.ParseIfinfomsg(m.Body).Index == i }) {
			t.Errorf("device %d is not in the dump", i)
		}
	}
}

// TestLinkDumpFilters: kind and master are those of the view.
func TestLinkDumpFilters(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		kindIs := func(k string) []byte { return nest(unix.IFLA_LINKINFO, str(unix.IFLA_INFO_KIND, k)) }
		masterIs := func(m uint32) []byte { return u32(unix.IFLA_MASTER, m) }
		for _, strict := range []uint32{0, 1} {
			c.option(unix.NETLINK_GET_STRICT_CHK, strict)
			for _, r := range []struct {
				name     string
				body     []byte
				want     string
				filtered bool
			}{
				{"all", link(0), "lo p1 q1 p2 q2 br0 vx0", false},
				{"kind bridge", link(0, kindIs("bridge")), "br0", true},
				{"kind vxlan", link(0, kindIs("vxlan")), "vx0", true},
				{"kind veth", link(0, kindIs("veth")), "p1 q1 p2 q2", true},
				{"no such kind", link(0, kindIs("bogus")), "lo p1 q1 p2 q2 br0 vx0", false},
				{"master", link(0, masterIs(uint32(d.br))), "p1", true},
				{"master and kind", link(0, masterIs(uint32(d.br)), kindIs("vxlan")), "", true},
				{"no such master", link(0, masterIs(unknownIdx)), "", true},
				{"without master", link(0, masterIs(^uint32(0))), "lo q1 p2 q2 br0 vx0", true},
				{"without master, veth", link(0, masterIs(^uint32(0)), kindIs("veth")), "q1 p2 q2", true},
				{"master 0", link(0, masterIs(0)), "lo p1 q1 p2 q2 br0 vx0", false},
			} {
				ms := c.must(unix.RTM_GETLINK, dumpFlag, r.body)
				c.w.describe(ms) // learns the names
				var got []string
				for _, m := range ms {
					got = append(got, c.w.name(uapi.ParseIfinfomsg(m.Body).Index))
					if f := m.Flags == unix.NLM_F_MULTI|unix.NLM_F_DUMP_FILTERED; f != r.filtered {
						t.Errorf("%s: flags %#x", r.name, m.Flags)
					}
				}
				slices.Sort(got)
				want := strings.Fields(r.want)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s (strict %d): %q, want %q", r.name, strict, got, want)
				}
			}
		}
		c.table(t, unix.RTM_GETLINK, dumpFlag, []row{
			{name: "by index", body: link(1), want: refused(unix.EINVAL, "Filter by device index not supported for link dumps")},
			{name: "flags", body: linkFlags(0, 1, 0), want: refused(unix.EINVAL, "Invalid values in header for link dump request")},
			{name: "attribute", body: link(0, u32(unix.IFLA_MTU, 1)), want: refused(unix.EINVAL, "Unsupported attribute in link dump request")},
			{name: "attribute and kind", body: link(0, u32(unix.IFLA_MTU, 1), kindIs("bridge")), want: refused(unix.EINVAL, "Unsupported attribute in link dump request")},
			{name: "bridge: attribute", body: link7(0, str(unix.IFLA_IFNAME, "x")), want: refused(unix.EINVAL, "Unsupported attribute in bridge link dump request")},
			{name: "bridge: by index", body: link7(1), want: refused(unix.EINVAL, "Invalid values in header for bridge link dump request")},
			{name: "bridge: short", body: []byte{unix.AF_BRIDGE, 0, 0, 0}, want: refused(unix.EINVAL, "Invalid header for bridge link dump")},
		})
	})
}

// TestBridgeLinkDump: ports always, bridges with the masks that concern them.
func TestBridgeLinkDump(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	d := w.fdbDevices(c)
	c.enslave(d.vx, d.br)
	for mask, want := range map[uint32]string{
		0: "p1 vx0", 1: "p1 vx0", 2: "p1 br0 vx0", 4: "p1 br0 vx0", 8: "p1 vx0", 16: "p1 br0 vx0", 32: "p1 br0 vx0", 64: "p1 br0 vx0",
	} {
		ms := c.must(unix.RTM_GETLINK, dumpFlag, link7(0, u32(unix.IFLA_EXT_MASK, mask)))
		if got := strings.Join(c.devices(ms), " "); got != want {
			t.Errorf("mask %d: %s, want %s", mask, got, want)
		}
	}
	var types []uint16
	as, _ := nlattr.Parse(c.must(unix.RTM_GETLINK, dumpFlag, link7(0))[0].Body[uapi.IfinfomsgLen:], 0)
	for _, a := range as {
		types = append(types, a.Type)
	}
	if want := []uint16{3, 10, 4, 16, 1, 5, 12}; !slices.Equal(types, want) {
		t.Errorf("attributes %v, want %v", types, want)
	}
}
