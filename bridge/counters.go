package bridge

import "sync/atomic"

// Drops counts the frames that went nowhere, by reason. A port counts what it
// refused when it came in and what was not sent out of it; the bridge counts what
// the host sent. Each counter only grows.
type Drops struct {
	Short       atomic.Uint64 // shorter than an Ethernet header
	BadSource   atomic.Uint64 // source is a group or zero
	Pause       atomic.Uint64 // destination 01:80:c2:00:00:01
	LinkLocal   atomic.Uint64 // for the port's device itself, not for the bridge
	PortState   atomic.Uint64 // came in on a port that is not forwarding, or the bridge is down
	Locked      atomic.Uint64 // came in on a locked port from an unknown station
	OwnSource   atomic.Uint64 // came with an own address as source; still forwarded
	Malformed   atomic.Uint64 // multicast with a bad IP header or checksum
	SamePort    atomic.Uint64 // would leave by the port it came from
	EgressState atomic.Uint64 // would leave by a port that is not forwarding
	Isolated    atomic.Uint64 // both ports are isolated
	TooBig      atomic.Uint64 // larger than the MTU of the port it would leave by
	NoPort      atomic.Uint64 // host frame to an address of the bridge itself
}

// Drops returns the bridge's counters.
func (b *Bridge) Drops() *Drops { return &b.drops }

// Drops returns the port's counters.
func (p *Port) Drops() *Drops { return &p.drops }
