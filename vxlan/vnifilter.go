package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Attributes of tunnel messages (VXLAN_VNIFILTER_* in uapi/linux/if_link.h).
const (
	attrEntry = 1

	entryStart  = 1
	entryEnd    = 2
	entryGroup  = 3
	entryGroup6 = 4
	entryStats  = 5
)

// CheckTunnel is the policy of RTM_NEWTUNNEL and RTM_DELTUNNEL, which comes
// before the device is looked up. attrs are what follows struct tunnel_msg and
// leftover what nlattr.Parse left of it.
func CheckTunnel(attrs nlattr.Attrs, leftover int) error {
	p := nlattr.Policy{attrEntry: {Kind: nlattr.Nested}}
	return p.Validate(attrs, leftover, nlattr.Strict)
}

// vniEntry is an entry of a request: a range of VNIs and their remote.
type vniEntry struct {
	start, end uint32
	remote     netip.Addr // the zero Addr if there was none
}

// parseVNIEntry mirrors the parsing of vxlan_process_vni_filter.
func (d *Device) parseVNIEntry(a nlattr.Attr) (e vniEntry, err error) {
	p := nlattr.Policy{
		entryStart: {Kind: nlattr.U32}, entryEnd: {Kind: nlattr.U32}, entryStats: {},
		entryGroup: {Kind: nlattr.Binary, Len: 4}, entryGroup6: {Kind: nlattr.Binary, Len: 16},
	}
	attrs, left := nlattr.Parse(a.Data, a.Off+nlattr.HeaderLen)
	if err := p.Validate(attrs, left, nlattr.Strict); err != nil {
		return e, err
	}
	if v, ok := attrs.Get(entryStart); ok {
		e.start, e.end = v.U32(), v.U32()
	}
	if v, ok := attrs.Get(entryEnd); ok {
		e.end = v.U32()
	}
	if e.start == 0 && e.end == 0 {
		return e, nlattr.ErrAttr(unix.EINVAL, a, "vni start nor end found in vni entry")
	}
	if v, ok := attrs.Get(entryGroup); ok {
		var ip [4]byte
		copy(ip[:], v.Data)
		e.remote = netip.AddrFrom4(ip)
	} else if v, ok := attrs.Get(entryGroup6); ok {
		var ip [16]byte
		copy(ip[:], v.Data)
		e.remote = netip.AddrFrom16(ip)
	}
	if e.remote.IsMulticast() && d.lower == 0 {
		return e, nlattr.Errf(unix.EINVAL, "Local interface required for multicast remote group")
	}
	return e, nil
}

// VNIRequest is RTM_NEWTUNNEL or RTM_DELTUNNEL, as typ says, for this device
// (vxlan_vnifilter_process). CheckTunnel has seen attrs. What was done before an
// error stays.
func (d *Device) VNIRequest(typ uint16, attrs nlattr.Attrs) error {
	if !d.cfg.VNIFilter {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	found := false
	for _, a := range attrs {
		if a.Type != attrEntry {
			continue
		}
		found = true
		e, err := d.parseVNIEntry(a)
		if err != nil {
			return err
		}
		// 64 bits so that a range up to the last number ends.
		for v := uint64(e.start); v <= uint64(e.end); v++ {
			if typ == unix.RTM_NEWTUNNEL {
				err = d.addVNI(uint32(v), e.remote)
			} else {
				err = d.delVNI(uint32(v))
			}
			if err != nil {
				return err
			}
		}
	}
	if !found {
		return nlattr.Errf(unix.EINVAL, "vxlan: No vnis found to process")
	}
	return nil
}

// addVNI adds a VNI or changes the remote of one that is there (vxlan_vni_add).
func (d *Device) addVNI(vni uint32, remote netip.Addr) error {
	n := d.vnis.get(vni)
	if n != nil {
		changed, err := d.setRemote(n, remote)
		if changed {
			d.tellVNI(unix.RTM_NEWTUNNEL, n)
		}
		return err
	}
	if d.reg.inUse(&d.cfg, vni, d) {
		return nlattr.Errf(unix.EEXIST, "VNI in use")
	}
	n = &vniNode{vni: vni}
	d.vnis.add(n)
	for _, s := range d.sockets {
		s.listen(vni, d)
	}
	_, err := d.setRemote(n, remote)
	d.tellVNI(unix.RTM_NEWTUNNEL, n)
	return err
}

// setRemote makes the VNI's default entry lead to remote or, without one, to the
// device's. A former remote of the VNI's own goes only where none takes its
// place, as in vxlan_vni_update_group.
func (d *Device) setRemote(n *vniNode, remote netip.Addr) (changed bool, err error) {
	next := remote
	if !next.IsValid() || next.IsUnspecified() {
		next = d.cfg.Remote
	}
	var old netip.Addr
	if next.IsUnspecified() && n.own() {
		old = n.remote
	}
	if next.IsUnspecified() && !old.IsValid() {
		return false, nil
	}
	d.mu.Lock()
	err = d.moveVNI(n.vni, old, next, d.lower)
	d.mu.Unlock()
	if err != nil {
		return false, err
	}
	was := n.remote
	n.remote = remote
	if d.sockets != nil && was != remote {
		d.leave(was)
		err = d.join(remote)
	}
	return true, err
}

// moveVNI adds next to a VNI's default entry and takes old out; either may be
// unspecified or invalid. d.mu is held.
func (d *Device) moveVNI(vni uint32, old, next netip.Addr, link int) error {
	if next.IsValid() && !next.IsUnspecified() {
		if err := d.update(d.defaultEntry(next, vni, vni, link, uapi.NLMAppend|uapi.NLMCreate)); err != nil {
			return err
		}
	}
	if old.IsValid() && !old.IsUnspecified() {
		q := d.defaultEntry(old, vni, vni, link, 0)
		_ = d.remove(0, vni, q.id)
	}
	return nil
}

// delVNI removes a VNI (vxlan_vni_del).
func (d *Device) delVNI(vni uint32) error {
	n := d.vnis.get(vni)
	if n == nil {
		return nlattr.Errno(unix.ENOENT)
	}
	remote := n.remote
	if !n.own() {
		remote = d.cfg.Remote
	}
	d.mu.Lock()
	_ = d.moveVNI(vni, remote, netip.Addr{}, d.lower)
	d.mu.Unlock()
	if d.sockets != nil {
		d.leave(n.remote)
	}
	d.vnis.remove(vni)
	for _, s := range d.sockets {
		s.ignore(vni, d)
	}
	d.tellVNI(unix.RTM_DELTUNNEL, n)
	return nil
}

// closeVNIs announces the end of all VNIs.
func (d *Device) closeVNIs() {
	for _, n := range d.vnis.list {
		d.tellVNI(unix.RTM_DELTUNNEL, n)
	}
	d.vnis.list = nil
}

// moveVNIs makes the VNIs without a remote of their own follow the device's to
// c's, the highest first (vxlan_vnilist_update_group). d.mu is held.
func (d *Device) moveVNIs(c *Config) error {
	for i := len(d.vnis.list) - 1; i >= 0; i-- {
		if n := d.vnis.list[i]; !n.own() {
			if err := d.moveVNI(n.vni, d.cfg.Remote, c.Remote, d.lower); err != nil {
				return err
			}
		}
	}
	return nil
}
