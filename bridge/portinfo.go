package bridge

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

// portPolicy is br_port_policy.
var portPolicy = func() nlattr.Policy {
	p := nlattr.Policy{
		unix.IFLA_BRPORT_MCAST_N_GROUPS:      {Kind: nlattr.Reject},
		unix.IFLA_BRPORT_NEIGH_VLAN_SUPPRESS: {Kind: nlattr.U8, Ranged: true, Max: 1},
	}
	for _, t := range []uint16{unix.IFLA_BRPORT_STATE, unix.IFLA_BRPORT_MULTICAST_ROUTER} {
		p[t] = nlattr.Rule{Kind: nlattr.U8}
	}
	for _, f := range portFlags {
		if _, ok := p[f.typ]; !ok {
			p[f.typ] = nlattr.Rule{Kind: nlattr.U8}
		}
	}
	for _, t := range []uint16{unix.IFLA_BRPORT_PRIORITY, unix.IFLA_BRPORT_GROUP_FWD_MASK} {
		p[t] = nlattr.Rule{Kind: nlattr.U16}
	}
	for _, t := range []uint16{
		unix.IFLA_BRPORT_COST, unix.IFLA_BRPORT_BACKUP_PORT, unix.IFLA_BRPORT_MCAST_EHT_HOSTS_LIMIT,
		unix.IFLA_BRPORT_MCAST_MAX_GROUPS, unix.IFLA_BRPORT_BACKUP_NHID,
	} {
		p[t] = nlattr.Rule{Kind: nlattr.U32}
	}
	// From here on the policy is strict (strict_start_type).
	p[unix.IFLA_BRPORT_MCAST_EHT_HOSTS_CNT] = nlattr.Rule{}
	for t := uint16(unix.IFLA_BRPORT_MCAST_EHT_HOSTS_CNT); t <= unix.IFLA_BRPORT_BACKUP_NHID; t++ {
		r := p[t]
		r.Strict = true
		p[t] = r
	}
	return p
}()

// portFlags are the attributes that are one flag each.
var portFlags = []struct {
	typ  uint16
	flag uint32
}{
	{unix.IFLA_BRPORT_MODE, portHairpin},
	{unix.IFLA_BRPORT_GUARD, portGuard},
	{unix.IFLA_BRPORT_FAST_LEAVE, portFastLeave},
	{unix.IFLA_BRPORT_PROTECT, portRootBlock},
	{unix.IFLA_BRPORT_LEARNING, portLearning},
	{unix.IFLA_BRPORT_UNICAST_FLOOD, portFlood},
	{unix.IFLA_BRPORT_MCAST_FLOOD, portMcastFlood},
	{unix.IFLA_BRPORT_MCAST_TO_UCAST, portMcastToUcast},
	{unix.IFLA_BRPORT_BCAST_FLOOD, portBcastFlood},
	{unix.IFLA_BRPORT_PROXYARP, portProxyARP},
	{unix.IFLA_BRPORT_PROXYARP_WIFI, portProxyARPWifi},
	{unix.IFLA_BRPORT_VLAN_TUNNEL, portVLANTunnel},
	{unix.IFLA_BRPORT_NEIGH_SUPPRESS, portNeighSuppress},
	{unix.IFLA_BRPORT_ISOLATED, portIsolated},
	{unix.IFLA_BRPORT_LOCKED, portLocked},
	{unix.IFLA_BRPORT_MAB, portMAB},
	{unix.IFLA_BRPORT_NEIGH_VLAN_SUPPRESS, portNeighVLANSuppress},
}

// CheckPortInfo validates the attributes of a port against the policy. Rtnl does so
// for IFLA_INFO_SLAVE_DATA, where the refusal has a text. SetInfo does so itself, but
// without one: br_setlink, which handles IFLA_PROTINFO, throws it away.
func CheckPortInfo(data nlattr.Attrs) error { return portPolicy.Validate(data, 0, nlattr.Liberal) }

