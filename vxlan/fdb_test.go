package vxlan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

const (
	macA  uapi.MAC = 0x02_00_00_00_01_01
	macB  uapi.MAC = 0x02_00_00_00_01_02
	macC  uapi.MAC = 0x02_00_00_00_01_03
	macMC uapi.MAC = 0x01_00_5e_00_00_01
	macBC uapi.MAC = 0xff_ff_ff_ff_ff_ff

	flC = uapi.NLMCreate
	flX = uapi.NLMExcl
	flR = uapi.NLMReplace
	flA = uapi.NLMAppend
)

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestAddMatrix is section 2.4: what each combination of flags does.
func TestAddMatrix(t *testing.T) {
	const replaceMany = `ENOTSUP "Cannot replace non-unicast fdb entries"`
	for _, c := range []struct {
		flags uint16
		// absent unicast, absent others, present unicast with another dst,
		// present others with another dst, present unicast and others with the
		// same dst. "+" in front: with an event.
		want [6]string
	}{
		{0, [6]string{"ENOENT", "ENOENT", "ok", "ok", "ok", "ok"}},
		{flC, [6]string{"+ok", "+ok", "ok", "ok", "ok", "ok"}},
		{flX, [6]string{"ENOENT", "ENOENT", "EEXIST", "EEXIST", "EEXIST", "EEXIST"}},
		{flC | flX, [6]string{"+ok", "+ok", "EEXIST", "EEXIST", "EEXIST", "EEXIST"}},
		{flR, [6]string{"ENOENT", "ENOENT", "+ok", replaceMany, "ok", replaceMany}},
		{flC | flR, [6]string{"+ok", "ENOTSUP", "+ok", replaceMany, "ok", replaceMany}},
		{flA, [6]string{"ENOENT", "ENOENT", "ok", "+ok", "ok", "ok"}},
		{flC | flA, [6]string{"+ok", "+ok", "ok", "+ok", "ok", "ok"}},
		{flC | flR | flA, [6]string{"+ok", "ENOTSUP", "+ok", replaceMany, "ok", replaceMany}},
		{flC | flX | flA, [6]string{"+ok", "+ok", "EEXIST", "EEXIST", "EEXIST", "EEXIST"}},
	} {
		for i, want := range c.want {
			for _, mac := range [][]uapi.MAC{{macA}, {0, macMC, macBC}, {macA}, {0, macMC, macBC}, {macA}, {0, macMC, macBC}}[i] {
				t.Run(fmt.Sprintf("%#x/%d/%v", c.flags, i, mac), func(t *testing.T) {
					w := newWorld(t)
					d := w.must(u32(xID, 10))
					request := func(dst string) []byte {
						return neighMessage(testIfindex, 0xc0, uapi.NTFSelf, lladdrAttr(mac), ip(uapi.NDADst, dst))
					}
					first := "192.0.2.1"
					if i >= 2 {
						if err := w.add(d, flC|flX, request(first)); err != nil {
							t.Fatal(err)
						}
					}
					w.events.take()
					dst := "192.0.2.1"
					if i == 2 || i == 3 {
						dst = "192.0.2.2"
					}
					got := showErr(w.add(d, c.flags, request(dst)))
					if len(w.events.take()) > 0 {
						got = "+" + got
					}
					if got != want {
						t.Errorf("got %s, want %s", got, want)
					}
					rows := []string{fmt.Sprintf("%s dst 192.0.2.1 c0/02", mac)}
					switch {
					case want[0] == '+' && i == 2: // replaced
						rows = []string{fmt.Sprintf("%s dst 192.0.2.2 c0/02", mac)}
					case want[0] == '+' && i == 3: // appended
						rows = append(rows, fmt.Sprintf("%s dst 192.0.2.2 c0/02", mac))
					case want[0] != '+' && i < 2:
						rows = nil
					}
					expect(t, "rows", dump(d), rows)
				})
			}
		}
	}
}

