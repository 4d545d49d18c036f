package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// netnsaFD is NETNSA_FD (uapi/linux/net_namespace.h).
const netnsaFD = 3

// peerInfo is the attribute of IFLA_INFO_DATA in which pairs of devices describe
// the other end: VETH_INFO_PEER, VXCAN_INFO_PEER, IFLA_NETKIT_PEER_INFO.
const peerInfo = 1

// borrow returns the request with the descriptors that it names by number, which
// are the client's, replaced by copies of the daemon's. done closes the copies.
// A number that is no descriptor of the client's stays, made invalid.
func (r *request) borrow(raw []byte) (out []byte, done func()) {
	done = func() {}
	at := r.descriptors(raw)
	if len(at) == 0 {
		return raw, done
	}
	out = append([]byte(nil), raw...)
	var files []File
	for _, off := range at {
		fd := -1
		if r.s.caller.Open != nil {
			if f, err := r.s.caller.Open(int(int32(ne.Uint32(out[off:])))); err == nil {
				files = append(files, f)
				fd = f.FD()
			}
		}
		ne.PutUint32(out[off:], uint32(int32(fd)))
	}
	return out, func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// descriptors returns where in the message descriptor numbers stand.
func (r *request) descriptors(raw []byte) (at []int) {
	m := message{raw: raw}
	switch r.typ {
	case unix.RTM_NEWNSID, unix.RTM_DELNSID, unix.RTM_GETNSID:
		as, _ := m.attrs(unix.SizeofRtGenmsg)
		return fdAttrs(as, netnsaFD, nil)
	case unix.RTM_NEWLINK, unix.RTM_SETLINK, unix.RTM_GETLINK, unix.RTM_DELLINK:
	default:
		return nil
	}
	if len(m.body()) < uapi.IfinfomsgLen {
		return nil
	}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	at = fdAttrs(as, unix.IFLA_NET_NS_FD, nil)
	if info, ok := as.Get(unix.IFLA_LINKINFO); ok {
		if data, ok := info.Nest().Get(unix.IFLA_INFO_DATA); ok {
			if peer, ok := data.Nest().Get(peerInfo); ok && len(peer.Data) > uapi.IfinfomsgLen {
				in, _ := nlattr.Parse(peer.Data[uapi.IfinfomsgLen:], peer.Off+nlattr.HeaderLen+uapi.IfinfomsgLen)
				at = fdAttrs(in, unix.IFLA_NET_NS_FD, at)
			}
		}
	}
	return at
}

// fdAttrs appends the offsets of the payloads of type t.
func fdAttrs(as nlattr.Attrs, t uint16, at []int) []int {
	for _, a := range as {
		if a.Type == t && len(a.Data) >= 4 {
			at = append(at, a.Off+nlattr.HeaderLen)
		}
	}
	return at
}
