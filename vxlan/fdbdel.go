package vxlan

import (
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

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
