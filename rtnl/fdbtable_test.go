package rtnl_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/uapi"
)

// Refusals of FDB requests, in the order of the kernel's checks: what is wrong
// twice shows which check comes first. All tables run on the kernel too.

// Flags and states of neighbour messages, for short rows.
const (
	self, master  = uapi.NTFSelf, uapi.NTFMaster
	perm, noarp   = uapi.NUDPermanent, uapi.NUDNoARP
	reach, ext    = uapi.NUDReachable, uapi.NTFExtLearned
	unknownNDA    = 40
	ndmOff        = 16 + uapi.NdmsgLen // where the first attribute is
	secondNDA     = ndmOff + 12        // and the one behind an address
	policyText    = "Attribute failed policy validation"
	unknownText   = "Unknown attribute type"
	leftoverText  = "bytes leftover after parsing attributes"
	shortText     = "Invalid header length"
	addEther      = "FDB add only supported for Ethernet devices"
	delEther      = "FDB delete only supported for Ethernet devices"
	invalidMAC    = "invalid address"
	invalidVID    = "invalid vlan id"
	invalidVIDLen = "invalid vlan attribute size"
)

func macBytes(n int) []byte { return attr(uapi.NDALLAddr, make([]byte, n)) }

// fdbDevices are the devices of the tables: a bridge with a port, a veth without
// a master, a tunnel.
type fdbDevices struct{ br, port, veth, vx int32 }

func (w *world) fdbDevices(c *client) (d fdbDevices) {
	d.port, d.veth = w.veth("p1", "q1"), w.veth("p2", "q2")
	d.br = c.newBridge("br0", u32(unix.IFLA_MTU, 1500))
	c.enslave(d.port, d.br)
	d.vx = c.newVXLAN("vx0", u32(unix.IFLA_VXLAN_ID, 7))
	return d
}

