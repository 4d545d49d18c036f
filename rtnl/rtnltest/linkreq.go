package rtnltest

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// linkPolicy is ifla_policy as far as it matters here; other types are known but
// not looked at.
var linkPolicy = func() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= iflaTailroom; t++ {
		p[t] = nlattr.Rule{Kind: nlattr.Binary}
	}
	for _, t := range []uint16{unix.IFLA_MTU, unix.IFLA_LINK, unix.IFLA_MASTER, unix.IFLA_TXQLEN, unix.IFLA_GROUP,
		unix.IFLA_EXT_MASK, unix.IFLA_PROMISCUITY, unix.IFLA_NUM_TX_QUEUES, unix.IFLA_NUM_RX_QUEUES} {
		p[t] = nlattr.Rule{Kind: nlattr.U32}
	}
	for _, t := range []uint16{unix.IFLA_CARRIER, unix.IFLA_OPERSTATE, unix.IFLA_LINKMODE, unix.IFLA_PROTO_DOWN} {
		p[t] = nlattr.Rule{Kind: nlattr.U8}
	}
	p[unix.IFLA_IFNAME] = nlattr.Rule{Kind: nlattr.String, Len: unix.IFNAMSIZ - 1}
	p[unix.IFLA_ALT_IFNAME] = nlattr.Rule{Kind: nlattr.String, Len: 127}
	p[unix.IFLA_IFALIAS] = nlattr.Rule{Kind: nlattr.String, Len: 255}
	p[unix.IFLA_ADDRESS] = nlattr.Rule{Kind: nlattr.Binary, Len: 32}
	p[unix.IFLA_BROADCAST] = nlattr.Rule{Kind: nlattr.Binary, Len: 32}
	p[unix.IFLA_LINKINFO] = nlattr.Rule{Kind: nlattr.Nested}
	return p
}()

func (r *request) ifinfo() uapi.Ifinfomsg { return uapi.ParseIfinfomsg(r.body()) }

// find looks a device up by index, name or other name.
func (r *request) find(info uapi.Ifinfomsg, as nlattr.Attrs) (l *link, asked bool) {
	if info.Index > 0 {
		return r.k.links[int(info.Index)], true
	}
	if a, ok := as.Get(unix.IFLA_IFNAME); ok {
		return r.k.named(a.Text()), true
	}
	if a, ok := as.Get(unix.IFLA_ALT_IFNAME); ok {
		return r.k.named(a.Text()), true
	}
	return nil, false
}

// linkGet is rtnl_getlink.
func (r *request) linkGet() error {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header for get link")
	}
	info := r.ifinfo()
	if r.c.strict && (r.body()[1] != 0 || info.Type != 0 || info.Flags != 0 || info.Change != 0) {
		return nlattr.Errf(unix.EINVAL, "Invalid values in header for get link request")
	}
	as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, r.c.strict)
	if err != nil {
		return err
	}
	for _, a := range as {
		switch a.Type {
		case unix.IFLA_IFNAME, unix.IFLA_ALT_IFNAME, unix.IFLA_EXT_MASK, unix.IFLA_TARGET_NETNSID:
		default:
			if r.c.strict {
				return nlattr.Errf(unix.EINVAL, "Unsupported attribute in get link request")
			}
		}
	}
	l, asked := r.find(info, as)
	if !asked {
		return nlattr.Errno(unix.EINVAL)
	}
	if l == nil {
		return nlattr.Errno(unix.ENODEV)
	}
	r.answer(unix.RTM_NEWLINK, l.body(0))
	return nil
}

