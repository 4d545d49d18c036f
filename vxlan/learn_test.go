package vxlan

import (
	"net/netip"
	"testing"
	"time"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

// wire runs datagrams through a device's frame path without a thread of its own.
type wire struct {
	script
	t *netdev.Thread
}

func newWire(t *testing.T, parts ...[]byte) *wire {
	s := newScript(t, parts...)
	if err := s.d.Up(); err != nil {
		t.Fatal(err)
	}
	s.w.events.take()
	return &wire{s, s.w.domain.NewThread()}
}

func meta(src string) netdev.UDPMeta {
	return netdev.UDPMeta{Src: netip.MustParseAddr(src), SrcPort: 5, Ifindex: 3}
}

// datagram puts a VXLAN header in front of a frame.
func datagram(vni uint32, f []byte) []byte {
	h := makeHeader(vni)
	return join(h[:], f)
}

// receive hands a datagram to the device's first socket.
func (x *wire) receive(m netdev.UDPMeta, payload []byte) {
	f := netdev.NewFrame(payload)
	f.Meta = m
	x.t.Begin()
	frames := []netdev.Frame{*f}
	x.d.sockets[0].Input(x.t, frames)
	x.t.End()
}

// got returns how many frames reached the host since the last call.
func (x *wire) got() int { return len(x.w.host.Take()) }

// TestLearning is section 2.12.
func TestLearning(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	mac := x.d.Link().MAC
	from := func(src uapi.MAC, ip string) int {
		x.receive(meta(ip), datagram(10, frame(mac, src, 0x9000, 1)))
		return x.got()
	}
	a := macA.String()
	expect(t, "delivered", from(macA, "192.0.2.1"), 1)
	expect(t, "learned", x.events(), []string{"new " + a + " dst 192.0.2.1 02/02"})
	expect(t, "again", from(macA, "192.0.2.1"), 1)
	expect(t, "silent", x.events(), []string(nil))
	expect(t, "moved", from(macA, "192.0.2.2"), 1)
	expect(t, "announced", x.events(), []string{"new " + a + " dst 192.0.2.2 02/02"})
	expect(t, "zero source", from(0, "192.0.2.2"), 0)
	expect(t, "group source", from(macMC, "192.0.2.2"), 0)
	x.add(flC, macB, "192.0.2.1")
	x.addState(flC, 0x42, 2, macC, "192.0.2.1")
	x.events()
	expect(t, "fixed elsewhere", from(macB, "192.0.2.9")+from(macC, "192.0.2.9"), 0)
	expect(t, "fixed here", from(macB, "192.0.2.1")+from(macC, "192.0.2.1"), 2)
	// A dynamic entry keeps its port, VNI and interface, and because of the
	// latter is announced again with each frame (C51).
	macD := macC + 1
	x.addState(flC, 2, 2, macD, "192.0.2.1", be16(uapi.NDAPort, 9), u32(uapi.NDAVNI, 7), u32(uapi.NDAIfindex, 3))
	x.events()
	for range 3 {
		expect(t, "delivered", from(macD, "192.0.2.5"), 1)
		expect(t, "announced", x.events(), []string{"new " + macD.String() + " dst 192.0.2.5 port 9 vni 7 via 3 02/02"})
	}
	// An entry with a nexthop group takes no frame at all (C15).
	x.w.nh[10] = Nexthop{FDB: true, Group: true, IPv4: true}
	macE := macC + 2
	x.add(flC, macE, "", u32(uapi.NDANhID, 10))
	expect(t, "nexthop", from(macE, "192.0.2.1"), 0)
}

func TestLearningOff(t *testing.T) {
	x := newWire(t, u32(xID, 10), u8(xLearning, 0))
	for _, src := range []uapi.MAC{macA, 0, macMC} {
		x.receive(meta("192.0.2.1"), datagram(10, frame(macB, src, 0x9000)))
	}
	expect(t, "delivered", x.got(), 3)
	expect(t, "rows", dump(x.d), []string(nil))
}

func TestLearningLimit(t *testing.T) {
	x := newWire(t, u32(xID, 10), u32(xLimit, 1))
	for _, src := range []uapi.MAC{macA, macB} {
		x.receive(meta("192.0.2.1"), datagram(10, frame(macC, src, 0x9000)))
	}
	expect(t, "delivered", x.got(), 2)
	expect(t, "rows", len(dump(x.d)), 1)
}

func TestLearningLinkLocal(t *testing.T) {
	x := newWire(t, u32(xID, 10), ip(xLocal6, "fe80::1"), u32(xLink, 3))
	x.receive(meta("fe80::2"), datagram(10, frame(macC, macA, 0x9000)))
	expect(t, "rows", dump(x.d), []string{macA.String() + " dst fe80::2 via 3 02/02"})
	m := meta("fe80::2")
	m.Ifindex = 4
	x.receive(m, datagram(10, frame(macC, macB, 0x9000)))
	expect(t, "elsewhere", len(dump(x.d)), 1)
}

func TestLearningExternal(t *testing.T) {
	x := newWire(t, u8(xExternal, 1))
	x.receive(meta("192.0.2.1"), datagram(4001, frame(macC, macA, 0x9000)))
	expect(t, "rows", dump(x.d), []string{macA.String() + " dst 192.0.2.1 src_vni 4001 02/02"})
	expect(t, "delivered", x.got(), 1)
}

// TestAgeing is section 2.13 and C19 to C24.
func TestAgeing(t *testing.T) {
	x := newWire(t, u32(xID, 10), u32(xAgeing, 15))
	a, b := macA.String(), macB.String()
	from := func(src uapi.MAC) { x.receive(meta("192.0.2.1"), datagram(10, frame(macC, src, 0x9000))) }
	from(macA)
	x.addState(flC, 2, 2, macB, "192.0.2.1")
	x.addState(flC, 2, 0x12, macC, "192.0.2.1")
	x.add(flC, macC+1, "192.0.2.1")
	x.events()
	x.w.clock.Advance(10 * time.Second)
	expect(t, "not yet", x.events(), []string(nil))
	from(macA)
	// The second run is moved forward to when the user's entry ends.
	x.w.clock.Advance(5 * time.Second)
	expect(t, "aged", x.events(), []string{"del " + b + " dst 192.0.2.1 04/02"})
	x.w.clock.Advance(9 * time.Second)
	expect(t, "refreshed", x.events(), []string(nil))
	x.w.clock.Advance(time.Second)
	expect(t, "aged", x.events(), []string{"del " + a + " dst 192.0.2.1 04/02"})
	x.w.clock.Advance(time.Hour)
	expect(t, "left", len(dump(x.d)), 2)
}

// TestAgeingChange: a new ageing time looks at the table at once.
func TestAgeingChange(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	x.receive(meta("192.0.2.1"), datagram(10, frame(macC, macA, 0x9000)))
	x.w.clock.Advance(5 * time.Second)
	if err := change(x.d, linkMessage(testIfindex, infoData(u32(xAgeing, 2)))); err != nil {
		t.Fatal(err)
	}
	x.events()
	x.w.clock.Advance(0)
	expect(t, "aged", x.events(), []string{"del " + macA.String() + " dst 192.0.2.1 04/02"})
	x.d.Down()
	if n := x.w.clock.Timers(); n != 0 {
		t.Errorf("%d timers while down", n)
	}
}

// TestCacheInfo: sending moves used, receiving moves updated.
func TestCacheInfo(t *testing.T) {
	x := newWire(t, u32(xID, 10))
	x.add(flC, macA, "192.0.2.1")
	times := func() (used, updated time.Duration) {
		e := x.d.find(macA, 10)
		now := x.w.clock.Now()
		return now - time.Duration(e.V.used.Load()), now - time.Duration(e.V.updated.Load())
	}
	x.w.clock.Advance(time.Minute)
	x.send(frame(macA, macB, 0x9000))
	if u, v := times(); u != 0 || v != time.Minute {
		t.Error(u, v)
	}
	x.w.clock.Advance(time.Minute)
	x.receive(meta("192.0.2.1"), datagram(10, frame(macC, macA, 0x9000)))
	if u, v := times(); u != time.Minute || v != 0 {
		t.Error(u, v)
	}
	x.w.clock.Advance(time.Minute)
	x.d.FDBGet(macA, 0, false)
	x.addState(flC, 0xc0, 2, macA, "192.0.2.1")
	if u, v := times(); u != 2*time.Minute || v != time.Minute {
		t.Error(u, v)
	}
	x.addState(flC, 0xc0, 3, macA, "192.0.2.1")
	if u, v := times(); u != 2*time.Minute || v != 0 {
		t.Error(u, v)
	}
}