// TestParseFDB is section 2.3.
func TestParseFDB(t *testing.T) {
	dst := ip(uapi.NDADst, "192.0.2.9")
	for _, c := range []struct {
		name  string
		state uint16
		attrs []byte
		want  string
	}{
		{"state 0", 0, dst, "EINVAL"},
		{"noarp alone", 0x40, dst, "EINVAL"},
		{"stale", 4, dst, "EINVAL"},
		{"everything", 0xff, dst, "ok"},
		{"no dst", 0x80, nil, "EINVAL"},
		{"nhid and dst", 0x80, join(u32(uapi.NDANhID, 5), dst), `EINVAL "DST, VNI, ifindex and port are mutually exclusive with NH_ID"`},
		{"dst of 3 bytes", 0x80, raw(uapi.NDADst, 1, 2, 3), `EAFNOSUPPORT "Unsupported address family"`},
		{"dst of 5 bytes", 0x80, raw(uapi.NDADst, 1, 2, 3, 4, 5), "ok"},
		{"dst of 16 bytes", 0x80, raw(uapi.NDADst, make([]byte, 16)...), "EAFNOSUPPORT"},
		{"port of 4 bytes", 0x80, join(dst, u32(uapi.NDAPort, 5)), `EINVAL "Invalid vxlan port"`},
		{"vni of 2 bytes", 0x80, join(dst, u16(uapi.NDAVNI, 5)), `EINVAL "Invalid vni"`},
		{"src vni of 2 bytes", 0x80, join(dst, u16(uapi.NDASrcVNI, 5)), `EINVAL "Invalid src vni"`},
		{"ifindex of 2 bytes", 0x80, join(dst, u16(uapi.NDAIfindex, 5)), `EINVAL "Invalid ifindex"`},
		{"ifindex 0", 0x80, join(dst, u32(uapi.NDAIfindex, 0)), `EADDRNOTAVAIL "Device not found"`},
		{"ifindex unknown", 0x80, join(dst, u32(uapi.NDAIfindex, 99)), `EADDRNOTAVAIL "Device not found"`},
		{"vni beyond 24 bits", 0x80, join(dst, u32(uapi.NDAVNI, 0x1234567)), "ok"},
		{"nhid 0", 0x80, u32(uapi.NDANhID, 0), "ok"},
		{"nhid unknown", 0x80, u32(uapi.NDANhID, 5), `EINVAL "Nexthop id does not exist"`},
		{"nhid of 1 byte", 0x80, u8(uapi.NDANhID, 5), `EINVAL "Nexthop id does not exist"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			d := w.must(u32(xID, 10))
			got := showErr(w.add(d, flC|flX, neighMessage(testIfindex, c.state, uapi.NTFSelf, lladdrAttr(macA), c.attrs)))
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// script runs lines such as "C+X 02:..:01 dst 192.0.2.1 state c0" against a
// device and returns what happened.
type script struct {
	w *world
	d *Device
}

func (s script) add(nl uint16, mac uapi.MAC, dst string, more ...[]byte) string {
	return s.addState(nl, 0xc0, uapi.NTFSelf, mac, dst, more...)
}

func (s script) addState(nl, state uint16, flags uint8, mac uapi.MAC, dst string, more ...[]byte) string {
	attrs := lladdrAttr(mac)
	if dst != "" {
		attrs = join(attrs, ip(uapi.NDADst, dst))
	}
	return showErr(s.w.add(s.d, nl, neighMessage(testIfindex, state, flags, attrs, join(more...))))
}

func (s script) del(mac uapi.MAC, more ...[]byte) string {
	return showErr(s.w.del(s.d, neighMessage(testIfindex, 0, uapi.NTFSelf, lladdrAttr(mac), join(more...))))
}

func (s script) events() []string { return showEvents(s.w.events.take()) }

func newScript(t *testing.T, parts ...[]byte) script {
	w := newWorld(t)
	s := script{w, w.must(parts...)}
	return s
}

// TestGhost is corner case C1.
func TestGhost(t *testing.T) {
	s := newScript(t, u32(xID, 10))
	src := u32(uapi.NDASrcVNI, 55)
	expect(t, "add", s.add(flC|flX, macA, "192.0.2.1", src), "ok")
	expect(t, "again", s.add(flC, macA, "192.0.2.1", src), "EEXIST")
	expect(t, "replace", s.add(flC|flR, macA, "192.0.2.1", src), "EEXIST")
	expect(t, "own vni", s.add(flC|flX, macA, "192.0.2.2"), "ok")
	expect(t, "dump", dump(s.d), []string{macA.String() + " dst 192.0.2.2 c0/02", macA.String() + " dst 192.0.2.1 c0/02"})
	expect(t, "del", s.del(macA), "ok")
	expect(t, "del again", s.del(macA), "ENOENT")
	s.events()
	expect(t, "flush", showErr(flushFDB(s.d, neighMessage(testIfindex, 0, uapi.NTFSelf, src))), "ok")
	expect(t, "events", s.events(), []string{"del " + macA.String() + " dst 192.0.2.1 c0/02"})
}

// TestDefaultEntry is sections 1.9 and 2.14 and C6, C11, C30.
func TestDefaultEntry(t *testing.T) {
	s := newScript(t, u32(xID, 10), ip(xGroup, "192.0.2.2"), u32(xLink, 3))
	zero := uapi.MAC(0).String()
	row := func(dst string, via int) string { return fmt.Sprintf("%s dst %s via %d 82/02", zero, dst, via) }
	expect(t, "create", s.events(), []string{"new " + row("192.0.2.2", 3)})
	expect(t, "del without via", s.del(0, ip(uapi.NDADst, "192.0.2.2")), "ok")
	expect(t, "nothing", s.events(), []string(nil))
	set := func(data ...[]byte) string {
		return showErr(change(s.d, linkMessage(testIfindex, infoData(data...))))
	}
	expect(t, "same remote", set(ip(xGroup, "192.0.2.2")), "ok")
	expect(t, "nothing", s.events(), []string(nil))
	expect(t, "move", set(ip(xGroup, "192.0.2.3")), "ok")
	expect(t, "moved", s.events(), []string{"new " + row("192.0.2.3", 3), "del " + row("192.0.2.2", 3)})
	expect(t, "link", set(u32(xLink, 4)), "ok")
	expect(t, "stays", dump(s.d), []string{row("192.0.2.3", 3)})
	expect(t, "move after link", set(ip(xGroup, "192.0.2.4")), "ok")
	expect(t, "left behind", dump(s.d), []string{row("192.0.2.3", 3), row("192.0.2.4", 4)})
	expect(t, "none", set(ip(xGroup, "0.0.0.0")), "ok")
	expect(t, "left behind", dump(s.d), []string{row("192.0.2.3", 3)})
	s.events()
	expect(t, "flush", showErr(flushFDB(s.d, neighMessage(testIfindex, 0, uapi.NTFSelf))), "ok")
	expect(t, "flushed", s.events(), []string{"del " + row("192.0.2.3", 3)})
}

func TestLimit(t *testing.T) {
	s := newScript(t, u32(xID, 10), u32(xLimit, 2), ip(xGroup, "192.0.2.2"))
	expect(t, "one fits", s.add(flC|flX, macA, "192.0.2.1"), "ok")
	expect(t, "full", s.add(flC|flX, macB, "192.0.2.1"), "ENOSPC")
	expect(t, "append", s.add(flC|flA, 0, "192.0.2.3"), "ok")
	expect(t, "replace", s.add(flC|flR, macA, "192.0.2.3"), "ok")
	expect(t, "delete default", s.del(0), "ok")
	expect(t, "another", s.add(flC|flX, macB, "192.0.2.1"), "ok")
	set := change(s.d, linkMessage(testIfindex, infoData(ip(xGroup, "192.0.2.9"), u8(xTTL, 3))))
	expect(t, "no room for a default entry", showErr(set), "ENOSPC")
	if c := s.d.Config(); c.TTL != 0 || c.Remote.String() != "192.0.2.2" {
		t.Error("the refused change changed something")
	}
}

// TestUpdates is the list below the matrix of 2.4, C4, C23, C24, C60.
func TestUpdates(t *testing.T) {
	s := newScript(t, u32(xID, 10))
	a := macA.String()
	s.add(flC|flX, macA, "192.0.2.1")
	s.events()
	expect(t, "state", s.addState(flC, 2, uapi.NTFSelf, macA, "192.0.2.2"), "ok")
	expect(t, "announced", s.events(), []string{"new " + a + " dst 192.0.2.1 02/02"})
	expect(t, "extern learn", s.addState(flC|flR, 0x80, uapi.NTFSelf|uapi.NTFExtLearned, macA, "192.0.2.3"), "ok")
	expect(t, "dst only", s.events(), []string{"new " + a + " dst 192.0.2.3 02/02"})
	expect(t, "use", s.addState(flC, 2, uapi.NTFSelf|uapi.NTFUse, macA, "192.0.2.3"), "ok")
	expect(t, "silent", s.events(), []string(nil))
	expect(t, "new extern learn", s.addState(flC, 0x80, uapi.NTFSelf|uapi.NTFExtLearned|uapi.NTFUse, macB, "192.0.2.3"), "ok")
	expect(t, "without use", s.events(), []string{"new " + macB.String() + " dst 192.0.2.3 80/12"})
	expect(t, "group", s.add(flC|flX, macMC, "192.0.2.1"), "ok")
	s.events()
	expect(t, "replace", s.addState(flC|flR, 0x82, uapi.NTFSelf|uapi.NTFRouter, macMC, "192.0.2.1"),
		`ENOTSUP "Cannot replace non-unicast fdb entries"`)
	expect(t, "silent", s.events(), []string(nil))
	expect(t, "yet changed", dump(s.d)[0], macMC.String()+" dst 192.0.2.1 82/82")
	// The master flag stays, what is beyond eight bits does not show.
	expect(t, "flags", s.addState(flC, 0x80, uapi.NTFSelf|uapi.NTFMaster, macC, "192.0.2.1"), "ok")
	expect(t, "stored", dump(s.d)[0], macC.String()+" dst 192.0.2.1 80/06")
}

// TestDel is section 2.6.
func TestDel(t *testing.T) {
	s := newScript(t, u32(xID, 10))
	for _, dst := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		expect(t, "append", s.add(flC|flA, 0, dst), "ok")
	}
	s.events()
	zero := uapi.MAC(0).String()
	expect(t, "unknown dst", s.del(0, ip(uapi.NDADst, "192.0.2.9")), "ok")
	expect(t, "unknown address", s.del(macA), "ENOENT")
	expect(t, "other port", s.del(0, ip(uapi.NDADst, "192.0.2.2"), be16(uapi.NDAPort, 1)), "ok")
	expect(t, "nothing", s.events(), []string(nil))
	expect(t, "one", s.del(0, ip(uapi.NDADst, "192.0.2.2")), "ok")
	expect(t, "one", s.events(), []string{"del " + zero + " dst 192.0.2.2 c0/02"})
	expect(t, "any of the other family", s.del(0, ip(uapi.NDADst, "::")), "ok")
	expect(t, "all", s.events(), []string{"del " + zero + " dst 192.0.2.1 c0/02", "del " + zero + " dst 192.0.2.3 c0/02"})
	s.add(flC, macA, "192.0.2.1")
	s.events()
	expect(t, "last", s.del(macA, ip(uapi.NDADst, "192.0.2.1")), "ok")
	expect(t, "last", s.events(), []string{"del " + macA.String() + " dst 192.0.2.1 c0/02"})
}

// TestLayout is section 2.10, byte by byte.
func TestLayout(t *testing.T) {
	s := newScript(t, u32(xID, 10), be16(xPort, 4789))
	s.w.clock.Advance(0)
	s.add(flC, macA, "192.0.2.1", be16(uapi.NDAPort, 5000), u32(uapi.NDAVNI, 7), u32(uapi.NDAIfindex, 3))
	s.w.clock.Advance(2500 * 1e6)
	body, ok := s.d.FDBGet(macA, 0, false)
	if !ok {
		t.Fatal("not found")
	}
	want := join(uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: testIfindex, State: 0xc0, Flags: uapi.NTFSelf, Type: 1}.Append(nil),
		lladdrAttr(macA), ip(uapi.NDADst, "192.0.2.1"), be16(uapi.NDAPort, 5000), u32(uapi.NDAVNI, 7), u32(uapi.NDAIfindex, 3),
		appendCacheInfo(nil, 2500*1e6, 2500*1e6))
	expect(t, "body", body, want)
	s.d.SetHome(s.w.events, 4, true)
	body, _ = s.d.FDBGet(macA, 0, false)
	expect(t, "elsewhere", showRow(body), "netnsid 4 "+macA.String()+" dst 192.0.2.1 port 5000 vni 7 via 3 c0/02")
	if _, ok := s.d.FDBGet(macB, 0, false); ok {
		t.Error("found what is not there")
	}
}

func TestExternal(t *testing.T) {
	s := newScript(t, u8(xExternal, 1))
	for i, src := range []uint32{100, 101, 0} {
		expect(t, "add", s.add(flC|flX, macA, fmt.Sprintf("192.0.2.%d", i), u32(uapi.NDASrcVNI, src)), "ok")
	}
	a := macA.String()
	expect(t, "rows", dump(s.d), []string{a + " dst 192.0.2.2 c0/02", a + " dst 192.0.2.1 src_vni 101 c0/02", a + " dst 192.0.2.0 src_vni 100 c0/02"})
	body, _ := s.d.FDBGet(macA, 101, true)
	expect(t, "get", showRow(body), a+" dst 192.0.2.1 src_vni 101 c0/02")
	if _, ok := s.d.FDBGet(macA, 102, true); ok {
		t.Error("found what is not there")
	}
	expect(t, "del", s.del(macA, u32(uapi.NDASrcVNI, 101)), "ok")
	expect(t, "del again", s.del(macA, u32(uapi.NDASrcVNI, 101)), "ENOENT")
}

// TestNexthops is section 2.5 and C13, C14.
func TestNexthops(t *testing.T) {
	s := newScript(t, u32(xID, 10))
	s.w.nh[1] = Nexthop{FDB: true, IPv4: true}
	s.w.nh[3] = Nexthop{IPv4: true}
	s.w.nh[10] = Nexthop{FDB: true, Group: true, IPv4: true}
	s.w.nh[11] = Nexthop{FDB: true, Group: true}
	s.w.nh[20] = Nexthop{FDB: true, Group: true, IPv4: true}
	nh := func(nl uint16, mac uapi.MAC, id uint32) string { return s.add(nl, mac, "", u32(uapi.NDANhID, id)) }
	a := macA.String()
	expect(t, "unknown", nh(flC, macA, 99), `EINVAL "Nexthop id does not exist"`)
	expect(t, "single", nh(flC, macA, 1), `EINVAL "Nexthop is not a multipath group"`)
	expect(t, "not fdb", nh(flC, macA, 3), `EINVAL "Nexthop is not a fdb nexthop"`)
	expect(t, "family", nh(flC, macA, 11), `EAFNOSUPPORT "Nexthop group family not supported"`)
	expect(t, "good", nh(flC, macA, 10), "ok")
	expect(t, "event", s.events(), []string{"new " + a + " nhid 10 c0/02"})
	expect(t, "same", nh(flC|flR, macA, 10), "ok")
	expect(t, "nothing", s.events(), []string(nil))
	expect(t, "other", nh(flC|flR, macA, 20), "ok")
	expect(t, "event", s.events(), []string{"new " + a + " nhid 20 c0/02"})
	expect(t, "append", nh(flC|flA, macA, 20), `ENOTSUP "Cannot append to a nexthop fdb"`)
	expect(t, "dst", s.add(flC|flR, macA, "192.0.2.1"), "ok")
	expect(t, "still", dump(s.d), []string{a + " nhid 20 c0/02"})
	expect(t, "plain", s.add(flC, macB, "192.0.2.1"), "ok")
	expect(t, "no nexthop for it", nh(flC|flR, macB, 10), `ENOTSUP "Cannot replace an existing non nexthop fdb with a nexthop"`)
	expect(t, "default", nh(flC, 0, 10), "ok")
	expect(t, "replace default", nh(flC|flR, 0, 10), `ENOTSUP "Cannot replace non-unicast fdb entries"`)
	s.events()
	expect(t, "append dst", s.add(flC|flA, 0, "192.0.2.1"), "ok")
	expect(t, "invisible", s.events(), []string{"new " + uapi.MAC(0).String() + " nhid 10 c0/02"})
	s.d.NexthopDeleted(10)
	expect(t, "silent", s.events(), []string(nil))
	expect(t, "rows", dump(s.d), []string{macB.String() + " dst 192.0.2.1 c0/02", a + " nhid 20 c0/02"})
}

// TestDownFlushes is section 1.8.
func TestDownFlushes(t *testing.T) {
	s := newScript(t, u32(xID, 10), ip(xGroup, "192.0.2.2"))
	if err := s.d.Up(); err != nil {
		t.Fatal(err)
	}
	s.addState(flC, 0x02, 2, macA, "192.0.2.1")
	s.addState(flC, 0x42, 2, macB, "192.0.2.1")
	s.addState(flC, 0x02, 0x12, macC, "192.0.2.1")
	s.events()
	s.d.Down()
	expect(t, "events", s.events(), []string{"del " + macC.String() + " dst 192.0.2.1 02/12", "del " + macA.String() + " dst 192.0.2.1 02/02"})
	s.addState(flC, 0x02, 2, macA, "192.0.2.1")
	s.d.Down()
	s.d.Up()
	expect(t, "kept", len(dump(s.d)), 3)
	s.events()
	s.d.Close()
	expect(t, "close", s.events(), []string{"del " + macA.String() + " dst 192.0.2.1 02/02", "del " + macB.String() + " dst 192.0.2.1 42/02",
		"del " + uapi.MAC(0).String() + " dst 192.0.2.2 82/02"})
}

func TestClose(t *testing.T) {
	w := newWorld(t)
	d := w.must(u32(xID, 1))
	d.Close()
	d.Close()
	if slices.Contains(w.reg.Devices(), d) {
		t.Error("a closed device is still there")
	}
	if err := d.Up(); err != nil || len(w.reg.sockets) != 0 {
		t.Error("a closed device came up")
	}
}