// linkDump is rtnl_dump_ifinfo.
func (r *request) linkDump() error {
	hdr := uapi.IfinfomsgLen
	if len(r.body()) < hdr {
		if r.c.strict {
			return nlattr.Errf(unix.EINVAL, "Invalid header for link dump")
		}
		hdr = unix.SizeofRtGenmsg
	} else if info := r.ifinfo(); r.c.strict {
		if r.body()[1] != 0 || info.Type != 0 || info.Flags != 0 || info.Change != 0 {
			return nlattr.Errf(unix.EINVAL, "Invalid values in header for link dump request")
		}
		if info.Index != 0 {
			return nlattr.Errf(unix.EINVAL, "Filter by device index not supported for link dumps")
		}
	}
	as, err := r.attrs(hdr, linkPolicy, r.c.strict)
	if err != nil && r.c.strict {
		return err
	}
	flags, kind := uint16(0), ""
	noMaster := true
	for _, a := range as {
		switch a.Type {
		case unix.IFLA_TARGET_NETNSID, unix.IFLA_EXT_MASK:
		case unix.IFLA_MASTER:
			// Nothing here has a master; ^0 asks for just those.
			noMaster = a.U32() == 0 || a.U32() == ^uint32(0)
			if a.U32() != 0 {
				flags = unix.NLM_F_DUMP_FILTERED
			}
		case unix.IFLA_LINKINFO:
			if k, ok := a.Nest().Get(unix.IFLA_INFO_KIND); ok && (k.Text() == "veth" || k.Text() == "tun") {
				kind, flags = k.Text(), unix.NLM_F_DUMP_FILTERED
			}
		default:
			if r.c.strict {
				return nlattr.Errf(unix.EINVAL, "Unsupported attribute in link dump request")
			}
		}
	}
	var rows [][]byte
	for _, l := range r.k.sorted() {
		if noMaster && (kind == "" || l.kind == kind) {
			rows = append(rows, l.body(0))
		}
	}
	r.dump(unix.RTM_NEWLINK, flags, rows)
	return nil
}

// setLink is rtnl_setlink.
func (r *request) setLink() error {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, false)
	if err != nil {
		return err
	}
	l, asked := r.find(r.ifinfo(), as)
	if !asked {
		return nlattr.Errno(unix.EINVAL)
	}
	if l == nil {
		return nlattr.Errno(unix.ENODEV)
	}
	return r.change(l, as)
}

// newLink is rtnl_newlink for devices that exist and for new veth pairs.
func (r *request) newLink() error {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, false)
	if err != nil {
		return err
	}
	info := r.ifinfo()
	if info.Index < 0 {
		return nlattr.Errf(unix.EINVAL, "ifindex can't be negative")
	}
	li, _ := as.Get(unix.IFLA_LINKINFO)
	in := li.Nest()
	kind, _ := in.Get(unix.IFLA_INFO_KIND)
	if l, _ := r.find(info, as); l != nil {
		switch {
		case r.flags&uapi.NLMExcl != 0:
			return nlattr.Errno(unix.EEXIST)
		case r.flags&uapi.NLMReplace != 0, in.Has(unix.IFLA_INFO_DATA), in.Has(unix.IFLA_INFO_SLAVE_DATA):
			return nlattr.Errno(unix.EOPNOTSUPP)
		}
		return r.change(l, as)
	}
	if r.flags&uapi.NLMCreate == 0 {
		return nlattr.Errno(unix.ENODEV)
	}
	if kind.Text() != "veth" {
		return nlattr.Errf(unix.EOPNOTSUPP, "Unknown device type")
	}
	return r.newVeth(as, in)
}

// newVeth is veth_newlink; the peer's name is VETH_INFO_PEER's IFLA_IFNAME.
func (r *request) newVeth(as, in nlattr.Attrs) error {
	name, peer := "veth%d", "veth%d"
	if a, ok := as.Get(unix.IFLA_IFNAME); ok {
		name = a.Text()
	}
	if data, ok := in.Get(unix.IFLA_INFO_DATA); ok {
		if p, ok := data.Nest().Get(vethInfoPeer); ok && len(p.Data) > uapi.IfinfomsgLen {
			pa, _ := nlattr.Parse(p.Data[uapi.IfinfomsgLen:], 0)
			if a, ok := pa.Get(unix.IFLA_IFNAME); ok {
				peer = a.Text()
			}
		}
	}
	k := r.k
	info := r.ifinfo()
	if k.links[int(info.Index)] != nil || k.named(name) != nil || k.named(peer) != nil || name == peer && name != "veth%d" {
		return nlattr.Errno(unix.EEXIST)
	}
	return r.change(k.addVeth(name, peer, int(info.Index)), nil)
}

