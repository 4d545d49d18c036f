package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
)

// deviceFor returns the device of a kernel's link message, registering it if it
// is new to us.
func (ns *Namespace) deviceFor(m *message) *device {
	v, _ := viewLink(m)
	if d := ns.devs[int(v.info.Index)]; d != nil {
		return d
	}
	d := &device{ifindex: int(v.info.Index), arpType: v.info.Type}
	d.follow(v)
	d.state, d.operState = v.state()
	ns.devs[d.ifindex] = d
	return d
}

// setMaster is do_set_master: leave the present master, then join the new one. A
// failure to join leaves the device without.
func (ns *Namespace) setMaster(d *device, master int) error {
	if d.master != nil {
		if d.master.ifindex == master {
			return nil
		}
		ns.release(d)
	}
	if master == 0 {
		return nil
	}
	ns.devs[d.ifindex] = d // leaving the old master may have dropped it
	br := ns.devs[master]
	if br == nil || br.br == nil {
		if ns.link(master, "") == nil {
			return nlattr.Errno(unix.EINVAL)
		}
		// The kernel knows whether its device takes slaves; ours do not.
		if br != nil || d.emulated() {
			return nlattr.Errno(unix.EOPNOTSUPP)
		}
		ns.forgetUnless(d)
		return ns.setKernelMaster(d, master)
	}
	return ns.enslave(d, br)
}

// setKernelMaster hands a real device to a master of the kernel's.
func (ns *Namespace) setKernelMaster(d *device, master int) error {
	b := beginMessage(nil, unix.RTM_SETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = infoFor(d.ifindex).Append(b)
	b = nlattr.AppendU32(b, unix.IFLA_MASTER, uint32(master))
	return roundTrip(ns.ctl, endMessage(b, 0), nil)
}

// enslave is br_add_if. On the wire the port's two messages (master, promiscuity)
// come first, then what the bridge has to say.
func (ns *Namespace) enslave(d, br *device) error {
	ns.drain()
	if !d.emulated() && d.arpType != unix.ARPHRD_ETHER || d.raw() || !d.state.MAC.ValidUnicast() {
		return nlattr.Errno(unix.EINVAL)
	}
	if d.br != nil {
		return nlattr.Errf(unix.ELOOP, "Can not enslave a bridge to a bridge")
	}
	if ns.standsOn(d.ifindex, br.ifindex, maxNesting) {
		return nlattr.Errno(unix.EBUSY)
	}
	var egress netdev.Egress = d.vx
	if !d.emulated() {
		if err := ns.openPort(d); err != nil {
			return err
		}
		egress = netdev.OutputEgress{Output: d.out}
	}
	ns.speed(d)
	p, err := br.br.NewPort(d.portState(), egress)
	if err != nil {
		d.closeIO(ns.logErr)
		return err
	}
	d.master, d.port = br, p
	ns.emitLink(d, 0, 0)
	ns.emitLink(d, unix.IFF_PROMISC, 0)
	br.br.Join(p)
	ns.limitTSO(br)
	if d.vx != nil {
		d.vx.SetUpper(p.InputFrame)
		return nil
	}
	ns.domain.Start(d.io.Reader(), p, ns.portEnded(d.state.Name))
	return nil
}

// openPort opens a real device's frame I/O and takes its frames from the host.
func (ns *Namespace) openPort(d *device) error {
	io, err := ns.io.OpenPort(d.ifindex)
	if err != nil {
		ns.log.Warn("cannot open the port", "dev", d.state.Name, "err", err)
		return userError(err)
	}
	d.io, d.out = io, io.Output(ns.domain)
	for _, step := range []func() error{io.SetAllmulti, io.SetPromisc, io.Seize} {
		if err := step(); err != nil {
			ns.log.Warn("cannot take over the port", "dev", d.state.Name, "err", err)
			d.closeIO(ns.logErr)
			ns.pull(d.ifindex)
			return userError(err)
		}
	}
	// The kernel announced the promiscuity; enslave does it in its place.
	ns.pull(d.ifindex)
	return nil
}

// portEnded logs why a port's thread ended, if it was not told to.
func (ns *Namespace) portEnded(name string) func(error) {
	return func(err error) {
		if err != netdev.ErrClosed {
			ns.log.Info("port closed", "dev", name, "err", err)
		}
	}
}

// closePort gives a released port back to the host. Each takes several of the
// kernel's grace periods: of a namespace that closes, where nobody is left to hear
// of it, all ports go at the same time.
func (ns *Namespace) closePort(d *device) {
	if !ns.closing {
		d.closeIO(ns.logErr)
		ns.pull(d.ifindex)
		return
	}
	// The copy keeps what is open.
	gone := *d
	d.io, d.out = nil, nil
	ns.closers.Go(func() { gone.closeIO(ns.logErr) })
}

// release is br_del_if.
func (ns *Namespace) release(d *device) {
	ns.drain()
	br := d.master.br
	p := d.port
	if d.vx != nil {
		d.vx.SetUpper(nil)
	}
	if !d.leaving {
		ns.emitLink(d, unix.IFF_PROMISC, 0)
	}
	br.DelPort(p)
	ns.closePort(d)
	master := d.master
	d.port, d.master = nil, nil
	if !d.leaving {
		ns.emitLink(d, 0, 0)
	}
	br.Released(p, d.closingMaster)
	if !d.closingMaster {
		// A bridge that is being deleted asks its ports once, at the end.
		ns.limitTSO(master)
	}
	ns.forgetUnless(d)
}

// TSO_MAX_SIZE and TSO_MAX_SEGS (linux/netdevice.h).
const (
	tsoMaxSize = 8 * 65535
	tsoMaxSegs = 65535
)

// limitTSO makes the segmentation limits of a bridge the lowest of its ports'
// (br_set_gso_limits).
func (ns *Namespace) limitTSO(br *device) {
	br.tsoSize, br.tsoSegs = tsoMaxSize, tsoMaxSegs
	for _, p := range br.br.Ports() {
		size, segs := ns.tsoOf(p.Ifindex())
		br.tsoSize, br.tsoSegs = min(br.tsoSize, size), min(br.tsoSegs, segs)
	}
}

// tsoOf returns IFLA_TSO_MAX_SIZE and _SEGS of a device.
func (ns *Namespace) tsoOf(ifindex int) (size, segs uint32) {
	size, segs = tsoMaxSize, tsoMaxSegs
	m := ns.link(ifindex, "")
	if m == nil {
		return size, segs
	}
	v, _ := viewLink(&message{raw: ns.rewriteLink(m)})
	if a, ok := v.attrs.Get(unix.IFLA_TSO_MAX_SIZE); ok {
		size = a.U32()
	}
	if a, ok := v.attrs.Get(unix.IFLA_TSO_MAX_SEGS); ok {
		segs = a.U32()
	}
	return size, segs
}
