package integration_test

import (
	"encoding/binary"
	"net"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// newLink is the body of a link message that names a device; kind and data make
// one.
func newLink(name, kind string, data func(*netlink.AttributeEncoder)) []byte {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	if kind != "" {
		ae.Nested(unix.IFLA_LINKINFO, func(ae *netlink.AttributeEncoder) error {
			ae.String(unix.IFLA_INFO_KIND, kind)
			if data != nil {
				ae.Nested(unix.IFLA_INFO_DATA, func(ae *netlink.AttributeEncoder) error {
					data(ae)
					return nil
				})
			}
			return nil
		})
	}
	return append(make([]byte, unix.SizeofIfInfomsg), get(ae.Encode())...)
}

// fdbEntry is the body of a neighbour message about an entry of a tunnel, or
// with no address about an entry of a bridge.
func fdbEntry(ifindex uint32, addr string, dst net.IP) []byte {
	b := make([]byte, unix.SizeofNdMsg) // struct ndmsg
	b[0] = unix.AF_BRIDGE
	binary.NativeEndian.PutUint32(b[4:], ifindex)
	state, flags := uint16(unix.NUD_PERMANENT), byte(unix.NTF_SELF)
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.NDA_LLADDR, get(net.ParseMAC(addr)))
	if dst == nil {
		state, flags = unix.NUD_NOARP, unix.NTF_MASTER
	} else {
		ae.Bytes(unix.NDA_DST, dst.To4())
	}
	binary.NativeEndian.PutUint16(b[8:], state)
	b[10] = flags
	return append(b, get(ae.Encode())...)
}

// message is a whole netlink message.
func message(typ uint16, flags netlink.HeaderFlags, seq uint32, body []byte) []byte {
	m := netlink.Message{
		Header: netlink.Header{
			Length: uint32(unix.NLMSG_HDRLEN + (len(body)+3)&^3),
			Type:   netlink.HeaderType(typ), Flags: flags | netlink.Request, Sequence: seq,
		},
		Data: body,
	}
	return get(m.MarshalBinary())
}
