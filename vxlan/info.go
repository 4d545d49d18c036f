package vxlan

import (
	"encoding/binary"
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// AppendInfo adds the content of IFLA_INFO_DATA in the kernel's order
// (vxlan_fill_info).
func (d *Device) AppendInfo(b []byte) []byte {
	c := &d.cfg
	b = nlattr.AppendU32(b, unix.IFLA_VXLAN_ID, c.VNI)
	b = appendAddr(b, unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_GROUP6, c.Remote)
	if d.lower != 0 {
		b = nlattr.AppendU32(b, unix.IFLA_VXLAN_LINK, uint32(d.lower))
	}
	b = appendAddr(b, unix.IFLA_VXLAN_LOCAL, unix.IFLA_VXLAN_LOCAL6, c.Local)
	b = nlattr.AppendU8(b, unix.IFLA_VXLAN_TTL, c.TTL)
	b = appendBool(b, unix.IFLA_VXLAN_TTL_INHERIT, c.TTLInherit)
	b = nlattr.AppendU8(b, unix.IFLA_VXLAN_TOS, c.TOS)
	b = nlattr.AppendU8(b, unix.IFLA_VXLAN_DF, c.DF)
	b = nlattr.AppendBE32(b, unix.IFLA_VXLAN_LABEL, c.Label)
	b = nlattr.AppendU32(b, unix.IFLA_VXLAN_LABEL_POLICY, c.LabelPolicy)
	b = appendBool(b, unix.IFLA_VXLAN_LEARNING, c.Learning)
	b = appendBool(b, unix.IFLA_VXLAN_PROXY, c.Proxy)
	b = appendBool(b, unix.IFLA_VXLAN_RSC, c.RSC)
	b = appendBool(b, unix.IFLA_VXLAN_L2MISS, c.L2Miss)
	b = appendBool(b, unix.IFLA_VXLAN_L3MISS, c.L3Miss)
	b = appendBool(b, unix.IFLA_VXLAN_COLLECT_METADATA, c.CollectMetadata)
	b = nlattr.AppendU32(b, unix.IFLA_VXLAN_AGEING, c.Ageing)
	b = nlattr.AppendU32(b, unix.IFLA_VXLAN_LIMIT, c.Limit)
	b = nlattr.AppendBE16(b, unix.IFLA_VXLAN_PORT, c.Port)
	b = appendBool(b, unix.IFLA_VXLAN_UDP_CSUM, c.UDPCsum)
	b = appendBool(b, unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, c.ZeroCsum6TX)
	b = appendBool(b, unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, c.ZeroCsum6RX)
	b = appendBool(b, unix.IFLA_VXLAN_REMCSUM_TX, c.RemCsumTX)
	b = appendBool(b, unix.IFLA_VXLAN_REMCSUM_RX, c.RemCsumRX)
	b = appendBool(b, unix.IFLA_VXLAN_LOCALBYPASS, c.LocalBypass)
	var ports [4]byte
	binary.BigEndian.PutUint16(ports[:], c.PortLow)
	binary.BigEndian.PutUint16(ports[2:], c.PortHigh)
	b = nlattr.Append(b, unix.IFLA_VXLAN_PORT_RANGE, ports[:])
	for _, f := range []struct {
		t  uint16
		on bool
	}{
		{unix.IFLA_VXLAN_GBP, c.GBP}, {unix.IFLA_VXLAN_GPE, c.GPE}, {unix.IFLA_VXLAN_REMCSUM_NOPARTIAL, c.RemCsumNoPartial},
	} {
		if f.on {
			b = nlattr.AppendFlag(b, f.t)
		}
	}
	if c.VNIFilter {
		b = nlattr.AppendU8(b, unix.IFLA_VXLAN_VNIFILTER, 1)
	}
	return nlattr.Append(b, uapi.IFLAVXLANReservedBits, binary.BigEndian.AppendUint64(nil, c.ReservedBits))
}

func appendBool(b []byte, t uint16, on bool) []byte {
	if on {
		return nlattr.AppendU8(b, t, 1)
	}
	return nlattr.AppendU8(b, t, 0)
}

// appendAddr adds an address that is not the unspecified one.
func appendAddr(b []byte, t4, t6 uint16, a netip.Addr) []byte {
	switch {
	case a.IsUnspecified():
		return b
	case a.Is4():
		return nlattr.Append(b, t4, a.AsSlice())
	}
	return nlattr.Append(b, t6, a.AsSlice())
}
