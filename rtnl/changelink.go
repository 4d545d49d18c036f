package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"github.com/linkspan/linkspan/vxlan"
)

// change handles a request about a device that exists (rtnl_changelink and
// do_setlink). What only the kernel knows goes to the kernel.
func (l *linkRequest) change() (bool, error) {
	ns := l.ns
	v, _ := viewLink(l.target)
	d := ns.devs[int(v.info.Index)]
	toBridge := l.hasMaster && ns.bridgeAt(l.master) != nil
	if d == nil && !toBridge {
		return l.pass()
	}
	if d == nil {
		d = ns.deviceFor(l.target)
		defer ns.forgetUnless(d)
	}
	if !d.emulated() && d.port == nil && !toBridge {
		return l.pass()
	}
	return false, l.changeOurs(d)
}

// forgetUnless drops a device that did not become ours after all.
func (ns *Namespace) forgetUnless(d *device) {
	if d.port == nil && !d.emulated() && ns.devs[d.ifindex] == d {
		delete(ns.devs, d.ifindex)
	}
}

func (l *linkRequest) changeOurs(d *device) error {
	notify := false
	if l.typ == unix.RTM_NEWLINK {
		var err error
		if notify, err = l.changeInfo(d); err != nil {
			return err
		}
	}
	if err := l.setLink(d); err != nil {
		return err
	}
	if notify {
		l.ns.stateChange(d)
	}
	return nil
}

// changeInfo applies IFLA_LINKINFO (the part of rtnl_changelink before
// do_setlink). notify tells that netdev_state_change follows.
func (l *linkRequest) changeInfo(d *device) (notify bool, err error) {
	if err := l.checkInfo(); err != nil {
		return false, err
	}
	if l.flags&uapi.NLMExcl != 0 {
		return false, nlattr.Errno(unix.EEXIST)
	}
	if l.flags&uapi.NLMReplace != 0 {
		return false, nlattr.Errno(unix.EOPNOTSUPP)
	}
	if l.hasData {
		switch {
		case !d.emulated() || l.kind != d.kind():
			return false, nlattr.Errno(unix.EOPNOTSUPP)
		case d.br != nil:
			err = d.br.SetInfo(l.data.Nest())
			l.ns.snoopers(d, d.state.Up)
		default:
			if err = d.vx.Change(l.data.Nest(), true, l.attrs); err == nil && l.data.Nest().Has(unix.IFLA_VXLAN_LINK) {
				d.tsoSize, d.tsoSegs = l.ns.tsoOf(d.vx.Lower())
			}
		}
		if err != nil {
			return false, err
		}
		notify = true
	}
	if l.hasSlave {
		if d.port == nil {
			return false, nlattr.Errno(unix.EOPNOTSUPP)
		}
		if err := bridge.CheckPortInfo(l.slave.Nest()); err != nil {
			return false, err
		}
		if err := d.port.SetInfo(l.slave.Nest()); err != nil {
			return false, err
		}
		notify = true
	}
	return notify, nil
}

// checkInfo runs the kind's policy and validate operation, which come before
// everything else.
func (l *linkRequest) checkInfo() error {
	switch l.kind {
	case "bridge":
		if l.hasData {
			if err := bridge.CheckInfo(l.data.Nest(), false); err != nil {
				return err
			}
		}
		_, _, err := l.address("", "")
		return err
	case "vxlan":
		return vxlan.Validate(l.data.Nest(), l.hasData, l.attrs)
	}
	return nil
}

// stateChange is netdev_state_change: a device that is up is announced, to its
// bridge first.
func (ns *Namespace) stateChange(d *device) {
	if !d.state.Up {
		return
	}
	if d.port != nil {
		bridgeHooks{ns}.PortChanged(d.port, false)
	}
	ns.emitLink(d, 0, 0)
}

