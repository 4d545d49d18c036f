package vxlan

import (
	"encoding/binary"
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Default UDP ports: what Linux used before IANA assigned 4789 (the module
// parameter udp_port), and the one of VXLAN-GPE.
const (
	defaultPort    = 8472
	defaultGPEPort = 4790
)

// defaultAgeing is FDB_AGE_DEFAULT in seconds.
const defaultAgeing = 300

// Values of Config.DF (enum ifla_vxlan_df).
const (
	DFUnset = iota
	DFSet
	DFInherit
)

// Config is a device's configuration as IFLA_INFO_DATA gave it, defaults filled
// in (struct vxlan_config).
type Config struct {
	VNI uint32
	// Remote and Local are always valid and of one family; the unspecified
	// address stands for none.
	Remote, Local netip.Addr
	// Link is the interface below, 0 for none.
	Link     int
	TTL, TOS uint8
	// Label is a flow label, LabelPolicy an enum ifla_vxlan_label_policy.
	Label, LabelPolicy uint32
	// Ageing is in seconds. Limit is a number of entries, 0 for no limit.
	Ageing, Limit uint32
	// PortLow and PortHigh are the range of source ports, 0 for the system's.
	PortLow, PortHigh uint16
	// Port is the UDP port, in host byte order.
	Port uint16
	// DF is one of DFUnset, DFSet, DFInherit.
	DF uint8
	// ReservedBits are the bits of a received header that must be zero, in the
	// header's byte order.
	ReservedBits uint64
	// MTU is what IFLA_MTU asked for, 0 if it did not.
	MTU int

	Learning, Proxy, RSC, L2Miss, L3Miss      bool
	TTLInherit, CollectMetadata, VNIFilter    bool
	UDPCsum, ZeroCsum6TX, ZeroCsum6RX         bool
	RemCsumTX, RemCsumRX, RemCsumNoPartial    bool
	GBP, GPE, LocalBypass, MCRoute, linkLocal bool
}

// IPv6 tells whether the outer header is IPv6.
func (c *Config) IPv6() bool { return c.Remote.Is6() }

// External tells whether the device is steered by metadata
// (IFLA_VXLAN_COLLECT_METADATA).
func (c *Config) External() bool { return c.CollectMetadata }

// recvFlags are the flags that devices on one socket share (VXLAN_F_RCV_FLAGS).
type recvFlags struct {
	gbp, gpe, zeroCsum6RX, remCsumRX, noPartial, metadata, vniFilter bool
}

func (c *Config) recvFlags() recvFlags {
	return recvFlags{c.GBP, c.GPE, c.ZeroCsum6RX, c.RemCsumRX, c.RemCsumNoPartial, c.CollectMetadata, c.VNIFilter}
}

// Overhead returns how many bytes a frame grows on its way out, outer Ethernet
// header not included but the inner one (vxlan_headroom).
func (c *Config) Overhead() int {
	n := 20 + 8 + headerLen + 14
	if c.IPv6() {
		n += 20
	}
	if c.GPE {
		n -= 14
	}
	return n
}

// InitialMTU returns the MTU of a new device over a link of MTU lowerMTU, which
// is 0 where there is none (vxlan_config_apply).
func InitialMTU(c Config, lowerMTU int) int {
	mtu, limit := c.MTU, maxMTU
	if lowerMTU > 0 {
		limit = max(lowerMTU-c.Overhead(), minMTU)
		if mtu == 0 {
			mtu = limit
		}
	}
	if mtu == 0 {
		mtu = 1500
	}
	return min(mtu, limit)
}

func portRange(a nlattr.Attr) (low, high uint16) {
	if len(a.Data) < 4 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(a.Data), binary.BigEndian.Uint16(a.Data[2:])
}

// ParseConfig validates IFLA_INFO_DATA and turns it into a configuration
// (vxlan_validate, vxlan_nl2conf and the part of vxlan_config_validate that
// needs no other device; Registry.Check does the rest). data are its attributes
// and has tells whether it was there; outer are the attributes of the link
// message. old is the configuration of the device that changes, nil for a new
// one.
func ParseConfig(data nlattr.Attrs, has bool, outer nlattr.Attrs, old *Config) (Config, error) {
	if err := Validate(data, has, outer); err != nil {
		return Config{}, err
	}
	p := parser{data: data, outer: outer, change: old != nil}
	if old != nil {
		p.c = *old
	} else {
		p.c = Config{Learning: true, UDPCsum: true, LocalBypass: true}
	}
	if err := p.parse(); err != nil {
		return Config{}, err
	}
	if err := p.c.settle(); err != nil {
		return Config{}, err
	}
	if p.c.Port == 0 {
		p.c.Port = defaultPort
		if p.c.GPE {
			p.c.Port = defaultGPEPort
		}
	}
	return p.c, nil
}

// parser is vxlan_nl2conf: it fills c from data, in the kernel's order.
type parser struct {
	data, outer nlattr.Attrs
	change      bool
	c           Config
	err         error
}

// refuse records that a changed link may not have the attribute. The kernel
// points at the link message's own attribute of the same number.
func (p *parser) refuse(t uint16, text string) {
	if p.err != nil {
		return
	}
	a, _ := p.outer.Get(t)
	p.err = nlattr.ErrAttr(unix.EOPNOTSUPP, a, "%s", text)
}

// flag reads an attribute that only a new link may have if name is not empty.
func (p *parser) flag(t uint16, name string, to *bool) {
	a, ok := p.data.Get(t)
	if !ok || p.err != nil {
		return
	}
	if p.change && name != "" {
		p.refuse(t, "vxlan: cannot change "+name)
		return
	}
	*to = len(a.Data) == 0 || a.U8() != 0
}

func (p *parser) u32(t uint16, to *uint32) {
	if a, ok := p.data.Get(t); ok {
		*to = a.U32()
	}
}

func (p *parser) u8(t uint16, to *uint8) {
	if a, ok := p.data.Get(t); ok {
		*to = a.U8()
	}
}

func (p *parser) parse() error {
	p.identity()
	p.addresses()
	if p.err != nil {
		return p.err
	}
	c := &p.c
	if a, ok := p.data.Get(unix.IFLA_VXLAN_LINK); ok {
		c.Link = int(int32(a.U32()))
	}
	p.u8(unix.IFLA_VXLAN_TOS, &c.TOS)
	p.u8(unix.IFLA_VXLAN_TTL, &c.TTL)
	p.flag(unix.IFLA_VXLAN_TTL_INHERIT, "TTL_INHERIT flag", &c.TTLInherit)
	if a, ok := p.data.Get(unix.IFLA_VXLAN_LABEL); ok {
		c.Label = a.BE32() & 0xfffff
	}
	p.u32(unix.IFLA_VXLAN_LABEL_POLICY, &c.LabelPolicy)
	p.flag(unix.IFLA_VXLAN_LEARNING, "", &c.Learning)
	p.u32(unix.IFLA_VXLAN_AGEING, &c.Ageing)
	p.flag(unix.IFLA_VXLAN_PROXY, "PROXY flag", &c.Proxy)
	p.flag(unix.IFLA_VXLAN_RSC, "RSC flag", &c.RSC)
	p.flag(unix.IFLA_VXLAN_L2MISS, "L2MISS flag", &c.L2Miss)
	p.flag(unix.IFLA_VXLAN_L3MISS, "L3MISS flag", &c.L3Miss)
	if p.fixed(unix.IFLA_VXLAN_LIMIT, "Cannot change limit") {
		p.u32(unix.IFLA_VXLAN_LIMIT, &c.Limit)
	}
	p.flag(unix.IFLA_VXLAN_COLLECT_METADATA, "COLLECT_METADATA flag", &c.CollectMetadata)
	p.ports()
	if p.fixed(unix.IFLA_VXLAN_UDP_CSUM, "Cannot change UDP_CSUM flag") {
		p.flag(unix.IFLA_VXLAN_UDP_CSUM, "", &c.UDPCsum)
	}
	p.flag(unix.IFLA_VXLAN_LOCALBYPASS, "", &c.LocalBypass)
	p.flag(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, "UDP_ZERO_CSUM6_TX flag", &c.ZeroCsum6TX)
	p.flag(unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, "UDP_ZERO_CSUM6_RX flag", &c.ZeroCsum6RX)
	p.flag(unix.IFLA_VXLAN_REMCSUM_TX, "REMCSUM_TX flag", &c.RemCsumTX)
	p.flag(unix.IFLA_VXLAN_REMCSUM_RX, "REMCSUM_RX flag", &c.RemCsumRX)
	p.flag(unix.IFLA_VXLAN_GBP, "GBP flag", &c.GBP)
	p.flag(unix.IFLA_VXLAN_GPE, "GPE flag", &c.GPE)
	p.reserved()
	p.flag(unix.IFLA_VXLAN_REMCSUM_NOPARTIAL, "REMCSUM_NOPARTIAL flag", &c.RemCsumNoPartial)
	p.flag(uapi.IFLAVXLANMCRoute, "", &c.MCRoute)
	p.last()
	return p.err
}

// fixed reports whether attribute t may be read; it refuses to change one.
func (p *parser) fixed(t uint16, text string) bool {
	if !p.data.Has(t) || p.err != nil {
		return false
	}
	if p.change {
		p.refuse(t, text)
	}
	return !p.change
}

func (p *parser) identity() {
	if a, ok := p.data.Get(unix.IFLA_VXLAN_ID); ok {
		if p.change && a.U32() != p.c.VNI {
			p.refuse(unix.IFLA_VXLAN_ID, "Cannot change VNI")
		}
		p.c.VNI = a.U32()
	}
}

func (p *parser) addresses() {
	const group, local = "New group address family does not match old group", "New local address family does not match old"
	p.address(unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_GROUP6, group, &p.c.Remote)
	p.address(unix.IFLA_VXLAN_LOCAL, unix.IFLA_VXLAN_LOCAL6, local, &p.c.Local)
}

// address reads the IPv4 attribute or else the IPv6 one.
func (p *parser) address(t4, t6 uint16, mismatch string, to *netip.Addr) {
	t, v6, n := t4, false, 4
	if !p.data.Has(t4) {
		t, v6, n = t6, true, 16
	}
	a, ok := p.data.Get(t)
	if !ok || p.err != nil {
		return
	}
	if p.change && to.Is6() != v6 {
		p.refuse(t, mismatch)
		return
	}
	*to, _ = netip.AddrFromSlice(a.Data[:n])
}

func (p *parser) ports() {
	if p.fixed(unix.IFLA_VXLAN_PORT_RANGE, "Cannot change port range") {
		a, _ := p.data.Get(unix.IFLA_VXLAN_PORT_RANGE)
		p.c.PortLow, p.c.PortHigh = portRange(a)
	}
	if p.fixed(unix.IFLA_VXLAN_PORT, "Cannot change port") {
		a, _ := p.data.Get(unix.IFLA_VXLAN_PORT)
		p.c.Port = a.BE16()
	}
}

// reserved computes the bits of a header that must be zero. The kernel counts
// what is used from the attributes of this very message, so that any change of
// a device forgets what it was created with.
func (p *parser) reserved() {
	if p.err != nil {
		return
	}
	used := uint64(usedBits)
	if p.data.Has(unix.IFLA_VXLAN_REMCSUM_RX) {
		used |= usedRemCsum
	}
	if p.data.Has(unix.IFLA_VXLAN_GBP) {
		used |= usedGBP
	}
	if p.data.Has(unix.IFLA_VXLAN_GPE) {
		used |= usedGPE
	}
	p.c.ReservedBits = ^used
	a, ok := p.data.Get(uapi.IFLAVXLANReservedBits)
	if !ok {
		return
	}
	if p.change {
		p.err = nlattr.ErrAttr(unix.EOPNOTSUPP, a, "Cannot change reserved_bits")
		return
	}
	bits := binary.BigEndian.Uint64(a.Data)
	if bits&used != 0 {
		p.err = nlattr.ErrAttr(unix.EINVAL, a, "Used bits %#016x cannot overlap reserved bits %#016x", used, bits)
		return
	}
	p.c.ReservedBits = bits
}

func (p *parser) last() {
	if p.err != nil {
		return
	}
	if a, ok := p.outer.Get(unix.IFLA_MTU); ok {
		if p.change {
			p.err = nlattr.ErrAttr(unix.EOPNOTSUPP, a, "Cannot change mtu")
			return
		}
		p.c.MTU = int(a.U32())
	}
	p.u8(unix.IFLA_VXLAN_DF, &p.c.DF)
	p.flag(unix.IFLA_VXLAN_VNIFILTER, "flag", &p.c.VNIFilter)
	if a, ok := p.data.Get(unix.IFLA_VXLAN_VNIFILTER); ok && p.err == nil && p.c.VNIFilter && !p.c.CollectMetadata {
		p.err = nlattr.ErrAttr(unix.EINVAL, a, "vxlan vnifilter only valid in collect metadata mode")
	}
}
