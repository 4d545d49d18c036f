package vxlan

import (
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// The multicast database of a tunnel stays empty here: requests are judged as
// vxlan_mdb.c does, and what would add an entry is refused.

const (
	rtprotStatic = 4
	mcastInclude = 1
	etherIPv4    = 0x0800
	etherIPv6    = 0x86dd
)

// mdbEntry is what the driver reads of a struct br_mdb_entry.
type mdbEntry struct {
	ifindex      int32
	state, flags uint8
	vid          uint16
	group        netip.Addr // the zero Addr for a MAC
}

func parseMDBEntry(b []byte) mdbEntry {
	a := func(i, j int) nlattr.Attr { return nlattr.Attr{Data: b[i:j]} }
	e := mdbEntry{ifindex: int32(a(0, 4).U32()), state: b[4], flags: b[5], vid: a(6, 8).U16()}
	switch a(24, 26).BE16() {
	case etherIPv4:
		e.group = netip.AddrFrom4([4]byte(b[8:12]))
	case etherIPv6:
		e.group = netip.AddrFrom16([16]byte(b[8:24]))
	}
	return e
}

// mdbPolicy returns a policy of MDBE_ATTR_* that takes the given ones.
func mdbPolicy(types ...uint16) nlattr.Policy {
	address := nlattr.Rule{Kind: nlattr.Binary, Ranged: true, Min: 4, Max: 16}
	vni := nlattr.Rule{Kind: nlattr.U32, Ranged: true, Max: vniLimit - 1}
	all := nlattr.Policy{
		uapi.MDBEAttrSource: address, uapi.MDBEAttrDst: address, uapi.MDBEAttrVNI: vni, uapi.MDBEAttrSrcVNI: vni,
		uapi.MDBEAttrGroupMode: {Kind: nlattr.U8, Ranged: true, Max: mcastInclude},
		uapi.MDBEAttrSrcList:   {Kind: nlattr.Nested},
		uapi.MDBEAttrRTProt:    {Kind: nlattr.U8, Ranged: true, Min: rtprotStatic, Max: math.MaxUint8},
		uapi.MDBEAttrDstPort:   {Kind: nlattr.U16},
		uapi.MDBEAttrIfindex:   {Kind: nlattr.S32, Ranged: true, Min: 1, Max: math.MaxInt32},
		uapi.MDBEAttrStateMask: {Kind: nlattr.U8, Mask: 1},
	}
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.MDBEAttrStateMask; t++ {
		p[t] = nlattr.Rule{}
	}
	for _, t := range types {
		p[t] = all[t]
	}
	return p
}

// mdbNest parses a nest and validates it strictly.
func mdbNest(a nlattr.Attr, p nlattr.Policy) (nlattr.Attrs, error) {
	outer := nlattr.Policy{a.Type: {Kind: nlattr.Nested}}
	if err := outer.Validate(nlattr.Attrs{a}, 0, nlattr.Strict); err != nil {
		return nil, err
	}
	as, left := nlattr.Parse(a.Data, a.Off+nlattr.HeaderLen)
	return as, p.Validate(as, left, nlattr.Strict)
}

func mdbError(errno unix.Errno, text string) error { return nlattr.Errf(errno, "vxlan: %s", text) }

// MDBRequest judges RTM_NEWMDB and RTM_DELMDB; attrs are what follows struct
// br_port_msg, which rtnetlink has checked (rtnl_validate_mdb_entry). exists looks
// for an interface.
func (d *Device) MDBRequest(typ, nlflags uint16, attrs nlattr.Attrs, exists func(ifindex int) bool) error {
	a, ok := attrs.Get(uapi.MDBASetEntry)
	if !ok {
		return nlattr.Errf(unix.EINVAL, "Missing MDBA_SET_ENTRY attribute")
	}
	e := parseMDBEntry(a.Data)
	if typ == unix.RTM_DELMDB && nlflags&uapi.NLMBulk != 0 {
		return d.mdbFlush(e, attrs)
	}
	if typ == unix.RTM_DELMDB {
		nlflags = 0
	}
	if err := d.mdbCheck(e, nlflags, attrs, exists); err != nil {
		return err
	}
	switch {
	case typ == unix.RTM_DELMDB:
		return mdbError(unix.ENOENT, "Did not find MDB entry")
	case nlflags&uapi.NLMCreate == 0:
		return mdbError(unix.ENOENT, "Create not specified and entry does not exist")
	}
	return nlattr.Errf(unix.EOPNOTSUPP, "linkspan: a tunnel's multicast database cannot have entries")
}

// mdbCheck is vxlan_mdb_config_init.
func (d *Device) mdbCheck(e mdbEntry, nlflags uint16, attrs nlattr.Attrs, exists func(ifindex int) bool) error {
	set, has := attrs.Get(uapi.MDBASetEntryAttrs)
	switch {
	case int(e.ifindex) != d.link.Ifindex:
		return mdbError(unix.EINVAL, "Port net device must be the VXLAN net device")
	case nlflags&(uapi.NLMCreate|uapi.NLMReplace) != 0 && e.state != 1:
		return mdbError(unix.EINVAL, "MDB entry must be permanent")
	case e.flags != 0:
		return mdbError(unix.EINVAL, "Invalid MDB entry flags")
	case e.vid != 0:
		return mdbError(unix.EINVAL, "VID must not be specified")
	case !e.group.IsValid():
		return mdbError(unix.EINVAL, "Group address must be an IPv4 / IPv6 address")
	case !has:
		return mdbError(unix.EINVAL, "Missing MDBA_SET_ENTRY_ATTRS attribute")
	}
	as, err := mdbNest(set, mdbPolicy(uapi.MDBEAttrSource, uapi.MDBEAttrGroupMode, uapi.MDBEAttrSrcList, uapi.MDBEAttrRTProt,
		uapi.MDBEAttrDst, uapi.MDBEAttrDstPort, uapi.MDBEAttrVNI, uapi.MDBEAttrIfindex, uapi.MDBEAttrSrcVNI))
	if err != nil {
		return err
	}
	return e.checkAttrs(as, set, exists)
}

// checkAttrs is vxlan_mdb_config_attrs_init.
func (e mdbEntry) checkAttrs(as nlattr.Attrs, set nlattr.Attr, exists func(ifindex int) bool) error {
	if !as.Has(uapi.MDBEAttrDst) {
		return &nlattr.Error{
			Errno: unix.EINVAL, Msg: "vxlan: Missing remote destination IP address",
			MissType: uapi.MDBEAttrDst, MissNest: set.Off,
		}
	}
	var source netip.Addr
	if a, ok := as.Get(uapi.MDBEAttrSource); ok {
		if err := e.checkSource(a); err != nil {
			return err
		}
		source, _ = parseAddr(a)
	}
	mode, hasMode := as.Get(uapi.MDBEAttrGroupMode)
	list, hasList := as.Get(uapi.MDBEAttrSrcList)
	anyGroup := e.group.IsUnspecified()
	starG := !anyGroup && (!source.IsValid() || source.IsUnspecified())
	switch {
	case !anyGroup && !e.group.IsMulticast():
		return mdbError(unix.EINVAL, "Group address is not multicast")
	case anyGroup && source.IsValid():
		return mdbError(unix.EINVAL, "Source cannot be specified for the all-zeros entry")
	case hasMode && !starG:
		return mdbError(unix.EINVAL, "Filter mode can only be set for (*, G) entries")
	case hasList && !starG:
		return mdbError(unix.EINVAL, "Source list can only be set for (*, G) entries")
	case hasList && !hasMode:
		return mdbError(unix.EINVAL, "Source list cannot be set without filter mode")
	}
	sources, err := e.checkSources(list)
	if err != nil {
		return err
	}
	if starG && sources == 0 && hasMode && mode.U8() == mcastInclude {
		return mdbError(unix.EINVAL, "Cannot add (*, G) INCLUDE with an empty source list")
	}
	if a, ok := as.Get(uapi.MDBEAttrIfindex); ok && !exists(int(int32(a.U32()))) {
		return mdbError(unix.EINVAL, "Outgoing interface not found")
	}
	return nil
}

// checkSources judges MDBE_ATTR_SRC_LIST, which may be absent, and counts it.
func (e mdbEntry) checkSources(list nlattr.Attr) (n int, err error) {
	entries := list.Nest()
	for _, a := range entries {
		in, err := mdbNest(a, nlattr.Policy{1: {Kind: nlattr.Binary, Ranged: true, Min: 4, Max: 16}})
		if err != nil {
			return 0, err
		}
		src, ok := in.Get(1)
		if !ok {
			return 0, &nlattr.Error{Errno: unix.EINVAL, MissType: 1, MissNest: a.Off}
		}
		if err := e.checkSource(src); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

// checkSource is vxlan_mdb_is_valid_source.
func (e mdbEntry) checkSource(a nlattr.Attr) error {
	name, size := "IPv4", 4
	switch {
	case !e.group.IsValid():
		return mdbError(unix.EINVAL, "Invalid protocol used with source address")
	case e.group.Is6():
		name, size = "IPv6", 16
	}
	if len(a.Data) != size {
		return mdbError(unix.EINVAL, name+" invalid source address length")
	}
	if ip, _ := parseAddr(a); ip.IsMulticast() {
		return mdbError(unix.EINVAL, name+" multicast source address is not allowed")
	}
	return nil
}

// mdbFlush is vxlan_mdb_del_bulk.
func (d *Device) mdbFlush(e mdbEntry, attrs nlattr.Attrs) error {
	if e.ifindex != 0 && int(e.ifindex) != d.link.Ifindex {
		return mdbError(unix.EINVAL, "Invalid port net device")
	}
	if e.vid != 0 {
		return mdbError(unix.EINVAL, "VID must not be specified")
	}
	set, ok := attrs.Get(uapi.MDBASetEntryAttrs)
	if !ok {
		return nil
	}
	as, err := mdbNest(set, mdbPolicy(uapi.MDBEAttrRTProt, uapi.MDBEAttrDst, uapi.MDBEAttrDstPort, uapi.MDBEAttrVNI,
		uapi.MDBEAttrSrcVNI, uapi.MDBEAttrStateMask))
	if err != nil {
		return err
	}
	if a, ok := as.Get(uapi.MDBEAttrStateMask); ok && a.U8() != 0 && e.state != 1 {
		return mdbError(unix.EINVAL, "Only permanent MDB entries are supported")
	}
	return nil
}

// MDBGet judges a RTM_GETMDB for one group, which is never found.
func (d *Device) MDBGet(attrs nlattr.Attrs) error {
	a, ok := attrs.Get(uapi.MDBAGetEntry)
	if !ok {
		return nlattr.Errf(unix.EINVAL, "Missing MDBA_GET_ENTRY attribute")
	}
	if in, ok := attrs.Get(uapi.MDBAGetEntryAttrs); ok {
		as, err := mdbNest(in, mdbPolicy(uapi.MDBEAttrSource, uapi.MDBEAttrSrcVNI))
		if err != nil {
			return err
		}
		if src, ok := as.Get(uapi.MDBEAttrSource); ok {
			if err := parseMDBEntry(a.Data).checkSource(src); err != nil {
				return err
			}
		}
	}
	return mdbError(unix.ENOENT, "MDB entry not found")
}

// MDBDump returns the row of a RTM_GETMDB dump, of type RTM_NEWMDB.
func (d *Device) MDBDump() []byte {
	b := []byte{unix.AF_BRIDGE, 0, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, uint32(d.link.Ifindex))
	b, mark := nlattr.Nest(b, uapi.MDBAMDB)
	return nlattr.EndNest(b, mark)
}
