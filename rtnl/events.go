package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// queued is a notification of the kernel's that waits for its turn.
type queued struct {
	group uint32
	msg   []byte
}

// drain takes the kernel's queued events, lets our devices follow them, and
// passes them on. The kernel queues a request's events before it answers, so a
// drain after each request keeps the kernel's order among ours.
func (ns *Namespace) drain() {
	ns.pull(0)
	if ns.draining {
		return
	}
	ns.draining = true
	for len(ns.queue) > 0 {
		q := ns.queue[0]
		ns.queue = ns.queue[1:]
		ns.event(q.group, q.msg)
	}
	ns.queue = nil
	ns.draining = false
}

// pull moves the kernel's events into the namespace's queue, without the link
// messages of the device drop: those of a change that we announce ourselves.
func (ns *Namespace) pull(drop int) {
	lost, err := ns.kern.Events(func(group uint32, raw []byte) {
		if m, _, ok := split(raw); ok && drop != 0 && m.typ == unix.RTM_NEWLINK && len(m.body()) >= uapi.IfinfomsgLen &&
			int(uapi.ParseIfinfomsg(m.body()).Index) == drop {
			return
		}
		ns.queue = append(ns.queue, queued{group, append([]byte(nil), raw...)})
	})
	if err != nil {
		ns.logErr("kernel events", err)
	}
	if lost {
		ns.resync()
	}
}

// resync re-reads the devices we follow after the kernel dropped events.
func (ns *Namespace) resync() {
	ns.log.Warn("the kernel dropped link events; reading the devices anew")
	for _, d := range ns.sorted() {
		m := ns.link(d.ifindex, "")
		if m == nil {
			ns.remove(d)
			continue
		}
		ns.linkEvent(m, d)
	}
}

// event handles one notification of the kernel's.
func (ns *Namespace) event(group uint32, raw []byte) {
	m, _, ok := split(raw)
	if !ok {
		return
	}
	if s := ns.portIDs[ne.Uint32(m.raw[12:])]; s != nil {
		m.raw = append([]byte(nil), m.raw...)
		ne.PutUint32(m.raw[12:], s.pid.Load())
	}
	if (m.typ == unix.RTM_NEWLINK || m.typ == unix.RTM_DELLINK) && len(m.body()) >= uapi.IfinfomsgLen && m.body()[0] != unix.AF_BRIDGE {
		ifindex := int(uapi.ParseIfinfomsg(m.body()).Index)
		d := ns.devs[ifindex]
		switch {
		case d != nil && d.muted:
			return
		case d != nil && m.typ == unix.RTM_NEWLINK:
			ns.linkEvent(&m, d)
			return
		case d != nil:
			ns.linkGone(&m, d)
			return
		case m.typ == unix.RTM_DELLINK && group == unix.RTNLGRP_LINK:
			ns.lowerGone(ifindex)
		}
	}
	if m.typ == unix.RTM_NEWNEXTHOP || m.typ == unix.RTM_DELNEXTHOP {
		ns.nexthopEvent(&m)
	}
	ns.hub.publishRaw(group, m.raw)
}

// linkEvent lets a device of ours follow a RTM_NEWLINK of the kernel's and passes
// it on, in the order in which the kernel's own notifiers run: a bridge or a
// tunnel acts in ndo_open, ndo_stop and ndo_set_mac_address, which is before the
// message; a bridge acts on its ports' changes after it, but for a change of
// carrier (netdev_state_change notifies the bridge first).
func (ns *Namespace) linkEvent(m *message, d *device) {
	v, ok := viewLink(m)
	if !ok {
		return
	}
	old := d.state
	state, oper := v.state()
	state.SpeedMbps = old.SpeedMbps
	if d.bigMTU != 0 && state.MTU == tapMaxMTU {
		state.MTU = d.bigMTU
	} else {
		d.bigMTU = 0
	}
	oldPort := d.portState()
	d.state, d.operState = state, oper
	if d.br != nil {
		d.br.LinkChanged(state)
	}
	if d.vx != nil {
		ns.followVXLAN(d, old.Up)
	}
	carrierOnly := old.Up == state.Up && oldPort.Carrier != d.portState().Carrier
	if d.port != nil && carrierOnly {
		d.port.LinkChanged(d.portState())
	}
	ns.hub.publishRaw(unix.RTNLGRP_LINK, ns.rewriteLink(m))
	if d.port != nil && !carrierOnly {
		d.port.LinkChanged(d.portState())
	}
}

