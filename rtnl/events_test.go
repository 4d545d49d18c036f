package rtnl_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/uapi"
)

// The sequences here were seen on Linux 6.18. What linkwatch does comes at some
// later time there; here it comes before the next request, marked by a comment.

// step sends a request and compares what a monitor saw of it.
type step struct {
	name       string
	typ, flags uint16
	body       []byte
	err        refusal
	want       []string
}

func (w *world) steps(t *testing.T, c, mon *client, steps []step) {
	t.Helper()
	for _, s := range steps {
		_, err := c.Do(s.typ, s.flags, s.body)
		if refusalOf(err) != s.err {
			t.Errorf("%s: %v, want %v", s.name, refusalOf(err), s.err)
		}
		c.must(unix.RTM_GETLINK, 0, link(1)) // linkwatch has run
		lines(t, s.name, mon.events(), s.want)
	}
}

const userMAC = "02:00:00:00:00:b0"

func withMAC() []byte { return attr(unix.IFLA_ADDRESS, uapi.MAC(0x0200000000b0).Append(nil)) }

func named(name string) []byte { return str(unix.IFLA_IFNAME, name) }

func TestBridgeLifeEvents(t *testing.T) { worlds(t, bridgeLifeEvents) }

func bridgeLifeEvents(t *testing.T, w *world) {
	c, mon := w.client(), w.monitor()
	groupMask := u16(unix.IFLA_BR_GROUP_FWD_MASK, 7)
	w.steps(t, c, mon, []step{
		{"create", unix.RTM_NEWLINK, create, link(10, named("br0"), kind("bridge")), refusal{}, []string{
			"NEWNEIGH #10 random state 0x80 master #10",
			"NEWLINK br0 change 0xffffffff",
		}},
		{"create again", unix.RTM_NEWLINK, create, link(0, named("br0"), kind("bridge")), refused(unix.EEXIST, ""), nil},
		{"create on its index", unix.RTM_NEWLINK, create, link(10, named("brx"), kind("bridge")), refused(unix.EEXIST, ""), nil},
		{"no kind", unix.RTM_NEWLINK, create, link(0, named("brx")), refused(unix.EOPNOTSUPP, "Unknown device type"), nil},
		{"absent", unix.RTM_NEWLINK, 0, link(0, named("brx"), kind("bridge")), refused(unix.ENODEV, ""), nil},
		{"replace", unix.RTM_NEWLINK, uapi.NLMReplace, link(10, kind("bridge")), refused(unix.EOPNOTSUPP, ""), nil},
		{"change while down", unix.RTM_NEWLINK, 0, link(10, kind("bridge", u32(unix.IFLA_BR_AGEING_TIME, 100))), refusal{}, nil},
		{"another kind", unix.RTM_NEWLINK, 0, link(10, kind("vxlan")), refused(unix.EOPNOTSUPP, ""), nil},
		{"up", unix.RTM_SETLINK, 0, linkFlags(10, unix.IFF_UP, unix.IFF_UP), refusal{}, []string{
			"NEWLINK br0 up running lower change 0x1",
		}},
		{"up again", unix.RTM_SETLINK, 0, linkFlags(10, unix.IFF_UP, unix.IFF_UP), refusal{}, nil},
		{"change while up", unix.RTM_NEWLINK, 0, link(10, kind("bridge", u32(unix.IFLA_BR_AGEING_TIME, 100))), refusal{}, []string{
			"NEWLINK br0 up running lower",
		}},
		{"a change that fails", unix.RTM_NEWLINK, 0, link(10, kind("bridge", groupMask)), refused(unix.EINVAL, ""), nil},
		{"data by RTM_SETLINK", unix.RTM_SETLINK, 0, link(10, kind("bridge", groupMask)), refusal{}, nil},
		{"MAC", unix.RTM_SETLINK, 0, link(10, withMAC()), refusal{}, []string{
			"DELNEIGH br0 random state 0x80 master br0",
			"NEWNEIGH br0 " + userMAC + " state 0x80 master br0",
			"NEWLINK br0 up running", // a bridge whose MAC is the user's needs a port for its carrier
			"NEWLINK br0 up",         // linkwatch
		}},
		{"a MAC of a group", unix.RTM_SETLINK, 0, link(10, attr(unix.IFLA_ADDRESS, []byte{1, 0, 0, 0, 0, 1})), refused(unix.EADDRNOTAVAIL, ""), nil},
		{"MTU", unix.RTM_SETLINK, 0, link(10, u32(unix.IFLA_MTU, 1400)), refusal{}, []string{"NEWLINK br0 up"}},
		{"the same MTU", unix.RTM_SETLINK, 0, link(10, u32(unix.IFLA_MTU, 1400)), refusal{}, nil},
		{"MTU too small", unix.RTM_SETLINK, 0, link(10, u32(unix.IFLA_MTU, 67)), refused(unix.EINVAL, "mtu less than device minimum"), nil},
		{"MTU too big", unix.RTM_SETLINK, 0, link(10, u32(unix.IFLA_MTU, 65536)), refused(unix.EINVAL, "mtu greater than device maximum"), nil},
		{"name", unix.RTM_SETLINK, 0, link(10, named("brnew")), refusal{}, []string{"NEWLINK brnew up"}},
		{"a name that is taken", unix.RTM_SETLINK, 0, link(10, named("lo")), refused(unix.EEXIST, ""), nil},
		{"master", unix.RTM_SETLINK, 0, link(10, u32(unix.IFLA_MASTER, 10)), refused(unix.ELOOP, "Can not enslave a bridge to a bridge"), nil},
		{"down", unix.RTM_SETLINK, 0, linkFlags(10, 0, unix.IFF_UP), refusal{}, []string{"NEWLINK brnew change 0x1"}},
		{"up and delete", unix.RTM_SETLINK, 0, linkFlags(10, unix.IFF_UP, unix.IFF_UP), refusal{}, []string{"NEWLINK brnew up change 0x1"}},
		{"delete", unix.RTM_DELLINK, 0, link(10), refusal{}, []string{
			"DELNEIGH brnew " + userMAC + " state 0x80 master brnew",
			"NEWLINK brnew change 0x41",
			"DELLINK brnew change 0xffffffff",
		}},
		{"delete again", unix.RTM_DELLINK, 0, link(10), refused(unix.ENODEV, ""), nil},
	})
}

