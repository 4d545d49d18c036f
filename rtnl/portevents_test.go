package rtnl_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

func masterIs(i int32) []byte { return u32(unix.IFLA_MASTER, uint32(i)) }

func upOrDown(i int32, up bool) []byte {
	f := uint32(0)
	if up {
		f = unix.IFF_UP
	}
	return linkFlags(i, f, unix.IFF_UP)
}

// TestPortEvents: a port that is up joins and leaves a bridge that is up and has
// no other.
func TestPortEvents(t *testing.T) { worlds(t, portEvents) }

func portEvents(t *testing.T, w *world) {
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0")
	mon := w.monitor()
	const p1MAC, brMAC = "02:00:00:00:10:01", "random"
	proto := func(in ...[]byte) []byte { return nest(unix.IFLA_PROTINFO|0x8000, in...) }
	hairpin := func(v uint8) []byte { return u8(unix.IFLA_BRPORT_MODE, v) }
	w.steps(t, c, mon, []step{
		{"join", unix.RTM_SETLINK, 0, link(p1, masterIs(br)), refusal{}, []string{
			"NEWLINK p1 up running lower master br0",
			"NEWLINK p1 up running lower change 0x100 master br0",
			"NEWLINK br0 up running lower event 2",
			"NEWNEIGH p1 " + p1MAC + " state 0x80 master br0",
			"DELNEIGH br0 " + brMAC + " state 0x80 master br0",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK br0 up running lower",
			"NEWLINK br0 up running lower", // linkwatch: its state is no longer unknown
		}},
		{"join again", unix.RTM_SETLINK, 0, link(p1, masterIs(br)), refusal{}, nil},
		{"static entry", unix.RTM_NEWNEIGH, create, neigh(p1, noarp, master, mac(0x020000000001)), refusal{}, []string{"NEWNEIGH p1 02:00:00:00:00:01 state 0x40 master br0"}},
		{"dynamic entry", unix.RTM_NEWNEIGH, create, neigh(p1, reach, master, mac(0x020000000002)), refusal{}, []string{"NEWNEIGH p1 02:00:00:00:00:02 state 0x2 master br0"}},
		{"self entry", unix.RTM_NEWNEIGH, create, neigh(p1, perm, self, mac(0x020000000001)), refusal{}, []string{"NEWNEIGH p1 02:00:00:00:00:01 state 0x80 flags 0x2"}},
		{"port attributes", unix.RTM_SETLINK, 0, link7(p1, proto(hairpin(1))), refusal{}, []string{"NEWLINK/bridge p1 state 3"}},
		{"unchanged", unix.RTM_SETLINK, 0, link7(p1, proto(hairpin(1))), refusal{}, []string{"NEWLINK/bridge p1 state 3"}},
		{"refused", unix.RTM_SETLINK, 0, link7(p1, proto(hairpin(0), u32(unix.IFLA_BRPORT_COST, 0))), refused(unix.ERANGE, ""), nil},
		{"slave data", unix.RTM_NEWLINK, 0, link(p1, nest(unix.IFLA_LINKINFO, str(unix.IFLA_INFO_SLAVE_KIND, "x"), nest(unix.IFLA_INFO_SLAVE_DATA, hairpin(0)))), refusal{}, []string{
			"NEWLINK/bridge p1 state 3",
			"NEWLINK p1 up running lower master br0",
		}},
		{"no such master", unix.RTM_SETLINK, 0, link(p1, masterIs(unknownIdx)), refused(unix.EINVAL, ""), []string{
			"NEWLINK p1 up running lower change 0x100 master br0",
			"NEWLINK/bridge p1 state 0",
			"DELNEIGH p1 02:00:00:00:00:02 state 0x2 master br0",
			"DELLINK/bridge p1",
			"DELNEIGH p1 02:00:00:00:00:01 state 0x40 master br0",
			"NEWLINK p1 up running lower",
			"DELNEIGH br0 " + p1MAC + " state 0x80 master br0",
			"NEWLINK br0 up running",
			"NEWLINK br0 up running event 2",
			"NEWLINK br0 up", // linkwatch
		}},
		{"no master again", unix.RTM_SETLINK, 0, link(p1, masterIs(0)), refusal{}, nil},
		{"lo", unix.RTM_SETLINK, 0, link(1, masterIs(br)), refused(unix.EINVAL, ""), nil},
		{"a bridge that lost its last port, and its MAC", unix.RTM_SETLINK, 0, link(br, masterIs(br)), refused(unix.EINVAL, ""), nil},
		{"a veth as master", unix.RTM_SETLINK, 0, link(br, masterIs(p1)), refused(unix.EOPNOTSUPP, ""), nil},
		{"delete the bridge", unix.RTM_DELLINK, 0, link(br), refusal{}, []string{
			"NEWLINK br0 change 0x41",
			"DELLINK br0 change 0xffffffff",
		}},
	})
}