func TestFDBAddTable(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		m := mac(testMAC)
		c.table(t, unix.RTM_NEWNEIGH, create, []row{
			{name: "short header", body: neigh(0, 0, 0)[:11], want: refused(unix.EINVAL, shortText)},
			{name: "no device", body: neigh(0, 0, 0), want: refused(unix.EINVAL, "invalid ifindex")},
			{name: "no such device", body: neigh(unknownIdx, 0, 0, m), want: refused(unix.ENODEV, "unknown ifindex")},
			{name: "negative device", body: neigh(-1, 0, 0, m), want: refused(unix.ENODEV, "unknown ifindex")},
			{name: "no address", body: neigh(d.port, noarp, master), want: refused(unix.EINVAL, invalidMAC)},
			{name: "short address", body: neigh(d.port, noarp, master, macBytes(5)), want: refused(unix.EINVAL, invalidMAC)},
			{name: "long address", body: neigh(d.port, noarp, master, macBytes(7)), want: refused(unix.EINVAL, invalidMAC)},
			{name: "no address on lo", body: neigh(1, noarp, self), want: refused(unix.EINVAL, invalidMAC)},
			{name: "lo", body: neigh(1, noarp, self, m), want: refused(unix.EINVAL, addEther)},
			{name: "lo with a bad VLAN", body: neigh(1, noarp, self, m, attr(uapi.NDAVLAN, []byte{1})), want: refused(unix.EINVAL, addEther)},
			{name: "VLAN of one byte", body: neigh(d.port, noarp, master, m, u8(uapi.NDAVLAN, 1)), want: refused(unix.EINVAL, invalidVIDLen)},
			{name: "VLAN of four bytes", body: neigh(d.br, noarp, self, m, u32(uapi.NDAVLAN, 1)), want: refused(unix.EINVAL, invalidVIDLen)},
			{name: "VLAN 0", body: neigh(d.vx, noarp, self, m, u16(uapi.NDAVLAN, 0)), want: refused(unix.EINVAL, invalidVID)},
			{name: "VLAN 4095", body: neigh(d.port, noarp, master, m, u16(uapi.NDAVLAN, 4095)), want: refused(unix.EINVAL, invalidVID)},
			{name: "two VLANs, the last counts", body: neigh(d.port, noarp, master, m, u16(uapi.NDAVLAN, 1), u16(uapi.NDAVLAN, 4095)), want: refused(unix.EINVAL, invalidVID)},

			{name: "flags 0 on a bridge", body: neigh(d.br, perm, 0, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "master on a bridge", body: neigh(d.br, perm, master, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "flags 0 on no port", body: neigh(d.veth, perm, 0, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "master on no port", body: neigh(d.veth, perm, master, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "flags 0 on a tunnel", body: neigh(d.vx, perm, 0, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "sticky alone on a port", body: neigh(d.port, noarp, uapi.NTFSticky, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "extern_learn alone on a port", body: neigh(d.port, noarp, ext, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "use alone on a port", body: neigh(d.port, noarp, uapi.NTFUse, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "router alone on a port", body: neigh(d.port, noarp, uapi.NTFRouter, m), want: refused(unix.EOPNOTSUPP, "")},

			{name: "state 0", body: neigh(d.port, 0, master, m), want: refused(unix.EINVAL, "")},
			{name: "stale", body: neigh(d.port, uapi.NUDStale, master, m), want: refused(unix.EINVAL, "")},
			{name: "address zero", body: neigh(d.port, noarp, master, macBytes(6)), want: refused(unix.EINVAL, "")},
			{name: "locked", body: neigh(d.port, noarp, master, m, u32(uapi.NDAFlagsExt, uapi.NTFExtLocked)), want: refused(unix.EINVAL, `bridge: Cannot add FDB entry with "locked" flag set`)},
			{name: "sticky and permanent", body: neigh(d.port, perm, master|uapi.NTFSticky, m), want: refused(unix.EINVAL, "")},
			{name: "a bridge's own, not permanent", body: neigh(d.br, noarp, self, m), want: refused(unix.EINVAL, "")},
			{name: "use on a bridge", body: neigh(d.br, noarp, self|uapi.NTFUse, m), want: refused(unix.EINVAL, "")},
			{name: "extern_learn on a bridge", body: neigh(d.br, noarp, self|ext, m), want: refused(unix.EINVAL, "bridge: FDB entry towards bridge must be permanent")},
			{name: "absent, without create", flags: unix.NLM_F_ACK, body: neigh(d.port, noarp, master, m), want: refused(unix.ENOENT, "")},
			{name: "absent, replace alone", flags: uapi.NLMReplace, body: neigh(d.port, noarp, master, m), want: refused(unix.ENOENT, "")},
			{name: "good", body: neigh(d.port, noarp, master, m)},
			{name: "there already", body: neigh(d.port, noarp, master, m), want: refused(unix.EEXIST, "")},
			{name: "replaced", flags: uapi.NLMCreate | uapi.NLMReplace, body: neigh(d.port, noarp, master, m)},
			{name: "flags 0 on a port", flags: uapi.NLMReplace, body: neigh(d.port, noarp, 0, m)},
			{name: "group addresses", body: neigh(d.port, noarp, master, mac(1<<48-1))},

			{name: "self of a veth, noarp", body: neigh(d.veth, noarp, self, m), want: refused(unix.EINVAL, "")},
			{name: "self of a veth, with NDA_FLAGS_EXT", body: neigh(d.veth, perm, self, m, u32(uapi.NDAFlagsExt, 0)), want: refused(unix.EINVAL, "")},
			{name: "self of a veth, with a VLAN", body: neigh(d.veth, perm, self, m, u16(uapi.NDAVLAN, 1)), want: refused(unix.EINVAL, "")},
			{name: "self of a veth", body: neigh(d.veth, perm, self, m)},
			{name: "again", body: neigh(d.veth, perm, self, m), want: refused(unix.EEXIST, "")},
			{name: "again without excl", flags: uapi.NLMCreate, body: neigh(d.veth, 0, self, m)},
			{name: "self of a port", body: neigh(d.port, perm, self, m)},

			{name: "a tunnel without destination", body: neigh(d.vx, reach, self, m), want: refused(unix.EINVAL, "")},
			{name: "a tunnel, state noarp", body: neigh(d.vx, noarp, self, m, attr(uapi.NDADst, []byte{10, 0, 0, 1})), want: refused(unix.EINVAL, "")},
			{name: "a tunnel, short address", body: neigh(d.vx, reach, self, m, attr(uapi.NDADst, []byte{10, 0, 0})), want: refused(unix.EAFNOSUPPORT, "Unsupported address family")},
			{name: "a tunnel, unknown interface", body: neigh(d.vx, reach, self, m, attr(uapi.NDADst, []byte{10, 0, 0, 1}), u32(uapi.NDAIfindex, unknownIdx)), want: refused(unix.EADDRNOTAVAIL, "Device not found")},
			{name: "a tunnel, unknown nexthop", body: neigh(d.vx, reach, self, m, u32(uapi.NDANhID, 5)), want: refused(unix.EINVAL, "Nexthop id does not exist")},
			{name: "a tunnel", body: neigh(d.vx, reach, self, m, attr(uapi.NDADst, []byte{10, 0, 0, 1}))},
			{name: "unknown attributes do not matter", flags: uapi.NLMReplace, body: neigh(d.port, noarp, master, m, attr(unknownNDA, nil))},
		})
	})
}

// TestFDBBothTables adds with master and self at once: each table by itself.
func TestFDBBothTables(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		dump := func() []string { return c.dump(neigh(d.port, 0, 0)) }
		c.option(unix.NETLINK_GET_STRICT_CHK, 1)
		before := len(dump())
		c.table(t, unix.RTM_NEWNEIGH, create, []row{
			{name: "noarp: the bridge takes it, the device does not", body: neigh(d.port, noarp, master|self, mac(2)), want: refused(unix.EINVAL, "")},
			{name: "permanent", body: neigh(d.port, perm, master|self, mac(4))},
			{name: "the bridge refuses", body: neigh(d.port, 0, master|self, mac(6)), want: refused(unix.EINVAL, "")},
		})
		if n := len(dump()) - before; n != 3 {
			t.Errorf("%d new rows: %q", n, dump())
		}
		c.table(t, unix.RTM_DELNEIGH, 0, []row{
			{name: "both", body: neigh(d.port, perm, master|self, mac(4))},
			{name: "the device has none", body: neigh(d.port, perm, master|self, mac(2)), want: refused(unix.ENOENT, "")},
			{name: "the bridge no longer", body: neigh(d.port, perm, master|self, mac(2)), want: refused(unix.ENOENT, "")},
		})
		if n := len(dump()) - before; n != 0 {
			t.Errorf("%d rows left", n)
		}
	})
}

func TestFDBDelTable(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		m := mac(testMAC)
		for _, i := range []int32{d.port} {
			c.must(unix.RTM_NEWNEIGH, create, neigh(i, noarp, master, m))
		}
		c.table(t, unix.RTM_DELNEIGH, 0, []row{
			{name: "short header", body: neigh(0, 0, 0)[:11], want: refused(unix.EINVAL, shortText)},
			{name: "no device", body: neigh(0, 0, 0), want: refused(unix.EINVAL, "invalid ifindex")},
			{name: "no such device", body: neigh(unknownIdx, 0, 0, m), want: refused(unix.ENODEV, "unknown ifindex")},
			{name: "no address", body: neigh(d.port, 0, master), want: refused(unix.EINVAL, invalidMAC)},
			{name: "long address", body: neigh(d.br, 0, self, macBytes(8)), want: refused(unix.EINVAL, invalidMAC)},
			{name: "lo", body: neigh(1, 0, self, m), want: refused(unix.EINVAL, delEther)},
			{name: "lo with a bad VLAN", body: neigh(1, 0, self, m, u8(uapi.NDAVLAN, 1)), want: refused(unix.EINVAL, invalidVIDLen)},
			{name: "VLAN 0", body: neigh(d.port, 0, master, m, u16(uapi.NDAVLAN, 0)), want: refused(unix.EINVAL, invalidVID)},
			{name: "VLAN 4095", body: neigh(d.vx, 0, self, m, u16(uapi.NDAVLAN, 4095)), want: refused(unix.EINVAL, invalidVID)},
			{name: "flags 0 on a bridge", body: neigh(d.br, 0, 0, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "master on no port", body: neigh(d.veth, 0, master, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "sticky alone", body: neigh(d.port, 0, uapi.NTFSticky, m), want: refused(unix.EOPNOTSUPP, "")},
			{name: "the bridge's own, which is the port's", body: neigh(d.br, 0, self, m), want: refused(unix.ENOENT, "")},
			{name: "absent", body: neigh(d.port, 0, master, mac(2)), want: refused(unix.ENOENT, "")},
			{name: "there", body: neigh(d.port, 0, 0, m)},
			{name: "again", body: neigh(d.port, 0, master, m), want: refused(unix.ENOENT, "")},
			{name: "self of a veth, not permanent", body: neigh(d.veth, 0, self, m), want: refused(unix.EINVAL, "")},
			{name: "self of a veth, absent", body: neigh(d.veth, perm, self, m), want: refused(unix.ENOENT, "")},
			{name: "a tunnel, absent", body: neigh(d.vx, 0, self, m), want: refused(unix.ENOENT, "")},
		})
		c.table(t, unix.RTM_DELNEIGH, uapi.NLMBulk, []row{
			{name: "bulk: no device", body: neigh(0, 0, 0), want: refused(unix.EINVAL, "invalid ifindex")},
			{name: "bulk: no such device", body: neigh(unknownIdx, 0, 0), want: refused(unix.ENODEV, "unknown ifindex")},
			{name: "bulk: unknown attribute", body: neigh(d.port, 0, master, attr(unknownNDA, nil)), want: refusal{unix.EINVAL, unknownText, ndmOff}},
			{name: "bulk: unknown attribute of no device", body: neigh(unknownIdx, 0, 0, attr(unknownNDA, nil)), want: refusal{unix.EINVAL, unknownText, ndmOff}},
			{name: "bulk: bytes behind", body: append(neigh(d.br, 0, self), 1, 2, 3), want: refused(unix.EINVAL, leftoverText)},
			{name: "bulk: lo", body: neigh(1, 0, self), want: refused(unix.EINVAL, delEther)},
			{name: "bulk: veth", body: neigh(d.veth, 0, self), want: refused(unix.EOPNOTSUPP, "")},
			{name: "bulk: flags 0 on no port", body: neigh(d.veth, 0, 0), want: refused(unix.EOPNOTSUPP, "")},
			{name: "bulk: flags 0 on a bridge", body: neigh(d.br, 0, 0), want: refused(unix.EOPNOTSUPP, "")},
			{name: "bulk: master and self of a port", body: neigh(d.port, 0, master|self), want: refused(unix.EOPNOTSUPP, "")},
			{name: "bulk: port", body: neigh(d.port, 0, master)},
			{name: "bulk: bridge", body: neigh(d.br, 0, self)},
			{name: "bulk: tunnel", body: neigh(d.vx, 0, self)},
			{name: "bulk: tunnel, use", body: neigh(d.vx, 0, self|uapi.NTFUse), want: refused(unix.EINVAL, "Unsupported fdb flush ndm flag bits set")},
		})
	})
}

func TestFDBGetTable(t *testing.T) {
	worlds(t, func(t *testing.T, w *world) {
		c := w.client()
		d := w.fdbDevices(c)
		m := mac(testMAC)
		c.must(unix.RTM_NEWNEIGH, create, neigh(d.port, noarp, master, m))
		pad := neigh(d.port, 0, 0, m)
		pad[1] = 1
		pad2 := neigh(d.br, 0, self, m)
		pad2[3] = 1
		typed := neigh(d.br, 0, self, m)
		typed[11] = 1
		values := refused(unix.EINVAL, "Invalid values in header for fdb get request")
		unsupported := refused(unix.EINVAL, "Unsupported attribute in fdb get request")
		notFound := refused(unix.ENOENT, "Fdb entry not found")
		notPort := refused(unix.EINVAL, "Device is not a bridge port")
		notAble := refused(unix.EOPNOTSUPP, "Fdb get operation not supported by device")
		rows := []row{
			{name: "short header", body: neigh(d.port, 0, 0)[:11], want: refused(unix.EINVAL, "Invalid header for fdb get request")},
			{name: "state", body: neigh(d.port, 1, 0, m), want: values},
			{name: "first padding", body: pad, want: values},
			{name: "second padding", body: pad2, want: values},
			{name: "type", body: typed, want: values},
			{name: "flags", body: neigh(d.port, 0, master|ext, m), want: refused(unix.EINVAL, "Invalid flags in header for fdb get request")},
			{name: "unknown attribute", body: neigh(d.port, 0, 0, m, attr(unknownNDA, nil)), want: refusal{unix.EINVAL, unknownText, secondNDA}},
			{name: "bytes behind", body: append(neigh(d.port, 0, 0, m), 1, 2, 3), want: refused(unix.EINVAL, leftoverText)},
			{name: "VLAN of one byte", body: neigh(d.port, 0, 0, m, u8(uapi.NDAVLAN, 1)), want: refusal{unix.ERANGE, policyText, secondNDA}},
			{name: "VLAN of four bytes", body: neigh(d.port, 0, 0, m, u32(uapi.NDAVLAN, 1)), want: refused(unix.EINVAL, invalidVIDLen)},
			{name: "VLAN 0", body: neigh(d.br, 0, self, m, u16(uapi.NDAVLAN, 0)), want: refused(unix.EINVAL, invalidVID)},
			{name: "VLAN 4095", body: neigh(d.vx, 0, self, m, u16(uapi.NDAVLAN, 4095)), want: refused(unix.EINVAL, invalidVID)},
			{name: "VNI of two bytes", body: neigh(d.vx, 0, self, m, u16(uapi.NDAVNI, 1)), want: refusal{unix.ERANGE, policyText, secondNDA}},
			{name: "address of 33 bytes", body: neigh(d.br, 0, self, macBytes(33)), want: refusal{unix.ERANGE, policyText, ndmOff}},
			{name: "address of 5 bytes", body: neigh(d.br, 0, self, macBytes(5)), want: refused(unix.EINVAL, "Invalid address in fdb get request")},
			{name: "destination", body: neigh(d.vx, 0, self, m, attr(uapi.NDADst, []byte{10, 0, 0, 1})), want: unsupported},
			{name: "source VNI", body: neigh(d.vx, 0, self, m, u32(uapi.NDASrcVNI, 1)), want: unsupported},
			{name: "interface", body: neigh(d.br, 0, self, m, u32(uapi.NDAIfindex, 1)), want: unsupported},
			{name: "destination and a bad VLAN", body: neigh(d.br, 0, self, m, attr(uapi.NDADst, []byte{10, 0, 0, 1}), u32(uapi.NDAVLAN, 1)), want: unsupported},
			{name: "no address", body: neigh(d.port, 0, 0), want: refused(unix.EINVAL, "Missing lookup address for fdb get request")},
			{name: "no address, of no device", body: neigh(unknownIdx, 0, 0), want: refused(unix.EINVAL, "Missing lookup address for fdb get request")},
			{name: "no such device", body: neigh(unknownIdx, 0, 0, m), want: refused(unix.ENODEV, "Unknown device ifindex")},
			{name: "no such device, with a master", body: neigh(unknownIdx, 0, 0, m, u32(uapi.NDAMaster, uint32(d.br))), want: refused(unix.ENODEV, "Unknown device ifindex")},
			{name: "device and master", body: neigh(d.port, 0, 0, m, u32(uapi.NDAMaster, uint32(d.br))), want: refused(unix.EINVAL, "Master and device are mutually exclusive")},
			{name: "a veth and a master", body: neigh(d.veth, 0, 0, m, u32(uapi.NDAMaster, uint32(d.br))), want: refused(unix.EINVAL, "Master and device are mutually exclusive")},
			{name: "device and no such master", body: neigh(d.port, 0, 0, m, u32(uapi.NDAMaster, unknownIdx)), want: refused(unix.EINVAL, "Master and device are mutually exclusive")},
			{name: "no such master", body: neigh(0, 0, 0, m, u32(uapi.NDAMaster, unknownIdx)), want: refused(unix.EINVAL, "Invalid master ifindex")},
			{name: "neither", body: neigh(0, 0, 0, m), want: refused(unix.ENODEV, "No device specified")},
			{name: "master 0", body: neigh(0, 0, 0, m, u32(uapi.NDAMaster, 0)), want: refused(unix.ENODEV, "No device specified")},
			{name: "device and master 0", body: neigh(d.port, 0, 0, m, u32(uapi.NDAMaster, 0))},
			{name: "no port", body: neigh(d.veth, 0, 0, m), want: notPort},
			{name: "the bridge as a port", body: neigh(d.br, 0, master, m), want: notPort},
			{name: "the tunnel as a port", body: neigh(d.vx, 0, 0, m), want: notPort},
			{name: "veth, self", body: neigh(d.veth, 0, self, m), want: notAble},
			{name: "port, self", body: neigh(d.port, 0, self, m), want: notAble},
			{name: "port, master and self", body: neigh(d.port, 0, master|self, m)},
			{name: "veth as master", body: neigh(0, 0, 0, m, u32(uapi.NDAMaster, uint32(d.veth))), want: notAble},
			{name: "port as master", body: neigh(0, 0, 0, m, u32(uapi.NDAMaster, uint32(d.port))), want: notAble},
			{name: "absent in the bridge", body: neigh(d.port, 0, 0, mac(2)), want: notFound},
			{name: "absent in that VLAN", body: neigh(d.port, 0, 0, m, u16(uapi.NDAVLAN, 5)), want: notFound},
			{name: "absent in the tunnel", body: neigh(d.vx, 0, self, mac(2)), want: notFound},
			{name: "absent, tunnel as master", body: neigh(0, 0, 0, mac(2), u32(uapi.NDAMaster, uint32(d.vx))), want: notFound},
			{name: "by the bridge", body: neigh(d.br, 0, self, m)},
			{name: "by master", body: neigh(0, 0, 0, m, u32(uapi.NDAMaster, uint32(d.br)))},
			{name: "by port", body: neigh(d.port, 0, 0, m)},
		}
		c.table(t, unix.RTM_GETNEIGH, 0, rows)
		// Whatever the socket option says.
		c.option(unix.NETLINK_GET_STRICT_CHK, 1)
		c.table(t, unix.RTM_GETNEIGH, 0, rows)
		ms := c.must(unix.RTM_GETNEIGH, 0, neigh(d.port, 0, 0, m))
		if len(ms) != 1 || ms[0].Type != unix.RTM_NEWNEIGH || ms[0].Flags != 0 {
			t.Errorf("the answer is %+v", ms)
		}
	})
}
