package bridge

import (
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// maxPorts is BR_MAX_PORTS less the number 0, which no port has.
const maxPorts = 1023

// Flags of a port (BR_* in include/linux/if_bridge.h; the values are our own).
const (
	portHairpin = 1 << iota
	portGuard
	portRootBlock
	portFastLeave
	portMcastToUcast
	portProxyARP
	portProxyARPWifi
	portVLANTunnel
	portNeighSuppress
	portIsolated
	portLocked
	portMAB
	portLearning
	portFlood
	portMcastFlood
	portBcastFlood
	portNeighVLANSuppress
	portAdminCost // the user set the cost, so that it no longer follows the speed
)

// Port is a device that was enslaved to a bridge.
type Port struct {
	b       *Bridge
	ifindex int
	out     netdev.Egress

	// Under the RTNL lock.
	link         netdev.LinkState
	no           uint16 // 1..maxPorts
	state        uint8
	flags        uint32
	priority     uint8
	cost         uint32
	groupFwdMask uint16
	backup       *Port
	backupNHID   uint32
	stp          stpPort
	mcast        mcastPort

	// What the frame path reads. view is nil from DelPort on.
	view  atomic.Pointer[portView]
	drops Drops
}

// AddPort enslaves a device (br_add_if): NewPort and Join in one. The RTM_NEWLINK
// messages of the device with its new master, which come before everything that
// the bridge emits, are then the caller's to emit before the call.
func (b *Bridge) AddPort(s netdev.LinkState, out netdev.Egress) (*Port, error) {
	p, err := b.NewPort(s, out)
	if err != nil {
		return nil, err
	}
	b.Join(p)
	return p, nil
}

// NewPort makes a port without adding it yet (new_nbp), so that the messages
// about the device's new master can show its IFLA_INFO_SLAVE_DATA. It emits
// nothing. Errors: EXFULL where all port numbers are taken, EINVAL for a MAC that
// no port may have.
func (b *Bridge) NewPort(s netdev.LinkState, out netdev.Egress) (*Port, error) {
	if !s.MAC.ValidUnicast() {
		return nil, nlattr.Errno(syscall.EINVAL)
	}
	no := b.freePortNo()
	if no == 0 {
		return nil, nlattr.Errno(syscall.EXFULL)
	}
	p := &Port{
		b: b, ifindex: s.Ifindex, out: out, link: s, no: no, priority: 32,
		flags: portLearning | portFlood | portMcastFlood | portBcastFlood,
		cost:  pathCost(s.SpeedMbps),
	}
	p.mcast.init()
	p.becomeDesignated()
	return p, nil
}

// Join adds a port that NewPort made to the bridge. It emits, in this order, as
// observed on the kernel ([] only where it applies):
//
//	[NEWLINK bridge, features]       first port, or first that is no tunnel
//	[DELNEIGH, NEWNEIGH port MAC]    DELNEIGH if the MAC had been learned;
//	                                 nothing if a LOCAL row of it exists
//	[DELNEIGH old bridge MAC]        the bridge takes this port's MAC
//	[AF_BRIDGE NEWLINK port x2]      port and bridge up: enabled, selected
//	AF_BRIDGE NEWLINK port
//	[NEWLINK bridge]                 its MAC changed
//	[NEWLINK bridge]                 its MTU changed (Hooks.SetMTU)
//
// What carrier changes cause follows through Hooks.SetCarrier.
func (b *Bridge) Join(p *Port) {
	b.ports = slices.Insert(b.ports, 0, p)
	b.publish()
	b.updateFeatures()
	b.fdbMu.Lock()
	b.addLocal(p, p.link.MAC)
	b.fdbMu.Unlock()
	moved := b.recalculateID()
	if p.operUp() && b.link.Up {
		p.enable()
	}
	b.env.Hooks.PortChanged(p, false)
	if moved {
		b.env.Hooks.BridgeChanged(b, false)
	}
	b.adjustMTU()
	b.publish()
}

// DelPort takes a port out of the bridge (del_nbp up to where the device loses
// its master). It emits AF_BRIDGE NEWLINK with state 0, DELMDB of what was
// temporary, AF_BRIDGE DELLINK, and DELNEIGH for the port's rows, newest first; a
// row of the port's own MAC may pass to another owner silently. The caller then
// emits the NEWLINK of the device without master and calls Released.
func (b *Bridge) DelPort(p *Port) {
	p.disable()
	b.env.Hooks.PortChanged(p, true)
	b.ports = slices.DeleteFunc(b.ports, func(q *Port) bool { return q == p })
	// The port's view goes first: a frame that is under way cannot put a row
	// back, because learning looks at the view with fdbMu held.
	p.view.Store(nil)
	b.publish()
	b.deleteByPort(p, true)
	p.backup = nil
	for _, q := range b.ports {
		if q.backup == p {
			q.backup = nil
		}
	}
	b.publish()
}

// Released does what the kernel does once the device has lost its master: the
// port's remaining MDB entries go (DELMDB), and the bridge takes another MTU,
// another MAC and other features where they change (NEWLINK of the bridge, with
// DELNEIGH and NEWNEIGH for a MAC). Where the bridge itself is being deleted,
// closing is set and only the former is done.
func (b *Bridge) Released(p *Port, closing bool) {
	p.mcastDelete()
	if closing {
		return
	}
	b.adjustMTU()
	if b.recalculateID() {
		b.env.Hooks.BridgeChanged(b, false)
	}
	b.updateFeatures()
	b.publish()
}

// What the features of a bridge come from (br_features_recompute): real devices
// all offload as much as each other, tunnels less.
const (
	featuresOwn = iota
	featuresTunnel
	featuresReal
)

// updateFeatures announces the bridge where its features change
// (netdev_update_features).
func (b *Bridge) updateFeatures() {
	old := b.features
	b.features = featuresOwn
	for _, p := range b.ports {
		f := featuresReal
		if p.link.Tunnel {
			f = featuresTunnel
		}
		b.features = max(b.features, f)
	}
	if b.features != old {
		b.env.Hooks.BridgeChanged(b, true)
	}
}

// Bridge returns the bridge that the port is or was in.
func (p *Port) Bridge() *Bridge { return p.b }

// Link returns the device as the bridge knows it.
func (p *Port) Link() netdev.LinkState { return p.link }

// Ifindex returns the device's index, which never changes.
func (p *Port) Ifindex() int { return p.ifindex }

// State returns the port's BR_STATE_*.
func (p *Port) State() uint8 { return p.state }

// LinkChanged tells that the port's device changed: br_device_event. For an admin
// state the device's own NEWLINK comes before this call, for a carrier after it,
// as for NETDEV_UP and NETDEV_CHANGE. Changes of several kinds are handled one
// after the other.
func (p *Port) LinkChanged(s netdev.LinkState) {
	b, old := p.b, p.link
	p.link = s
	if s.MTU != old.MTU {
		b.adjustMTU()
	}
	if s.MAC != old.MAC {
		p.AddressSet(s.MAC)
	}
	if s.Up != old.Up {
		p.adminChanged()
	} else if s.Carrier != old.Carrier || s.SpeedMbps != old.SpeedMbps {
		p.carrierChanged()
	}
	b.publish()
}

// AddressSet tells that the MAC of the port's device was set (NETDEV_CHANGEADDR).
// LinkChanged calls it for a change; to set the MAC that the device has is an event
// too, which only the one who did it can tell. Emits DELNEIGH and NEWNEIGH of the
// port's row, what a change of the bridge's own MAC causes, and an AF_BRIDGE NEWLINK.
func (p *Port) AddressSet(mac uapi.MAC) {
	b := p.b
	p.link.MAC = mac
	b.changePortAddress(p, mac)
	if b.recalculateID() {
		b.env.Hooks.BridgeChanged(b, false)
	}
	b.env.Hooks.PortChanged(p, false)
	b.publish()
}

// adminChanged is NETDEV_UP and NETDEV_DOWN.
func (p *Port) adminChanged() {
	switch {
	case !p.link.Up && p.b.link.Up:
		p.disable()
		return
	case p.operUp() && p.b.link.Up:
		p.enable()
		return
	}
	p.b.env.Hooks.PortChanged(p, false)
}

// carrierChanged is NETDEV_CHANGE (br_port_carrier_check).
func (p *Port) carrierChanged() {
	up := p.operUp()
	if up && p.flags&portAdminCost == 0 {
		p.cost = pathCost(p.link.SpeedMbps)
	}
	if p.b.link.Up {
		switch {
		case up && p.state == stateDisabled:
			p.enable()
			return
		case !up && p.state != stateDisabled:
			p.disable()
			return
		}
	}
	p.b.env.Hooks.PortChanged(p, false)
}

// operUp is netif_running and netif_oper_up of the port's device.
func (p *Port) operUp() bool { return p.link.Up && p.link.Carrier }

// freePortNo returns the lowest free port number, 0 if there is none.
func (b *Bridge) freePortNo() uint16 {
	var used [maxPorts + 1]bool
	for _, p := range b.ports {
		used[p.no] = true
	}
	for no := 1; no <= maxPorts; no++ {
		if !used[no] {
			return uint16(no)
		}
	}
	return 0
}

// pathCost is the kernel's port_cost: the STP cost of a link of that speed.
func pathCost(mbps int) uint32 {
	switch {
	case mbps > 10000 && mbps < 1<<31: // above that is SPEED_UNKNOWN
		return 1
	case mbps == 10000:
		return 2
	case mbps == 5000:
		return 3
	case mbps == 2500:
		return 4
	case mbps == 1000:
		return 5
	case mbps == 100:
		return 19
	}
	return 100
}

// portID is the port's number with its priority (br_make_port_id).
func portID(priority uint8, no uint16) uint16 { return uint16(priority)<<10 | no&0x3ff }

// mac is the address of the port's device.
func (p *Port) mac() uapi.MAC { return p.link.MAC }
