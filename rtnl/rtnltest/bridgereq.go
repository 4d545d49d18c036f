package rtnltest

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// Sizes of struct br_port_msg (uapi/linux/if_bridge.h) and struct tunnel_msg
// (uapi/linux/if_link.h).
const (
	portMsgLen   = 8
	tunnelMsgLen = 8
)

// bridgeLinkDump is rtnl_bridge_getlink in a namespace without bridges.
func (r *request) bridgeLinkDump() error {
	if r.c.strict {
		if len(r.body()) < uapi.IfinfomsgLen {
			return nlattr.Errf(unix.EINVAL, "Invalid header for bridge link dump")
		}
		info := r.ifinfo()
		if r.body()[1] != 0 || info.Type != 0 || info.Flags != 0 || info.Change != 0 || info.Index != 0 {
			return nlattr.Errf(unix.EINVAL, "Invalid values in header for bridge link dump request")
		}
		as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, true)
		if err != nil {
			return err
		}
		for _, a := range as {
			if a.Type != unix.IFLA_EXT_MASK {
				return nlattr.Errf(unix.EINVAL, "Unsupported attribute in bridge link dump request")
			}
		}
	} else if len(r.body()) < uapi.IfinfomsgLen {
		// The parse fails with a text, and is then forgotten.
		r.remark = "Invalid header length"
	}
	r.dump(unix.RTM_NEWLINK, 0, nil)
	return nil
}

// mdbDump is rtnl_mdb_dump in a namespace without bridges.
func (r *request) mdbDump() error {
	if r.c.strict {
		switch body := r.body(); {
		case len(body) < portMsgLen:
			return nlattr.Errf(unix.EINVAL, "Invalid header for mdb dump request")
		case ne.Uint32(body[4:]) != 0:
			return nlattr.Errf(unix.EINVAL, "Filtering by device index is not supported for mdb dump request")
		case len(body) > portMsgLen:
			return nlattr.Errf(unix.EINVAL, "Invalid data after header in mdb dump request")
		}
	}
	r.dump(unix.RTM_GETMDB, 0, nil)
	return nil
}

// tunnelDump is vxlan_vnifilter_dump in a namespace without tunnels.
func (r *request) tunnelDump() error {
	if len(r.body()) < tunnelMsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid msg length")
	}
	if ifindex := ne.Uint32(r.body()[4:]); ifindex != 0 {
		if r.k.links[int(ifindex)] == nil {
			return nlattr.Errno(unix.ENODEV)
		}
		return nlattr.Errf(unix.EINVAL, "The device is not a vxlan device")
	}
	r.dump(unix.RTM_NEWTUNNEL, 0, nil)
	return nil
}

// bridgeChange is rtnl_bridge_setlink and rtnl_bridge_dellink where no device has
// a master or operations of its own.
func (r *request) bridgeChange() error {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	if r.k.links[int(r.ifinfo().Index)] == nil {
		return nlattr.Errf(unix.ENODEV, "unknown ifindex")
	}
	return nlattr.Errno(unix.EOPNOTSUPP)
}