// TestDownPortEvents: the port is down when it joins, the bridge's MAC is its own.
func TestDownPortEvents(t *testing.T) { worlds(t, downPortEvents) }

func downPortEvents(t *testing.T, w *world) {
	c := w.client()
	p1 := w.veth("p1", "q1")
	c.must(unix.RTM_SETLINK, 0, upOrDown(p1, false))
	br := c.newBridge("br0", withMAC())
	c.must(unix.RTM_GETLINK, 0, link(1)) // linkwatch has run
	mon := w.monitor()
	const oldMAC = "02:00:00:00:10:01"
	portUp := []string{
		"NEWLINK p1 up lower change 0x1 master br0",
		"NEWLINK/bridge p1 state 0",
		"NEWLINK/bridge p1 state 3", // linkwatch from here
		"NEWLINK/bridge p1 state 3",
		"NEWLINK p1 up running lower master br0",
		"NEWLINK q1 up running lower",
		"NEWLINK br0 up running lower",
	}
	w.steps(t, c, mon, []step{
		{"join", unix.RTM_SETLINK, 0, link(p1, masterIs(br)), refusal{}, []string{
			"NEWLINK p1 master br0",
			"NEWLINK p1 change 0x100 master br0",
			"NEWLINK br0 up event 2",
			"NEWNEIGH p1 " + oldMAC + " state 0x80 master br0",
			"NEWLINK/bridge p1 state 0",
		}},
		{"port up", unix.RTM_SETLINK, 0, upOrDown(p1, true), refusal{}, portUp},
		{"port down", unix.RTM_SETLINK, 0, upOrDown(p1, false), refusal{}, []string{
			"NEWLINK p1 change 0x1 master br0",
			"NEWLINK/bridge p1 state 0",
			"NEWLINK q1 up", // linkwatch
			"NEWLINK br0 up",
		}},
		{"port up again", unix.RTM_SETLINK, 0, upOrDown(p1, true), refusal{}, portUp},
		{"bridge down", unix.RTM_SETLINK, 0, upOrDown(br, false), refusal{}, []string{
			"NEWLINK/bridge p1 state 0",
			"NEWLINK br0 change 0x1",
		}},
		{"bridge up", unix.RTM_SETLINK, 0, upOrDown(br, true), refusal{}, []string{
			"NEWLINK/bridge p1 state 3",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK br0 up lower change 0x1",
			"NEWLINK br0 up running lower", // linkwatch
		}},
		{"port's MAC", unix.RTM_SETLINK, 0, link(p1, attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 0x77})), refusal{}, []string{
			"NEWLINK p1 up running lower master br0",
			"DELNEIGH p1 " + oldMAC + " state 0x80 master br0",
			"NEWNEIGH p1 02:00:00:00:00:77 state 0x80 master br0",
			"NEWLINK/bridge p1 state 3",
		}},
		{"port's MTU", unix.RTM_SETLINK, 0, link(p1, u32(unix.IFLA_MTU, 1400)), refusal{}, []string{
			"NEWLINK p1 up running lower master br0",
			"NEWLINK br0 up running lower",
		}},
		{"port's name", unix.RTM_SETLINK, 0, link(p1, named("pp1")), refusal{}, []string{"NEWLINK pp1 up running lower master br0"}},
		{"the port is deleted", unix.RTM_DELLINK, 0, link(p1), refusal{}, []string{
			"NEWLINK pp1 change 0x41 master br0",
			"NEWLINK/bridge pp1 state 0",
			"NEWLINK q1 change 0x41",
			"NEWLINK/bridge pp1 state 0",
			"DELLINK/bridge pp1",
			"DELNEIGH pp1 02:00:00:00:00:77 state 0x80 master br0",
			"NEWLINK br0 up running",
			"NEWLINK br0 up running event 2",
			"DELLINK pp1 change 0xffffffff",
			"DELLINK q1 change 0xffffffff",
			"NEWLINK br0 up", // linkwatch
		}},
		{"the bridge is deleted", unix.RTM_DELLINK, 0, link(br), refusal{}, []string{
			"DELNEIGH br0 " + userMAC + " state 0x80 master br0",
			"NEWLINK br0 change 0x41",
			"DELLINK br0 change 0xffffffff",
		}},
	})
}

