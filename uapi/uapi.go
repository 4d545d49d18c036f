// Package uapi holds the constants and fixed structures of the kernel's rtnetlink
// interface that golang.org/x/sys/unix lacks or types awkwardly, under their
// names in the uapi headers without the shouting: see each group for its header.
package uapi

import (
	"encoding/binary"
	"fmt"
)

// HZ is USER_HZ: bridge and FDB times on the wire are in units of 1/100 s.
const HZ = 100

// uapi/linux/neighbour.h: attributes, flags and states of neighbour messages.
const (
	NDADst = iota + 1
	NDALLAddr
	NDACacheInfo
	NDAProbes
	NDAVLAN
	NDAPort
	NDAVNI
	NDAIfindex
	NDAMaster
	NDALinkNetnsID
	NDASrcVNI
	NDAProtocol
	NDANhID
	NDAFDBExtAttrs
	NDAFlagsExt
	NDANdmStateMask
	NDANdmFlagsMask
)

// NTF_* in ndm_flags.
const (
	NTFUse        = 0x01
	NTFSelf       = 0x02
	NTFMaster     = 0x04
	NTFProxy      = 0x08
	NTFExtLearned = 0x10
	NTFOffloaded  = 0x20
	NTFSticky     = 0x40
	NTFRouter     = 0x80
)

// NTF_EXT_* in NDA_FLAGS_EXT.
const (
	NTFExtManaged = 1
	NTFExtLocked  = 2
)

// NUD_* in ndm_state.
const (
	NUDIncomplete = 0x01
	NUDReachable  = 0x02
	NUDStale      = 0x04
	NUDDelay      = 0x08
	NUDProbe      = 0x10
	NUDFailed     = 0x20
	NUDNoARP      = 0x40
	NUDPermanent  = 0x80
)

// NFEA_* in NDA_FDB_EXT_ATTRS.
const (
	NFEAActivityNotify = 1
	NFEADontRefresh    = 2
)

// uapi/linux/netlink.h: flags that a request adds to its type's meaning.
const (
	NLMReplace = 0x100
	NLMExcl    = 0x200
	NLMBulk    = 0x200
	NLMCreate  = 0x400
	NLMAppend  = 0x800
)

// IFLA_VXLAN_* that golang.org/x/sys/unix lacks (uapi/linux/if_link.h).
const (
	IFLAVXLANReservedBits = 33
	IFLAVXLANMCRoute      = 34
)

// uapi/linux/if_bridge.h: MDB messages.
const (
	MDBAMDB    = 1
	MDBARouter = 2

	MDBAMDBEntry     = 1
	MDBAMDBEntryInfo = 1

	MDBAMDBEAttrTimer     = 1
	MDBAMDBEAttrSrcList   = 2
	MDBAMDBEAttrGroupMode = 3
	MDBAMDBEAttrSource    = 4
	MDBAMDBEAttrRTProt    = 5
	MDBAMDBEAttrDst       = 6
	MDBAMDBEAttrDstPort   = 7
	MDBAMDBEAttrVNI       = 8
	MDBAMDBEAttrIfindex   = 9
	MDBAMDBEAttrSrcVNI    = 10

	MDBASetEntry      = 1
	MDBASetEntryAttrs = 2
	MDBAGetEntry      = 1
	MDBAGetEntryAttrs = 2

	MDBEAttrSource    = 1
	MDBEAttrSrcList   = 2
	MDBEAttrGroupMode = 3
	MDBEAttrRTProt    = 4
	MDBEAttrDst       = 5
	MDBEAttrDstPort   = 6
	MDBEAttrVNI       = 7
	MDBEAttrIfindex   = 8
	MDBEAttrSrcVNI    = 9
	MDBEAttrStateMask = 10
)

// AF_BRIDGE link messages (uapi/linux/if_bridge.h).
const (
	IFLABridgeFlags          = 0
	IFLABridgeMode           = 1
	IFLABridgeVLANInfo       = 2
	IFLABridgeVLANTunnelInfo = 3
	IFLABridgeMST            = 6

	BridgeFlagsMaster = 1
	BridgeFlagsSelf   = 2
)

