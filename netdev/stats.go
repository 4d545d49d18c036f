package netdev

import "sync/atomic"

// Counters are a device's statistics (struct rtnl_link_stats64). All fields are
// written from the frame path with atomic adds once a batch or frame.
type Counters struct {
	RxPackets, TxPackets, RxBytes, TxBytes   atomic.Uint64
	RxErrors, TxErrors, RxDropped, TxDropped atomic.Uint64
	RxFrameErrors, RxLengthErrors            atomic.Uint64
	TxCarrierErrors, Collisions, Multicast   atomic.Uint64
}
