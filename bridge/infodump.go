package bridge

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

func bool8(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

func bool32(v bool) uint32 { return uint32(bool8(v)) }

// appendID adds a bridge identifier: struct ifla_bridge_id.
func appendID(buf []byte, t uint16, id bridgeID) []byte {
	return nlattr.Append(buf, t, binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(id)))
}

// AppendInfo adds the content of IFLA_INFO_DATA, in the kernel's order
// (br_fill_info).
func (b *Bridge) AppendInfo(buf []byte) []byte {
	now, c := b.now(), &b.cfg
	u8, u16, u32, u64 := nlattr.AppendU8, nlattr.AppendU16, nlattr.AppendU32, nlattr.AppendU64
	buf = u64(buf, unix.IFLA_BR_HELLO_TIMER, b.stp.hello.left(now))
	buf = u64(buf, unix.IFLA_BR_TCN_TIMER, 0)
	buf = u64(buf, unix.IFLA_BR_TOPOLOGY_CHANGE_TIMER, b.stp.topologyTimer.left(now))
	buf = u64(buf, unix.IFLA_BR_GC_TIMER, b.gcLeft(now))
	buf = u32(buf, unix.IFLA_BR_FORWARD_DELAY, uint32(c.forwardDelay.cs()))
	buf = u32(buf, unix.IFLA_BR_HELLO_TIME, uint32(c.helloTime.cs()))
	buf = u32(buf, unix.IFLA_BR_MAX_AGE, uint32(c.maxAge.cs()))
	buf = u32(buf, unix.IFLA_BR_AGEING_TIME, uint32(c.ageing.cs()))
	buf = u32(buf, unix.IFLA_BR_STP_STATE, bool32(c.stp))
	buf = u16(buf, unix.IFLA_BR_PRIORITY, uint16(b.stp.id>>48))
	buf = u8(buf, unix.IFLA_BR_VLAN_FILTERING, 0)
	buf = u16(buf, unix.IFLA_BR_GROUP_FWD_MASK, c.groupFwdMask)
	buf = appendID(buf, unix.IFLA_BR_BRIDGE_ID, b.stp.id)
	buf = appendID(buf, unix.IFLA_BR_ROOT_ID, b.stp.root)
	buf = u16(buf, unix.IFLA_BR_ROOT_PORT, b.stp.rootPort)
	buf = u32(buf, unix.IFLA_BR_ROOT_PATH_COST, b.stp.rootPathCost)
	buf = u8(buf, unix.IFLA_BR_TOPOLOGY_CHANGE, bool8(b.stp.topology))
	buf = u8(buf, unix.IFLA_BR_TOPOLOGY_CHANGE_DETECTED, bool8(b.stp.detected))
	buf = nlattr.Append(buf, unix.IFLA_BR_GROUP_ADDR, c.groupAddr.Append(make([]byte, 0, 6)))
	var mark int
	buf, mark = nlattr.Nest(buf, unix.IFLA_BR_MULTI_BOOLOPT)
	buf = appendNative32(appendNative32(buf, c.boolopts), boolAll)
	buf = nlattr.EndNest(buf, mark)
	buf = u32(buf, unix.IFLA_BR_FDB_N_LEARNED, b.nLearned.Load())
	buf = u32(buf, unix.IFLA_BR_FDB_MAX_LEARNED, b.maxLearned.Load())
	buf = b.mcast.appendInfo(buf)
	for i, v := range c.nfCall {
		buf = u8(buf, unix.IFLA_BR_NF_CALL_IPTABLES+uint16(i), bool8(v))
	}
	return buf
}

func (m *mcastConfig) appendInfo(buf []byte) []byte {
	u8, u32 := nlattr.AppendU8, nlattr.AppendU32
	buf = u8(buf, unix.IFLA_BR_MCAST_ROUTER, m.router)
	buf = u8(buf, unix.IFLA_BR_MCAST_SNOOPING, bool8(m.snooping))
	buf = u8(buf, unix.IFLA_BR_MCAST_QUERY_USE_IFADDR, bool8(m.useIfaddr))
	buf = u8(buf, unix.IFLA_BR_MCAST_QUERIER, bool8(m.querier))
	buf = u8(buf, unix.IFLA_BR_MCAST_STATS_ENABLED, bool8(m.stats))
	buf = u32(buf, unix.IFLA_BR_MCAST_HASH_ELASTICITY, 16)
	buf = u32(buf, unix.IFLA_BR_MCAST_HASH_MAX, m.hashMax)
	buf = u32(buf, unix.IFLA_BR_MCAST_LAST_MEMBER_CNT, m.lastMemberCount)
	buf = u32(buf, unix.IFLA_BR_MCAST_STARTUP_QUERY_CNT, m.startupQueryCount)
	buf = u8(buf, unix.IFLA_BR_MCAST_IGMP_VERSION, m.igmp)
	buf = u8(buf, unix.IFLA_BR_MCAST_MLD_VERSION, m.mld)
	for i, t := range m.intervals() {
		buf = nlattr.AppendU64(buf, unix.IFLA_BR_MCAST_LAST_MEMBER_INTVL+uint16(i), t.cs())
	}
	return buf
}
