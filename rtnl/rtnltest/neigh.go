package rtnltest

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// ndaPolicy is nda_policy.
var ndaPolicy = nlattr.Policy{
	uapi.NDADst: {Kind: nlattr.Binary, Len: 32}, uapi.NDALLAddr: {Kind: nlattr.Binary, Len: 32},
	uapi.NDACacheInfo: {Len: 16}, uapi.NDAProbes: {Kind: nlattr.U32},
	uapi.NDAVLAN: {Kind: nlattr.U16}, uapi.NDAPort: {Kind: nlattr.U16}, uapi.NDAVNI: {Kind: nlattr.U32},
	uapi.NDAIfindex: {Kind: nlattr.U32}, uapi.NDAMaster: {Kind: nlattr.U32}, uapi.NDALinkNetnsID: {Kind: nlattr.U32},
	uapi.NDASrcVNI: {Kind: nlattr.U32}, uapi.NDAProtocol: {Kind: nlattr.U8}, uapi.NDANhID: {Kind: nlattr.U32},
	uapi.NDAFDBExtAttrs: {Kind: nlattr.Nested}, uapi.NDAFlagsExt: {Kind: nlattr.U32},
	uapi.NDANdmStateMask: {Kind: nlattr.U16}, uapi.NDANdmFlagsMask: {Kind: nlattr.U8},
}

// fdbPolicy takes any payload: the parses of rtnl_fdb_add and of dumps have no
// policy, but types above NDA_MAX are still unknown.
var fdbPolicy = func() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		p[t] = nlattr.Rule{Kind: nlattr.Binary}
	}
	return p
}()

func (r *request) ndm() uapi.Ndmsg { return uapi.ParseNdmsg(r.body()) }

// selfRow is nlmsg_populate_fdb_fill.
func selfRow(ifindex int, mac uapi.MAC, state uint16) []byte {
	b := uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(ifindex), State: state, Flags: uapi.NTFSelf}.Append(nil)
	return nlattr.Append(b, uapi.NDALLAddr, mac.Append(nil))
}

// fdbDump is rtnl_fdb_dump: without bridges there are only rows of the devices'
// filter lists.
func (r *request) fdbDump() error {
	dev, master, err := r.fdbFilter()
	if err != nil {
		return err
	}
	if master != 0 && r.k.links[master] == nil {
		return nlattr.Errno(unix.ENODEV)
	}
	var rows [][]byte
	for _, l := range r.k.sorted() {
		if l.arp != unix.ARPHRD_ETHER || master != 0 || dev != 0 && dev != l.index {
			continue
		}
		for _, mac := range append(append([]uapi.MAC(nil), l.unicast...), l.mcast...) {
			rows = append(rows, selfRow(l.index, mac, uapi.NUDPermanent))
		}
	}
	r.dump(unix.RTM_NEWNEIGH, 0, rows)
	return nil
}

func (r *request) fdbFilter() (dev, master int, err error) {
	if r.c.strict {
		return r.fdbFilterStrict()
	}
	return r.fdbFilterLegacy()
}

// fdbFilterStrict is valid_fdb_dump_strict.
func (r *request) fdbFilterStrict() (dev, master int, err error) {
	if len(r.body()) < uapi.NdmsgLen {
		return 0, 0, nlattr.Errf(unix.EINVAL, "Invalid header for fdb dump request")
	}
	ndm := r.ndm()
	if ndm.Pad1 != 0 || ndm.Pad2 != 0 || ndm.State != 0 || ndm.Flags != 0 || ndm.Type != 0 {
		return 0, 0, nlattr.Errf(unix.EINVAL, "Invalid values in header for fdb dump request")
	}
	as, err := r.attrs(uapi.NdmsgLen, fdbPolicy, true)
	if err != nil {
		return 0, 0, err
	}
	dev = int(ndm.Ifindex)
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		a, ok := as.Get(t)
		switch {
		case !ok:
		case t == uapi.NDAIfindex && len(a.Data) != 4:
			return 0, 0, nlattr.Errf(unix.EINVAL, "Invalid IFINDEX attribute in fdb dump request")
		case t == uapi.NDAIfindex:
			dev = int(int32(a.U32()))
		case t == uapi.NDAMaster && len(a.Data) != 4:
			return 0, 0, nlattr.Errf(unix.EINVAL, "Invalid MASTER attribute in fdb dump request")
		case t == uapi.NDAMaster:
			master = int(int32(a.U32()))
		default:
			return 0, 0, nlattr.Errf(unix.EINVAL, "Unsupported attribute in fdb dump request")
		}
	}
	return dev, master, nil
}

// fdbFilterLegacy is valid_fdb_dump_legacy.
func (r *request) fdbFilterLegacy() (dev, master int, err error) {
	n := len(r.body())
	if n == uapi.NdmsgLen || n == uapi.NdmsgLen+8 {
		return 0, 0, nil
	}
	if n < uapi.IfinfomsgLen {
		return 0, 0, nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, false)
	if err != nil {
		return 0, 0, nlattr.Errno(unix.EINVAL)
	}
	if a, ok := as.Get(unix.IFLA_MASTER); ok {
		master = int(int32(a.U32()))
	}
	return int(r.ifinfo().Index), master, nil
}

