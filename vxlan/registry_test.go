package vxlan

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// TestDuplicates is section 1.4.
func TestDuplicates(t *testing.T) {
	const exists = `EEXIST "A VXLAN device with the specified VNI already exists"`
	id, port := u32(xID, 10), be16(xPort, 4789)
	ll := func(link uint32) []byte { return join(ip(xLocal6, "fe80::1"), u32(xLink, link)) }
	ext := u8(xExternal, 1)
	for _, c := range []struct {
		name  string
		a, b  []byte
		taken bool
	}{
		{"same", nil, nil, true},
		{"other port", nil, be16(xPort, 4790), false},
		{"default port", be16(xPort, 8472), be16(xPort, 0), true},
		{"other family", nil, ip(xLocal6, "2001:db8::1"), false},
		{"gbp", nil, flagAttr(xGBP), false},
		{"external", nil, ext, false},
		{"other link", u32(xLink, 3), u32(xLink, 4), true},
		{"other local", ip(xLocal, "192.0.2.1"), ip(xLocal, "192.0.2.2"), true},
		{"other group", ip(xGroup, "192.0.2.1"), ip(xGroup, "192.0.2.2"), true},
		{"learning", nil, u8(xLearning, 0), true},
		{"localbypass", nil, u8(xPass, 0), true},
		{"udp csum", nil, u8(xUDPCsum, 0), true},
		{"link-local, other link", ll(3), ll(4), false},
		{"link-local, same link", ll(3), ll(3), true},
		{"external twice", ext, ext, true},
		{"vnifilter twice", join(ext, u8(xVNIFilter, 1)), join(ext, u8(xVNIFilter, 1)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			d := w.must(id, port, c.a)
			want := "ok"
			if c.taken {
				want = exists
			}
			_, err := w.create(99, linkMessage(0, infoData(id, port, c.b)))
			expect(t, "result", showErr(err), want)
			// A device is not its own duplicate.
			expect(t, "change", showErr(change(d, linkMessage(testIfindex, infoData(u8(xTTL, 1))))), "ok")
		})
	}
}

// TestSockets is section 1.8: who shares a socket, and who cannot.
func TestSockets(t *testing.T) {
	w := newWorld(t)
	port := be16(xPort, 4789)
	a, b := w.must(u32(xID, 1), port), w.must(u32(xID, 2), port)
	gbp, ext := w.must(u32(xID, 3), port, flagAttr(xGBP)), w.must(port, u8(xExternal, 1))
	v6 := w.must(u32(xID, 4), port, ip(xLocal6, "2001:db8::1"))
	for _, d := range []*Device{a, b, v6} {
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "gbp", showErr(gbp.Up()), "EADDRINUSE")
	expect(t, "external", showErr(ext.Up()), "EADDRINUSE")
	a.Down()
	v6.Down()
	// IPv6 is free, but the failure over IPv4 must give it back.
	expect(t, "external", showErr(ext.Up()), "EADDRINUSE")
	if w.sockets.Socket(4789, true) != nil {
		t.Error("an IPv6 socket was left open")
	}
	b.Down()
	expect(t, "gbp", showErr(gbp.Up()), "ok")
	gbp.Down()
	w.sockets.SetTaken(4789, false, true)
	expect(t, "taken", showErr(a.Up()), "EADDRINUSE")
	w.sockets.SetTaken(4789, false, false)
	expect(t, "free", showErr(ext.Up()), "ok")
	if w.sockets.Socket(4789, true) == nil || w.sockets.Socket(4789, false) == nil {
		t.Error("an external device has both sockets")
	}
	ext.Close()
	if len(w.reg.sockets) != 0 || len(w.reg.outputs) != 0 {
		t.Error("sockets left")
	}
}

// TestGroups: devices on one socket share its memberships, and a change moves
// them.
func TestGroups(t *testing.T) {
	w := newWorld(t)
	g1, g2 := netip.MustParseAddr("239.1.1.1"), netip.MustParseAddr("239.1.1.2")
	mk := func(id uint32) *Device {
		d := w.must(u32(xID, id), ip(xGroup, g1.String()), u32(xLink, 3))
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := mk(1), mk(2)
	s := w.sockets.Socket(8472, false)
	a.Down()
	if !s.Joined(g1, 3) {
		t.Error("the other device needs the group")
	}
	if err := change(b, linkMessage(8, infoData(ip(xGroup, g2.String())))); err != nil {
		t.Fatal(err)
	}
	if s.Joined(g1, 3) || !s.Joined(g2, 3) {
		t.Error("the group did not move")
	}
	b.Down()
	if s.Joined(g2, 3) {
		t.Error("still in the group")
	}
}

// TestChangeDF: an output for DF appears and goes while the device is up.
func TestChangeDF(t *testing.T) {
	x := newWire(t, u32(xID, 1), ip(xGroup, "192.0.2.2"))
	for _, df := range []uint8{DFSet, DFInherit, DFUnset} {
		if err := change(x.d, linkMessage(testIfindex, infoData(u8(xDF, df)))); err != nil {
			t.Fatal(err)
		}
		x.send(frame(macA, macB, 0x9000))
		expect(t, "df", x.w.sockets.Take()[0].Config.DF, df == DFSet)
		expect(t, "outputs", x.w.sockets.Outputs(netdev.SendConfig{DF: true}), map[bool]int{true: 1}[df != DFUnset])
		expect(t, "outputs", x.w.sockets.Outputs(netdev.SendConfig{}), map[bool]int{true: 1}[df != DFSet])
	}
}

// TestThreads runs frames, learning, requests, dumps and link changes at once,
// for the race detector.
func TestThreads(t *testing.T) {
	w := newWorld(t)
	port := be16(xPort, 4789)
	a, b := w.must(u32(xID, 1), port, ip(xGroup, "192.0.2.2")), w.must(u32(xID, 2), port)
	if err := a.Up(); err != nil {
		t.Fatal(err)
	}
	host := fake.NewReader()
	w.domain.Start(host, handler(a.HostInput), nil)
	var wg sync.WaitGroup
	loop := func(n int, f func(i int)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range n {
				f(i)
			}
		}()
	}
	loop(3000, func(i int) {
		src := uapi.MAC(0x020000000000 + i%50)
		w.sockets.Inject(4789, false, datagram(1, frame(macA, src, 0x9000)), meta(fmt.Sprintf("192.0.2.%d", i%3)))
		host.Push(frame(src, macB, 0x9000))
	})
	loop(20, func(int) { dump(a) })
	rtnl := func(i int) { // one at a time, as under the RTNL lock
		s := script{w, a}
		s.add(flC|flR, uapi.MAC(0x020000000000+i%50), "192.0.2.9")
		s.del(uapi.MAC(0x020000000000 + (i+7)%50))
		switch i % 50 {
		case 10:
			b.Up()
		case 20:
			a.Down()
		case 25:
			a.Up()
		case 30:
			b.Down()
		case 40:
			change(a, linkMessage(testIfindex, infoData(u8(xTTL, uint8(i)), u32(xAgeing, uint32(i)))))
		case 45:
			w.clock.Advance(10 * time.Second)
		}
	}
	loop(400, rtnl)
	wg.Wait()
	host.Close()
	a.Close()
	w.domain.Wait()
	expect(t, "rows", dump(a), []string(nil))
}