// change is do_setlink.
func (r *request) change(l *link, as nlattr.Attrs) error {
	k, info := r.k, r.ifinfo()
	if a, ok := as.Get(unix.IFLA_ADDRESS); ok {
		if len(a.Data) < 6 || l.arp == unix.ARPHRD_NONE {
			return nlattr.Errno(unix.EINVAL)
		}
		mac := uapi.MACFrom(a.Data)
		if !mac.ValidUnicast() {
			return nlattr.Errno(unix.EADDRNOTAVAIL)
		}
		l.mac = mac.Bytes()
		k.notifyLink(unix.RTM_NEWLINK, l, 0)
	}
	if a, ok := as.Get(unix.IFLA_MTU); ok {
		mtu := int(int32(a.U32()))
		switch {
		case mtu == l.mtu:
		case mtu < l.minMTU():
			return nlattr.Errf(unix.EINVAL, "mtu less than device minimum")
		case l.maxMTU > 0 && mtu > l.maxMTU:
			return nlattr.Errf(unix.EINVAL, "mtu greater than device maximum")
		default:
			l.mtu = mtu
			k.notifyLink(unix.RTM_NEWLINK, l, 0)
		}
	}
	if a, ok := as.Get(unix.IFLA_GROUP); ok {
		l.group = a.U32()
		defer k.stateChange(l)
	}
	if a, ok := as.Get(unix.IFLA_IFNAME); ok && info.Index > 0 && a.Text() != "" && a.Text() != l.name {
		if k.named(a.Text()) != nil {
			return nlattr.Errno(unix.EEXIST)
		}
		l.name = a.Text()
		k.notifyLink(unix.RTM_NEWLINK, l, 0)
	}
	if a, ok := as.Get(unix.IFLA_IFALIAS); ok {
		l.alias = a.Text()
		defer k.stateChange(l)
	}
	if info.Flags != 0 || info.Change != 0 {
		// ifi_change 0 means all flags (rtnl_dev_combine_flags).
		mask := info.Change
		if mask == 0 {
			mask = ^uint32(0)
		}
		k.changeFlags(l, mask&(unix.IFF_UP|unix.IFF_PROMISC|unix.IFF_ALLMULTI), info.Flags)
	}
	if a, ok := as.Get(unix.IFLA_TXQLEN); ok && a.U32() != l.txqlen {
		l.txqlen = a.U32()
		k.notifyLink(unix.RTM_NEWLINK, l, 0)
	}
	return nil
}

// stateChange is netdev_state_change.
func (k *Kernel) stateChange(l *link) {
	if l.up() {
		k.notifyLink(unix.RTM_NEWLINK, l, 0)
	}
}

// delLink is rtnl_dellink.
func (r *request) delLink() error {
	if len(r.body()) < uapi.IfinfomsgLen {
		return nlattr.Errf(unix.EINVAL, "Invalid header length")
	}
	as, err := r.attrs(uapi.IfinfomsgLen, linkPolicy, false)
	if err != nil {
		return err
	}
	info := r.ifinfo()
	if info.Index < 0 {
		return nlattr.Errno(unix.EINVAL)
	}
	l, asked := r.find(info, as)
	if !asked {
		if a, ok := as.Get(unix.IFLA_GROUP); ok {
			return r.delGroup(a.U32())
		}
		return nlattr.Errno(unix.EINVAL)
	}
	if l == nil {
		return nlattr.Errno(unix.ENODEV)
	}
	if l.kind == "" {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	r.k.unregister(l)
	return nil
}

// delGroup is rtnl_group_dellink: all or none.
func (r *request) delGroup(group uint32) error {
	var all []*link
	for _, l := range r.k.sorted() {
		if l.group == group {
			if l.kind == "" {
				return nlattr.Errno(unix.EOPNOTSUPP)
			}
			all = append(all, l)
		}
	}
	if group == 0 {
		return nlattr.Errno(unix.EPERM)
	}
	if len(all) == 0 {
		return nlattr.Errno(unix.ENODEV)
	}
	for _, l := range all {
		if r.k.links[l.index] == l {
			r.k.unregister(l)
		}
	}
	return nil
}