// fdbChange is rtnl_fdb_add and rtnl_fdb_del, for devices that only have their
// filter lists (ndo_dflt_fdb_add, ndo_dflt_fdb_del).
func (r *request) fdbChange() error {
	add, bulk := r.typ == unix.RTM_NEWNEIGH, r.typ == unix.RTM_DELNEIGH && r.flags&uapi.NLMBulk != 0
	if len(r.body()) < uapi.NdmsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	ndm := r.ndm()
	as, err := r.attrs(uapi.NdmsgLen, fdbPolicy, bulk)
	if err != nil {
		return err
	}
	if ndm.Ifindex == 0 {
		return nlattr.Errf(unix.EINVAL, "invalid ifindex")
	}
	l := r.k.links[int(ndm.Ifindex)]
	if l == nil {
		return nlattr.Errf(unix.ENODEV, "unknown ifindex")
	}
	if bulk {
		if l.arp != unix.ARPHRD_ETHER {
			return nlattr.Errf(unix.EINVAL, "FDB delete only supported for Ethernet devices")
		}
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	mac, vid, err := fdbAddress(l, as, add)
	switch {
	case err != nil:
		return err
	case ndm.Flags&uapi.NTFSelf == 0:
		return nlattr.Errno(unix.EOPNOTSUPP)
	case ndm.State&uapi.NUDPermanent == 0 && (ndm.State != 0 || !add):
		return nlattr.Errno(unix.EINVAL)
	case add && (vid != 0 || as.Has(uapi.NDAFlagsExt)):
		return nlattr.Errno(unix.EINVAL)
	}
	if !l.filter(mac, add) {
		if !add {
			return nlattr.Errno(unix.ENOENT)
		}
		if r.flags&uapi.NLMExcl != 0 {
			return nlattr.Errno(unix.EEXIST)
		}
	}
	r.k.notify(unix.RTNLGRP_NEIGH, r.typ, selfRow(l.index, mac, ndm.State))
	return nil
}

// fdbAddress reads NDA_LLADDR and NDA_VLAN; adding and deleting look at the kind
// of device at different times.
func fdbAddress(l *link, as nlattr.Attrs, add bool) (mac uapi.MAC, vid uint16, err error) {
	a, ok := as.Get(uapi.NDALLAddr)
	if !ok || len(a.Data) != 6 {
		return 0, 0, nlattr.Errf(unix.EINVAL, "invalid address")
	}
	ether := l.arp == unix.ARPHRD_ETHER
	if add && !ether {
		return 0, 0, nlattr.Errf(unix.EINVAL, "FDB add only supported for Ethernet devices")
	}
	if vid, err = fdbVID(as); err != nil {
		return 0, 0, err
	}
	if !ether {
		return 0, 0, nlattr.Errf(unix.EINVAL, "FDB delete only supported for Ethernet devices")
	}
	return uapi.MACFrom(a.Data), vid, nil
}

// fdbVID is fdb_vid_parse.
func fdbVID(as nlattr.Attrs) (uint16, error) {
	a, ok := as.Get(uapi.NDAVLAN)
	switch {
	case !ok:
		return 0, nil
	case len(a.Data) != 2:
		return 0, nlattr.Errf(unix.EINVAL, "invalid vlan attribute size")
	case a.U16() == 0 || a.U16() >= 4095:
		return 0, nlattr.Errf(unix.EINVAL, "invalid vlan id")
	}
	return a.U16(), nil
}

// fdbGet is rtnl_fdb_get, which ends for devices without bridges at the latest
// where it asks for the operation.
func (r *request) fdbGet() error {
	if len(r.body()) < uapi.NdmsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header for fdb get request")
	}
	ndm := r.ndm()
	if ndm.Pad1 != 0 || ndm.Pad2 != 0 || ndm.State != 0 || ndm.Type != 0 {
		return nlattr.Errf(unix.EINVAL, "Invalid values in header for fdb get request")
	}
	if ndm.Flags&^(uapi.NTFMaster|uapi.NTFSelf) != 0 {
		return nlattr.Errf(unix.EINVAL, "Invalid flags in header for fdb get request")
	}
	as, err := r.attrs(uapi.NdmsgLen, ndaPolicy, true)
	if err != nil {
		return err
	}
	var master uint32
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		a, ok := as.Get(t)
		switch {
		case !ok || t == uapi.NDAVNI:
		case t == uapi.NDAMaster:
			master = a.U32()
		case t == uapi.NDALLAddr && len(a.Data) != 6:
			return nlattr.Errf(unix.EINVAL, "Invalid address in fdb get request")
		case t == uapi.NDALLAddr:
		case t == uapi.NDAVLAN:
			if _, err := fdbVID(as); err != nil {
				return err
			}
		default:
			return nlattr.Errf(unix.EINVAL, "Unsupported attribute in fdb get request")
		}
	}
	k := r.k
	switch l := k.links[int(ndm.Ifindex)]; {
	case !as.Has(uapi.NDALLAddr):
		return nlattr.Errf(unix.EINVAL, "Missing lookup address for fdb get request")
	case ndm.Ifindex != 0 && l == nil:
		return nlattr.Errf(unix.ENODEV, "Unknown device ifindex")
	case ndm.Ifindex != 0 && master != 0:
		return nlattr.Errf(unix.EINVAL, "Master and device are mutually exclusive")
	case master != 0 && k.links[int(master)] == nil:
		return nlattr.Errf(unix.EINVAL, "Invalid master ifindex")
	case ndm.Ifindex != 0 && (ndm.Flags == 0 || ndm.Flags&uapi.NTFMaster != 0):
		return nlattr.Errf(unix.EINVAL, "Device is not a bridge port")
	case ndm.Ifindex == 0 && master == 0:
		return nlattr.Errf(unix.ENODEV, "No device specified")
	}
	return nlattr.Errf(unix.EOPNOTSUPP, "Fdb get operation not supported by device")
}
