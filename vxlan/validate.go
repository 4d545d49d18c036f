package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Limits of numbers in IFLA_INFO_DATA and of MTUs (ETH_MIN_MTU, ETH_MAX_MTU).
const (
	vniLimit = 1 << 24
	minMTU   = 68
	maxMTU   = 65535
)

// atMost is a strictly validated number in 0..hi, as attributes from
// IFLA_VXLAN_LOCALBYPASS on are.
func atMost(k nlattr.Kind, hi int64) nlattr.Rule {
	return nlattr.Rule{Kind: k, Ranged: true, Max: hi, Strict: true}
}

// infoPolicy mirrors vxlan_policy of IFLA_INFO_DATA.
func infoPolicy() nlattr.Policy {
	p := nlattr.Policy{
		unix.IFLA_VXLAN_GROUP:        {Len: 4},
		unix.IFLA_VXLAN_LOCAL:        {Len: 4},
		unix.IFLA_VXLAN_GROUP6:       {Len: 16},
		unix.IFLA_VXLAN_LOCAL6:       {Len: 16},
		unix.IFLA_VXLAN_PORT_RANGE:   {Len: 4},
		unix.IFLA_VXLAN_PORT:         {Kind: nlattr.U16},
		unix.IFLA_VXLAN_LOCALBYPASS:  atMost(nlattr.U8, 1),
		unix.IFLA_VXLAN_LABEL_POLICY: atMost(nlattr.U32, 1),
		uapi.IFLAVXLANMCRoute:        atMost(nlattr.U8, 1),
		uapi.IFLAVXLANReservedBits:   {Kind: nlattr.Binary, Len: 8, Exact: true, Strict: true},
	}
	for _, t := range []uint16{
		unix.IFLA_VXLAN_ID, unix.IFLA_VXLAN_LINK, unix.IFLA_VXLAN_AGEING, unix.IFLA_VXLAN_LIMIT, unix.IFLA_VXLAN_LABEL,
	} {
		p[t] = nlattr.Rule{Kind: nlattr.U32}
	}
	for _, t := range []uint16{
		unix.IFLA_VXLAN_TTL, unix.IFLA_VXLAN_TOS, unix.IFLA_VXLAN_LEARNING, unix.IFLA_VXLAN_PROXY,
		unix.IFLA_VXLAN_RSC, unix.IFLA_VXLAN_L2MISS, unix.IFLA_VXLAN_L3MISS, unix.IFLA_VXLAN_UDP_CSUM,
		unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, unix.IFLA_VXLAN_REMCSUM_TX,
		unix.IFLA_VXLAN_REMCSUM_RX, unix.IFLA_VXLAN_COLLECT_METADATA, unix.IFLA_VXLAN_DF, unix.IFLA_VXLAN_VNIFILTER,
	} {
		p[t] = nlattr.Rule{Kind: nlattr.U8}
	}
	for _, t := range []uint16{
		unix.IFLA_VXLAN_GBP, unix.IFLA_VXLAN_GPE, unix.IFLA_VXLAN_REMCSUM_NOPARTIAL, unix.IFLA_VXLAN_TTL_INHERIT,
	} {
		p[t] = nlattr.Rule{Kind: nlattr.Flag}
	}
	return p
}

// CheckLink checks the attributes of the link message itself that the driver
// has a say in (the first half of vxlan_validate). outer are the attributes
// beside IFLA_LINKINFO.
func CheckLink(outer nlattr.Attrs) error {
	if a, ok := outer.Get(unix.IFLA_ADDRESS); ok {
		if len(a.Data) != 6 {
			return nlattr.ErrAttr(unix.EINVAL, a, "Provided link layer address is not Ethernet")
		}
		if !uapi.MACFrom(a.Data).ValidUnicast() {
			return nlattr.ErrAttr(unix.EADDRNOTAVAIL, a, "Provided Ethernet address is not unicast")
		}
	}
	if a, ok := outer.Get(unix.IFLA_MTU); ok {
		if mtu := a.U32(); mtu < minMTU || mtu > maxMTU {
			return nlattr.ErrAttr(unix.EINVAL, a, "MTU must be between 68 and 65535")
		}
	}
	return nil
}

