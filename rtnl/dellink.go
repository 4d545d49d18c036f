package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// delLink handles RTM_DELLINK (rtnl_dellink).
func (r *request) delLink() (bool, error) {
	if len(r.body()) < uapi.IfinfomsgLen {
		return r.pass()
	}
	ns := r.ns
	info := uapi.ParseIfinfomsg(r.body())
	as := r.parse(uapi.IfinfomsgLen)
	if r.flags&uapi.NLMBulk != 0 {
		return r.pass()
	}
	d := ns.devs[int(info.Index)]
	if info.Index == 0 {
		if a, ok := as.Get(unix.IFLA_IFNAME); ok {
			d = ns.named(a.Text())
		} else if a, ok := as.Get(unix.IFLA_ALT_IFNAME); ok {
			if m := ns.link(0, a.Text()); m != nil {
				v, _ := viewLink(m)
				d = ns.devs[int(v.info.Index)]
			}
		}
	}
	if info.Index < 0 || d == nil || !d.emulated() {
		if group, ok := as.Get(unix.IFLA_GROUP); ok && info.Index == 0 {
			return r.delGroup(group)
		}
		return r.pass()
	}
	d.deletedBy = r
	ns.remove(d)
	return false, nil
}

// delGroup deletes the devices of a group (rtnl_group_dellink): ours first, then
// the kernel its own. Where one of them cannot be deleted, none is.
func (r *request) delGroup(group nlattr.Attr) (bool, error) {
	ns, ours := r.ns, 0
	if group.U32() == 0 {
		return r.pass()
	}
	members, stuck, err := ns.groupMembers(group.U32())
	if err != nil {
		return false, err
	}
	if stuck {
		return r.pass()
	}
	for _, d := range ns.sorted() {
		if members[d.ifindex] && d.emulated() && ns.devs[d.ifindex] == d {
			ns.remove(d)
			ours++
		}
	}
	out, err := r.ask(r.raw, nil)
	if err != nil {
		return false, err
	}
	if ours > 0 {
		return false, nil
	}
	for _, b := range out {
		r.s.reply(b)
	}
	return true, nil
}

// groupMembers returns the devices of a group. stuck tells that one of them is of
// no kind, so that nobody can delete it.
func (ns *Namespace) groupMembers(group uint32) (members map[int]bool, stuck bool, err error) {
	members = map[int]bool{}
	b := beginMessage(nil, unix.RTM_GETLINK, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, 1, 0)
	b = endMessage(infoFor(0).Append(b), 0)
	err = roundTrip(ns.ctl, b, func(m *message) {
		v, ok := viewLink(m)
		if a, has := v.attrs.Get(unix.IFLA_GROUP); !ok || !has || a.U32() != group {
			return
		}
		members[int(v.info.Index)] = true
		info, _ := v.attrs.Get(unix.IFLA_LINKINFO)
		stuck = stuck || !info.Nest().Has(unix.IFLA_INFO_KIND)
	})
	return members, stuck, err
}

// named returns our device of that name, nil if it is none of ours.
func (ns *Namespace) named(name string) *device {
	for _, d := range ns.devs {
		if d.state.Name == name {
			return d
		}
	}
	return nil
}

func infoFor(ifindex int) uapi.Ifinfomsg { return uapi.Ifinfomsg{Index: int32(ifindex)} }

// start runs an emulated device's thread.
func (ns *Namespace) start(d *device) {
	var h netdev.Handler
	if d.br != nil {
		h = handlerFunc(d.br.HostInput)
	} else {
		h = handlerFunc(d.vx.HostInput)
	}
	d.ended = make(chan struct{})
	name := d.state.Name
	ns.domain.Start(d.tap.Reader(), h, func(err error) {
		close(d.ended)
		ns.portEnded(name)(err)
	})
}

// handlerFunc makes a netdev.Handler of a method.
type handlerFunc func(t *netdev.Thread, frames []netdev.Frame)

// Input implements netdev.Handler.
func (f handlerFunc) Input(t *netdev.Thread, frames []netdev.Frame) { f(t, frames) }

// tapEgress sends frames up to an emulated device's TAP.
func tapEgress(o *netdev.Output) netdev.Egress { return netdev.OutputEgress{Output: o} }