// MAC is an Ethernet address: its 6 bytes in the low 48 bits, first byte on the
// wire highest, so that numeric order is the kernel's order of addresses.
type MAC uint64

// MACFrom reads the 6 bytes at the start of b.
func MACFrom(b []byte) MAC {
	_ = b[5]
	return MAC(b[0])<<40 | MAC(b[1])<<32 | MAC(b[2])<<24 | MAC(b[3])<<16 | MAC(b[4])<<8 | MAC(b[5])
}

// Append adds the 6 bytes to b.
func (m MAC) Append(b []byte) []byte {
	return append(b, byte(m>>40), byte(m>>32), byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}

// Bytes returns the 6 bytes.
func (m MAC) Bytes() [6]byte {
	return [6]byte{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}

// Multicast tells whether the group bit is set; broadcast is multicast too.
func (m MAC) Multicast() bool { return m>>40&1 != 0 }

// Broadcast tells whether it is ff:ff:ff:ff:ff:ff.
func (m MAC) Broadcast() bool { return m == 1<<48-1 }

// ValidUnicast is is_valid_ether_addr: neither group nor zero.
func (m MAC) ValidUnicast() bool { return m != 0 && !m.Multicast() }

// LinkLocal tells whether it is one of 01:80:c2:00:00:0X (IEEE 802.1D reserved).
func (m MAC) LinkLocal() bool { return m&^0xf == 0x0180c2000000 }

// String prints it in the usual form with colons.
func (m MAC) String() string {
	b := m.Bytes()
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5])
}

// NdmsgLen is the size of struct ndmsg.
const NdmsgLen = 12

// Ndmsg is struct ndmsg (uapi/linux/neighbour.h).
type Ndmsg struct {
	Family  uint8
	Pad1    uint8
	Pad2    uint16
	Ifindex int32
	State   uint16
	Flags   uint8
	Type    uint8
}

// ParseNdmsg reads it from the start of b, which holds at least NdmsgLen bytes.
func ParseNdmsg(b []byte) Ndmsg {
	_ = b[NdmsgLen-1]
	return Ndmsg{
		Family: b[0], Pad1: b[1], Pad2: binary.NativeEndian.Uint16(b[2:]),
		Ifindex: int32(binary.NativeEndian.Uint32(b[4:])),
		State:   binary.NativeEndian.Uint16(b[8:]), Flags: b[10], Type: b[11],
	}
}

// Append adds it to b in wire form, paddings zero.
func (m Ndmsg) Append(b []byte) []byte {
	b = append(b, m.Family, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(m.Ifindex))
	b = binary.NativeEndian.AppendUint16(b, m.State)
	return append(b, m.Flags, m.Type)
}

// IfinfomsgLen is the size of struct ifinfomsg.
const IfinfomsgLen = 16

// Ifinfomsg is struct ifinfomsg (uapi/linux/rtnetlink.h).
type Ifinfomsg struct {
	Family uint8
	Type   uint16
	Index  int32
	Flags  uint32
	Change uint32
}

// ParseIfinfomsg reads it from the start of b, which holds at least IfinfomsgLen
// bytes.
func ParseIfinfomsg(b []byte) Ifinfomsg {
	_ = b[IfinfomsgLen-1]
	return Ifinfomsg{
		Family: b[0], Type: binary.NativeEndian.Uint16(b[2:]), Index: int32(binary.NativeEndian.Uint32(b[4:])),
		Flags: binary.NativeEndian.Uint32(b[8:]), Change: binary.NativeEndian.Uint32(b[12:]),
	}
}

// Append adds it to b in wire form.
func (m Ifinfomsg) Append(b []byte) []byte {
	b = append(b, m.Family, 0)
	b = binary.NativeEndian.AppendUint16(b, m.Type)
	b = binary.NativeEndian.AppendUint32(b, uint32(m.Index))
	b = binary.NativeEndian.AppendUint32(b, m.Flags)
	return binary.NativeEndian.AppendUint32(b, m.Change)
}
