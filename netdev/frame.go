// Package netdev is the frame I/O of devices: batched readers and writers over
// packet sockets, TAPs and UDP sockets, each with a fake in memory, and the
// threads that run frames to completion between them.
//
// The frame path keeps three rules: no allocation, no lock and no channel per
// frame. Everything that a frame needs is owned by the Thread that received it.
package netdev

import (
	"encoding/binary"
	"net/netip"
)

// Values of VnetHdr.Flags and VnetHdr.GSOType (uapi/linux/virtio_net.h).
const (
	VnetNeedsCsum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	VnetDataValid = 2 // VIRTIO_NET_HDR_F_DATA_VALID

	GSONone  = 0
	GSOTCPv4 = 1
	GSOUDP   = 3
	GSOTCPv6 = 4
	GSOUDPL4 = 5
	GSOECN   = 0x80 // flag beside the type
)

// VnetHdrLen is the size of VnetHdr as packet sockets and TAPs carry it.
const VnetHdrLen = 10

// VnetHdr is struct virtio_net_hdr in host byte order: what must still be done
// to a frame before it is on a wire. The zero value is an ordinary frame.
type VnetHdr struct {
	Flags   uint8
	GSOType uint8
	// HdrLen is the length in bytes of the headers that every segment repeats.
	HdrLen uint16
	// GSOSize is the payload in bytes of each segment.
	GSOSize uint16
	// CsumStart and CsumOffset say, in bytes from the start of the Ethernet
	// header and from CsumStart, where summing begins and where the sum goes.
	CsumStart, CsumOffset uint16
}

// Headroom is how many bytes are free in front of a received frame: for a VLAN
// tag that the kernel took off, or the headers of a tunnel.
const Headroom = 64

// MaxFrame is the largest frame in bytes that a Batch's buffers hold: a GSO
// superframe with its Ethernet header and tags.
const MaxFrame = 65536 + 64

// Frame is an Ethernet frame without FCS, or the payload of a UDP datagram, in a
// buffer that its Batch owns. It may be read until the Thread's next batch, and
// its bytes must not change once a Writer has queued it.
type Frame struct {
	Hdr  VnetHdr
	Data []byte
	// Meta is set by readers of UDP sockets.
	Meta UDPMeta

	room int // bytes of the buffer in front of Data
	buf  []byte
}

// UDPMeta tells where a datagram came from.
type UDPMeta struct {
	Src     netip.Addr // outer source address
	SrcPort uint16
	// Ifindex is the interface that received it.
	Ifindex int32
	// InnerGSO, if not 0, tells that the payload is one superframe of UDP within
	// a tunnel, and its segment size. FixPartial acts on it.
	InnerGSO uint16
	// TOS is the outer IPv4 TOS or IPv6 traffic class, ECN bits included.
	TOS uint8
}

// NewFrame makes a frame around a copy of data with Headroom in front, for tests
// and for control-plane frames.
func NewFrame(data []byte) *Frame {
	buf := make([]byte, Headroom+len(data))
	copy(buf[Headroom:], data)
	f := &Frame{}
	f.Reset(buf, Headroom, len(data))
	return f
}

// Reset points f at n bytes of buf, starting at off, and clears Hdr and Meta.
func (f *Frame) Reset(buf []byte, off, n int) {
	*f = Frame{Data: buf[off : off+n : len(buf)], room: off, buf: buf}
}

// Room returns how many bytes are free in front of Data.
func (f *Frame) Room() int { return f.room }

// Trim drops n bytes from the front: they become headroom.
func (f *Frame) Trim(n int) {
	f.Data = f.Data[n:]
	f.room += n
}

// Push makes n more bytes of headroom part of Data. It reports false where there
// is no such room.
func (f *Frame) Push(n int) bool {
	if n > f.room {
		return false
	}
	f.room -= n
	f.Data = f.buf[f.room : f.room+n+len(f.Data) : len(f.buf)]
	return true
}

// PushTag puts a VLAN tag behind the addresses; tci and tpid are in host byte
// order. It reports false where there is no room or no Ethernet header.
func (f *Frame) PushTag(tpid, tci uint16) bool {
	if len(f.Data) < 14 || !f.Push(4) {
		return false
	}
	copy(f.Data, f.Data[4:16])
	binary.BigEndian.PutUint16(f.Data[12:], tpid)
	binary.BigEndian.PutUint16(f.Data[14:], tci)
	if f.Hdr.Flags&VnetNeedsCsum != 0 {
		f.Hdr.CsumStart += 4
	}
	if f.Hdr.GSOType != GSONone {
		f.Hdr.HdrLen += 4
	}
	return true
}

// Batch is a set of frame buffers that one Reader fills again and again.
type Batch struct {
	// Frames are the frames of the last Read.
	Frames []Frame
	// Bufs are the buffers, each of Headroom+MaxFrame bytes or what NewBatch was
	// asked for.
	Bufs [][]byte

	all []Frame
}

// NewBatch makes a batch of n buffers that hold frames of size bytes, and room
// for as many as frames frames (a coalesced buffer is split into several).
func NewBatch(n, size, frames int) *Batch {
	// The odd stride keeps the buffers' first cache lines out of one set.
	stride := Headroom + size + 192
	mem := make([]byte, n*stride)
	b := &Batch{all: make([]Frame, max(frames, n))}
	for i := range n {
		b.Bufs = append(b.Bufs, mem[i*stride:i*stride+Headroom+size:i*stride+Headroom+size])
	}
	return b
}

// Slot returns the i-th frame to be filled; Use says how many were.
func (b *Batch) Slot(i int) *Frame { return &b.all[i] }

// Slots returns how many frames the batch can hold.
func (b *Batch) Slots() int { return len(b.all) }

// Use makes the first n slots the batch's frames.
func (b *Batch) Use(n int) { b.Frames = b.all[:n] }
