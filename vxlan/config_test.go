package vxlan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Short names of attributes for tables.
const (
	xID, xGroup, xLink, xLocal          = unix.IFLA_VXLAN_ID, unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_LINK, unix.IFLA_VXLAN_LOCAL
	xTTL, xTOS, xLearning, xAgeing      = unix.IFLA_VXLAN_TTL, unix.IFLA_VXLAN_TOS, unix.IFLA_VXLAN_LEARNING, unix.IFLA_VXLAN_AGEING
	xLimit, xRange, xPort, xGroup6      = unix.IFLA_VXLAN_LIMIT, unix.IFLA_VXLAN_PORT_RANGE, unix.IFLA_VXLAN_PORT, unix.IFLA_VXLAN_GROUP6
	xLocal6, xUDPCsum, xGBP, xGPE       = unix.IFLA_VXLAN_LOCAL6, unix.IFLA_VXLAN_UDP_CSUM, unix.IFLA_VXLAN_GBP, unix.IFLA_VXLAN_GPE
	xExternal, xLabel, xDF, xVNIFilter  = unix.IFLA_VXLAN_COLLECT_METADATA, unix.IFLA_VXLAN_LABEL, unix.IFLA_VXLAN_DF, unix.IFLA_VXLAN_VNIFILTER
	xPolicy, xReserved, xMCRoute, xPass = unix.IFLA_VXLAN_LABEL_POLICY, uapi.IFLAVXLANReservedBits, uapi.IFLAVXLANMCRoute, unix.IFLA_VXLAN_LOCALBYPASS
	xProxy, xRSC, xTTLInherit           = unix.IFLA_VXLAN_PROXY, unix.IFLA_VXLAN_RSC, unix.IFLA_VXLAN_TTL_INHERIT
)

func flagAttr(t uint16) []byte { return nlattr.AppendFlag(nil, t) }

