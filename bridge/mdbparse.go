package bridge

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// mdbAttrPolicy is what MDBA_SET_ENTRY_ATTRS may hold for a bridge
// (br_mdbe_attrs_pol).
var mdbAttrPolicy = policyUpTo(uapi.MDBEAttrStateMask, nlattr.Policy{
	uapi.MDBEAttrSource:    {Kind: nlattr.Binary, Ranged: true, Min: 4, Max: 16},
	uapi.MDBEAttrSrcList:   {Kind: nlattr.Nested},
	uapi.MDBEAttrGroupMode: {Kind: nlattr.U8, Ranged: true, Min: modeExclude, Max: modeInclude},
	uapi.MDBEAttrRTProt:    {Kind: nlattr.U8, Ranged: true, Min: rtprotStatic, Max: math.MaxUint8},
})

// mdbBulkPolicy is the same for a bulk deletion (br_mdbe_attrs_del_bulk_pol).
var mdbBulkPolicy = policyUpTo(uapi.MDBEAttrStateMask, nlattr.Policy{
	uapi.MDBEAttrRTProt:    {Kind: nlattr.U8, Ranged: true, Min: rtprotStatic, Max: math.MaxUint8},
	uapi.MDBEAttrStateMask: {Kind: nlattr.U8},
})

var mdbSrcPolicy = nlattr.Policy{1: {Kind: nlattr.Nested}}

var mdbSrcAddrPolicy = nlattr.Policy{1: {Kind: nlattr.Binary, Ranged: true, Min: 4, Max: 16}}

// policyUpTo adds rules for the types up to n that p lacks: they exist and are
// refused.
func policyUpTo(n uint16, p nlattr.Policy) nlattr.Policy {
	for t := uint16(1); t <= n; t++ {
		if _, ok := p[t]; !ok {
			p[t] = nlattr.Rule{}
		}
	}
	return p
}

// parseNest parses and strictly validates a nest, which must be marked as one.
func parseNest(a nlattr.Attr, p nlattr.Policy) (nlattr.Attrs, error) {
	if !a.Nested {
		return nil, nlattr.ErrAttr(syscall.EINVAL, a, "NLA_F_NESTED is missing")
	}
	as, left := nlattr.Parse(a.Data, a.Off+nlattr.HeaderLen)
	return as, p.Validate(as, left, nlattr.Strict)
}

// CheckMDB validates the attributes of RTM_NEWMDB and RTM_DELMDB as rtnl does
// before it looks at the device (rtnl_validate_mdb_entry). bulk is NLM_F_BULK on a
// DELMDB. MDBRequest does so itself.
func CheckMDB(attrs nlattr.Attrs, bulk bool) error {
	for _, a := range attrs {
		switch {
		case a.Type == uapi.MDBASetEntry:
			if len(a.Data) != mdbEntryLen {
				return nlattr.ErrAttr(syscall.EINVAL, a, "Invalid attribute length")
			}
			e := parseMDBEntry(a.Data)
			text := e.problem()
			if bulk {
				text = e.bulkProblem()
			}
			if text != "" {
				return nlattr.ErrAttr(syscall.EINVAL, a, "%s", text)
			}
		case a.Type == uapi.MDBASetEntryAttrs && len(a.Data) > 0 && len(a.Data) < nlattr.HeaderLen:
			return nlattr.ErrAttr(syscall.ERANGE, a, "Attribute failed policy validation")
		}
	}
	return nil
}

// problem is rtnl_validate_mdb_entry: the text for what is wrong, "" for nothing.
func (e mdbEntry) problem() string {
	if e.ifindex == 0 {
		return "Zero entry ifindex is not allowed"
	}
	if text := e.addrProblem(); text != "" {
		return text
	}
	switch {
	case e.state > 1:
		return "Unknown entry state"
	case e.vid >= 4095:
		return "Invalid entry VLAN id"
	}
	return ""
}