// setLink is do_setlink: plain attributes, then the master, then the flags. The
// kernel does all but the master, and what the device's own kind has to say.
func (l *linkRequest) setLink(d *device) error {
	if err := l.checkPlain(d); err != nil {
		return err
	}
	own := []uint16{unix.IFLA_LINKINFO, unix.IFLA_MASTER}
	if d.emulated() {
		own = append(own, ownLinkAttrs...)
	}
	plain := blank(l.raw, own...)
	ne.PutUint16(plain[4:], unix.RTM_SETLINK)
	plain[headerLen] = unix.AF_UNSPEC // no family has a RTM_NEWLINK of its own
	ne.PutUint16(plain[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	d.limitMTU(plain)
	d.tickQueue(plain)
	flags := l.info.Flags != 0 || l.info.Change != 0
	if l.hasMaster {
		first := append([]byte(nil), plain...)
		clear(first[headerLen+8 : headerLen+16]) // ifi_flags, ifi_change
		if l.hasPlain(d) {
			if err := l.apply(d, first, false); err != nil {
				return err
			}
		}
		if err := l.ns.setMaster(d, l.master); err != nil {
			return err
		}
		if !flags {
			return l.setOwn(d)
		}
		var types []uint16
		for _, a := range l.attrs {
			types = append(types, a.Type)
		}
		plain = blank(plain, types...)
		ne.PutUint32(plain[headerLen+4:], uint32(d.ifindex))
	}
	if flags || l.hasPlain(d) {
		if err := l.apply(d, plain, flags); err != nil {
			return err
		}
	}
	return l.setOwn(d)
}

// ownLinkAttrs are the attributes that an emulated device answers for itself: its
// kind can do other things than a TAP can.
var ownLinkAttrs = []uint16{unix.IFLA_CARRIER, unix.IFLA_PROTO_DOWN}

// setOwn applies ownLinkAttrs, which do_setlink looks at last.
func (l *linkRequest) setOwn(d *device) error {
	if !d.emulated() {
		return nil
	}
	if l.attrs.Has(unix.IFLA_CARRIER) {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	a, ok := l.attrs.Get(unix.IFLA_PROTO_DOWN)
	if !ok {
		return nil
	}
	if d.vx == nil {
		return nlattr.Errf(unix.EOPNOTSUPP, "Protodown not supported by device")
	}
	d.protoDown = a.U8() != 0
	l.ns.setCarrier(d, !d.protoDown)
	l.ns.stateChange(d)
	return nil
}

// tickQueue replaces IFLA_TXQLEN in raw by a value that is another one than the
// TAP's where the emulated device's changes, so that the kernel announces it.
func (d *device) tickQueue(raw []byte) {
	if !d.emulated() {
		return
	}
	m := message{raw: raw}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	for _, a := range as {
		if a.Type == unix.IFLA_TXQLEN && len(a.Data) >= 4 {
			tick := d.queueTick
			if a.U32() != d.queueLen {
				tick ^= 1
			}
			ne.PutUint32(raw[a.Off+nlattr.HeaderLen:], defaultQueueLen+tick)
		}
	}
}

// hasPlain tells whether the request has attributes that are the kernel's.
func (l *linkRequest) hasPlain(d *device) bool {
	for _, a := range l.attrs {
		switch a.Type {
		case unix.IFLA_LINKINFO, unix.IFLA_MASTER, unix.IFLA_EXT_MASK:
		case unix.IFLA_CARRIER, unix.IFLA_PROTO_DOWN:
			if !d.emulated() {
				return true
			}
		case unix.IFLA_IFNAME:
			if l.info.Index > 0 {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// checkPlain makes the checks that the emulated kind's own operations would make
// and a TAP does not.
func (l *linkRequest) checkPlain(d *device) error {
	if !d.emulated() {
		return nil
	}
	if d.br != nil {
		if err := l.checkNetns(); err != nil {
			return err
		}
	}
	if d.raw() && l.attrs.Has(unix.IFLA_ADDRESS) {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	if _, ok := l.attrs.Get(unix.IFLA_MTU); ok {
		mtu, err := l.mtu()
		if err == nil && d.vx != nil && mtu != d.state.MTU {
			err = d.vx.CheckMTU(mtu)
		}
		return err
	}
	return nil
}

// checkNetns lets the kernel judge a move to another namespace by asking the same of
// the loopback device, which as a bridge stays where it is.
func (l *linkRequest) checkNetns() error {
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, l.seq, 0)
	b = infoFor(1).Append(b)
	empty := len(b)
	for _, a := range l.attrs {
		switch a.Type {
		case unix.IFLA_NET_NS_PID, unix.IFLA_NET_NS_FD, unix.IFLA_TARGET_NETNSID:
			b = nlattr.Append(b, a.Type, a.Data)
		}
	}
	if len(b) == empty {
		return nil
	}
	return l.try(endMessage(b, 0))
}

// apply lets the kernel carry out a change of one of our devices, with what the
// device's kind does before (ndo_open, ndo_stop, ndo_set_mac_address,
// ndo_change_mtu).
func (l *linkRequest) apply(d *device, raw []byte, flags bool) error {
	ns := l.ns
	wantUp, wantDown := false, false
	if flags {
		// ifi_change 0 means all flags (rtnl_dev_combine_flags).
		change := l.info.Change
		if change == 0 {
			change = ^uint32(0)
		}
		if change&unix.IFF_UP != 0 {
			wantUp = l.info.Flags&unix.IFF_UP != 0 && !d.state.Up
			wantDown = l.info.Flags&unix.IFF_UP == 0 && d.state.Up
		}
	}
	opened := false
	if d.vx != nil && wantUp {
		if err := d.vx.Up(); err != nil {
			return err
		}
		opened = true
	}
	if d.vx != nil && wantDown {
		d.vx.Down()
	}
	if wantUp {
		ns.snoopers(d, true)
	}
	oldMTU, oldMAC := d.state.MTU, d.state.MAC
	ns.drain()
	before := len(ns.queue)
	err := l.try(raw)
	ns.pull(0)
	if links := ns.linksIn(before, d.ifindex); len(links) > 0 && l.changesState(raw) {
		links[len(links)-1].change = true
	}
	if err != nil {
		if opened {
			d.vx.Down()
		}
		return err
	}
	if d.br != nil {
		if a, ok := l.attrs.Get(unix.IFLA_ADDRESS); ok && len(a.Data) >= 6 {
			d.tapMAC = uapi.MACFrom(a.Data)
			d.br.SetUserAddress(d.tapMAC)
		}
		if a, ok := l.attrs.Get(unix.IFLA_MTU); ok && int(a.U32()) != oldMTU {
			d.br.SetUserMTU(int(a.U32()))
		}
	}
	if a, ok := l.attrs.Get(unix.IFLA_MTU); ok && d.emulated() {
		d.applyBigMTU(int(a.U32()))
	}
	if a, ok := l.attrs.Get(unix.IFLA_TXQLEN); ok && d.emulated() && a.U32() != d.queueLen {
		d.queueLen = a.U32()
		d.queueTick ^= 1
	}
	ns.drain()
	ns.snoopers(d, d.state.Up)
	if a, ok := l.attrs.Get(unix.IFLA_ADDRESS); ok && d.port != nil && len(a.Data) >= 6 && uapi.MACFrom(a.Data) == oldMAC {
		// To set the address that is there is an event for the bridge too.
		d.port.AddressSet(oldMAC)
	}
	return nil
}

// changesState tells whether do_setlink ends with netdev_state_change: one of the
// attributes in raw has DO_SETLINK_NOTIFY. The device must be up for that, which the
// message itself shows.
func (l *linkRequest) changesState(raw []byte) bool {
	m := message{raw: raw}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	for _, a := range as {
		switch a.Type {
		case unix.IFLA_GROUP, unix.IFLA_IFALIAS, unix.IFLA_MAP, unix.IFLA_LINKMODE, unix.IFLA_AF_SPEC,
			unix.IFLA_PROTO_DOWN, unix.IFLA_XDP:
			return true
		}
	}
	return false
}

// snoopers makes a bridge that snoops listen to the all-snoopers groups while it
// is up. br_dev_open joins before the device's other groups, hence up before the
// device is.
func (ns *Namespace) snoopers(d *device, up bool) {
	if d.br == nil {
		return
	}
	if err := d.tap.SetSnoopers(up && d.br.Snooping()); err != nil {
		ns.logErr("all-snoopers groups of "+d.state.Name, err)
	}
}

// limitMTU lowers IFLA_MTU in raw to what a TAP takes; applyBigMTU remembers what
// was asked for.
func (d *device) limitMTU(raw []byte) {
	if !d.emulated() {
		return
	}
	m := message{raw: raw}
	as, _ := m.attrs(uapi.IfinfomsgLen)
	for _, a := range as {
		if a.Type == unix.IFLA_MTU && len(a.Data) >= 4 && a.U32() > tapMaxMTU {
			ne.PutUint32(raw[a.Off+nlattr.HeaderLen:], tapMaxMTU)
		}
	}
}

func (d *device) applyBigMTU(mtu int) {
	d.bigMTU = 0
	if mtu > tapMaxMTU {
		d.bigMTU = mtu
		d.state.MTU = mtu
	}
}
