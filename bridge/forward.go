package bridge

import (
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

// Input takes frames received on the port (br_handle_frame). It is a
// netdev.Handler.
func (p *Port) Input(t *netdev.Thread, frames []netdev.Frame) {
	in := p.view.Load()
	if in == nil {
		p.drops.PortState.Add(uint64(len(frames)))
		return
	}
	now := ticksOf(t.Now)
	for i := range frames {
		in.input(t, &frames[i], now)
	}
}

// InputFrame takes one frame received on the port, from a tunnel's receive path.
func (p *Port) InputFrame(t *netdev.Thread, f *netdev.Frame) {
	if in := p.view.Load(); in != nil {
		in.input(t, f, ticksOf(t.Now))
	} else {
		p.drops.PortState.Add(1)
	}
}

// input decides about one frame that came in on a port.
func (in *portView) input(t *netdev.Thread, f *netdev.Frame, now ticks) {
	drops, v := &in.p.drops, in.v
	if len(f.Data) < etherHeader {
		drops.Short.Add(1)
		return
	}
	dst, src := uapi.MACFrom(f.Data), uapi.MACFrom(f.Data[6:])
	if !src.ValidUnicast() {
		drops.BadSource.Add(1)
		return
	}
	if dst.LinkLocal() && !in.linkLocal(dst, src, now) {
		return
	}
	if in.state != stateForwarding && in.state != stateLearning {
		drops.PortState.Add(1)
		return
	}
	if in.flags&portLocked != 0 && !v.b.admit(in, src, now) {
		drops.Locked.Add(1)
		return
	}
	if in.flags&portLearning != 0 {
		v.b.learn(in, src, now, 0)
	}
	if in.state == stateLearning {
		drops.PortState.Add(1)
		return
	}
	if !dst.Multicast() {
		in.unicast(t, f, dst, now)
		return
	}
	if dst.Broadcast() {
		flood(t, f, in, v.broadcast)
		v.passUp(t, f)
		return
	}
	in.multicast(t, f, now)
}

// linkLocal handles a frame to 01:80:c2:00:00:0X and tells whether it is to be
// forwarded like any other. One that is not is for the port's device itself, where
// the kernel delivers it; the bridge learns its source all the same, without
// regard to locks.
func (in *portView) linkLocal(dst, src uapi.MAC, now ticks) (forward bool) {
	v, x := in.v, uint(dst&0xf)
	mask := in.groupFwdMask
	switch x {
	case 0:
		forward = !v.stp || mask&1 != 0
	case 1:
		in.p.drops.Pause.Add(1)
		return false
	default:
		forward = (mask|v.groupFwdMask)>>x&1 != 0
	}
	if forward {
		return true
	}
	learns := in.state == stateForwarding || in.state == stateLearning
	if learns && in.flags&portLearning != 0 && v.linkLocalLearn {
		v.b.learn(in, src, now, 0)
	}
	in.p.drops.LinkLocal.Add(1)
	return false
}

// unicast forwards to one station, or everywhere if nobody knows where it is.
func (in *portView) unicast(t *netdev.Thread, f *netdev.Frame, dst uapi.MAC, now ticks) {
	v := in.v
	e := v.b.fdb.Lookup(key(dst, 0))
	switch {
	case e == nil:
		flood(t, f, in, v.unicast)
	case e.V.has(fdbLocal):
		v.passUp(t, f)
		return
	default:
		if e.V.used.Load() != int64(now) {
			e.V.used.Store(int64(now))
		}
		forward(t, f, in, e.V.dst.Load())
	}
	if v.promisc {
		v.passUp(t, f)
	}
}

// passUp delivers to the bridge device.
func (v *view) passUp(t *netdev.Thread, f *netdev.Frame) {
	c := &v.b.counters
	c.RxPackets.Add(1)
	c.RxBytes.Add(uint64(len(f.Data)))
	v.host.Transmit(t, f)
}

// flood sends to all ports of a list. in is nil for frames of the host.
func flood(t *netdev.Thread, f *netdev.Frame, in *portView, list []*portView) {
	for _, out := range list {
		// Not to be sent back is the rule for a flood, not a drop.
		if in != nil && out.p == in.p && out.flags&portHairpin == 0 {
			continue
		}
		out.deliver(t, f, in)
	}
}

// forward sends to the port that a row names, or to its backup port where that
// has no carrier (br_forward).
func forward(t *netdev.Thread, f *netdev.Frame, in *portView, to *Port) {
	if to == nil {
		return
	}
	out := to.view.Load()
	if out != nil && out.down && out.backup != nil {
		out = out.backup.view.Load()
	}
	switch {
	case out == nil:
		to.drops.EgressState.Add(1)
	case in != nil && out.p == in.p && out.flags&portHairpin == 0:
		out.p.drops.SamePort.Add(1)
	case out.state != stateForwarding:
		out.p.drops.EgressState.Add(1)
	default:
		out.deliver(t, f, in)
	}
}

// deliver sends out of a forwarding port unless isolation or the MTU forbid it.
func (out *portView) deliver(t *netdev.Thread, f *netdev.Frame, in *portView) {
	if in != nil && in.flags&out.flags&portIsolated != 0 {
		out.p.drops.Isolated.Add(1)
		return
	}
	if len(f.Data) > out.limit && f.Hdr.GSOType == netdev.GSONone {
		out.p.drops.TooBig.Add(1)
		return
	}
	out.out.Transmit(t, f)
}

// HostInput takes frames that the host sent on the bridge device (br_dev_xmit).
// Their sources are not learned, and flags against flooding of groups do not apply
// to them.
func (b *Bridge) HostInput(t *netdev.Thread, frames []netdev.Frame) {
	v := b.view.Load()
	if v == nil || !v.up {
		b.drops.PortState.Add(uint64(len(frames)))
		return
	}
	var n uint64
	for i := range frames {
		n += uint64(len(frames[i].Data))
		v.hostFrame(t, &frames[i], ticksOf(t.Now))
	}
	b.counters.TxPackets.Add(uint64(len(frames)))
	b.counters.TxBytes.Add(n)
}

func (v *view) hostFrame(t *netdev.Thread, f *netdev.Frame, now ticks) {
	if len(f.Data) < etherHeader {
		v.b.drops.Short.Add(1)
		return
	}
	dst := uapi.MACFrom(f.Data)
	if dst.Broadcast() {
		flood(t, f, nil, v.fromHost)
		return
	}
	if dst.Multicast() {
		v.hostMulticast(t, f, now)
		return
	}
	e := v.b.fdb.Lookup(key(dst, 0))
	if e == nil {
		flood(t, f, nil, v.unicast)
		return
	}
	// A LOCAL row that names a port is forwarded like any other.
	to := e.V.dst.Load()
	if to == nil {
		v.b.drops.NoPort.Add(1)
		return
	}
	forward(t, f, nil, to)
}
