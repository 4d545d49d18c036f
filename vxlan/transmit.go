package vxlan

import (
	"encoding/binary"
	"net/netip"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
)

// HostInput takes frames that the host sent on the device. It is a
// netdev.Handler's Input.
func (d *Device) HostInput(t *netdev.Thread, frames []netdev.Frame) {
	for i := range frames {
		d.transmit(t, &frames[i], false)
	}
}

// Transmit takes a frame that a bridge sends out of the device as its port. The
// frame's bytes are left as they are.
func (d *Device) Transmit(t *netdev.Thread, f *netdev.Frame) { d.transmit(t, f, true) }

// TransmitTunnel is Transmit with the tunnel id that a bridge attached, which an
// external device takes as the source VNI. Others ignore it.
func (d *Device) TransmitTunnel(t *netdev.Thread, f *netdev.Frame, vni uint32) {
	if !d.fixed.external {
		d.transmit(t, f, true)
		return
	}
	p := d.path.Load()
	if p.up && !p.gpe && len(f.Data) >= etherLen {
		d.forward(t, p, f, vni, true)
	}
}

func (d *Device) transmit(t *netdev.Thread, f *netdev.Frame, shared bool) {
	p := d.path.Load()
	if !p.up || len(f.Data) < etherLen {
		return
	}
	// Without metadata an external device does not know where to: it drops
	// silently, as the kernel does.
	if d.fixed.external {
		return
	}
	if p.proxy && d.proxied(t, f) {
		return
	}
	d.forward(t, p, f, d.fixed.vni, shared)
}

// sending is the state of one frame on its way out. It is reused, since what
// goes through an interface would be allocated for each frame else.
type sending struct {
	d   *Device
	p   *path
	f   *netdev.Frame
	vni uint32
	w   netdev.UDPWriter
	in  inner
	ttl uint8
	dg  netdev.Datagram
	rco uint64 // header bits of remote checksum offload
	// full is f with its checksum completed, or a copy of it.
	full netdev.Frame
	// train is the last superframe cut up, for datagrams with trainHead.
	train     []byte
	trainHead [headerLen]byte
	segSize   int
}

// forward finds where a frame goes and sends it (the FDB part of vxlan_xmit).
// shared tells that others may have queued the frame's bytes.
func (d *Device) forward(t *netdev.Thread, p *path, f *netdev.Frame, vni uint32, shared bool) {
	dst := uapi.MACFrom(f.Data)
	e := d.table.Lookup(fdb.Key{MAC: uint64(dst), Tag: vni})
	turned := false
	if e != nil {
		touch(&e.V.used, t.Now)
		if p.rsc && e.V.flags()&uapi.NTFRouter != 0 {
			if g := d.shortCircuit(f); g != nil {
				f, shared, turned = g, false, true
				dst = uapi.MACFrom(f.Data)
				if e = d.table.Lookup(fdb.Key{MAC: uint64(dst), Tag: vni}); e != nil {
					touch(&e.V.used, t.Now)
				}
			}
		}
	}
	if e == nil {
		if e = d.table.Lookup(fdb.Key{Tag: vni}); e == nil {
			if p.l2miss && !dst.Multicast() {
				d.miss(dst)
			}
			d.txDropped(vni)
			return
		}
		touch(&e.V.used, t.Now)
	}
	to := e.V.to.Load()
	if turned && d.isLocal(e) {
		d.loop(t, f, vni)
		return
	}
	s, _ := d.pool.Get().(*sending)
	if s == nil {
		s = &sending{}
	}
	s.send(t, d, p, f, vni, shared, to)
	s.f, s.w, s.train = nil, nil, nil
	s.dg = netdev.Datagram{}
	d.pool.Put(s)
}

// send queues the frame to every target, the first one last as the kernel does.
func (s *sending) send(t *netdev.Thread, d *Device, p *path, f *netdev.Frame, vni uint32, shared bool, to *targets) {
	s.d, s.p, s.f, s.vni = d, p, f, vni
	s.in = parseInner(f.Data)
	out := p.plain
	if p.dfMode == DFSet && !p.ipv6 || p.dfMode == DFInherit && s.in.df && !p.ipv6 {
		out = p.df
	}
	if out == nil {
		d.txDropped(vni)
		return
	}
	s.w = t.Writer(out).(netdev.UDPWriter)
	if !s.prepare(shared) {
		d.stats.TxErrors.Add(1)
		return
	}
	if g := to.group; g != nil {
		if n := len(g.members); n > 0 {
			ip := g.members[uint64(s.dg.Hash)*uint64(n)>>32]
			s.one(netip.AddrPortFrom(ip, d.fixed.port), 0, s.header(vni))
		} else {
			d.txDropped(vni)
		}
		return
	}
	list := to.list
	for i := 1; i < len(list); i++ {
		s.remote(&list[i])
	}
	if len(list) > 0 {
		s.remote(&list[0])
	}
}

