package rtnltest

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// IF_OPER_* (uapi/linux/if.h).
const (
	operDown           = 2
	operLowerLayerDown = 3
	operUp             = 6
)

// Attributes of link messages that golang.org/x/sys/unix lacks, and the index of
// disable_ipv6 in IFLA_INET6_CONF (uapi/linux/if_link.h, uapi/linux/ipv6.h).
const (
	iflaTSOMaxSize      = 59
	iflaTSOMaxSegs      = 60
	iflaAllmulti        = 61
	iflaDevlinkPort     = 62
	iflaGSOIPv4MaxSize  = 63
	iflaGROIPv4MaxSize  = 64
	iflaDPLLPin         = 65
	iflaMaxPacing       = 66
	iflaNetnsImmutable  = 67
	iflaHeadroom        = 68
	iflaTailroom        = 69
	iflaInetConf        = 1
	iflaInet6Conf       = 2
	inetConfs           = 33
	inet6Confs          = 60
	devconfDisableIPv6  = 26
	iflaXDPAttached     = 2
	tunTypeAttr, tunTAP = 3, 2
	vethInfoPeer        = 1
)

// tapMaxMTU is what a TAP takes: ETH_MAX_MTU without the Ethernet header.
const tapMaxMTU = 65535 - 14

// link is a device. The kernel's lock guards it.
type link struct {
	index            int
	name, alias      string
	kind             string // IFLA_INFO_KIND, "" for a device without
	arp              uint16
	flags            uint32 // IFF_* that are kept: UP, PROMISC, ALLMULTI, LOOPBACK, BROADCAST, MULTICAST
	mac, brd         [6]byte
	mtu, maxMTU      int
	txqlen, group    uint32
	promisc          uint32
	allmulti         uint32
	carrier          bool
	oper             uint8
	ups, downs       uint32
	qdisc            string
	noIPv6           bool
	peer             *link
	unicast, mcast   []uapi.MAC // the filter lists
	ios              []*io      // open TAP or ports
	proto, linkModes uint8
}

