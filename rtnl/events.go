package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// queued is a notification of the kernel's that waits for its turn.
type queued struct {
	group uint32
	msg   []byte
	// change tells that the kernel announced a change of state
	// (netdev_state_change), which a port's bridge handles before the message.
	change bool
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
		ns.event(q)
	}
	ns.queue = nil
	ns.draining = false
}

// during runs f and handles the events that it causes at once, whatever else
// waits in the queue.
func (ns *Namespace) during(f func()) {
	ns.drain()
	n := len(ns.queue)
	f()
	ns.pull(0)
	events := append([]queued(nil), ns.queue[n:]...)
	ns.queue = ns.queue[:n]
	for _, q := range events {
		ns.event(q)
	}
}

// linksIn returns the queued link messages of a device from the nth on.
func (ns *Namespace) linksIn(n, ifindex int) (out []*queued) {
	for i := n; i < len(ns.queue); i++ {
		m, _, ok := split(ns.queue[i].msg)
		if ok && m.typ == unix.RTM_NEWLINK && len(m.body()) >= uapi.IfinfomsgLen && m.body()[0] != unix.AF_BRIDGE &&
			int(uapi.ParseIfinfomsg(m.body()).Index) == ifindex {
			out = append(out, &ns.queue[i])
		}
	}
	return out
}

// amend overwrites an attribute in the queued messages of a device of ours: they
// were made before a change that the clients learn of before them.
func (ns *Namespace) amend(ifindex int, typ uint16, data []byte) {
	for _, q := range ns.linksIn(0, ifindex) {
		m, _, _ := split(q.msg)
		as, _ := m.attrs(uapi.IfinfomsgLen)
		if a, ok := as.Get(typ); ok && len(a.Data) == len(data) {
			copy(a.Data, data)
		}
	}
}