// followVXLAN takes an emulated tunnel up or down with its TAP, where something
// else than a request of ours did that.
func (ns *Namespace) followVXLAN(d *device, wasUp bool) {
	d.vx.LinkChanged(d.state)
	switch {
	case d.state.Up && !wasUp:
		if err := d.vx.Up(); err != nil {
			ns.log.Warn("cannot bring the tunnel up", "dev", d.state.Name, "err", err)
		}
	case !d.state.Up && wasUp:
		d.vx.Down()
	}
}

// linkGone handles the kernel's RTM_DELLINK of a device of ours, which somebody
// deleted behind our back.
func (ns *Namespace) linkGone(m *message, d *device) {
	ns.dissolve(d)
	ns.hub.publishRaw(unix.RTNLGRP_LINK, ns.rewriteLink(m))
	ns.forgetDevice(d)
}

// lowerGone deletes the tunnels whose lower device went away (IFLA_VXLAN_LINK).
func (ns *Namespace) lowerGone(ifindex int) {
	for _, d := range ns.sorted() {
		if d.vx != nil && d.vx.Lower() == ifindex {
			ns.remove(d)
		}
	}
}

// bridgeHooks lets bridges reach the kernel's view of themselves and announce
// ports. It implements bridge.Hooks.
type bridgeHooks struct{ *Namespace }

// PortChanged implements bridge.Hooks.
func (h bridgeHooks) PortChanged(p *bridge.Port, gone bool) {
	if !h.hub.Wanted(unix.RTNLGRP_LINK) {
		return
	}
	d := h.devs[p.Ifindex()]
	if d == nil {
		return
	}
	typ := uint16(unix.RTM_NEWLINK)
	if gone {
		typ = unix.RTM_DELLINK
	}
	h.hub.Publish(notify.Change{Group: unix.RTNLGRP_LINK, Type: typ, Body: h.bridgeLink(nil, d, !gone)})
}

// BridgeChanged implements bridge.Hooks.
func (h bridgeHooks) BridgeChanged(b *bridge.Bridge, features bool) {
	d := h.devs[b.Ifindex()]
	if d == nil || d.muted {
		return
	}
	var event uint32
	if features {
		event = iflaEventFeatures
	}
	h.emitLink(d, 0, event)
}

// SetAddress implements bridge.Hooks.
func (h bridgeHooks) SetAddress(b *bridge.Bridge, mac uapi.MAC) {
	// A TAP keeps its last address where a bridge has none; the view shows the
	// bridge's own.
	if raw := mac.Bytes(); mac != 0 {
		h.setQuietly(b.Ifindex(), nlattr.Append(nil, unix.IFLA_ADDRESS, raw[:]))
	}
	if d := h.devs[b.Ifindex()]; d != nil {
		d.state.MAC = mac
	}
}

// SetMTU implements bridge.Hooks.
func (h bridgeHooks) SetMTU(b *bridge.Bridge, mtu int) {
	d := h.devs[b.Ifindex()]
	if d == nil {
		return
	}
	h.setQuietly(d.ifindex, nlattr.AppendU32(nil, unix.IFLA_MTU, uint32(min(mtu, tapMaxMTU))))
	d.state.MTU = mtu
	d.applyBigMTU(mtu)
	if !d.muted {
		h.emitLink(d, 0, 0)
	}
}

// SetCarrier implements bridge.Hooks. The kernel's linkwatch announces the change
// a little later, as it does for a bridge.
func (h bridgeHooks) SetCarrier(b *bridge.Bridge, on bool) {
	if d := h.devs[b.Ifindex()]; d != nil {
		if err := d.tap.SetCarrier(on); err != nil {
			h.logErr("set carrier of "+d.state.Name, err)
		}
	}
}

// setQuietly sets attributes of an emulated device's TAP and drops the event: the
// bridge announces the change in its own time.
func (ns *Namespace) setQuietly(ifindex int, attrs []byte) {
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = uapi.Ifinfomsg{Index: int32(ifindex)}.Append(b)
	b = endMessage(append(b, attrs...), 0)
	ns.pull(0)
	if err := roundTrip(ns.ctl, b, nil); err != nil {
		ns.logErr("set link", err)
	}
	ns.pull(ifindex)
}
