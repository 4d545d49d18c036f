package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/vxlan"
)

func (ns *Namespace) bridgeEnv() bridge.Env {
	return bridge.Env{Clock: ns.clock, Notify: &ns.hub, Domain: ns.domain, Hooks: bridgeHooks{ns}, Lookup: ns.lookup, Log: ns.log}
}

// lookup tells bridges what a device is to them.
func (ns *Namespace) lookup(ifindex int) (exists bool, p *bridge.Port, b *bridge.Bridge) {
	if d := ns.devs[ifindex]; d != nil {
		return true, d.port, d.br
	}
	return ns.link(ifindex, "") != nil, nil, nil
}

func (ns *Namespace) vxlanEnv() vxlan.Env {
	return vxlan.Env{
		Clock: ns.clock, Notify: &ns.hub, Domain: ns.domain, Log: ns.log,
		Sockets: ns.io, Lower: ns.lower, Hooks: vxlanHooks{ns}, Nexthops: nexthops{ns},
	}
}

// devconfDisableIPv6 is DEVCONF_DISABLE_IPV6, the index into IFLA_INET6_CONF
// (uapi/linux/ipv6.h).
const (
	iflaInet6Conf      = 2
	devconfDisableIPv6 = 26
)

// lower looks up the link that a tunnel is bound to.
func (ns *Namespace) lower(ifindex int) (vxlan.Lower, bool) {
	m := ns.link(ifindex, "")
	if m == nil {
		return vxlan.Lower{}, false
	}
	v, ok := viewLink(m)
	if !ok {
		return vxlan.Lower{}, false
	}
	s, _ := v.state()
	l := vxlan.Lower{MTU: s.MTU}
	if a, ok := v.attrs.Get(unix.IFLA_AF_SPEC); ok {
		if in, ok := a.Nest().Get(unix.AF_INET6); ok {
			if conf, ok := in.Nest().Get(iflaInet6Conf); ok && len(conf.Data) >= 4*devconfDisableIPv6+4 {
				l.NoIPv6 = ne.Uint32(conf.Data[4*devconfDisableIPv6:]) != 0
			}
		}
	}
	return l, true
}

// vxlanHooks implements vxlan.Hooks.
type vxlanHooks struct{ *Namespace }

// CheckLower implements vxlan.Hooks: a tunnel cannot be put on itself or on what
// stands on it.
func (h vxlanHooks) CheckLower(d *vxlan.Device, ifindex int) error {
	if h.standsOn(ifindex, d.Link().Ifindex, maxNesting) {
		return nlattr.Errno(unix.EBUSY)
	}
	return nil
}

// maxNesting is how deep devices may be stacked (MAX_NEST_DEV).
const maxNesting = 8

// standsOn tells whether the device upper is lower or stands on it, directly or on
// others in between (__netdev_has_upper_dev).
func (ns *Namespace) standsOn(upper, lower, depth int) bool {
	if upper == lower {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, l := range ns.lowers(upper) {
		if ns.standsOn(l, lower, depth-1) {
			return true
		}
	}
	return false
}

// lowers returns the devices that a device stands on.
func (ns *Namespace) lowers(ifindex int) (out []int) {
	d := ns.devs[ifindex]
	switch {
	case d != nil && d.br != nil:
		for _, p := range d.br.Ports() {
			out = append(out, p.Ifindex())
		}
		return out
	case d != nil && d.vx != nil:
		if l := d.vx.Lower(); l != 0 {
			out = append(out, l)
		}
		return out
	}
	m := ns.link(ifindex, "")
	if m == nil {
		return nil
	}
	v, _ := viewLink(m)
	info, _ := v.attrs.Get(unix.IFLA_LINKINFO)
	kind, _ := info.Nest().Get(unix.IFLA_INFO_KIND)
	switch kind.Text() {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec":
		if a, ok := v.attrs.Get(unix.IFLA_LINK); ok && !v.attrs.Has(unix.IFLA_LINK_NETNSID) {
			out = append(out, int(a.U32()))
		}
	}
	return out
}

// SetMTU implements vxlan.Hooks.
func (h vxlanHooks) SetMTU(v *vxlan.Device, mtu int) {
	d := h.devs[v.Link().Ifindex]
	if d == nil {
		return
	}
	h.setQuietly(d.ifindex, unix.IFLA_MTU, ne.AppendUint32(nil, uint32(min(mtu, tapMaxMTU))))
	d.state.MTU = mtu
	d.applyBigMTU(mtu)
	v.LinkChanged(d.state)
}
