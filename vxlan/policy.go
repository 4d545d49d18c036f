package vxlan

import (
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
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
