package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// parsed are the attributes of a request about an entry (vxlan_fdb_parse).
type parsed struct {
	srcVNI uint32
	id     identity
	nhid   uint32
}

// parseAddr reads an address by the length of the attribute, as
// vxlan_nla_get_addr does: 16 bytes or more are IPv6, 4 or more IPv4.
func parseAddr(a nlattr.Attr) (ip netip.Addr, ok bool) {
	switch n := len(a.Data); {
	case n >= 16:
		return netip.AddrFrom16([16]byte(a.Data)), true
	case n >= 4:
		return netip.AddrFrom4([4]byte(a.Data)), true
	}
	return netip.Addr{}, false
}

// liberalU32 reads a number that the kernel takes whatever the length is.
func liberalU32(a nlattr.Attr) uint32 {
	var b [4]byte
	copy(b[:], a.Data)
	return nlattr.Attr{Data: b[:]}.U32()
}

// exact reads a number of n bytes into set, if it is there.
func exact(attrs nlattr.Attrs, t uint16, n int, text string, set func(nlattr.Attr)) error {
	a, ok := attrs.Get(t)
	if !ok {
		return nil
	}
	if len(a.Data) != n {
		return nlattr.Errf(unix.EINVAL, "%s", text)
	}
	set(a)
	return nil
}

// parseFDB reads the attributes of RTM_NEWNEIGH and RTM_DELNEIGH. exists looks
// for an interface where the device lives.
func (d *Device) parseFDB(attrs nlattr.Attrs, exists func(int) bool) (p parsed, err error) {
	p.id = identity{ip: anyLike(d.cfg.Remote), port: d.cfg.Port, vni: d.cfg.VNI}
	p.srcVNI = d.cfg.VNI
	if attrs.Has(uapi.NDANhID) && (attrs.Has(uapi.NDADst) || attrs.Has(uapi.NDAVNI) ||
		attrs.Has(uapi.NDAIfindex) || attrs.Has(uapi.NDAPort)) {
		return p, nlattr.Errf(unix.EINVAL, "DST, VNI, ifindex and port are mutually exclusive with NH_ID")
	}
	if a, ok := attrs.Get(uapi.NDADst); ok {
		if p.id.ip, ok = parseAddr(a); !ok {
			return p, nlattr.Errf(unix.EAFNOSUPPORT, "Unsupported address family")
		}
	}
	if err := exact(attrs, uapi.NDAPort, 2, "Invalid vxlan port", func(a nlattr.Attr) { p.id.port = a.BE16() }); err != nil {
		return p, err
	}
	if err := exact(attrs, uapi.NDAVNI, 4, "Invalid vni", func(a nlattr.Attr) { p.id.vni = a.U32() }); err != nil {
		return p, err
	}
	if err := exact(attrs, uapi.NDASrcVNI, 4, "Invalid src vni", func(a nlattr.Attr) { p.srcVNI = a.U32() }); err != nil {
		return p, err
	}
	if err := exact(attrs, uapi.NDAIfindex, 4, "Invalid ifindex", func(a nlattr.Attr) { p.id.ifindex = a.U32() }); err != nil {
		return p, err
	}
	if attrs.Has(uapi.NDAIfindex) && (exists == nil || !exists(int(int32(p.id.ifindex)))) {
		return p, nlattr.Errf(unix.EADDRNOTAVAIL, "Device not found")
	}
	if a, ok := attrs.Get(uapi.NDANhID); ok {
		p.nhid = liberalU32(a)
	}
	return p, nil
}

// lladdr returns the address that a request is about. rtnetlink has checked it.
func lladdr(attrs nlattr.Attrs) (uapi.MAC, error) {
	a, ok := attrs.Get(uapi.NDALLAddr)
	if !ok || len(a.Data) != 6 {
		return 0, nlattr.Errf(unix.EINVAL, "invalid address")
	}
	return uapi.MACFrom(a.Data), nil
}

// FDBAdd is RTM_NEWNEIGH for the device itself (vxlan_fdb_add). attrs are the
// attributes behind ndm, nlflags those of the nlmsghdr, and exists looks for an
// interface in the namespace that the device lives in.
func (d *Device) FDBAdd(ndm uapi.Ndmsg, nlflags uint16, attrs nlattr.Attrs, exists func(ifindex int) bool) error {
	if d.cfg.GPE {
		return nlattr.Errf(unix.EINVAL, "FDB add only supported for Ethernet devices")
	}
	mac, err := lladdr(attrs)
	if err != nil {
		return err
	}
	if ndm.State&(uapi.NUDPermanent|uapi.NUDReachable) == 0 {
		return nlattr.Errno(unix.EINVAL)
	}
	if !attrs.Has(uapi.NDADst) && !attrs.Has(uapi.NDANhID) {
		return nlattr.Errno(unix.EINVAL)
	}
	p, err := d.parseFDB(attrs, exists)
	if err != nil {
		return err
	}
	if p.id.ip.Is4() != d.cfg.Remote.Is4() {
		return nlattr.Errno(unix.EAFNOSUPPORT)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(request{
		mac: mac, srcVNI: p.srcVNI, id: p.id, nhid: p.nhid,
		state: ndm.State, flags: uint16(ndm.Flags) | flagUser, nl: nlflags,
	})
}

// FDBDel is RTM_DELNEIGH for the device itself (vxlan_fdb_delete). exists is as
// for FDBAdd.
func (d *Device) FDBDel(_ uapi.Ndmsg, attrs nlattr.Attrs, exists func(ifindex int) bool) error {
	if d.cfg.GPE {
		return nlattr.Errf(unix.EINVAL, "FDB delete only supported for Ethernet devices")
	}
	mac, err := lladdr(attrs)
	if err != nil {
		return err
	}
	p, err := d.parseFDB(attrs, exists)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove(mac, p.srcVNI, p.id)
}