// TestTunnelPortEvents: a tunnel is the port, made with its master or enslaved, and
// the bridge goes while it has ports.
func TestTunnelPortEvents(t *testing.T) { worlds(t, tunnelPortEvents) }

func tunnelPortEvents(t *testing.T, w *world) {
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0")
	c.must(unix.RTM_NEWLINK, create, link(30, named("vx0"), attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0x20, 0}), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 7))))
	vx := c.index("vx0")
	mon := w.monitor()
	const brMAC, vxMAC, p1MAC, vx1MAC = "random", "02:00:00:00:20:00", "02:00:00:00:10:01", "02:00:00:00:00:02"
	w.steps(t, c, mon, []step{
		{"a tunnel joins", unix.RTM_SETLINK, 0, link(vx, masterIs(br)), refusal{}, []string{
			"NEWLINK vx0 master br0",
			"NEWLINK vx0 change 0x100 master br0",
			"NEWLINK br0 up running lower event 2",
			"NEWNEIGH vx0 " + vxMAC + " state 0x80 master br0",
			"DELNEIGH br0 " + brMAC + " state 0x80 master br0",
			"NEWLINK/bridge vx0 state 0",
			"NEWLINK br0 up running",
			"NEWLINK br0 up", // linkwatch
		}},
		{"the tunnel comes up", unix.RTM_SETLINK, 0, upOrDown(vx, true), refusal{}, []string{
			"NEWLINK vx0 up running lower change 0x1 master br0",
			"NEWLINK/bridge vx0 state 3",
			"NEWLINK/bridge vx0 state 3",
			"NEWLINK br0 up running lower", // linkwatch
		}},
		{"another port joins", unix.RTM_SETLINK, 0, link(p1, masterIs(br)), refusal{}, []string{
			"NEWLINK p1 up running lower master br0",
			"NEWLINK p1 up running lower change 0x100 master br0",
			"NEWLINK br0 up running lower event 2",
			"NEWNEIGH p1 " + p1MAC + " state 0x80 master br0",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK/bridge p1 state 3",
			"NEWLINK br0 up running lower",
		}},
		{"a tunnel is made as a port", unix.RTM_NEWLINK, create, append(linkFlags(40, unix.IFF_UP, unix.IFF_UP), append(append(named("vx1"), masterIs(br)...), append(attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 2}), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 8))...)...)...), refusal{}, []string{
			"NEWLINK vx1 change 0xffffffff",
			"NEWLINK vx1 up running lower change 0x1",
			"NEWLINK vx1 up running lower master br0",
			"NEWLINK vx1 up running lower change 0x100 master br0",
			"NEWNEIGH vx1 " + vx1MAC + " state 0x80 master br0",
			"NEWLINK/bridge vx1 state 3",
			"NEWLINK/bridge vx1 state 3",
			"NEWLINK/bridge vx1 state 3",
			"NEWLINK br0 up running lower",
		}},
		{"an entry", unix.RTM_NEWNEIGH, create, neigh(vx, noarp, master, mac(0x020000000009)), refusal{}, []string{"NEWNEIGH vx0 02:00:00:00:00:09 state 0x40 master br0"}},
		{"the tunnel is deleted", unix.RTM_DELLINK, 0, link(vx), refusal{}, []string{
			"NEWLINK vx0 change 0x41 master br0",
			"NEWLINK/bridge vx0 state 0",
			"NEWLINK/bridge vx0 state 0",
			"DELLINK/bridge vx0",
			"DELNEIGH vx0 02:00:00:00:00:09 state 0x40 master br0",
			"DELNEIGH vx0 " + vxMAC + " state 0x80 master br0",
			"DELLINK vx0 change 0xffffffff",
		}},
		{"the bridge is deleted", unix.RTM_DELLINK, 0, link(br), refusal{}, []string{
			"NEWLINK vx1 up running lower change 0x100 master br0",
			"NEWLINK/bridge vx1 state 0",
			"DELLINK/bridge vx1",
			"NEWLINK vx1 up running lower",
			"NEWLINK p1 up running lower change 0x100 master br0",
			"NEWLINK/bridge p1 state 0",
			"DELLINK/bridge p1",
			"DELNEIGH p1 " + p1MAC + " state 0x80 master br0",
			"NEWLINK p1 up running lower",
			"DELNEIGH br0 " + vx1MAC + " state 0x80 master br0",
			"NEWLINK br0 change 0x41",
			"DELLINK br0 change 0xffffffff",
		}},
	})
}

