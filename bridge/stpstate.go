package bridge

import (
	"syscall"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// States of a port (BR_STATE_* in uapi/linux/if_bridge.h).
const (
	stateDisabled = iota
	stateListening
	stateLearning
	stateForwarding
	stateBlocking
)

// bridgeID is an 802.1D bridge identifier: the priority in the upper 16 bits, the
// MAC below, so that the numerically lower one is the better.
type bridgeID uint64

func makeID(priority uint16, mac uapi.MAC) bridgeID {
	return bridgeID(priority)<<48 | bridgeID(mac)
}

func (id bridgeID) mac() uapi.MAC { return uapi.MAC(id & (1<<48 - 1)) }

// withMAC is id with another MAC.
func (id bridgeID) withMAC(mac uapi.MAC) bridgeID { return id&^(1<<48-1) | bridgeID(mac) }

// stpBridge is what a bridge knows of the spanning tree.
type stpBridge struct {
	id, root     bridgeID
	rootPort     uint16 // its number, 0 where this bridge is the root
	rootPathCost uint32
	// topology and detected are set for a while after a port began to forward
	// with STP on.
	topology, detected   bool
	hello, topologyTimer timer
}

func (s *stpBridge) init() { s.id, s.root = makeID(32768, 0), makeID(32768, 0) }

// isRoot is br_is_root_bridge.
func (s *stpBridge) isRoot() bool { return s.id == s.root }

func (s *stpBridge) cancel() {
	s.hello.cancel()
	s.topologyTimer.cancel()
}

// stpPort is the spanning tree's view of one port: the priority vector of the LAN
// behind it.
type stpPort struct {
	designatedRoot, designatedBridge bridgeID
	designatedCost                   uint32
	designatedPort                   uint16
	forwardDelay                     timer
}

func (p *Port) id() uint16 { return portID(p.priority, p.no) }

// becomeDesignated records that this bridge's port serves the LAN behind it
// (br_become_designated_port).
func (p *Port) becomeDesignated() {
	p.stp.designatedRoot = p.b.stp.root
	p.stp.designatedCost = p.b.stp.rootPathCost
	p.stp.designatedBridge = p.b.stp.id
	p.stp.designatedPort = p.id()
}

// designated is br_is_designated_port.
func (p *Port) designated() bool {
	return p.stp.designatedBridge == p.b.stp.id && p.stp.designatedPort == p.id()
}

// enable takes a port into service (br_stp_enable_port). It emits two NEWLINKs,
// one for the new state and one for the end.
func (p *Port) enable() {
	p.becomeDesignated()
	p.setState(stateBlocking)
	p.b.selectStates()
	p.b.env.Hooks.PortChanged(p, false)
}

// disable takes a port out of service (br_stp_disable_port): one NEWLINK, then
// its dynamic rows go unless a backup port stands in, and its temporary MDB
// entries.
func (p *Port) disable() {
	wasRoot := p.b.stp.isRoot()
	p.becomeDesignated()
	p.setState(stateDisabled)
	p.b.env.Hooks.PortChanged(p, false)
	p.stp.forwardDelay.cancel()
	if p.backup == nil {
		p.b.deleteByPort(p, false)
	}
	p.mcastDisable()
	p.b.updateConfiguration()
	p.b.selectStates()
	p.b.rootChanged(wasRoot)
}

// setState changes the state and what the frame path knows of it.
func (p *Port) setState(s uint8) {
	p.state = s
	p.b.publish()
}

// selectStates moves every port in service to the state it deserves and sets the
// bridge's carrier accordingly (br_port_state_selection). It also runs where no
// port is concerned, such as for a new priority; a bridge without ports then
// loses its carrier.
func (b *Bridge) selectStates() {
	live := false
	for _, p := range b.ports {
		if p.state == stateDisabled {
			continue
		}
		if p.no == b.stp.rootPort || p.designated() {
			p.makeForwarding()
		} else {
			p.makeBlocking()
		}
		if p.state != stateBlocking {
			p.mcastEnable()
		}
		live = live || p.state == stateForwarding
	}
	b.setCarrier(live)
}

// makeForwarding is br_make_forwarding: from blocking straight to forwarding
// without STP, else through listening and learning.
func (p *Port) makeForwarding() {
	b := p.b
	if p.state != stateBlocking {
		return
	}
	if !b.cfg.stp || b.cfg.forwardDelay == 0 {
		p.setState(stateForwarding)
		b.topologyChanged()
		p.stp.forwardDelay.cancel()
	} else {
		p.setState(stateListening)
	}
	b.env.Hooks.PortChanged(p, false)
	if b.cfg.forwardDelay != 0 {
		p.stp.forwardDelay.set(b, b.cfg.forwardDelay, p.forwardDelayExpired)
	}
}

// makeBlocking is br_make_blocking.
func (p *Port) makeBlocking() {
	if p.state == stateDisabled || p.state == stateBlocking {
		return
	}
	if p.state == stateForwarding || p.state == stateLearning {
		p.b.topologyChanged()
	}
	p.setState(stateBlocking)
	p.b.env.Hooks.PortChanged(p, false)
	p.stp.forwardDelay.cancel()
}

// forwardDelayExpired moves the port on. Without STP the port forwards already;
// it is announced once more all the same.
func (p *Port) forwardDelayExpired() {
	b := p.b
	switch p.state {
	case stateListening:
		p.setState(stateLearning)
		p.stp.forwardDelay.set(b, b.cfg.forwardDelay, p.forwardDelayExpired)
	case stateLearning:
		p.setState(stateForwarding)
		b.topologyChanged()
		b.setCarrier(true)
	}
	b.env.Hooks.PortChanged(p, false)
	b.publish()
}

// topologyChanged is br_topology_change_detection. On a root bridge rows then age
// faster for a while: AGEING_TIME shows two forward delays, and the hold time is one.
func (b *Bridge) topologyChanged() {
	if !b.cfg.stp {
		return
	}
	if b.stp.isRoot() {
		b.setTopologyChange(true)
		b.stp.topologyTimer.set(b, b.cfg.bridgeForwardDelay+b.cfg.bridgeMaxAge, func() {
			b.stp.detected = false
			b.setTopologyChange(false)
		})
	}
	b.stp.detected = true
}

func (b *Bridge) setTopologyChange(on bool) {
	if b.cfg.stp && b.stp.topology != on {
		b.cfg.ageing = b.cfg.bridgeAgeing
		if on {
			b.cfg.ageing = 2 * b.cfg.forwardDelay
		}
	}
	b.stp.topology = on
	b.updateHold()
}

// updateHold is hold_time: how long a row lives without being seen.
func (b *Bridge) updateHold() {
	hold := b.cfg.ageing
	if b.stp.topology {
		hold = b.cfg.forwardDelay
	}
	b.hold.Store(int64(hold))
}

// enableBridge is br_stp_enable_bridge: the bridge device was set up.
func (b *Bridge) enableBridge() {
	if b.cfg.stp {
		b.startHello()
	}
	b.scheduleGC(second / 10)
	for _, p := range b.ports {
		if p.operUp() {
			p.enable()
		}
	}
}

// disableBridge is br_stp_disable_bridge: the bridge device was set down.
func (b *Bridge) disableBridge() {
	for _, p := range b.ports {
		if p.state != stateDisabled {
			p.disable()
		}
	}
	b.setTopologyChange(false)
	b.stp.detected = false
	b.stp.cancel()
	b.fdbMu.Lock()
	b.gc.cancel()
	b.fdbMu.Unlock()
}

// startHello keeps the timer running that IFLA_BR_HELLO_TIMER shows.
func (b *Bridge) startHello() {
	b.stp.hello.set(b, b.cfg.helloTime, func() {
		if b.cfg.stp && b.link.Up {
			b.startHello()
		}
	})
}

// setSTP turns the kernel's STP on or off (br_stp_set_enabled). Turning it off
// leaves the ports in the states they have.
func (b *Bridge) setSTP(on bool) {
	if on == b.cfg.stp {
		return
	}
	if !on {
		b.cfg.stp = false
		b.publish()
		return
	}
	b.setBridgeForwardDelay(b.cfg.bridgeForwardDelay.clamp(minForwardDelay, maxForwardDelay))
	b.cfg.stp = true
	if b.link.Up {
		b.startHello()
	}
	b.updateHold()
	b.selectStates()
	b.publish()
}

// setBridgeForwardDelay sets the bridge's own value, which holds while it is the root.
func (b *Bridge) setBridgeForwardDelay(t ticks) {
	b.cfg.bridgeForwardDelay = t
	if b.stp.isRoot() {
		b.cfg.forwardDelay = t
	}
	b.updateHold()
}

// setPriority is br_stp_set_bridge_priority.
func (b *Bridge) setPriority(priority uint16) {
	wasRoot := b.stp.isRoot()
	for _, p := range b.ports {
		if p.state != stateDisabled && p.designated() {
			p.stp.designatedBridge = makeID(priority, p.stp.designatedBridge.mac())
		}
	}
	b.stp.id = makeID(priority, b.stp.id.mac())
	b.updateConfiguration()
	b.selectStates()
	b.rootChanged(wasRoot)
}

// SetSTPState sets the port's state as IFLA_BRPORT_STATE and the legacy form of
// IFLA_PROTINFO do (br_set_port_state). Errors: EINVAL for an unknown state, EBUSY
// while STP runs, ENETDOWN where the device is down or, except for disabled, has
// no carrier. The caller emits the NEWLINK.
func (p *Port) SetSTPState(state uint8) error {
	switch {
	case state > stateBlocking:
		return nlattr.Errno(syscall.EINVAL)
	case p.b.cfg.stp:
		return nlattr.Errno(syscall.EBUSY)
	case !p.link.Up || !p.link.Carrier && state != stateDisabled:
		return nlattr.Errno(syscall.ENETDOWN)
	}
	p.setState(state)
	p.b.selectStates()
	return nil
}