func TestBridgeCreationEvents(t *testing.T) { worlds(t, bridgeCreationEvents) }

func bridgeCreationEvents(t *testing.T, w *world) {
	c, mon := w.client(), w.monitor()
	w.steps(t, c, mon, []step{
		{"with a MAC", unix.RTM_NEWLINK, create, link(20, named("br1"), withMAC(), kind("bridge")), refusal{}, []string{
			"NEWNEIGH #20 " + userMAC + " state 0x80 master #20",
			"DELNEIGH #20 " + userMAC + " state 0x80 master #20",
			"NEWNEIGH #20 " + userMAC + " state 0x80 master #20",
			"NEWLINK br1 change 0xffffffff",
		}},
		{"up at once", unix.RTM_NEWLINK, create, append(linkFlags(21, unix.IFF_UP, unix.IFF_UP), append(named("br2"), kind("bridge")...)...), refusal{}, []string{
			"NEWNEIGH #21 random state 0x80 master #21",
			"NEWLINK br2 up running lower change 0xffffffff",
		}},
		{"with data that is refused", unix.RTM_NEWLINK, create, link(22, named("br3"), kind("bridge", u16(unix.IFLA_BR_GROUP_FWD_MASK, 7))), refused(unix.EINVAL, ""), []string{
			"NEWNEIGH #22 random state 0x80 master #22",
			"DELNEIGH #22 random state 0x80 master #22",
		}},
		{"with data that is malformed", unix.RTM_NEWLINK, create, link(23, named("br3"), kind("bridge", u16(unix.IFLA_BR_AGEING_TIME, 7))),
			refusal{unix.ERANGE, policyText, 16 + 16 + 8 + 4 + 12 + 4}, nil},
		{"with a MAC of 5 bytes", unix.RTM_NEWLINK, create, link(23, named("br3"), attr(unix.IFLA_ADDRESS, make([]byte, 5)), kind("bridge")), refused(unix.EINVAL, ""), nil},
		{"with a MAC of zero", unix.RTM_NEWLINK, create, link(23, named("br3"), attr(unix.IFLA_ADDRESS, make([]byte, 6)), kind("bridge")), refused(unix.EADDRNOTAVAIL, ""), nil},
		{"with a MTU too big", unix.RTM_NEWLINK, create, link(23, named("br3"), u32(unix.IFLA_MTU, 65536), kind("bridge")), refused(unix.EINVAL, "mtu greater than device maximum"), nil},
		{"with a name too long", unix.RTM_NEWLINK, create, link(23, named("sixteen-letters-"), kind("bridge")), refusal{unix.ERANGE, policyText, 32}, nil},
		{"with a slash in its name", unix.RTM_NEWLINK, create, link(23, named("a/b"), kind("bridge")), refused(unix.EINVAL, ""), nil},
		{"with a master", unix.RTM_NEWLINK, create, link(23, named("br3"), u32(unix.IFLA_MASTER, 20), kind("bridge")), refused(unix.ELOOP, "Can not enslave a bridge to a bridge"), []string{
			"NEWNEIGH #23 random state 0x80 master #23",
			"NEWLINK br3 change 0xffffffff",
			"DELNEIGH br3 random state 0x80 master br3",
			"DELLINK br3 change 0xffffffff",
		}},
		{"without a name", unix.RTM_NEWLINK, create, link(24, kind("bridge")), refusal{}, []string{
			"NEWNEIGH #24 random state 0x80 master #24",
			"NEWLINK bridge0 change 0xffffffff",
		}},
	})
	for _, name := range []string{"br3", "a/b"} {
		if c.index(name) != 0 {
			t.Errorf("%s exists", name)
		}
	}
}

func TestVXLANEvents(t *testing.T) { worlds(t, vXLANEvents) }

