package bridge

import (
	"encoding/binary"
	"math/bits"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

func appendNative32(b []byte, v uint32) []byte { return binary.NativeEndian.AppendUint32(b, v) }

// infoPolicy is br_policy of a kernel without VLAN filtering.
var infoPolicy = func() nlattr.Policy {
	p := nlattr.Policy{
		unix.IFLA_BR_GROUP_ADDR:    {Kind: nlattr.Binary, Len: 6},
		unix.IFLA_BR_MULTI_BOOLOPT: {Kind: nlattr.Binary, Len: 8, Exact: true},
		unix.IFLA_BR_FDB_N_LEARNED: {Kind: nlattr.Reject, Strict: true},
	}
	for kind, types := range map[nlattr.Kind][]uint16{
		nlattr.U8: {
			unix.IFLA_BR_VLAN_FILTERING, unix.IFLA_BR_MCAST_ROUTER, unix.IFLA_BR_MCAST_SNOOPING,
			unix.IFLA_BR_MCAST_QUERY_USE_IFADDR, unix.IFLA_BR_MCAST_QUERIER, unix.IFLA_BR_NF_CALL_IPTABLES,
			unix.IFLA_BR_NF_CALL_IP6TABLES, unix.IFLA_BR_NF_CALL_ARPTABLES, unix.IFLA_BR_VLAN_STATS_ENABLED,
			unix.IFLA_BR_MCAST_STATS_ENABLED, unix.IFLA_BR_MCAST_IGMP_VERSION, unix.IFLA_BR_MCAST_MLD_VERSION,
			unix.IFLA_BR_VLAN_STATS_PER_PORT,
		},
		nlattr.U16: {
			unix.IFLA_BR_PRIORITY, unix.IFLA_BR_VLAN_PROTOCOL, unix.IFLA_BR_GROUP_FWD_MASK,
			unix.IFLA_BR_VLAN_DEFAULT_PVID,
		},
		nlattr.U32: {
			unix.IFLA_BR_FORWARD_DELAY, unix.IFLA_BR_HELLO_TIME, unix.IFLA_BR_MAX_AGE, unix.IFLA_BR_AGEING_TIME,
			unix.IFLA_BR_STP_STATE, unix.IFLA_BR_MCAST_HASH_ELASTICITY, unix.IFLA_BR_MCAST_HASH_MAX,
			unix.IFLA_BR_MCAST_LAST_MEMBER_CNT, unix.IFLA_BR_MCAST_STARTUP_QUERY_CNT, unix.IFLA_BR_FDB_MAX_LEARNED,
		},
		nlattr.U64: {
			unix.IFLA_BR_MCAST_LAST_MEMBER_INTVL, unix.IFLA_BR_MCAST_MEMBERSHIP_INTVL,
			unix.IFLA_BR_MCAST_QUERIER_INTVL, unix.IFLA_BR_MCAST_QUERY_INTVL,
			unix.IFLA_BR_MCAST_QUERY_RESPONSE_INTVL, unix.IFLA_BR_MCAST_STARTUP_QUERY_INTVL,
		},
	} {
		for _, t := range types {
			p[t] = nlattr.Rule{Kind: kind, Strict: t >= unix.IFLA_BR_FDB_N_LEARNED}
		}
	}
	return p
}()

// CheckInfo validates the content of IFLA_INFO_DATA against the policy, as rtnl
// does before it creates or changes a device. Attributes of kernels newer than
// the one imitated are ignored. create makes no difference so far.
func CheckInfo(data nlattr.Attrs, _ bool) error {
	return infoPolicy.Validate(data, 0, nlattr.Liberal)
}

// infoSetters apply IFLA_INFO_DATA, in the order in which the kernel looks at the
// attributes (br_changelink).
var infoSetters = []struct {
	typ uint16
	set func(*Bridge, nlattr.Attr) error
}{
	{unix.IFLA_BR_FORWARD_DELAY, (*Bridge).setForwardDelay},
	{unix.IFLA_BR_HELLO_TIME, (*Bridge).setHelloTime},
	{unix.IFLA_BR_MAX_AGE, (*Bridge).setMaxAge},
	{unix.IFLA_BR_AGEING_TIME, (*Bridge).setAgeing},
	{unix.IFLA_BR_STP_STATE, func(b *Bridge, a nlattr.Attr) error { b.setSTP(a.U32() != 0); return nil }},
	{unix.IFLA_BR_PRIORITY, func(b *Bridge, a nlattr.Attr) error { b.setPriority(a.U16()); return nil }},
	{unix.IFLA_BR_VLAN_FILTERING, func(*Bridge, nlattr.Attr) error { return nlattr.Errno(syscall.EOPNOTSUPP) }},
	{unix.IFLA_BR_GROUP_FWD_MASK, (*Bridge).setGroupFwdMask},
	{unix.IFLA_BR_GROUP_ADDR, (*Bridge).setGroupAddr},
	{unix.IFLA_BR_FDB_FLUSH, func(b *Bridge, _ nlattr.Attr) error { b.flush(flushDesc{mask: fdbStatic}); return nil }},
	{unix.IFLA_BR_MCAST_ROUTER, (*Bridge).setMcastRouter},
	{unix.IFLA_BR_MCAST_SNOOPING, func(b *Bridge, a nlattr.Attr) error { b.setSnooping(a.U8() != 0); return nil }},
	{unix.IFLA_BR_MCAST_QUERY_USE_IFADDR, setBool(func(b *Bridge) *bool { return &b.mcast.useIfaddr })},
	{unix.IFLA_BR_MCAST_QUERIER, func(b *Bridge, a nlattr.Attr) error { b.setQuerier(a.U8() != 0); return nil }},
	{unix.IFLA_BR_MCAST_HASH_MAX, setU32(func(b *Bridge) *uint32 { return &b.mcast.hashMax })},
	{unix.IFLA_BR_MCAST_LAST_MEMBER_CNT, setU32(func(b *Bridge) *uint32 { return &b.mcast.lastMemberCount })},
	{unix.IFLA_BR_MCAST_STARTUP_QUERY_CNT, setU32(func(b *Bridge) *uint32 { return &b.mcast.startupQueryCount })},
	{unix.IFLA_BR_MCAST_LAST_MEMBER_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_MEMBERSHIP_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_QUERIER_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_QUERY_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_QUERY_RESPONSE_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_STARTUP_QUERY_INTVL, (*Bridge).setInterval},
	{unix.IFLA_BR_MCAST_STATS_ENABLED, setBool(func(b *Bridge) *bool { return &b.mcast.stats })},
	{unix.IFLA_BR_MCAST_IGMP_VERSION, setVersion(2, 3, func(b *Bridge) *uint8 { return &b.mcast.igmp })},
	{unix.IFLA_BR_MCAST_MLD_VERSION, setVersion(1, 2, func(b *Bridge) *uint8 { return &b.mcast.mld })},
	{unix.IFLA_BR_NF_CALL_IPTABLES, setBool(func(b *Bridge) *bool { return &b.cfg.nfCall[0] })},
	{unix.IFLA_BR_NF_CALL_IP6TABLES, setBool(func(b *Bridge) *bool { return &b.cfg.nfCall[1] })},
	{unix.IFLA_BR_NF_CALL_ARPTABLES, setBool(func(b *Bridge) *bool { return &b.cfg.nfCall[2] })},
	{unix.IFLA_BR_MULTI_BOOLOPT, (*Bridge).setBoolopts},
	{unix.IFLA_BR_FDB_MAX_LEARNED, func(b *Bridge, a nlattr.Attr) error { b.maxLearned.Store(a.U32()); return nil }},
}

// SetInfo applies the content of IFLA_INFO_DATA, which CheckInfo has accepted
// (br_changelink). It stops at the first error; what was applied before stays. The
// bridge's NEWLINK is the caller's.
func (b *Bridge) SetInfo(data nlattr.Attrs) error {
	defer b.publish()
	for _, s := range infoSetters {
		if a, ok := data.Get(s.typ); ok {
			if err := s.set(b, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func setBool(field func(*Bridge) *bool) func(*Bridge, nlattr.Attr) error {
	return func(b *Bridge, a nlattr.Attr) error { *field(b) = a.U8() != 0; return nil }
}

func setU32(field func(*Bridge) *uint32) func(*Bridge, nlattr.Attr) error {
	return func(b *Bridge, a nlattr.Attr) error { *field(b) = a.U32(); return nil }
}

func setVersion(lo, hi uint8, field func(*Bridge) *uint8) func(*Bridge, nlattr.Attr) error {
	return func(b *Bridge, a nlattr.Attr) error {
		if v := a.U8(); v < lo || v > hi {
			return nlattr.Errno(syscall.EINVAL)
		}
		*field(b) = a.U8()
		return nil
	}
}

// within reads a time and requires lo..hi.
func within(a nlattr.Attr, lo, hi ticks) (ticks, error) {
	t := fromCS(uint64(a.U32()))
	if t < lo || t > hi {
		return 0, nlattr.Errno(syscall.ERANGE)
	}
	return t, nil
}

func (b *Bridge) setForwardDelay(a nlattr.Attr) error {
	t := fromCS(uint64(a.U32()))
	if b.cfg.stp && (t < minForwardDelay || t > maxForwardDelay) {
		return nlattr.Errno(syscall.ERANGE)
	}
	b.setBridgeForwardDelay(t)
	return nil
}

func (b *Bridge) setHelloTime(a nlattr.Attr) error {
	t, err := within(a, minHelloTime, maxHelloTime)
	if err != nil {
		return err
	}
	if b.cfg.bridgeHelloTime = t; b.stp.isRoot() {
		b.cfg.helloTime = t
	}
	return nil
}

func (b *Bridge) setMaxAge(a nlattr.Attr) error {
	t, err := within(a, minMaxAge, maxMaxAge)
	if err != nil {
		return err
	}
	if b.cfg.bridgeMaxAge = t; b.stp.isRoot() {
		b.cfg.maxAge = t
	}
	return nil
}

// setAgeing also starts the worker that deletes expired rows, even on a bridge
// that is down: the kernel does so too.
func (b *Bridge) setAgeing(a nlattr.Attr) error {
	t := fromCS(uint64(a.U32()))
	b.cfg.ageing, b.cfg.bridgeAgeing = t, t
	b.updateHold()
	b.scheduleGC(0)
	return nil
}

// setGroupFwdMask refuses the groups that a bridge must never forward: its own, and
// those of pause frames and link aggregation (BR_GROUPFWD_RESTRICTED).
func (b *Bridge) setGroupFwdMask(a nlattr.Attr) error {
	if a.U16()&7 != 0 {
		return nlattr.Errno(syscall.EINVAL)
	}
	b.cfg.groupFwdMask = a.U16()
	return nil
}

func (b *Bridge) setGroupAddr(a nlattr.Attr) error {
	if len(a.Data) != 6 {
		return nlattr.Errno(syscall.EINVAL)
	}
	mac := uapi.MACFrom(a.Data)
	if x := mac & 0xf; !mac.LinkLocal() || x >= 1 && x <= 3 {
		return nlattr.Errno(syscall.EINVAL)
	}
	b.cfg.groupAddr = mac
	return nil
}

func (b *Bridge) setInterval(a nlattr.Attr) error {
	t := fromCS(a.U64())
	if a.Type == unix.IFLA_BR_MCAST_QUERY_INTVL || a.Type == unix.IFLA_BR_MCAST_STARTUP_QUERY_INTVL {
		t = t.clamp(second, 86400*second)
	}
	*b.mcast.intervals()[a.Type-unix.IFLA_BR_MCAST_LAST_MEMBER_INTVL] = t
	return nil
}

// setBoolopts applies IFLA_BR_MULTI_BOOLOPT: struct br_boolopt_multi, values and
// mask (br_boolopt_multi_toggle).
func (b *Bridge) setBoolopts(a nlattr.Attr) error {
	val, mask := binary.NativeEndian.Uint32(a.Data), binary.NativeEndian.Uint32(a.Data[4:])
	if unknown := mask &^ boolAll; unknown != 0 {
		return nlattr.Errf(syscall.EINVAL, "bridge: Unknown boolean option %d", bits.TrailingZeros32(unknown))
	}
	for bit := uint32(1); bit < boolAll; bit <<= 1 {
		switch {
		case mask&bit == 0:
			continue
		case bit == boolMcastVLANSnooping && val&bit != 0:
			return nlattr.Errf(syscall.EINVAL, "bridge: Cannot enable multicast vlan snooping with vlan filtering disabled")
		case bit == boolMST:
			return nlattr.Errno(syscall.EOPNOTSUPP)
		}
		b.cfg.boolopts = b.cfg.boolopts&^bit | val&bit
	}
	return nil
}
