// Package bridge is the Linux bridge driver: its forwarding table, its
// configuration over rtnetlink and its forwarding decisions.
//
// # Locks
//
// Configuration (Bridge, Port and everything they point to) belongs to whoever
// holds the namespace's RTNL lock, Hooks.Lock. The rows of the forwarding table
// are changed under Bridge.fdbMu, because the frame path learns without the RTNL
// lock. fdbMu is the inner lock and is never held while a Hooks method runs.
//
// # Frames
//
// The frame path takes no lock. It reads what the control plane published: one
// immutable view of the bridge and its ports (view.go), and the rows of the
// table, which change by atomics alone. A frame that teaches something new (a
// source never seen, or seen elsewhere) takes fdbMu.
//
// # Not here yet
//
// VLAN filtering, the STP protocol itself (BPDUs), IGMP and MLD snooping (static
// MDB entries work), and ARP/ND proxy and suppression: their attributes are kept
// and reported, as by a kernel that has no use for them.
package bridge

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// Hooks is what a bridge asks of the layer above. Except for Lock and Unlock,
// its methods are called with the RTNL lock held.
type Hooks interface {
	// Lock and Unlock are the RTNL lock. The bridge's own timers take it.
	Lock()
	Unlock()
	// PortChanged is br_ifinfo_notify: emit one AF_BRIDGE RTM_NEWLINK for the
	// port; with gone, one RTM_DELLINK.
	PortChanged(p *Port, gone bool)
	// BridgeChanged emits one AF_UNSPEC RTM_NEWLINK of the bridge device;
	// with features, one that carries IFLA_EVENT_FEATURES.
	BridgeChanged(b *Bridge, features bool)
	// SetAddress sets the MAC of the bridge device. It emits no event.
	SetAddress(b *Bridge, mac uapi.MAC)
	// SetMTU sets the MTU of the bridge device, in bytes, and emits the
	// RTM_NEWLINK that dev_set_mtu causes. It is called only where it changes.
	SetMTU(b *Bridge, mtu int)
	// SetCarrier tells the bridge device whether it has carrier. It is called
	// only where that changes; New may call it.
	SetCarrier(b *Bridge, on bool)
}

// Env is what a bridge lives in.
type Env struct {
	Clock  netdev.Clock
	Notify notify.Publisher
	Domain *netdev.Domain
	Hooks  Hooks
	// Lookup tells what a device of the namespace is to bridges: whether it
	// exists, the port that it is and the bridge that it is, if any. It is called
	// with the RTNL lock held. Nil knows this bridge and its ports only.
	Lookup func(ifindex int) (exists bool, port *Port, bridge *Bridge)
	// Log takes what the kernel driver would print. It may be nil.
	Log *slog.Logger
}

// Bridge is one bridge device.
type Bridge struct {
	env     Env
	ifindex int
	host    netdev.Egress

	// Under the RTNL lock.
	link    netdev.LinkState
	cfg     config
	mcast   mcastConfig
	mdb     mdb
	ports   []*Port // newest first, as br->port_list
	closed  bool
	userMAC bool // the user chose the address (NET_ADDR_SET)
	userMTU bool // BROPT_MTU_SET_BY_USER
	carrier bool
	// features is one of featuresOwn, featuresTunnel and featuresReal.
	features int
	stp      stpBridge

	// What the frame path reads.
	view     atomic.Pointer[view]
	hold     atomic.Int64 // ticks after which a row has expired
	fdb      *fdb.Table[row]
	counters netdev.Counters
	drops    Drops
	// maxLearned and nLearned are IFLA_BR_FDB_MAX_LEARNED and _N_LEARNED. Writers
	// of nLearned hold fdbMu.
	maxLearned, nLearned atomic.Uint32

	fdbMu sync.Mutex
	gc    collector // under fdbMu
	msg   []byte    // under fdbMu: scratch for messages
}