func vXLANEvents(t *testing.T, w *world) {
	c := w.client()
	p1 := w.veth("p1", "q1")
	mon := w.monitor()
	id, group := u32(unix.IFLA_VXLAN_ID, 7), func(b ...byte) []byte { return attr(unix.IFLA_VXLAN_GROUP, b) }
	lower := u32(unix.IFLA_VXLAN_LINK, uint32(p1))
	const none = "00:00:00:00:00:00"
	w.steps(t, c, mon, []step{
		{"create", unix.RTM_NEWLINK, create, link(30, named("vx0"), kind("vxlan", id, group(10, 0, 0, 1), lower)), refusal{}, []string{
			"NEWLINK p1 up running lower",
			"NEWLINK vx0 change 0xffffffff",
			"NEWNEIGH vx0 " + none + " state 0x82 flags 0x2 dst 10.0.0.1",
		}},
		{"the VNI is taken", unix.RTM_NEWLINK, create, link(31, named("vx1"), kind("vxlan", id)), refused(unix.EEXIST, "A VXLAN device with the specified VNI already exists"), nil},
		{"no data", unix.RTM_NEWLINK, create, link(31, named("vx1"), nest(unix.IFLA_LINKINFO, str(unix.IFLA_INFO_KIND, "vxlan"))), refused(unix.EINVAL, "Required attributes not provided to perform the operation"), nil},
		{"change while down", unix.RTM_NEWLINK, 0, link(30, kind("vxlan", group(10, 0, 0, 2))), refusal{}, []string{
			"NEWNEIGH vx0 " + none + " state 0x82 flags 0x2 dst 10.0.0.2",
			"DELNEIGH vx0 " + none + " state 0x82 flags 0x2 dst 10.0.0.1",
		}},
		{"what cannot be changed", unix.RTM_NEWLINK, 0, link(30, kind("vxlan", u32(unix.IFLA_VXLAN_LIMIT, 5))), refused(unix.EOPNOTSUPP, "Cannot change limit"), nil},
		{"up", unix.RTM_SETLINK, 0, linkFlags(30, unix.IFF_UP, unix.IFF_UP), refusal{}, []string{"NEWLINK vx0 up running lower change 0x1"}},
		{"change while up", unix.RTM_NEWLINK, 0, link(30, kind("vxlan", u8(unix.IFLA_VXLAN_TTL, 5))), refusal{}, []string{"NEWLINK vx0 up running lower"}},
		{"add", unix.RTM_NEWNEIGH, create, neigh(30, reach, self, mac(0x020000000001), attr(uapi.NDADst, []byte{10, 0, 0, 9})), refusal{}, []string{
			"NEWNEIGH vx0 02:00:00:00:00:01 state 0x2 flags 0x2 dst 10.0.0.9",
		}},
		{"down", unix.RTM_SETLINK, 0, linkFlags(30, 0, unix.IFF_UP), refusal{}, []string{
			"DELNEIGH vx0 02:00:00:00:00:01 state 0x2 flags 0x2 dst 10.0.0.9",
			"NEWLINK vx0 change 0x1",
		}},
		{"delete", unix.RTM_DELLINK, 0, link(30), refusal{}, []string{
			"DELNEIGH vx0 " + none + " state 0x82 flags 0x2 dst 10.0.0.2",
			"NEWLINK p1 up running lower",
			"DELLINK vx0 change 0xffffffff",
		}},
		{"up at once", unix.RTM_NEWLINK, create, append(linkFlags(32, unix.IFF_UP, unix.IFF_UP), append(named("vx2"), kind("vxlan", id)...)...), refusal{}, []string{
			"NEWLINK vx2 change 0xffffffff",
			"NEWLINK vx2 up running lower change 0x1",
		}},
	})
	if w.srv != nil {
		w.srv.Kernel.SetTaken(4789, false, true)
	} else if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); err != nil || unix.Bind(fd, &unix.SockaddrInet4{Port: 4789}) != nil {
		t.Fatal("cannot take the port")
	} else {
		defer unix.Close(fd)
	}
	w.steps(t, c, mon, []step{
		{"the port is another's", unix.RTM_NEWLINK, create, link(33, named("vx3"), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 8), attr(unix.IFLA_VXLAN_PORT, []byte{0x12, 0xb5}))), refusal{}, []string{"NEWLINK vx3 change 0xffffffff"}},
		{"which is seen when it comes up", unix.RTM_SETLINK, 0, linkFlags(33, unix.IFF_UP, unix.IFF_UP), refused(unix.EADDRINUSE, ""), nil},
		{"also at once", unix.RTM_NEWLINK, create, append(linkFlags(34, unix.IFF_UP, unix.IFF_UP), append(named("vx4"), kind("vxlan", u32(unix.IFLA_VXLAN_ID, 9), attr(unix.IFLA_VXLAN_PORT, []byte{0x12, 0xb5}))...)...), refused(unix.EADDRINUSE, ""), []string{
			"NEWLINK vx4 change 0xffffffff",
			"DELLINK vx4 change 0xffffffff",
		}},
	})
}