// remove deletes a device of ours: an emulated one for good, a real one from its
// bridge. The kernel's own event of the TAP's end is what the clients see last.
func (ns *Namespace) remove(d *device) {
	ns.drain()
	if d.vx != nil {
		ns.closeTunnel(d)
	}
	ns.dissolve(d)
	if !d.emulated() {
		ns.forgetUnless(d)
		return
	}
	ns.during(func() { ns.closeTAP(d) })
	ns.forgetDevice(d)
	ns.drain()
}

// closeTunnel is what vxlan_dellink and the beginning of unregistering do: the
// entries go, then the link to the lower device, then the device is taken down. It
// is in its bridge until then.
func (ns *Namespace) closeTunnel(d *device) {
	d.vx.Retire()
	if l := d.vx.Lower(); l != 0 && (ns.devs[l] == nil || !ns.devs[l].leaving) {
		ns.emitForeign(l)
	}
	if d.state.Up {
		b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
		b = endMessage(uapi.Ifinfomsg{Index: int32(d.ifindex), Change: unix.IFF_UP}.Append(b), 0)
		ns.during(func() {
			if err := roundTrip(ns.ctl, b, nil); err != nil {
				ns.logErr("take down "+d.state.Name, err)
			}
			ns.pull(0)
			for _, q := range ns.linksIn(0, d.ifindex) {
				// dev_close_many says so; it is not a user who takes it down.
				ne.PutUint32(q.msg[headerLen+12:], unix.IFF_UP|unix.IFF_RUNNING)
			}
		})
	}
	d.leaving = true
}

// dissolve undoes what a device is in the emulation, with the events of that: it
// leaves its bridge, gives up its ports, its forwarding entries go, and with it go
// the tunnels over it. It may be called again.
func (ns *Namespace) dissolve(d *device) {
	if d.dissolved {
		return
	}
	if d.port != nil {
		ns.release(d)
	}
	if !d.emulated() {
		return
	}
	d.dissolved = true
	switch {
	case d.br != nil:
		for _, p := range d.br.Ports() {
			if q := ns.devs[p.Ifindex()]; q != nil {
				q.closingMaster = true
				ns.release(q)
				q.closingMaster = false
			}
		}
		ns.limitTSO(d)
		d.br.Close()
	case d.vx != nil:
		d.vx.Close()
	}
	d.leaving = true
	ns.lowerGone(d.ifindex)
}

// closeTAP ends the thread and closes the TAP, which deletes it: behind the
// caller's back where the whole namespace closes, as closePort does.
func (ns *Namespace) closeTAP(d *device) {
	if d.closed {
		return
	}
	d.closed = true
	if ns.closing {
		ns.closers.Go(func() { d.endTAP(ns.logErr) })
		return
	}
	d.endTAP(ns.logErr)
}

func (d *device) endTAP(log func(string, error)) {
	if err := d.tap.Reader().Close(); err != nil {
		log("close TAP reader", err)
	}
	if d.ended != nil {
		<-d.ended
	}
	if err := d.tap.Close(); err != nil {
		log("close TAP", err)
	}
}

// discard takes back a device whose creation failed, without any link message.
func (ns *Namespace) discard(d *device) {
	d.muted = true
	ns.dissolve(d)
	ns.closeTAP(d)
	ns.drain()
	ns.forgetDevice(d)
}

// forgetDevice drops the device from the namespace once its last event is out.
func (ns *Namespace) forgetDevice(d *device) {
	ns.closeTAPIfOurs(d)
	if ns.devs[d.ifindex] == d {
		delete(ns.devs, d.ifindex)
	}
}

func (ns *Namespace) closeTAPIfOurs(d *device) {
	if d.emulated() {
		ns.closeTAP(d)
	} else {
		d.closeIO(ns.logErr)
	}
}

// emitForeign announces a device of the kernel's as the kernel does when a tunnel
// is put on it or taken off.
func (ns *Namespace) emitForeign(ifindex int) {
	d := ns.devs[ifindex]
	if d == nil {
		d = &device{ifindex: ifindex}
	}
	ns.emitLink(d, 0, 0)
}