// TestLowerDeviceEvents: a port on which a tunnel of the same bridge stands is
// deleted, and the tunnel with it.
func TestLowerDeviceEvents(t *testing.T) { worlds(t, lowerDeviceEvents) }

func lowerDeviceEvents(t *testing.T, w *world) {
	c := w.client()
	p1 := w.veth("p1", "q1")
	br := c.newBridge("br0", withMAC())
	c.must(unix.RTM_NEWLINK, create, link(30, named("vx0"), attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0x20, 0}),
		kind("vxlan", u32(unix.IFLA_VXLAN_ID, 7), u32(unix.IFLA_VXLAN_LINK, uint32(p1)))))
	c.enslave(p1, br)
	c.enslave(30, br)
	c.must(unix.RTM_GETLINK, 0, link(30)) // linkwatch has run
	c.Pending()
	if w.srv == nil {
		w.sh("sleep 1.5")
	}
	mon := w.monitor()
	w.steps(t, c, mon, []step{
		{"the port is deleted", unix.RTM_DELLINK, 0, link(p1), refusal{}, []string{
			"NEWLINK p1 change 0x41 master br0",
			"NEWLINK/bridge p1 state 0",
			"NEWLINK q1 change 0x41",
			"NEWLINK/bridge p1 state 0",
			"DELLINK/bridge p1",
			"DELNEIGH p1 02:00:00:00:10:01 state 0x80 master br0",
			"NEWLINK br0 up running event 2",
			"NEWLINK/bridge vx0 state 0",
			"DELLINK/bridge vx0",
			"DELNEIGH vx0 02:00:00:00:20:00 state 0x80 master br0",
			"NEWLINK br0 up running",
			"NEWLINK br0 up running event 2",
			"DELLINK vx0 change 0xffffffff",
			"DELLINK p1 change 0xffffffff",
			"DELLINK q1 change 0xffffffff",
			"NEWLINK br0 up", // linkwatch
		}},
	})
}