// SetInfo applies the content of IFLA_PROTINFO or IFLA_INFO_SLAVE_DATA
// (br_setport), in the kernel's order. It stops at the first error; what was
// applied before stays. What it removes is reported, but the port's own final
// NEWLINK is the caller's, and sent on success only.
func (p *Port) SetInfo(data nlattr.Attrs) error {
	if err := CheckPortInfo(data); err != nil {
		return nlattr.Errno(nlattr.AsError(err).Errno)
	}
	defer p.b.publish()
	if err := p.setFlags(data); err != nil {
		return err
	}
	for _, s := range portSetters {
		if a, ok := data.Get(s.typ); ok {
			if err := s.set(p, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// VLANTunnel is IFLA_BRPORT_VLAN_TUNNEL.
func (p *Port) VLANTunnel() bool { return p.flags&portVLANTunnel != 0 }

func (p *Port) setFlags(data nlattr.Attrs) error {
	flags := p.flags
	for _, f := range portFlags {
		if a, ok := data.Get(f.typ); ok {
			flags &^= f.flag
			if a.U8() != 0 {
				flags |= f.flag
			}
		}
	}
	if flags&portMAB != 0 && flags&(portLocked|portLearning) != portLocked|portLearning {
		return nlattr.Errf(syscall.EINVAL, "Bridge port must be locked and have learning enabled when MAB is enabled")
	}
	old := p.flags
	p.flags = flags
	p.b.publish() // before the flush: no locked row shall come after it
	if old&portMAB != 0 && flags&portMAB == 0 {
		p.b.flush(flushDesc{ifindex: p.ifindex, flags: fdbLocked, mask: fdbLocked})
	}
	return nil
}

var portSetters = []struct {
	typ uint16
	set func(*Port, nlattr.Attr) error
}{
	{unix.IFLA_BRPORT_COST, (*Port).setCost},
	{unix.IFLA_BRPORT_PRIORITY, (*Port).setPriority},
	{unix.IFLA_BRPORT_STATE, func(p *Port, a nlattr.Attr) error { return p.SetSTPState(a.U8()) }},
	{unix.IFLA_BRPORT_FLUSH, func(p *Port, _ nlattr.Attr) error { p.b.deleteByPort(p, false); return nil }},
	{unix.IFLA_BRPORT_MULTICAST_ROUTER, (*Port).setMcastRouter},
	{unix.IFLA_BRPORT_MCAST_EHT_HOSTS_LIMIT, (*Port).setEHTLimit},
	{unix.IFLA_BRPORT_MCAST_MAX_GROUPS, func(p *Port, a nlattr.Attr) error { p.mcast.maxGroups = a.U32(); return nil }},
	{unix.IFLA_BRPORT_GROUP_FWD_MASK, (*Port).setGroupFwdMask},
	{unix.IFLA_BRPORT_BACKUP_PORT, (*Port).setBackup},
	{unix.IFLA_BRPORT_BACKUP_NHID, func(p *Port, a nlattr.Attr) error { p.backupNHID = a.U32(); return nil }},
}

func (p *Port) setCost(a nlattr.Attr) error {
	cost := a.U32()
	if cost < 1 || cost > 65535 {
		return nlattr.Errno(syscall.ERANGE)
	}
	p.flags |= portAdminCost
	p.cost = cost
	p.b.updateConfiguration()
	p.b.selectStates()
	return nil
}

// setPriority is br_stp_set_port_priority.
func (p *Port) setPriority(a nlattr.Attr) error {
	prio := a.U16()
	if prio > 63 {
		return nlattr.Errno(syscall.ERANGE)
	}
	designated := p.designated()
	p.priority = uint8(prio)
	id := p.id()
	if designated {
		p.stp.designatedPort = id
	}
	if p.stp.designatedBridge == p.b.stp.id && id < p.stp.designatedPort {
		p.becomeDesignated()
		p.b.selectStates()
	}
	return nil
}

func (p *Port) setEHTLimit(a nlattr.Attr) error {
	if a.U32() == 0 {
		return nlattr.Errno(syscall.EINVAL)
	}
	p.mcast.ehtLimit = a.U32()
	return nil
}

// setGroupFwdMask refuses pause frames only (BR_GROUPFWD_MACPAUSE).
func (p *Port) setGroupFwdMask(a nlattr.Attr) error {
	if a.U16()&2 != 0 {
		return nlattr.Errno(syscall.EINVAL)
	}
	p.groupFwdMask = a.U16()
	return nil
}

// setBackup is nbp_backup_change.
func (p *Port) setBackup(a nlattr.Attr) error {
	ifindex := int(int32(a.U32()))
	if ifindex == 0 {
		p.backup = nil
		return nil
	}
	_, q, _ := p.b.lookup(ifindex)
	if q == nil {
		return nlattr.Errno(syscall.ENOENT)
	}
	if q.b != p.b || q == p {
		return nlattr.Errno(syscall.EINVAL)
	}
	p.backup = q
	return nil
}

// AppendInfo adds the content of IFLA_PROTINFO or IFLA_INFO_SLAVE_DATA, in the
// kernel's order (br_port_fill_attrs).
func (p *Port) AppendInfo(buf []byte) []byte {
	u8, u16, u32, u64 := nlattr.AppendU8, nlattr.AppendU16, nlattr.AppendU32, nlattr.AppendU64
	flags := func(fs ...uint16) {
		for _, t := range fs {
			for _, f := range portFlags {
				if f.typ == t {
					buf = u8(buf, t, bool8(p.flags&f.flag != 0))
				}
			}
		}
	}
	buf = u8(buf, unix.IFLA_BRPORT_STATE, p.state)
	buf = u16(buf, unix.IFLA_BRPORT_PRIORITY, uint16(p.priority))
	buf = u32(buf, unix.IFLA_BRPORT_COST, p.cost)
	flags(unix.IFLA_BRPORT_MODE, unix.IFLA_BRPORT_GUARD, unix.IFLA_BRPORT_PROTECT, unix.IFLA_BRPORT_FAST_LEAVE,
		unix.IFLA_BRPORT_MCAST_TO_UCAST, unix.IFLA_BRPORT_LEARNING, unix.IFLA_BRPORT_UNICAST_FLOOD,
		unix.IFLA_BRPORT_MCAST_FLOOD, unix.IFLA_BRPORT_BCAST_FLOOD, unix.IFLA_BRPORT_PROXYARP,
		unix.IFLA_BRPORT_PROXYARP_WIFI)
	buf = appendID(buf, unix.IFLA_BRPORT_ROOT_ID, p.stp.designatedRoot)
	buf = appendID(buf, unix.IFLA_BRPORT_BRIDGE_ID, p.stp.designatedBridge)
	buf = u16(buf, unix.IFLA_BRPORT_DESIGNATED_PORT, p.stp.designatedPort)
	buf = u16(buf, unix.IFLA_BRPORT_DESIGNATED_COST, uint16(p.stp.designatedCost))
	buf = u16(buf, unix.IFLA_BRPORT_ID, p.id())
	buf = u16(buf, unix.IFLA_BRPORT_NO, p.no)
	buf = u8(buf, unix.IFLA_BRPORT_TOPOLOGY_CHANGE_ACK, 0)
	buf = u8(buf, unix.IFLA_BRPORT_CONFIG_PENDING, 0)
	flags(unix.IFLA_BRPORT_VLAN_TUNNEL)
	buf = u16(buf, unix.IFLA_BRPORT_GROUP_FWD_MASK, p.groupFwdMask)
	flags(unix.IFLA_BRPORT_NEIGH_SUPPRESS)
	buf = u8(buf, unix.IFLA_BRPORT_MRP_RING_OPEN, 0)
	buf = u8(buf, unix.IFLA_BRPORT_MRP_IN_OPEN, 0)
	flags(unix.IFLA_BRPORT_ISOLATED, unix.IFLA_BRPORT_LOCKED, unix.IFLA_BRPORT_MAB, unix.IFLA_BRPORT_NEIGH_VLAN_SUPPRESS)
	buf = u64(buf, unix.IFLA_BRPORT_MESSAGE_AGE_TIMER, 0)
	buf = u64(buf, unix.IFLA_BRPORT_FORWARD_DELAY_TIMER, p.stp.forwardDelay.left(p.b.now()))
	buf = u64(buf, unix.IFLA_BRPORT_HOLD_TIMER, 0)
	buf = u8(buf, unix.IFLA_BRPORT_MULTICAST_ROUTER, p.mcast.router)
	buf = u32(buf, unix.IFLA_BRPORT_MCAST_EHT_HOSTS_LIMIT, p.mcast.ehtLimit)
	buf = u32(buf, unix.IFLA_BRPORT_MCAST_EHT_HOSTS_CNT, 0)
	buf = u32(buf, unix.IFLA_BRPORT_MCAST_N_GROUPS, p.mcast.groups)
	buf = u32(buf, unix.IFLA_BRPORT_MCAST_MAX_GROUPS, p.mcast.maxGroups)
	if p.backup != nil {
		buf = u32(buf, unix.IFLA_BRPORT_BACKUP_PORT, uint32(p.backup.ifindex))
	}
	if p.backupNHID != 0 {
		buf = u32(buf, unix.IFLA_BRPORT_BACKUP_NHID, p.backupNHID)
	}
	return buf
}
