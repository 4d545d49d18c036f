package vxlan

import (
	"encoding/binary"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// Input takes datagrams that came in on the socket (vxlan_rcv). It is a
// netdev.Handler.
func (s *socket) Input(t *netdev.Thread, frames []netdev.Frame) {
	var d *Device
	var vni uint32
	var ifindex int32
	known := false
	for i := range frames {
		f := &frames[i]
		if len(f.Data) < headerLen {
			continue
		}
		h := binary.BigEndian.Uint64(f.Data)
		if h&flagVNI == 0 {
			continue
		}
		// Datagrams of a batch mostly are of one tunnel.
		if v := headerVNI(h); !known || v != vni || f.Meta.Ifindex != ifindex {
			known, vni, ifindex = true, v, f.Meta.Ifindex
			d = s.device(vni, ifindex)
		}
		if d != nil {
			d.receive(t, f, h, vni)
		}
	}
}

// receive checks a datagram's payload, learns from it and hands the frame up.
// Frames that are dropped without a count are so in the kernel.
func (d *Device) receive(t *netdev.Thread, f *netdev.Frame, h uint64, vni uint32) {
	p := d.path.Load()
	if h&p.reserved != 0 {
		d.stats.RxFrameErrors.Add(1)
		d.rxError(vni)
		return
	}
	if p.gpe {
		// Its payload is no Ethernet frame, which is all that a TAP takes.
		return
	}
	f.Trim(headerLen)
	if p.remCsumRX && h&flagRCO != 0 && !remoteChecksum(f, h) {
		return
	}
	if len(f.Data) < etherLen {
		return
	}
	src := uapi.MACFrom(f.Data[6:])
	if src == p.mac {
		return
	}
	if p.learn && !d.learn(t.Now, &f.Meta, src, vni) {
		return
	}
	switch binary.BigEndian.Uint16(f.Data[12:]) {
	case unix.ETH_P_IP:
		if len(f.Data) < etherLen+20 {
			d.stats.RxLengthErrors.Add(1)
			d.rxError(vni)
			return
		}
		b := f.Data[etherLen:]
		ecn, ok := d.congestion(t, vni, f.Meta.TOS, b[1])
		if !ok {
			return
		}
		if ecn != b[1]&3 {
			setECN4(b, ecn)
		}
	case unix.ETH_P_IPV6:
		if len(f.Data) < etherLen+40 {
			d.stats.RxLengthErrors.Add(1)
			d.rxError(vni)
			return
		}
		b := f.Data[etherLen:]
		ecn, ok := d.congestion(t, vni, f.Meta.TOS, b[1]>>4)
		if !ok {
			return
		}
		if ecn != b[1]>>4&3 {
			setECN6(b, ecn)
		}
	}
	if !p.up {
		d.stats.RxDropped.Add(1)
		if v := d.vnis.stats(vni); v != nil {
			v.rxDrops.Add(1)
		}
		return
	}
	netdev.FixPartial(f, p.mtu)
	n := len(f.Data) - etherLen
	if v := d.vnis.stats(vni); v != nil {
		v.rxPackets.Add(1)
		v.rxBytes.Add(uint64(n))
	}
	d.deliver(t, f, vni, n)
}

// rxError counts a datagram that was not right.
func (d *Device) rxError(vni uint32) {
	d.stats.RxErrors.Add(1)
	if v := d.vnis.stats(vni); v != nil {
		v.rxErrors.Add(1)
	}
}

// congestion decides about the ECN fields of a datagram and its frame.
func (d *Device) congestion(t *netdev.Thread, vni uint32, outer, innerTOS uint8) (ecn uint8, ok bool) {
	ecn, odd, ok := decapECN(outer&3, innerTOS&3)
	if odd && d.env.Log != nil && d.logs.allow(t.Now) {
		d.env.Log.Info("frame without ECN in a datagram with it", "dev", d.home.Load().ifindex, "tos", outer)
	}
	if !ok {
		d.stats.RxFrameErrors.Add(1)
		d.rxError(vni)
	}
	return ecn, ok
}

// remoteChecksum notes where the sender left the frame's checksum to us. It
// reports false if that is outside the frame.
func remoteChecksum(f *netdev.Frame, h uint64) bool {
	start := int(h&0x7f) * 2
	offset := 16 // of TCP's checksum
	if h&0x80 != 0 {
		offset = 6 // of UDP's
	}
	if start+offset+2 > len(f.Data) {
		return false
	}
	f.Hdr.Flags |= netdev.VnetNeedsCsum
	f.Hdr.CsumStart, f.Hdr.CsumOffset = uint16(start), uint16(offset)
	return true
}