// TestCreateRefusals is sections 1.2 and 1.5 of the specification, row by row.
func TestCreateRefusals(t *testing.T) {
	short := func(t uint16, n int) []byte { return nlattr.Append(nil, t, make([]byte, n)) }
	const policy = "Attribute failed policy validation"
	for _, c := range []struct {
		name  string
		data  []byte
		outer []byte
		want  string
	}{
		{"short id", infoData(short(xID, 2)), nil, `ERANGE "` + policy + `"`},
		{"short port", infoData(short(xPort, 1)), nil, `ERANGE "` + policy + `"`},
		{"short group", infoData(short(xGroup, 2)), nil, `ERANGE "` + policy + `"`},
		{"short group6", infoData(short(xGroup6, 15)), nil, `ERANGE "` + policy + `"`},
		{"short range", infoData(short(xRange, 3)), nil, `ERANGE "` + policy + `"`},
		{"empty u8", infoData(short(xTTL, 0)), nil, `ERANGE "` + policy + `"`},
		{"flag with payload", infoData(u8(xGBP, 1)), nil, `ERANGE "` + policy + `"`},
		{"long id", infoData(short(xID, 9)), nil, "ok"},
		{"long localbypass", infoData(short(xPass, 2)), nil, `EINVAL "invalid attribute length"`},
		{"localbypass 2", infoData(u8(xPass, 2)), nil, `ERANGE "integer out of range"`},
		{"mcroute 2", infoData(u8(xMCRoute, 2)), nil, `ERANGE "integer out of range"`},
		{"label policy 2", infoData(u32(xPolicy, 2)), nil, `ERANGE "integer out of range"`},
		{"short reserved bits", infoData(short(xReserved, 7)), nil, `ERANGE "binary attribute size out of range"`},
		{"address of 5 bytes", infoData(), raw(unix.IFLA_ADDRESS, 2, 0, 0, 0, 0), `EINVAL "Provided link layer address is not Ethernet"`},
		{"group address", infoData(), raw(unix.IFLA_ADDRESS, 1, 0, 0, 0, 0, 1), `EADDRNOTAVAIL "Provided Ethernet address is not unicast"`},
		{"zero address", infoData(), raw(unix.IFLA_ADDRESS, 0, 0, 0, 0, 0, 0), `EADDRNOTAVAIL "Provided Ethernet address is not unicast"`},
		{"mtu 67", infoData(), u32(unix.IFLA_MTU, 67), `EINVAL "MTU must be between 68 and 65535"`},
		{"mtu 65536", infoData(), u32(unix.IFLA_MTU, 65536), `EINVAL "MTU must be between 68 and 65535"`},
		{"no data", nil, nil, `EINVAL "Required attributes not provided to perform the operation"`},
		{"empty data", infoData(), nil, "ok"},
		{"id 2^24", infoData(u32(xID, 1<<24)), nil, `ERANGE "VXLAN ID must be lower than 16777216"`},
		{"range", infoData(raw(xRange, 0, 9, 0, 8)), nil, `EINVAL "Invalid source port range"`},
		{"df 3", infoData(u8(xDF, 3)), nil, `EINVAL "Invalid DF attribute"`},
		{"unknown attribute", infoData(u8(77, 3)), nil, "ok"},
		{"vnifilter alone", infoData(u8(xVNIFilter, 1)), nil, `EINVAL "vxlan vnifilter only valid in collect metadata mode"`},
		{"vnifilter off alone", infoData(u8(xVNIFilter, 0)), nil, "ok"},
		{"vnifilter first", infoData(u8(xVNIFilter, 1), u8(xExternal, 1)), nil, "ok"},
		{"gpe", infoData(flagAttr(xGPE), u8(xLearning, 0)), nil, `EINVAL "VXLAN GPE does not support this combination of attributes"`},
		{"gpe learning", infoData(flagAttr(xGPE), u8(xExternal, 1)), nil, `EINVAL "VXLAN GPE does not support this combination of attributes"`},
		{"gpe external", infoData(flagAttr(xGPE), u8(xExternal, 1), u8(xLearning, 0)), nil, "ok"},
		{"families", infoData(ip(xLocal, "192.0.2.1"), ip(xGroup6, "2001:db8::1")), nil, `EINVAL "Local and remote address must be from the same family"`},
		{"local multicast", infoData(ip(xLocal, "239.1.1.1")), nil, `EINVAL "Local address cannot be multicast"`},
		{"scopes", infoData(ip(xGroup6, "fe80::1")), nil, `EINVAL "Invalid combination of local and remote address scopes"`},
		{"scopes the other way", infoData(ip(xLocal6, "fe80::1"), ip(xGroup6, "2001:db8::1"), u32(xLink, 3)), nil,
			`EINVAL "Invalid combination of local and remote address scopes"`},
		{"label", infoData(raw(xLabel, 0, 0, 0, 5)), nil, `EINVAL "Label attribute only applies to IPv6 VXLAN devices"`},
		{"label above 20 bits", infoData(raw(xLabel, 0xff, 0xf0, 0, 0)), nil, "ok"},
		{"label policy", infoData(u32(xPolicy, 1)), nil, `EINVAL "Label policy only applies to IPv6 VXLAN devices"`},
		{"no such link", infoData(u32(xLink, 99)), nil, `ENODEV "Invalid local interface, device not found"`},
		{"ipv6 disabled", infoData(u32(xLink, 5), ip(xLocal6, "2001:db8::1")), nil, `EPERM "IPv6 support disabled by administrator"`},
		{"multicast without link", infoData(ip(xGroup, "239.1.1.1")), nil, `EINVAL "Local interface required for multicast remote destination"`},
		{"link-local without link", infoData(ip(xLocal6, "fe80::1")), nil, `EINVAL "Local interface required for link-local local/remote addresses"`},
		{"link-local", infoData(ip(xLocal6, "fe80::1"), ip(xGroup6, "fe80::2"), u32(xLink, 3)), nil, "ok"},
		{"used bits", infoData(raw(xReserved, 8, 0, 0, 0, 0, 0, 0, 255)), nil,
			`EINVAL "Used bits 0x08000000ffffff00 cannot overlap reserved bits 0x08000000000000ff"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.create(testIfindex, linkMessage(0, c.data, c.outer))
			if got := showErr(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestChangeRefusals is section 1.3.
func TestChangeRefusals(t *testing.T) {
	cases := map[string][]byte{
		"Cannot change VNI":                                 u32(xID, 11),
		"vxlan: cannot change TTL_INHERIT flag":             flagAttr(xTTLInherit),
		"vxlan: cannot change PROXY flag":                   u8(xProxy, 0),
		"vxlan: cannot change RSC flag":                     u8(xRSC, 0),
		"vxlan: cannot change L2MISS flag":                  u8(unix.IFLA_VXLAN_L2MISS, 0),
		"vxlan: cannot change L3MISS flag":                  u8(unix.IFLA_VXLAN_L3MISS, 0),
		"vxlan: cannot change COLLECT_METADATA flag":        u8(xExternal, 0),
		"vxlan: cannot change UDP_ZERO_CSUM6_TX flag":       u8(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, 0),
		"vxlan: cannot change UDP_ZERO_CSUM6_RX flag":       u8(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, 0),
		"vxlan: cannot change REMCSUM_TX flag":              u8(unix.IFLA_VXLAN_REMCSUM_TX, 0),
		"vxlan: cannot change REMCSUM_RX flag":              u8(unix.IFLA_VXLAN_REMCSUM_RX, 0),
		"vxlan: cannot change REMCSUM_NOPARTIAL flag":       flagAttr(unix.IFLA_VXLAN_REMCSUM_NOPARTIAL),
		"vxlan: cannot change GBP flag":                     flagAttr(xGBP),
		"vxlan: cannot change GPE flag":                     flagAttr(xGPE),
		"vxlan: cannot change flag":                         u8(xVNIFilter, 0),
		"Cannot change limit":                               u32(xLimit, 0),
		"Cannot change port range":                          raw(xRange, 0, 0, 0, 0),
		"Cannot change port":                                be16(xPort, 4789),
		"Cannot change UDP_CSUM flag":                       u8(xUDPCsum, 1),
		"Cannot change reserved_bits":                       raw(xReserved, 0, 0, 0, 0, 0, 0, 0, 0),
		"New group address family does not match old group": ip(xGroup6, "2001:db8::1"),
		"New local address family does not match old":       ip(xLocal6, "2001:db8::1"),
	}
	w := newWorld(t)
	d := w.must(u32(xID, 10), be16(xPort, 4789))
	before := d.AppendInfo(nil)
	for text, attr := range cases {
		err := change(d, linkMessage(testIfindex, infoData(attr)))
		if got, want := showErr(err), fmt.Sprintf("ENOTSUP %q", text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	err := change(d, linkMessage(testIfindex, infoData(), u32(unix.IFLA_MTU, 1400)))
	if got := showErr(err); got != `ENOTSUP "Cannot change mtu"` {
		t.Error(got)
	}
	if string(before) != string(d.AppendInfo(nil)) {
		t.Error("a refused change changed something")
	}
	if ev := w.events.take(); len(ev) != 0 {
		t.Errorf("events: %v", showEvents(ev))
	}
}

// TestChangePointsAtOuterAttribute: the text for UDP_CSUM (18) comes with the
// offset of IFLA_LINKINFO (18).
func TestChangePointsAtOuterAttribute(t *testing.T) {
	w := newWorld(t)
	d := w.must(u32(xID, 10))
	e := nlattr.AsError(change(d, linkMessage(testIfindex, infoData(u8(xUDPCsum, 1)))))
	if e.Offset != 16+uapi.IfinfomsgLen {
		t.Errorf("offset %d", e.Offset)
	}
	e = nlattr.AsError(change(d, linkMessage(testIfindex, infoData(be16(xPort, 1)))))
	if e.Offset != 0 {
		t.Errorf("offset %d of an attribute that is not there", e.Offset)
	}
}

func showInfo(d *Device) string {
	var l []string
	for _, a := range parse(d.AppendInfo(nil), 0) {
		l = append(l, fmt.Sprintf("%d:%x", a.Type, a.Data))
	}
	return strings.Join(l, " ")
}

// TestInfo is section 1.11 and the defaults of 1.1, as the oracle recorded them.
func TestInfo(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		data [][]byte
		want string
	}{
		{[][]byte{u32(xID, 10), be16(xPort, 4789)},
			"1:0a000000 5:00 28:00 6:00 29:00 26:00000000 32:00000000 7:01 11:00 12:00 13:00 14:00 25:00 8:2c010000 9:00000000 " +
				"15:12b5 18:01 19:00 20:00 21:00 22:00 31:01 10:00000000 33:f7ffffff000000ff"},
		{[][]byte{u32(xID, 11), be16(xPort, 4789), ip(xLocal, "192.0.2.1"), ip(xGroup, "192.0.2.2"), u32(xLink, 3), flagAttr(xTTLInherit), flagAttr(xGBP)},
			"1:0b000000 2:c0000202 3:03000000 4:c0000201 5:00 28:01 6:00 29:00 26:00000000 32:00000000 7:01 11:00 12:00 13:00 14:00 " +
				"25:00 8:2c010000 9:00000000 15:12b5 18:01 19:00 20:00 21:00 22:00 31:01 10:00000000 23: 33:77000000000000ff"},
		{[][]byte{u32(xID, 12), be16(xPort, 4789), ip(xLocal6, "2001:db8::1"), raw(xLabel, 0, 0, 0, 5)},
			"1:0c000000 17:20010db8000000000000000000000001 5:00 28:00 6:00 29:00 26:00000005 32:00000000 7:01 11:00 12:00 13:00 " +
				"14:00 25:00 8:2c010000 9:00000000 15:12b5 18:01 19:00 20:00 21:00 22:00 31:01 10:00000000 33:f7ffffff000000ff"},
		{[][]byte{u8(xExternal, 1), u8(xVNIFilter, 1), u8(xLearning, 0), be16(xPort, 4790)},
			"1:00000000 5:00 28:00 6:00 29:00 26:00000000 32:00000000 7:00 11:00 12:00 13:00 14:00 25:01 8:2c010000 9:00000000 " +
				"15:12b6 18:01 19:00 20:00 21:00 22:00 31:01 10:00000000 30:01 33:f7ffffff000000ff"},
		{[][]byte{flagAttr(xGPE), u8(xExternal, 1), u8(xLearning, 0)},
			"1:00000000 5:00 28:00 6:00 29:00 26:00000000 32:00000000 7:00 11:00 12:00 13:00 14:00 25:01 8:2c010000 9:00000000 " +
				"15:12b6 18:01 19:00 20:00 21:00 22:00 31:01 10:00000000 27: 33:c2ffff00000000ff"},
	} {
		d := w.must(c.data...)
		if got := showInfo(d); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestInitialMTU is section 1.6.
func TestInitialMTU(t *testing.T) {
	v6 := ip(xLocal6, "2001:db8::1")
	w := newWorld(t)
	w.lower[8] = Lower{MTU: 100}
	for i, c := range []struct {
		data, mtu []byte
		want      int
	}{
		{nil, nil, 1500},
		{u32(xLink, 3), nil, 1450},
		{join(u32(xLink, 3), v6), nil, 1430},
		{join(u32(xLink, 3), u8(xExternal, 1)), nil, 1450},
		{join(u32(xLink, 3), u8(xExternal, 1), u8(xLearning, 0), flagAttr(xGPE)), nil, 1464},
		{u32(xLink, 3), u32(unix.IFLA_MTU, 9000), 1450},
		{u32(xLink, 3), u32(unix.IFLA_MTU, 1200), 1200},
		{nil, u32(unix.IFLA_MTU, 9000), 9000},
		{u32(xLink, 8), nil, 68},
	} {
		d, err := w.create(testIfindex+i, linkMessage(0, infoData(u32(xID, uint32(i+1)), c.data), c.mtu))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Link().MTU; got != c.want {
			t.Errorf("case %d: %d, want %d", i, got, c.want)
		}
	}
}

func TestCheckMTU(t *testing.T) {
	w := newWorld(t)
	d, over := w.must(u32(xID, 1)), w.must(u32(xID, 2), u32(xLink, 3))
	for _, c := range []struct {
		d    *Device
		mtu  int
		want string
	}{
		{d, 67, `EINVAL "mtu less than device minimum"`}, {d, 68, "ok"}, {d, 65535, "ok"},
		{d, 65536, `EINVAL "mtu greater than device maximum"`}, {over, 1450, "ok"}, {over, 1451, "EINVAL"},
	} {
		if got := showErr(c.d.CheckMTU(c.mtu)); got != c.want {
			t.Errorf("%d: %s, want %s", c.mtu, got, c.want)
		}
	}
}

// TestChangeForgetsReservedBits is the quirk of section 1.7.
func TestChangeForgetsReservedBits(t *testing.T) {
	w := newWorld(t)
	d := w.must(u32(xID, 1), flagAttr(xGBP))
	if err := change(d, linkMessage(testIfindex, infoData(u32(xAgeing, 0), u8(xTTL, 9)))); err != nil {
		t.Fatal(err)
	}
	if c := d.Config(); c.ReservedBits != 0xf7ffffff000000ff || !c.GBP || c.Ageing != 300 || c.TTL != 9 {
		t.Errorf("%+v", c)
	}
}

// TestChangeLink is the two copies of IFLA_VXLAN_LINK, and what a new one does to
// the MTU.
func TestChangeLink(t *testing.T) {
	w := newWorld(t)
	d := w.must(u32(xID, 1), u32(xLink, 4))
	set := func(data ...[]byte) error { return change(d, linkMessage(testIfindex, infoData(data...))) }
	if err := set(u32(xLink, 3)); err != nil || w.hooks.mtu != 1450 || d.Lower() != 3 || d.Link().MTU != 1450 {
		t.Errorf("%v, MTU %d, lower %d", err, w.hooks.mtu, d.Lower())
	}
	if err := set(u32(xLink, 4)); err != nil || d.Link().MTU != 1450 || d.Lower() != 4 {
		t.Errorf("%v, MTU %d, lower %d", err, d.Link().MTU, d.Lower())
	}
	if err := set(u32(xLink, 0)); err != nil || d.Lower() != 4 || d.CheckMTU(8951) == nil {
		t.Errorf("%v, lower %d", err, d.Lower())
	}
	w.hooks.busy = 3
	if err := set(u32(xLink, 3), ip(xGroup, "192.0.2.1")); showErr(err) != "EBUSY" || len(dump(d)) != 0 {
		t.Errorf("%v, %v", err, dump(d))
	}
}