// header returns a header in memory that lasts until the datagram is sent.
func (s *sending) header(vni uint32) []byte {
	h := s.w.Scratch(headerLen)
	binary.BigEndian.PutUint64(h, flagVNI|uint64(vni&0xffffff)<<8|s.rco)
	return h
}

func (s *sending) remote(r *remote) {
	head := r.head[:]
	if vni := r.vni; s.rco != 0 || vni == 0 && s.d.fixed.external {
		if vni == 0 && s.d.fixed.external {
			vni = s.vni
		}
		head = s.header(vni)
	}
	s.one(r.to, int32(r.ifindex), head)
}

// prepare fills in what all copies of the frame have in common. It reports false
// if the frame is not what its Hdr says.
func (s *sending) prepare(shared bool) bool {
	p, in := s.p, &s.in
	dg := &s.dg
	dg.Src = p.src
	s.ttl = p.ttl
	if p.ttlInherit {
		s.ttl = in.ttl
	}
	tos := p.tos
	if tos == 1 {
		tos = in.tos
	}
	dg.TOS = encapECN(tos, in.tos)
	dg.Label = p.label
	if p.labelInherit {
		dg.Label = in.label
	}
	dg.Frames = 1
	dg.Hash = netdev.FlowHash(s.f.Data)
	dg.Stats = &s.d.stats
	s.rco = 0
	if h := &s.f.Hdr; h.GSOType == netdev.GSONone && h.Flags&netdev.VnetNeedsCsum != 0 {
		if s.rco = s.offload(); s.rco == 0 {
			return s.complete(shared)
		}
	}
	return true
}

// offload returns the header's bits that leave the frame's checksum to the
// receiver, 0 if that is not wanted or not possible
// (draft-herbert-vxlan-rco).
func (s *sending) offload() uint64 {
	h := &s.f.Hdr
	if !s.p.remCsumTX || h.CsumStart > 254 || h.CsumStart&1 != 0 {
		return 0
	}
	switch h.CsumOffset {
	case 16: // TCP
		return flagRCO | uint64(h.CsumStart/2)
	case 6: // UDP
		return flagRCO | rcoUDP | uint64(h.CsumStart/2)
	}
	return 0
}

// complete finishes the frame's checksum. Bytes that somebody else may have
// queued stay as they are.
func (s *sending) complete(shared bool) bool {
	if shared {
		b := s.w.Scratch(len(s.f.Data))
		copy(b, s.f.Data)
		hdr := s.f.Hdr
		s.full.Reset(b, 0, len(b))
		s.full.Hdr = hdr
		s.f = &s.full
	}
	return netdev.CompleteChecksum(s.f)
}

// one sends the frame to one remote (vxlan_xmit_one).
func (s *sending) one(to netip.AddrPort, oif int32, head []byte) {
	st, dg := &s.d.stats, &s.dg
	if to.Addr().IsUnspecified() {
		s.d.txDropped(s.vni)
		return
	}
	dg.Dst, dg.Ifindex, dg.TTL = to, oif, s.ttl
	if multi := to.Addr().IsMulticast(); multi || s.p.ipv6 && linkLocal(to.Addr()) {
		if oif == 0 {
			dg.Ifindex = s.p.link
		}
		if multi && dg.TTL == 0 {
			dg.TTL = 1
		}
	}
	dg.Head, dg.Data = head, s.f.Data
	if s.f.Hdr.GSOType != netdev.GSONone {
		if !s.cut(head) {
			st.TxErrors.Add(1)
			return
		}
		dg.Head, dg.Data, dg.SegSize = nil, s.train, s.segSize
	}
	size := len(s.f.Data) - s.in.l3
	// Counted first: the writer takes it back if it cannot be sent.
	st.TxPackets.Add(1)
	st.TxBytes.Add(uint64(size))
	dg.Bytes = uint32(size)
	s.w.QueueDatagram(dg)
	if v := s.d.vnis.stats(s.vni); v != nil {
		v.txPackets.Add(1)
		v.txBytes.Add(uint64(len(s.f.Data)))
	}
}

// txDropped counts a frame that leads nowhere.
func (d *Device) txDropped(vni uint32) {
	d.stats.TxDropped.Add(1)
	if v := d.vnis.stats(vni); v != nil {
		v.txDrops.Add(1)
	}
}

// cut cuts a superframe into a train of datagrams that each begin with head. It
// reports false if that cannot be done.
func (s *sending) cut(head []byte) bool {
	h := [headerLen]byte(head)
	if s.train != nil && h == s.trainHead {
		return true
	}
	space, ok := netdev.SegmentSpace(headerLen, s.f)
	if !ok {
		return false
	}
	train, seg, _, ok := netdev.SegmentInto(s.w.Scratch(space), head, s.f)
	if !ok {
		return false
	}
	s.train, s.trainHead, s.segSize = train, h, seg
	return true
}
