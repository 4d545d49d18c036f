package vxlan

import (
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

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
