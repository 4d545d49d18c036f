package bridge

import (
	"github.com/linkspan/linkspan/uapi"
)

// Limits of the STP parameters.
const (
	minForwardDelay = 2 * second
	maxForwardDelay = 30 * second
	minHelloTime    = 1 * second
	maxHelloTime    = 10 * second
	minMaxAge       = 6 * second
	maxMaxAge       = 40 * second
)

// Bits of IFLA_BR_MULTI_BOOLOPT (enum br_boolopt_id).
const (
	boolNoLinkLocalLearn = 1 << iota
	boolMcastVLANSnooping
	boolMST
	boolMDBOffloadFail
	boolFDBLocalVLAN0

	boolAll = 1<<iota - 1
)

// config is what IFLA_BR_* set, multicast aside. Times are in ticks.
type config struct {
	// The first three hold; the second three are what the user set, which differs
	// where another bridge is the root.
	forwardDelay, helloTime, maxAge                   ticks
	bridgeForwardDelay, bridgeHelloTime, bridgeMaxAge ticks
	// bridgeAgeing is what the user set; ageing is what holds, which differs
	// after a topology change.
	ageing, bridgeAgeing ticks
	stp                  bool
	groupFwdMask         uint16
	groupAddr            uapi.MAC
	nfCall               [3]bool // iptables, ip6tables, arptables
	boolopts             uint32
}

func defaultConfig() config {
	return config{
		forwardDelay: 15 * second, helloTime: 2 * second, maxAge: 20 * second,
		bridgeForwardDelay: 15 * second, bridgeHelloTime: 2 * second, bridgeMaxAge: 20 * second,
		ageing: 300 * second, bridgeAgeing: 300 * second, groupAddr: 0x0180c2000000,
	}
}

// Values of IFLA_BR_MCAST_ROUTER and IFLA_BRPORT_MULTICAST_ROUTER
// (MDB_RTR_TYPE_*).
const (
	routerDisabled = iota
	routerLearned  // MDB_RTR_TYPE_TEMP_QUERY
	routerPermanent
	routerTemporary
)

// mcastConfig is what IFLA_BR_MCAST_* set. Times are in ticks.
type mcastConfig struct {
	snooping, useIfaddr, querier, stats bool
	router                              uint8
	igmp, mld                           uint8
	hashMax                             uint32
	lastMemberCount, startupQueryCount  uint32
	// The six intervals, in the order of their attributes.
	lastMemberInterval, membershipInterval, querierInterval    ticks
	queryInterval, queryResponseInterval, startupQueryInterval ticks
	// querierDelay is until when a querier that has appeared is not relied upon.
	querierDelay ticks
}

func defaultMcast() mcastConfig {
	return mcastConfig{
		snooping: true, router: routerLearned, igmp: 2, mld: 1, hashMax: 4096,
		lastMemberCount: 2, startupQueryCount: 2,
		lastMemberInterval: second, membershipInterval: 260 * second, querierInterval: 255 * second,
		queryInterval: 125 * second, queryResponseInterval: 10 * second, startupQueryInterval: 125 * second / 4,
	}
}

// intervals returns the fields of IFLA_BR_MCAST_LAST_MEMBER_INTVL and the five
// attributes after it.
func (m *mcastConfig) intervals() [6]*ticks {
	return [...]*ticks{
		&m.lastMemberInterval, &m.membershipInterval, &m.querierInterval,
		&m.queryInterval, &m.queryResponseInterval, &m.startupQueryInterval,
	}
}