// New makes a bridge of the device that link describes and registers it: its own
// LOCAL row is announced (RTM_NEWNEIGH). host takes the frames that are
// delivered locally. userMAC tells that the request had an IFLA_ADDRESS; link.MAC
// is that address, or a random one. The caller applies IFLA_INFO_DATA with
// SetInfo and emits RTM_NEWLINK afterwards.
func New(env Env, link netdev.LinkState, host netdev.Egress, userMAC bool) *Bridge {
	b := &Bridge{
		env: env, ifindex: link.Ifindex, host: host, link: link, userMAC: userMAC, carrier: true,
		cfg: defaultConfig(), mcast: defaultMcast(), fdb: fdb.New[row](fdb.Options{}),
	}
	if b.env.Log == nil {
		b.env.Log = slog.New(slog.DiscardHandler)
	}
	b.link.Up = false
	b.mdb.init()
	b.stp.init()
	b.hold.Store(int64(b.cfg.ageing))
	b.changeOwnAddress(b.link.MAC)
	if userMAC {
		// br_dev_newlink sets the address once more after registration, which
		// deletes the row and adds it again.
		b.changeBridgeID(b.link.MAC, false)
	}
	b.publish()
	if link.Up {
		b.LinkChanged(link)
	}
	return b
}

// Close undoes New: the bridge's own rows are deleted (RTM_DELNEIGH) and its
// timers stopped. Its ports have been released before.
func (b *Bridge) Close() {
	b.closed = true
	b.view.Store(nil)
	b.fdbMu.Lock()
	b.gc.close()
	b.fdbMu.Unlock()
	b.mdbClose()
	b.stp.cancel()
	b.eachRow(func(e *entry) {
		if e.V.dst.Load() == nil {
			b.deleteRow(e)
		}
	})
}

// Ifindex returns the device's index, which never changes.
func (b *Bridge) Ifindex() int { return b.ifindex }

// Link returns the device as the bridge knows it: with the address and MTU that
// it chose itself.
func (b *Bridge) Link() netdev.LinkState {
	l := b.link
	l.Carrier = b.carrier
	return l
}

// Ports returns the ports, the one added last first.
func (b *Bridge) Ports() []*Port { return slices.Clone(b.ports) }

// Port returns the port of that index, nil if there is none.
func (b *Bridge) Port(ifindex int) *Port {
	for _, p := range b.ports {
		if p.ifindex == ifindex {
			return p
		}
	}
	return nil
}

// HostCounters are the statistics of the bridge device, as its user sees them:
// received is what was delivered locally, sent what the host sent through it.
func (b *Bridge) HostCounters() *netdev.Counters { return &b.counters }

// LinkChanged tells that the bridge device was renamed, was set up or down, has
// another MTU, or was made promiscuous. Where the admin state changes the ports
// are enabled or disabled as br_dev_open and br_dev_stop do; the device's own
// RTM_NEWLINK comes after that. The MAC and the carrier in s are ignored: see
// SetUserAddress and Hooks.
func (b *Bridge) LinkChanged(s netdev.LinkState) {
	b.link.Name, b.link.MTU, b.link.Promisc = s.Name, s.MTU, s.Promisc
	b.link.SpeedMbps = s.SpeedMbps
	up := b.link.Up
	b.link.Up = s.Up
	switch {
	case s.Up && !up:
		b.publish()
		b.enableBridge()
		b.mcastOpen()
	case !s.Up && up:
		b.disableBridge()
		b.mcastStop()
	}
	b.publish()
}

func (b *Bridge) now() ticks { return ticksOf(b.env.Clock.Now()) }

// lookup is Env.Lookup with its default.
func (b *Bridge) lookup(ifindex int) (exists bool, p *Port, br *Bridge) {
	if ifindex == b.ifindex {
		return true, nil, b
	}
	if p := b.Port(ifindex); p != nil {
		return true, p, nil
	}
	if b.env.Lookup == nil {
		return false, nil, nil
	}
	return b.env.Lookup(ifindex)
}
