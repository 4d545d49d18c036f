package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/vxlan"
)

// tunnelDevice returns the device of ours that a RTM_*TUNNEL is about, nil if it
// is the kernel's affair.
func (r *request) tunnelDevice() *device {
	if len(r.body()) < vxlan.TunnelMsgLen {
		return nil
	}
	d := r.ns.devs[int(int32(ne.Uint32(r.body()[4:])))]
	if d == nil || !d.emulated() {
		return nil
	}
	return d
}

// tunnelChange handles RTM_NEWTUNNEL and RTM_DELTUNNEL (vxlan_vnifilter_process).
func (r *request) tunnelChange() (bool, error) {
	d := r.tunnelDevice()
	if d == nil {
		return r.pass()
	}
	as, leftover := r.attrs(vxlan.TunnelMsgLen)
	if err := vxlan.CheckTunnel(as, leftover); err != nil {
		return false, err
	}
	if d.vx == nil {
		return false, nlattr.Errf(unix.EINVAL, "vxlan: The device is not a vxlan device")
	}
	return false, d.vx.VNIRequest(r.typ, as)
}

// tunnelDump handles a RTM_GETTUNNEL dump (vxlan_vnifilter_dump). A request for
// one device of ours the kernel cannot judge, one for all it can.
func (r *request) tunnelDump() (bool, error) {
	d := r.tunnelDevice()
	if d == nil {
		return r.merge(nil, func(out *dumper) {
			for _, d := range r.ns.byIndex() {
				r.vniRows(out, d)
			}
		})
	}
	if r.body()[1]&^1 != 0 {
		return r.failDump(nlattr.Errf(unix.EINVAL, "Invalid tunnelmsg flags in ancillary header"))
	}
	switch {
	case d.vx == nil:
		return r.failDump(nlattr.Errf(unix.EINVAL, "The device is not a vxlan device"))
	case !d.vx.VNIFilter():
		return r.failDump(nlattr.Errno(unix.EINVAL))
	}
	out := &dumper{r: r}
	r.vniRows(out, d)
	out.done(nil)
	return true, nil
}

func (r *request) vniRows(out *dumper, d *device) {
	if d.vx != nil && d.vx.VNIFilter() {
		d.vx.VNIDump(r.body()[1], func(body []byte) { out.row(unix.RTM_NEWTUNNEL, body) })
	}
}