// Validate is what rtnetlink asks of the driver before it looks for the device,
// for a new link as for a changed one: the policy of IFLA_INFO_DATA and
// vxlan_validate. data are its attributes, has tells whether it was there, outer
// are the link message's own attributes.
func Validate(data nlattr.Attrs, has bool, outer nlattr.Attrs) error {
	if err := infoPolicy().Validate(data, 0, nlattr.Liberal); err != nil {
		return err
	}
	if err := CheckLink(outer); err != nil {
		return err
	}
	if !has {
		return nlattr.Errf(unix.EINVAL, "Required attributes not provided to perform the operation")
	}
	if a, ok := data.Get(unix.IFLA_VXLAN_ID); ok && a.U32() >= vniLimit {
		return nlattr.ErrAttr(unix.ERANGE, a, "VXLAN ID must be lower than 16777216")
	}
	if a, ok := data.Get(unix.IFLA_VXLAN_PORT_RANGE); ok {
		if low, high := portRange(a); high < low {
			return nlattr.ErrAttr(unix.EINVAL, a, "Invalid source port range")
		}
	}
	if a, ok := data.Get(unix.IFLA_VXLAN_DF); ok && a.U8() > 2 {
		return nlattr.ErrAttr(unix.EINVAL, a, "Invalid DF attribute")
	}
	return nil
}

// linkLocal tells whether ipv6_addr_type has IPV6_ADDR_LINKLOCAL: of multicast
// addresses those of that scope.
func linkLocal(a netip.Addr) bool {
	if a.IsMulticast() {
		return a.Is6() && a.As16()[1]&0xf == 2
	}
	return a.Is6() && a.IsLinkLocalUnicast()
}

// settle completes c with what follows from its addresses and ports, and
// checks the combinations that need nobody else (first half of
// vxlan_config_validate).
func (c *Config) settle() error {
	if c.GPE && (!c.CollectMetadata || c.Learning || c.Proxy || c.RSC || c.L2Miss || c.L3Miss || c.GBP ||
		c.TTLInherit || c.RemCsumTX || c.RemCsumRX || c.RemCsumNoPartial) {
		return nlattr.Errf(unix.EINVAL, "VXLAN GPE does not support this combination of attributes")
	}
	switch {
	case !c.Remote.IsValid() && !c.Local.IsValid():
		c.Remote, c.Local = netip.IPv4Unspecified(), netip.IPv4Unspecified()
	case !c.Remote.IsValid():
		c.Remote = anyLike(c.Local)
	case !c.Local.IsValid():
		c.Local = anyLike(c.Remote)
	}
	if c.Remote.Is4() != c.Local.Is4() {
		return nlattr.Errf(unix.EINVAL, "Local and remote address must be from the same family")
	}
	if c.Local.IsMulticast() {
		return nlattr.Errf(unix.EINVAL, "Local address cannot be multicast")
	}
	if c.IPv6() {
		if err := c.settleScope(); err != nil {
			return err
		}
	}
	if c.Label != 0 && !c.IPv6() {
		return nlattr.Errf(unix.EINVAL, "Label attribute only applies to IPv6 VXLAN devices")
	}
	if c.LabelPolicy != 0 && !c.IPv6() {
		return nlattr.Errf(unix.EINVAL, "Label policy only applies to IPv6 VXLAN devices")
	}
	return nil
}

func (c *Config) settleScope() error {
	if c.CollectMetadata {
		return nil
	}
	bad := nlattr.Errf(unix.EINVAL, "Invalid combination of local and remote address scopes")
	if linkLocal(c.Local) {
		if !linkLocal(c.Remote) && !c.Remote.IsUnspecified() {
			return bad
		}
		c.linkLocal = true
		return nil
	}
	if linkLocal(c.Remote) && !c.Remote.IsMulticast() {
		return bad
	}
	c.linkLocal = false
	return nil
}

func anyLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// check makes the cross-checks of vxlan_config_validate that need the other
// links and devices. self is the device that changes, nil for a new one.
func (r *Registry) check(c *Config, self *Device) error {
	if c.Link != 0 {
		low, ok := r.lower(c.Link)
		if !ok {
			return nlattr.Errf(unix.ENODEV, "Invalid local interface, device not found")
		}
		if c.IPv6() && low.NoIPv6 {
			return nlattr.Errf(unix.EPERM, "IPv6 support disabled by administrator")
		}
	} else if c.Remote.IsMulticast() {
		return nlattr.Errf(unix.EINVAL, "Local interface required for multicast remote destination")
	} else if c.linkLocal {
		return nlattr.Errf(unix.EINVAL, "Local interface required for link-local local/remote addresses")
	}
	if r.inUse(c, c.VNI, self) {
		return nlattr.Errf(unix.EEXIST, "A VXLAN device with the specified VNI already exists")
	}
	return nil
}