// pull moves the kernel's events into the namespace's queue, without the link
// messages of the device drop: those of a change that we announce ourselves.
func (ns *Namespace) pull(drop int) {
	lost, err := ns.kern.Events(func(group uint32, raw []byte) {
		if m, _, ok := split(raw); ok && drop != 0 && m.typ == unix.RTM_NEWLINK && len(m.body()) >= uapi.IfinfomsgLen &&
			int(uapi.ParseIfinfomsg(m.body()).Index) == drop {
			return
		}
		ns.queue = append(ns.queue, queued{group: group, msg: append([]byte(nil), raw...)})
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
		ns.linkEvent(m, d, false)
	}
}

// event handles one notification of the kernel's.
func (ns *Namespace) event(q queued) {
	group := q.group
	m, _, ok := split(q.msg)
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
			ns.linkEvent(&m, d, q.change)
			return
		case d != nil:
			ns.linkGone(&m, d)
			return
		case m.typ == unix.RTM_DELLINK && group == unix.RTNLGRP_LINK:
			ns.lowerGone(ifindex)
		}
		ns.followUpper(&m)
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
// carrier and other changes of state (netdev_state_change notifies the bridge
// first), which change tells of.
func (ns *Namespace) linkEvent(m *message, d *device, change bool) {
	v, ok := viewLink(m)
	if !ok {
		return
	}
	state, oper := v.state()
	if d.passing(v, state) {
		return
	}
	d.follow(v)
	old := d.state
	state.SpeedMbps = old.SpeedMbps
	if d.br != nil {
		state.MAC = d.followMAC(state.MAC)
	}
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
	switch {
	case d.port == nil:
	case carrierOnly:
		d.port.LinkChanged(d.portState())
	case change && state.Up:
		bridgeHooks{ns}.PortChanged(d.port, false)
	}
	ns.hub.publishRaw(unix.RTNLGRP_LINK, ns.rewriteLink(m))
	if d.port != nil && !carrierOnly {
		d.port.LinkChanged(d.portState())
	}
}

// passing tells that a message shows a TAP in the middle of a change of its carrier
// there and back, which in the kernel happens with RTNL held.
func (d *device) passing(v linkView, s netdev.LinkState) bool {
	const volatile = unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return d.emulated() && s.Up && v.info.Change == 0 && s.Carrier != d.tapCarrier && s.Name == d.state.Name &&
		s.MAC == d.tapMAC && v.info.Flags&^volatile == d.flags&^volatile
}

// followMAC returns a bridge's address when its TAP has the address mac: the
// bridge's own, unless somebody else has set the TAP's.
func (d *device) followMAC(mac uapi.MAC) uapi.MAC {
	if mac != d.tapMAC {
		d.tapMAC = mac
		if mac != d.br.Link().MAC {
			d.br.SetUserAddress(mac)
		}
	}
	return d.br.Link().MAC
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
	if v, ok := viewLink(m); ok {
		d.follow(v)
	}
	ns.dissolve(d)
	if !d.emulated() {
		ns.lowerGone(d.ifindex)
	}
	b := ns.rewriteLink(m)
	if d.deletedBy != nil {
		d.deletedBy.notify(unix.RTNLGRP_LINK, append([]byte(nil), b...))
	} else {
		ns.hub.publishRaw(unix.RTNLGRP_LINK, b)
	}
	ns.forgetDevice(d)
}

// followUpper looks whether a bridge is promiscuous after a change of a device on
// top of it: one with an address of its own makes it so, which the kernel does not
// announce (__dev_set_rx_mode).
func (ns *Namespace) followUpper(m *message) {
	v, ok := viewLink(m)
	if !ok {
		return
	}
	link, _ := v.attrs.Get(unix.IFLA_LINK)
	d := ns.devs[int(link.U32())]
	if d == nil || d.br == nil || v.attrs.Has(unix.IFLA_LINK_NETNSID) {
		return
	}
	if now := ns.link(d.ifindex, ""); now != nil {
		v, _ = viewLink(now)
		if s, _ := v.state(); s.Promisc != d.state.Promisc {
			d.state.Promisc = s.Promisc
			d.br.LinkChanged(d.state)
		}
	}
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
	d := h.devs[b.Ifindex()]
	if d == nil {
		return
	}
	if raw := mac.Bytes(); mac != 0 {
		h.setQuietly(d.ifindex, unix.IFLA_ADDRESS, raw[:])
		d.tapMAC = mac
	}
	d.state.MAC = mac
}

// SetMTU implements bridge.Hooks.
func (h bridgeHooks) SetMTU(b *bridge.Bridge, mtu int) {
	d := h.devs[b.Ifindex()]
	if d == nil {
		return
	}
	h.setQuietly(d.ifindex, unix.IFLA_MTU, ne.AppendUint32(nil, uint32(min(mtu, tapMaxMTU))))
	d.state.MTU = mtu
	d.applyBigMTU(mtu)
	if !d.muted {
		h.emitLink(d, 0, 0)
	}
}

// SetCarrier implements bridge.Hooks.
func (h bridgeHooks) SetCarrier(b *bridge.Bridge, on bool) {
	if d := h.devs[b.Ifindex()]; d != nil {
		h.setCarrier(d, on)
	}
}

// setCarrier is netif_carrier_on and _off: messages show the carrier at once, the
// operational state follows once RTNL is released and linkwatch runs.
func (ns *Namespace) setCarrier(d *device, on bool) {
	if d.carrier != on {
		d.carrier = on
		ns.carriers = append(ns.carriers, d)
	}
}

// linkwatch tells TAPs their carriers. The kernel's linkwatch announces the changes
// a little later, as it does for a bridge.
func (ns *Namespace) linkwatch() {
	for _, d := range ns.carriers {
		if d.closed {
			continue
		}
		// Once for each change: a carrier that comes back is an event too.
		d.tapCarrier = !d.tapCarrier
		if err := d.tap.SetCarrier(d.tapCarrier); err != nil {
			ns.logErr("set carrier of "+d.state.Name, err)
		}
	}
	ns.carriers = ns.carriers[:0]
}

// setQuietly sets an attribute of an emulated device's TAP and drops the event: the
// bridge announces the change in its own time.
func (ns *Namespace) setQuietly(ifindex int, typ uint16, data []byte) {
	attrs := nlattr.Append(nil, typ, data)
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = uapi.Ifinfomsg{Index: int32(ifindex)}.Append(b)
	b = endMessage(append(b, attrs...), 0)
	ns.pull(0)
	if err := roundTrip(ns.ctl, b, nil); err != nil {
		ns.logErr("set link", err)
	}
	ns.pull(ifindex)
	ns.amend(ifindex, typ, data)
}