func (e mdbEntry) addrProblem() string {
	a := e.addr
	switch e.proto {
	case groupIPv4:
		if a[0]&0xf0 != 0xe0 && [4]byte(a[:4]) != [4]byte{} {
			return "IPv4 entry group address is not multicast or 0.0.0.0"
		}
		if a[0] == 224 && a[1] == 0 && a[2] == 0 {
			return "IPv4 entry group address is local multicast"
		}
	case groupIPv6:
		if a == [16]byte{0: 0xff, 1: 2, 15: 1} {
			return "IPv6 entry group address is link-local all nodes"
		}
	case groupL2:
		if a[0]&1 == 0 {
			return "L2 entry group is not multicast"
		}
	default:
		return "Unknown entry protocol"
	}
	return ""
}

func (e mdbEntry) bulkProblem() string {
	switch {
	case e.state > 1:
		return "Unknown entry state"
	case e.flags != 0:
		return "Entry flags cannot be set"
	case e.vid >= 4095:
		return "Invalid entry VLAN id"
	case e.addr != [16]byte{} || e.proto != 0:
		return "Entry address cannot be set"
	}
	return ""
}

// mdbConfig reads a request (br_mdb_config_init).
func (b *Bridge) mdbConfig(e mdbEntry, attrs nlattr.Attrs) (c mdbConfig, err error) {
	einval := func(text string) error { return nlattr.Errf(syscall.EINVAL, "bridge: %s", text) }
	if !b.link.Up {
		return c, einval("Bridge device is not running")
	}
	if !b.mcast.snooping {
		return c, einval("Bridge's multicast processing is disabled")
	}
	c = mdbConfig{key: e.key(), ifindex: e.ifindex, permanent: e.state == 1, mode: modeExclude, proto: rtprotStatic}
	if e.ifindex != b.ifindex {
		exists, p, _ := b.lookup(e.ifindex)
		switch {
		case !exists:
			return c, nlattr.Errf(syscall.ENODEV, "bridge: Port net device doesn't exist")
		case p == nil:
			return c, einval("Net device is not a bridge port")
		case p.b != b:
			return c, einval("Port belongs to a different bridge device")
		}
		c.p = p
	}
	if e.proto == groupIPv4 && e.addr[0] == 0 {
		return c, einval("IPv4 entry group address 0.0.0.0 is not allowed")
	}
	a, ok := attrs.Get(uapi.MDBASetEntryAttrs)
	if !ok {
		return c, nil
	}
	as, err := parseNest(a, mdbAttrPolicy)
	if err != nil {
		return c, err
	}
	if a, ok := as.Get(uapi.MDBEAttrSource); ok {
		if c.key.src, err = mdbSource(a, e.proto); err != nil {
			return c, err
		}
	}
	return c, c.setAttrs(as, einval)
}

func (c *mdbConfig) setAttrs(as nlattr.Attrs, einval func(string) error) error {
	mode, hasMode := as.Get(uapi.MDBEAttrGroupMode)
	if hasMode {
		if c.p == nil {
			return einval("Filter mode cannot be set for host groups")
		}
		if !c.key.starG() {
			return einval("Filter mode can only be set for (*, G) entries")
		}
		c.mode = mode.U8()
	}
	if list, ok := as.Get(uapi.MDBEAttrSrcList); ok {
		switch {
		case c.p == nil:
			return einval("Source list cannot be set for host groups")
		case !c.key.starG():
			return einval("Source list can only be set for (*, G) entries")
		case !hasMode:
			return einval("Source list cannot be set without filter mode")
		}
		if err := c.setSources(list); err != nil {
			return err
		}
	}
	if len(c.srcs) == 0 && c.mode == modeInclude {
		return einval("Cannot add (*, G) INCLUDE with an empty source list")
	}
	if a, ok := as.Get(uapi.MDBEAttrRTProt); ok {
		if c.p == nil {
			return einval("Protocol cannot be set for host groups")
		}
		c.proto = a.U8()
	}
	return nil
}

