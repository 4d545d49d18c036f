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
			err = d.vx.Change(l.data.Nest(), true, l.attrs)
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
	plain := blank(l.raw, unix.IFLA_LINKINFO, unix.IFLA_MASTER)
	ne.PutUint16(plain[4:], unix.RTM_SETLINK)
	ne.PutUint16(plain[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	d.limitMTU(plain)
	flags := l.info.Flags != 0 || l.info.Change != 0
	if l.hasMaster {
		first := append([]byte(nil), plain...)
		clear(first[headerLen+8 : headerLen+16]) // ifi_flags, ifi_change
		if l.hasPlain() {
			if err := l.apply(d, first, false); err != nil {
				return err
			}
		}
		if err := l.ns.setMaster(d, l.master); err != nil {
			return err
		}
		if !flags {
			return nil
		}
		var types []uint16
		for _, a := range l.attrs {
			types = append(types, a.Type)
		}
		plain = blank(plain, types...)
		ne.PutUint32(plain[headerLen+4:], uint32(d.ifindex))
	}
	if !flags && !l.hasPlain() {
		return nil
	}
	return l.apply(d, plain, flags)
}

// hasPlain tells whether the request has attributes that are the kernel's.
func (l *linkRequest) hasPlain() bool {
	for _, a := range l.attrs {
		switch a.Type {
		case unix.IFLA_LINKINFO, unix.IFLA_MASTER, unix.IFLA_EXT_MASK:
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
	if d.br != nil && (l.attrs.Has(unix.IFLA_NET_NS_PID) || l.attrs.Has(unix.IFLA_NET_NS_FD)) {
		return nlattr.Errf(unix.EINVAL, "The interface netns is immutable")
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
	if err := l.try(raw); err != nil {
		if opened {
			d.vx.Down()
		}
		return err
	}
	if d.br != nil {
		if a, ok := l.attrs.Get(unix.IFLA_ADDRESS); ok && len(a.Data) == 6 {
			d.br.SetUserAddress(uapi.MACFrom(a.Data))
		}
		if a, ok := l.attrs.Get(unix.IFLA_MTU); ok && int(a.U32()) != oldMTU {
			d.br.SetUserMTU(int(a.U32()))
		}
	}
	if a, ok := l.attrs.Get(unix.IFLA_MTU); ok && d.emulated() {
		d.applyBigMTU(int(a.U32()))
	}
	ns.drain()
	ns.snoopers(d, d.state.Up)
	if a, ok := l.attrs.Get(unix.IFLA_ADDRESS); ok && d.port != nil && len(a.Data) == 6 && uapi.MACFrom(a.Data) == oldMAC {
		// To set the address that is there is an event for the bridge too.
		d.port.AddressSet(oldMAC)
	}
	return nil
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