// add registers a device and announces it. The lock is held.
func (k *Kernel) add(l *link) *link {
	for l.index == 0 || k.links[l.index] != nil {
		l.index = k.nextIndex
		k.nextIndex++
	}
	if l.mtu == 0 {
		l.mtu = 1500
	}
	if l.maxMTU == 0 {
		l.maxMTU = 65535
	}
	if l.arp == unix.ARPHRD_ETHER {
		l.flags |= unix.IFF_BROADCAST | unix.IFF_MULTICAST
		l.brd = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	l.mac = [6]byte{0x0a, 0, 0, 0, byte(l.index >> 8), byte(l.index)}
	l.txqlen = 1000
	k.links[l.index] = l
	k.notifyLink(unix.RTM_NEWLINK, l, ^uint32(0))
	return l
}

// addVeth makes a pair; index is the first one's, 0 for any.
func (k *Kernel) addVeth(name, peer string, index int) *link {
	p := &link{name: k.freeName(peer), kind: "veth", arp: unix.ARPHRD_ETHER, qdisc: "noop", oper: operLowerLayerDown}
	k.add(p)
	l := &link{index: index, name: k.freeName(name), kind: "veth", arp: unix.ARPHRD_ETHER, qdisc: "noop", oper: operLowerLayerDown, peer: p}
	k.add(l)
	p.peer = l
	return l
}

func (l *link) up() bool { return l.flags&unix.IFF_UP != 0 }

// ifFlags is dev_get_flags.
func (l *link) ifFlags() uint32 {
	f := l.flags
	if l.up() {
		if l.oper == 0 || l.oper == operUp {
			f |= unix.IFF_RUNNING
		}
		if l.carrier {
			f |= unix.IFF_LOWER_UP
		}
	}
	return f
}

// setCarrier is netif_carrier_on and netif_carrier_off.
func (k *Kernel) setCarrier(l *link, on bool) {
	if l.carrier == on {
		return
	}
	l.carrier = on
	if on {
		l.ups++
	} else {
		l.downs++
	}
	if !slices.Contains(k.watch, l) {
		k.watch = append(k.watch, l)
	}
}

// linkwatch announces changes of carrier (linkwatch_do_dev).
func (k *Kernel) linkwatch() {
	watch := k.watch
	k.watch = nil
	for _, l := range watch {
		switch {
		case l.carrier:
			l.oper = operUp
		case l.peer != nil:
			l.oper = operLowerLayerDown
		default:
			l.oper = operDown
		}
		if l.up() && k.links[l.index] == l {
			k.notifyLink(unix.RTM_NEWLINK, l, 0)
		}
	}
}

// changeFlags sets or clears one of IFF_UP, IFF_PROMISC and IFF_ALLMULTI
// (__dev_change_flags and __dev_notify_flags).
func (k *Kernel) changeFlags(l *link, mask, flags uint32) {
	old := l.flags
	l.flags = old&^mask | flags&mask
	gone, come := old&^l.flags, l.flags&^old
	if come&unix.IFF_UP != 0 {
		if l.qdisc == "noop" {
			l.qdisc = "noqueue"
			if l.kind == "tun" {
				l.qdisc = "pfifo_fast"
			}
		}
		if l.peer != nil && l.peer.up() {
			k.setCarrier(l, true)
			k.setCarrier(l.peer, true)
		}
	}
	if gone&unix.IFF_UP != 0 && l.peer != nil {
		k.setCarrier(l, false)
		k.setCarrier(l.peer, false)
	}
	count := func(n *uint32, bit uint32) {
		if come&bit != 0 {
			*n++
		}
		if gone&bit != 0 {
			*n--
		}
	}
	count(&l.promisc, unix.IFF_PROMISC)
	count(&l.allmulti, unix.IFF_ALLMULTI)
	if gone|come != 0 {
		k.notifyLink(unix.RTM_NEWLINK, l, gone|come)
	}
}

// unregister deletes a device, and its peer (unregister_netdevice_many).
func (k *Kernel) unregister(l *link) {
	all := []*link{l}
	if l.peer != nil {
		all = append(all, l.peer)
	}
	for _, l := range all {
		if !l.up() {
			continue
		}
		l.flags &^= unix.IFF_UP
		if l.peer != nil {
			k.setCarrier(l, false)
			k.setCarrier(l.peer, false)
		}
		k.notifyLink(unix.RTM_NEWLINK, l, unix.IFF_UP|unix.IFF_RUNNING)
	}
	for _, l := range all {
		k.notifyLink(unix.RTM_DELLINK, l, ^uint32(0))
		delete(k.links, l.index)
		for _, o := range l.ios {
			o.reader.Fail(unix.ENODEV)
		}
	}
}

// filter adds an address to the device's filter lists or takes it off, and
// reports whether that was a change.
func (l *link) filter(mac uapi.MAC, add bool) bool {
	list := &l.unicast
	if mac.Multicast() && !mac.LinkLocal() {
		list = &l.mcast
	}
	i := slices.Index(*list, mac)
	switch {
	case add && i < 0:
		*list = append(*list, mac)
	case !add && i >= 0:
		*list = slices.Delete(*list, i, i+1)
	default:
		return false
	}
	return true
}

// body is the link message (rtnl_fill_ifinfo), attributes in the kernel's order.
func (l *link) body(change uint32) []byte {
	b := uapi.Ifinfomsg{Type: l.arp, Index: int32(l.index), Flags: l.ifFlags(), Change: change}.Append(nil)
	u8, u32 := func(t uint16, v uint8) { b = nlattr.AppendU8(b, t, v) }, func(t uint16, v uint32) { b = nlattr.AppendU32(b, t, v) }
	oper := l.oper
	if !l.up() {
		oper = operDown
	}
	b = nlattr.AppendString(b, unix.IFLA_IFNAME, l.name)
	u32(unix.IFLA_TXQLEN, l.txqlen)
	u8(unix.IFLA_OPERSTATE, oper)
	u8(unix.IFLA_LINKMODE, l.linkModes)
	u8(iflaNetnsImmutable, boolByte(l.arp == unix.ARPHRD_LOOPBACK))
	u32(unix.IFLA_MTU, uint32(l.mtu))
	u32(unix.IFLA_MIN_MTU, uint32(l.minMTU()))
	u32(unix.IFLA_MAX_MTU, uint32(l.maxMTU))
	u32(unix.IFLA_GROUP, l.group)
	u32(unix.IFLA_PROMISCUITY, l.promisc)
	u32(iflaAllmulti, l.allmulti)
	u32(unix.IFLA_NUM_TX_QUEUES, 1)
	u32(unix.IFLA_GSO_MAX_SEGS, 65535)
	u32(unix.IFLA_GSO_MAX_SIZE, 65536)
	u32(unix.IFLA_GRO_MAX_SIZE, 65536)
	u32(iflaGSOIPv4MaxSize, 65536)
	u32(iflaGROIPv4MaxSize, 65536)
	u32(iflaTSOMaxSize, 65536)
	u32(iflaTSOMaxSegs, 65535)
	u32(iflaMaxPacing, 0)
	u32(unix.IFLA_NUM_RX_QUEUES, 1)
	u8(unix.IFLA_CARRIER, boolByte(l.carrier))
	u32(unix.IFLA_CARRIER_CHANGES, l.ups+l.downs)
	u32(unix.IFLA_CARRIER_UP_COUNT, l.ups)
	u32(unix.IFLA_CARRIER_DOWN_COUNT, l.downs)
	b = nlattr.AppendU16(b, iflaHeadroom, 0)
	b = nlattr.AppendU16(b, iflaTailroom, 0)
	u8(unix.IFLA_PROTO_DOWN, l.proto)
	if l.alias != "" {
		b = nlattr.AppendString(b, unix.IFLA_IFALIAS, l.alias)
	}
	if l.arp != unix.ARPHRD_NONE {
		b = nlattr.Append(b, unix.IFLA_ADDRESS, l.mac[:])
		b = nlattr.Append(b, unix.IFLA_BROADCAST, l.brd[:])
	}
	b = nlattr.Append(b, unix.IFLA_STATS64, make([]byte, 200))
	b = nlattr.Append(b, unix.IFLA_STATS, make([]byte, 96))
	b, mark := nlattr.Nest(b, unix.IFLA_XDP)
	u8(iflaXDPAttached, 0)
	b = nlattr.EndNest(b, mark)
	if l.kind != "" {
		b = l.linkInfo(b)
	}
	if l.peer != nil {
		b = nlattr.AppendU32(b, unix.IFLA_LINK, uint32(l.peer.index))
	} else if l.kind == "veth" {
		b = nlattr.AppendU32(b, unix.IFLA_LINK, 0) // the first of a pair, while the second is made
	}
	b = nlattr.AppendString(b, unix.IFLA_QDISC, l.qdisc)
	b = l.afSpec(b)
	b = nlattr.Append(b, unix.IFLA_MAP, make([]byte, 32))
	b = nlattr.AppendFlag(b, iflaDevlinkPort|nlattr.FlagNested)
	return nlattr.AppendFlag(b, iflaDPLLPin|nlattr.FlagNested)
}

func (l *link) linkInfo(b []byte) []byte {
	b, mark := nlattr.Nest(b, unix.IFLA_LINKINFO)
	b = nlattr.AppendString(b, unix.IFLA_INFO_KIND, l.kind)
	if l.kind == "tun" {
		var data int
		b, data = nlattr.Nest(b, unix.IFLA_INFO_DATA)
		b = nlattr.EndNest(nlattr.AppendU8(b, tunTypeAttr, tunTAP), data)
	}
	return nlattr.EndNest(b, mark)
}

func (l *link) afSpec(b []byte) []byte {
	b, mark := nlattr.Nest(b, unix.IFLA_AF_SPEC)
	b, in := nlattr.Nest(b, unix.AF_INET)
	b = nlattr.EndNest(nlattr.Append(b, iflaInetConf, make([]byte, 4*inetConfs)), in)
	b, in = nlattr.Nest(b, unix.AF_INET6)
	conf := make([]byte, 4*inet6Confs)
	conf[4*devconfDisableIPv6+lowByte] = boolByte(l.noIPv6)
	b = nlattr.EndNest(nlattr.Append(b, iflaInet6Conf, conf), in)
	return nlattr.EndNest(b, mark)
}

func (l *link) minMTU() int {
	if l.arp == unix.ARPHRD_ETHER {
		return 68
	}
	return 0
}

// lowByte is where the lowest byte of a 32-bit number is.
var lowByte = func() int {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return 3
	}
	return 0
}()

func boolByte(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}
