package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// RTEXT_FILTER_* with which bridges appear in an AF_BRIDGE link dump
// (uapi/linux/rtnetlink.h): BRVLAN, BRVLAN_COMPRESSED, MRP, CFM_CONFIG,
// CFM_STATUS.
const extMaskBridges = 2 | 4 | 16 | 32 | 64

// bridgeLinkDump handles RTM_GETLINK of AF_BRIDGE (rtnl_bridge_getlink): the
// kernel's own ports and then ours.
func (r *request) bridgeLinkDump() (bool, error) {
	var mask uint32
	if len(r.body()) >= uapi.IfinfomsgLen {
		as, _ := r.attrs(uapi.IfinfomsgLen)
		if a, ok := as.Get(unix.IFLA_EXT_MASK); ok {
			mask = a.U32()
		}
	}
	return r.merge(nil, func(d *dumper) {
		for _, dev := range r.ns.byIndex() {
			if dev.port != nil || dev.br != nil && mask&extMaskBridges != 0 {
				d.row(unix.RTM_NEWLINK, r.ns.bridgeLink(nil, dev, true))
			}
		}
	})
}

// afSpec is what IFLA_AF_SPEC of an AF_BRIDGE request says.
type afSpec struct {
	present bool
	flags   uint16
	vlans   []nlattr.Attr
}

// parseAFSpec scans IFLA_AF_SPEC as rtnl_bridge_setlink does: the first
// IFLA_BRIDGE_FLAGS counts.
func parseAFSpec(as nlattr.Attrs) (s afSpec, err error) {
	a, ok := as.Get(unix.IFLA_AF_SPEC)
	if !ok {
		return s, nil
	}
	s.present = true
	hasFlags := false
	for _, in := range a.Nest() {
		switch in.Type {
		case uapi.IFLABridgeFlags:
			if hasFlags {
				continue
			}
			if len(in.Data) < 2 {
				return s, nlattr.Errno(unix.EINVAL)
			}
			hasFlags, s.flags = true, in.U16()
		case uapi.IFLABridgeMode:
			if len(in.Data) < 2 {
				return s, nlattr.Errno(unix.EINVAL)
			}
		case uapi.IFLABridgeVLANInfo, uapi.IFLABridgeVLANTunnelInfo:
			s.vlans = append(s.vlans, in)
		}
	}
	return s, nil
}

// bridgeSetLink handles RTM_SETLINK of AF_BRIDGE (rtnl_bridge_setlink,
// br_setlink).
func (r *request) bridgeSetLink() (bool, error) {
	return r.bridgeChange(func(d *device, spec afSpec, as nlattr.Attrs) error {
		prot, hasProt := as.Get(unix.IFLA_PROTINFO)
		if !hasProt && !spec.present {
			return nil
		}
		if hasProt && d.port != nil {
			if err := setProtinfo(d.port, prot); err != nil {
				return err
			}
		}
		if spec.present {
			if err := checkVLANs(spec.vlans, true); err != nil {
				return err
			}
		}
		if d.port == nil && !spec.present {
			return nlattr.Errno(unix.EINVAL)
		}
		if hasProt && d.port != nil {
			bridgeHooks{r.ns}.PortChanged(d.port, false)
		}
		return nil
	})
}

// setProtinfo applies IFLA_PROTINFO: a nest, or one byte of spanning tree state
// from old clients.
func setProtinfo(p *bridge.Port, a nlattr.Attr) error {
	if a.Nested {
		// br_setlink parses without an extended ack: no text for a bad length.
		if err := bridge.CheckPortInfo(a.Nest()); err != nil {
			return nlattr.Errno(nlattr.AsError(err).Errno)
		}
		return p.SetInfo(a.Nest())
	}
	if len(a.Data) < 1 {
		return nlattr.Errno(unix.EINVAL)
	}
	return p.SetSTPState(a.U8())
}

// bridgeDelLink handles RTM_DELLINK of AF_BRIDGE (rtnl_bridge_dellink,
// br_dellink), which takes VLANs away.
func (r *request) bridgeDelLink() (bool, error) {
	if r.flags&uapi.NLMBulk != 0 {
		return r.pass()
	}
	return r.bridgeChange(func(_ *device, spec afSpec, _ nlattr.Attrs) error {
		return checkVLANs(spec.vlans, false)
	})
}

// bridgeChange dispatches an AF_BRIDGE change to the master's side and to the
// device's own.
func (r *request) bridgeChange(apply func(d *device, spec afSpec, as nlattr.Attrs) error) (bool, error) {
	if len(r.body()) < uapi.IfinfomsgLen {
		return r.pass()
	}
	d := r.ns.devs[int(uapi.ParseIfinfomsg(r.body()).Index)]
	if d == nil {
		return r.pass()
	}
	as, _ := r.attrs(uapi.IfinfomsgLen)
	spec, err := parseAFSpec(as)
	if err != nil {
		return false, err
	}
	if spec.flags == 0 || spec.flags&uapi.BridgeFlagsMaster != 0 {
		if d.port == nil {
			return false, nlattr.Errno(unix.EOPNOTSUPP)
		}
		if err := apply(d, spec, as); err != nil {
			return false, err
		}
	}
	if spec.flags&uapi.BridgeFlagsSelf != 0 {
		if d.br == nil {
			return false, nlattr.Errno(unix.EOPNOTSUPP)
		}
		return false, apply(d, spec, as)
	}
	return false, nil
}

// checkVLANs makes the checks that a bridge without VLAN filtering makes too
// (br_afspec, br_process_vlan_info), then refuses to add.
func checkVLANs(vlans []nlattr.Attr, add bool) error {
	begun := false
	var start uint16
	for _, a := range vlans {
		if a.Type == uapi.IFLABridgeVLANTunnelInfo {
			return nlattr.Errno(unix.EINVAL)
		}
		if len(a.Data) != 4 {
			return nlattr.Errno(unix.EINVAL)
		}
		flags, vid := a.U16(), nlattr.Attr{Data: a.Data[2:]}.U16()
		if vid == 0 || vid >= 4095 {
			return nlattr.Errf(unix.EINVAL, "bridge: Vlan id is invalid")
		}
		if err := checkRange(flags, vid, begun, start); err != nil {
			return err
		}
		if flags&vlanRangeBegin != 0 {
			begun, start = true, vid
			continue
		}
		begun = false
		if add {
			return nlattr.Errno(unix.EOPNOTSUPP)
		}
	}
	return nil
}

// BRIDGE_VLAN_INFO_* (uapi/linux/if_bridge.h).
const (
	vlanPVID       = 2
	vlanRangeBegin = 8
	vlanRangeEnd   = 16
)

// checkRange is br_vlan_valid_range.
func checkRange(flags, vid uint16, begun bool, start uint16) error {
	switch {
	case flags&vlanPVID != 0 && (begun || flags&(vlanRangeBegin|vlanRangeEnd) != 0) && (flags&vlanRangeBegin != 0 || begun):
		return nlattr.Errf(unix.EINVAL, "bridge: Pvid isn't allowed in a range")
	case begun && flags&vlanRangeBegin != 0:
		return nlattr.Errf(unix.EINVAL, "bridge: Found a new vlan range start while processing one")
	case begun && flags&vlanRangeEnd == 0:
		return nlattr.Errf(unix.EINVAL, "bridge: Vlan range end flag is missing")
	case begun && vid <= start:
		return nlattr.Errf(unix.EINVAL, "bridge: End vlan id is less than or equal to start vlan id")
	}
	return nil
}
