package netdev

import "encoding/binary"

// FixPartial finds out what the sending kernel left undone in a frame that came
// out of a tunnel. A kernel whose tunnel runs over veth, or any other device that
// is not a wire, leaves the inner checksum for later, as the sum of the
// pseudo-header alone, and hands TCP superframes over in one piece. There is no
// virtio_net_hdr in a UDP datagram to tell so; FixPartial sets f.Hdr as one would.
// mtu is the tunnel device's in bytes: a TCP packet that is longer is a
// superframe, to be cut to that size. A frame that is complete stays as it is on the wire: if
// its checksum happens to look unfinished, finishing it gives the same.
func FixPartial(f *Frame, mtu int) {
	h, ok := parseHeaders(f.Data)
	if !ok || h.version == 0 || h.fragment || h.routed {
		return
	}
	l4 := f.Data[h.l4:h.end]
	var field, hdrLen int
	switch {
	case h.proto == protoTCP && len(l4) >= 20:
		field = 16
		hdrLen = int(l4[12]>>4) * 4
		if hdrLen < 20 || hdrLen > len(l4) {
			return
		}
	case h.proto == protoUDP && len(l4) >= 8:
		field = 6
		if l4[6] == 0 && l4[7] == 0 {
			return // no checksum
		}
	default:
		return
	}
	if binary.BigEndian.Uint16(l4[field:]) != h.pseudoSum(f.Data, len(l4)) {
		return
	}
	if h.end != len(f.Data) {
		// Padding is not part of the sum that a virtio_net_hdr describes.
		complete(f.Data[:h.end], h.l4, field)
		return
	}
	f.Hdr.Flags |= VnetNeedsCsum
	f.Hdr.CsumStart, f.Hdr.CsumOffset = uint16(h.l4), uint16(field)
	if h.proto == protoUDP {
		if size := f.Meta.InnerGSO; size != 0 && int(size) < len(l4)-8 {
			f.Hdr.GSOType, f.Hdr.GSOSize, f.Hdr.HdrLen = GSOUDPL4, size, uint16(h.l4+8)
		}
		return
	}
	if h.end-h.l3 <= mtu {
		return
	}
	size := mtu - (h.l4 - h.l3) - hdrLen
	if size <= 0 || size >= len(l4)-hdrLen {
		return
	}
	f.Hdr.GSOType = GSOTCPv4
	if h.version == 6 {
		f.Hdr.GSOType = GSOTCPv6
	}
	if l4[13]&tcpCWR != 0 {
		f.Hdr.GSOType |= GSOECN
	}
	f.Hdr.GSOSize = uint16(min(size, 0xffff))
	f.Hdr.HdrLen = uint16(h.l4 + hdrLen)
}
