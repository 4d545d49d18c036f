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
	items   []nlattr.Attr // all but flags and mode
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
		default:
			s.items = append(s.items, in)
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
		if d.port == nil && !spec.present {
			return nlattr.Errno(unix.EINVAL)
		}
		changed, err := checkItems(d.port, spec.items, true)
		if (changed || hasProt) && d.port != nil {
			bridgeHooks{r.ns}.PortChanged(d.port, false)
		}
		return err
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
	return r.bridgeChange(func(d *device, spec afSpec, _ nlattr.Attrs) error {
		changed, err := checkItems(d.port, spec.items, false)
		if changed {
			bridgeHooks{r.ns}.PortChanged(d.port, false)
		}
		if err != nil {
			// br_dellink has no extended ack.
			return nlattr.Errno(nlattr.AsError(err).Errno)
		}
		return nil
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
	if spec.flags != 0 && spec.flags&uapi.BridgeFlagsMaster == 0 {
		return false, nlattr.Errno(unix.EOPNOTSUPP)
	}
	return false, nil
}

// checkItems makes the checks that a bridge without VLAN filtering, MRP, CFM and MST
// makes too (br_afspec), then refuses. p is nil for the bridge itself. changed tells
// that the port is to be announced, error or not.
func checkItems(p *bridge.Port, items []nlattr.Attr, set bool) (changed bool, err error) {
	begun := false
	var start uint16
	for _, a := range items {
		switch a.Type {
		case uapi.IFLABridgeVLANInfo:
		case uapi.IFLABridgeVLANTunnelInfo:
			if err := checkTunnelInfo(p, a); err != nil {
				return changed, err
			}
			changed = true
			continue
		case iflaBridgeMRP, iflaBridgeCFM:
			return changed, nlattr.Errno(unix.EOPNOTSUPP)
		case uapi.IFLABridgeMST:
			if p == nil || !set {
				return changed, nlattr.Errno(unix.EINVAL)
			}
			return changed, nlattr.Errno(unix.EOPNOTSUPP)
		default:
			continue
		}
		if len(a.Data) != 4 {
			return changed, nlattr.Errno(unix.EINVAL)
		}
		flags, vid := a.U16(), nlattr.Attr{Data: a.Data[2:]}.U16()
		if vid == 0 || vid >= 4095 {
			return changed, nlattr.Errf(unix.EINVAL, "bridge: Vlan id is invalid")
		}
		if err := checkRange(flags, vid, begun, start); err != nil {
			return changed, err
		}
		if flags&vlanRangeBegin != 0 {
			begun, start = true, vid
			continue
		}
		begun = false
		if set {
			return changed, nlattr.Errno(unix.EOPNOTSUPP)
		}
	}
	return changed, nil
}

// checkTunnelInfo is br_parse_vlan_tunnel_info. A mapping that is well-formed is
// accepted and forgotten, as by a kernel without VLAN filtering.
func checkTunnelInfo(p *bridge.Port, a nlattr.Attr) error {
	if p == nil || !p.VLANTunnel() {
		return nlattr.Errno(unix.EINVAL)
	}
	const tunnelID, tunnelVID, tunnelFlags = 1, 2, 3
	in := a.Nest()
	policy := nlattr.Policy{tunnelID: {Kind: nlattr.U32}, tunnelVID: {Kind: nlattr.U16}, tunnelFlags: {Kind: nlattr.U16}}
	if err := policy.Validate(in, 0, nlattr.Liberal); err != nil {
		return nlattr.Errno(nlattr.AsError(err).Errno)
	}
	vid, ok := in.Get(tunnelVID)
	switch {
	case !ok || !in.Has(tunnelID):
		return nlattr.Errno(unix.EINVAL)
	case vid.U16() >= 4095:
		return nlattr.Errno(unix.ERANGE)
	}
	return nil
}

// IFLA_BRIDGE_MRP and _CFM (uapi/linux/if_bridge.h).
const (
	iflaBridgeMRP = 4
	iflaBridgeCFM = 5
)

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