func (c *mdbConfig) setSources(list nlattr.Attr) error {
	entries, left := nlattr.Parse(list.Data, list.Off+nlattr.HeaderLen)
	if err := mdbSrcPolicy.Validate(entries, left, nlattr.Strict); err != nil {
		return err
	}
	for _, a := range entries {
		if len(c.srcs) >= maxSources {
			return nlattr.Errf(syscall.EINVAL, "bridge: Exceeded maximum number of source entries (%d)", maxSources)
		}
		as, err := parseNest(a, mdbSrcAddrPolicy)
		if err != nil {
			return err
		}
		addr, ok := as.Get(1)
		if !ok {
			return &nlattr.Error{Errno: syscall.EINVAL, MissType: 1, MissNest: a.Off}
		}
		src, err := mdbSource(addr, c.key.proto)
		if err != nil {
			return err
		}
		c.srcs = append(c.srcs, src)
	}
	return nil
}

// mdbSource reads a source address of the protocol (is_valid_mdb_source).
func mdbSource(a nlattr.Attr, proto uint16) (src [16]byte, err error) {
	var name string
	var multicast bool
	switch proto {
	case groupIPv4:
		name, multicast = "IPv4", len(a.Data) > 0 && a.Data[0]&0xf0 == 0xe0
	case groupIPv6:
		name, multicast = "IPv6", len(a.Data) > 0 && a.Data[0] == 0xff
	default:
		return src, nlattr.Errf(syscall.EINVAL, "bridge: Invalid protocol used with source address")
	}
	if len(a.Data) != addrLen(proto) {
		return src, nlattr.Errf(syscall.EINVAL, "bridge: %s invalid source address length", name)
	}
	if multicast {
		return src, nlattr.Errf(syscall.EINVAL, "bridge: %s multicast source address is not allowed", name)
	}
	copy(src[:], a.Data)
	return src, nil
}

// CheckMDBGet validates the attributes of RTM_GETMDB as rtnl does before it looks
// at the device (rtnl_mdb_get).
func CheckMDBGet(attrs nlattr.Attrs) error {
	for _, a := range attrs {
		if a.Type != uapi.MDBAGetEntry {
			continue
		}
		if len(a.Data) != mdbEntryLen {
			return nlattr.ErrAttr(syscall.EINVAL, a, "Invalid attribute length")
		}
		e := parseMDBEntry(a.Data)
		text := ""
		switch {
		case e.ifindex != 0:
			text = "Entry ifindex cannot be specified"
		case e.state != 0:
			text = "Entry state cannot be specified"
		case e.flags != 0:
			text = "Entry flags cannot be specified"
		case e.vid >= 4095:
			text = "Invalid entry VLAN id"
		case e.proto != groupIPv4 && e.proto != groupIPv6 && e.proto != groupL2:
			text = "Unknown entry protocol"
		}
		if text != "" {
			return nlattr.ErrAttr(syscall.EINVAL, a, "%s", text)
		}
	}
	return nil
}

// MDBGet answers RTM_GETMDB for one group: the message to be sent with the type
// RTM_NEWMDB. Errors are *nlattr.Error: ENOENT "bridge: MDB entry not found".
func (b *Bridge) MDBGet(attrs nlattr.Attrs) ([]byte, error) {
	if err := CheckMDBGet(attrs); err != nil {
		return nil, err
	}
	a, ok := attrs.Get(uapi.MDBAGetEntry)
	if !ok {
		return nil, nlattr.Errf(syscall.EINVAL, "Missing MDBA_GET_ENTRY attribute")
	}
	e := parseMDBEntry(a.Data)
	k := e.key()
	if a, ok := attrs.Get(uapi.MDBAGetEntryAttrs); ok {
		as, err := parseNest(a, policyUpTo(uapi.MDBEAttrStateMask, nlattr.Policy{
			uapi.MDBEAttrSource: mdbAttrPolicy[uapi.MDBEAttrSource],
		}))
		if err != nil {
			return nil, err
		}
		if a, ok := as.Get(uapi.MDBEAttrSource); ok {
			if k.src, err = mdbSource(a, e.proto); err != nil {
				return nil, err
			}
		}
	}
	g := b.mdb.groups[k]
	if g == nil {
		return nil, nlattr.Errf(syscall.ENOENT, "bridge: MDB entry not found")
	}
	buf, mark := nlattr.Nest(b.appendPortMsg(nil, unix.AF_BRIDGE), uapi.MDBAMDB)
	return nlattr.EndNest(b.appendEntry(buf, g, b.now()), mark), nil
}