type handler func(*netdev.Thread, []netdev.Frame)

func (h handler) Input(t *netdev.Thread, frames []netdev.Frame) { h(t, frames) }

// TestVNIFilter is section 4; the comparison with the kernel has more.
func TestVNIFilter(t *testing.T) {
	w := newWorld(t)
	ext := join(be16(xPort, 4789), u8(xExternal, 1), u8(xVNIFilter, 1))
	a, b := w.must(ext), w.must(ext)
	plain := w.must(u32(xID, 100), be16(xPort, 4789))
	ask := func(d *Device, typ uint16, entries ...[]byte) string {
		return showErr(vniRequest(d, typ, tunnelMessage(d.Link().Ifindex, entries...)))
	}
	entry := func(parts ...[]byte) []byte { return nested(attrEntry, join(parts...)) }
	const newT, delT = unix.RTM_NEWTUNNEL, unix.RTM_DELTUNNEL
	expect(t, "no filter", ask(plain, newT, entry(u32(entryStart, 1))), "ENOTSUP")
	expect(t, "nothing", ask(a, newT), `EINVAL "vxlan: No vnis found to process"`)
	expect(t, "unknown", ask(a, newT, u32(2, 1)), `EINVAL "Unknown attribute type"`)
	expect(t, "vni 0", ask(a, newT, entry(u32(entryStart, 0))), `EINVAL "vni start nor end found in vni entry"`)
	expect(t, "stats", ask(a, newT, entry(u32(entryStart, 1), raw(entryStats))), `EINVAL "Unsupported attribute"`)
	expect(t, "multicast", ask(a, newT, entry(u32(entryStart, 1), ip(entryGroup, "239.1.1.1"))),
		`EINVAL "Local interface required for multicast remote group"`)
	expect(t, "range", ask(a, newT, entry(u32(entryStart, 100), u32(entryEnd, 102))), "ok")
	expect(t, "backwards", ask(a, newT, entry(u32(entryStart, 9), u32(entryEnd, 8))), "ok")
	expect(t, "in use", ask(b, newT, entry(u32(entryStart, 99), u32(entryEnd, 101))), `EEXIST "VNI in use"`)
	expect(t, "what was before stays", b.vnis.has(99), true)
	expect(t, "missing", ask(b, delT, entry(u32(entryStart, 98))), "ENOENT")
	w.events.take()
	expect(t, "remote", ask(a, newT, entry(u32(entryStart, 101), ip(entryGroup, "192.0.2.7"))), "ok")
	ev := w.events.take()
	if len(ev) != 2 || ev[0].Group != unix.RTNLGRP_NEIGH || ev[1].Group != unix.RTNLGRP_TUNNEL {
		t.Error(showEvents(ev))
	}
	expect(t, "row", dump(a), []string{uapi.MAC(0).String() + " dst 192.0.2.7 vni 101 src_vni 101 82/02"})
	bodies := 0
	a.VNIDump(0, func([]byte) { bodies++ })
	plain.VNIDump(0, func([]byte) { bodies++ })
	expect(t, "messages", bodies, 1)
	// Two devices on one socket, told apart by VNI, also one that is added later.
	for _, d := range []*Device{a, b} {
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "while up", ask(b, newT, entry(u32(entryStart, 200))), "ok")
	th := w.domain.NewThread()
	in := func(vni uint32) {
		f := netdev.NewFrame(datagram(vni, frame(macA, macB, 0x9000, 1, 2)))
		f.Meta = meta("192.0.2.1")
		th.Begin()
		a.sockets[1].Input(th, []netdev.Frame{*f})
		th.End()
	}
	for _, vni := range []uint32{101, 200, 201} {
		in(vni)
	}
	expect(t, "a", a.Counters().RxPackets.Load(), uint64(1))
	expect(t, "b", b.Counters().RxPackets.Load(), uint64(1))
	expect(t, "vni", b.vnis.stats(200).rxBytes.Load(), uint64(2))
	expect(t, "del", ask(b, delT, entry(u32(entryStart, 200))), "ok")
	in(200)
	expect(t, "b", b.Counters().RxPackets.Load(), uint64(1))
}
