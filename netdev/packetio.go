package netdev

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auxSpace is CMSG_SPACE(sizeof(struct tpacket_auxdata)), rounded up.
const auxSpace = 48

// maxReadErrors is after how many errors in a row a reader gives up.
const maxReadErrors = 1000

// minFrame is the length in bytes of an Ethernet header.
const minFrame = 14

// auxMsg is a control message with struct tpacket_auxdata.
type auxMsg struct {
	hdr unix.Cmsghdr
	aux unix.TpacketAuxdata
	_   [auxSpace - unix.SizeofCmsghdr - 20]byte
}

// packetReader is the Reader of a PacketPort.
type packetReader struct {
	p    *PacketPort
	gate *gate
	// batch is what msgs points into.
	batch *Batch
	msgs  []unix.Mmsghdr
	iov   []unix.Iovec
	hdrs  []VnetHdr
	ctl   []auxMsg
	used  int  // messages that the kernel has written to
	next  int  // the first of them that is not yet frames
	down  bool // the device was down when last heard of

	// scratch has the rest of a superframe that was cut: segments of segSize
	// bytes with Headroom in front.
	room    [Headroom]byte // stays empty
	scratch []byte
	train   []byte
	segSize int
}

// NewBatch makes a batch for Read.
func (r *packetReader) NewBatch() *Batch { return NewBatch(packetRead, MaxFrame, packetRead) }

// Close makes Read return ErrClosed, and waits for that. The socket stays open.
func (r *packetReader) Close() error {
	r.gate.close()
	return nil
}

// point makes the messages point at the batch's buffers.
func (r *packetReader) point(b *Batch) {
	n := len(b.Bufs)
	r.batch = b
	r.msgs = make([]unix.Mmsghdr, n)
	r.iov = make([]unix.Iovec, 2*n)
	r.hdrs = make([]VnetHdr, n)
	r.ctl = make([]auxMsg, n)
	for i := range r.msgs {
		setHdrIovec(&r.iov[2*i], &r.hdrs[i])
		setIovec(&r.iov[2*i+1], b.Bufs[i][Headroom:])
		h := &r.msgs[i].Hdr
		h.Iov = &r.iov[2*i]
		h.SetIovlen(2)
		h.Control = (*byte)(unsafe.Pointer(&r.ctl[i]))
	}
	r.used, r.next = n, n
}

// Read implements Reader.
func (r *packetReader) Read(b *Batch) error {
	err := r.gate.enter()
	defer r.gate.leave()
	if err != nil {
		return err
	}
	if r.batch != b {
		r.point(b)
	}
	for failed := 0; ; {
		if len(r.train) > 0 || r.next < r.used {
			if r.take(b) {
				return nil
			}
			continue
		}
		for i := range r.msgs[:r.used] {
			r.msgs[i].Hdr.SetControllen(auxSpace)
			r.msgs[i].Hdr.Flags = 0
		}
		var errno unix.Errno
		r.used, errno = recvmmsg(r.p.fd, r.msgs)
		r.next = 0
		switch errno {
		case 0:
			failed, r.down = 0, false
			continue
		case unix.EAGAIN, unix.EINTR:
			failed = 0
		case unix.ENETDOWN:
			r.down = true
		case unix.EINVAL:
			// A superframe of a kind that virtio_net_hdr has no name for. The
			// kernel has dropped it.
			r.p.stats.RxErrors.Add(1)
			continue
		default:
			if failed++; failed > maxReadErrors {
				return fmt.Errorf("cannot read from interface %d: %w", r.p.ifindex, errno)
			}
			continue
		}
		timeout := -1
		if r.down {
			if r.p.gone() {
				return fmt.Errorf("interface %d is gone: %w", r.p.ifindex, unix.ENODEV)
			}
			timeout = downPoll
		}
		if _, err := r.gate.wait(timeout); err != nil {
			return err
		}
	}
}

// take makes frames of the messages. It reports false if none is usable.
func (r *packetReader) take(b *Batch) bool {
	var bad, odd, bytes uint64
	n := 0
	for len(r.train) == 0 && r.next < r.used {
		i := r.next
		m := &r.msgs[i]
		l := int(m.Len) - VnetHdrLen
		if l < minFrame || m.Hdr.Flags&unix.MSG_TRUNC != 0 {
			bad++
			r.next++
			continue
		}
		f := b.Slot(n)
		f.Reset(b.Bufs[i], Headroom, l)
		f.Hdr = r.hdrs[i]
		if f.Hdr.GSOType != GSONone && f.Hdr.Flags&VnetNeedsCsum != 0 {
			if h, _ := parseHeaders(f.Data); tunnelled(f, &h) {
				if n > 0 {
					break // after this batch, whose frames may be in scratch
				}
				r.tag(f, i)
				if !r.cut(f) {
					odd++
				}
				r.next++
				continue
			}
		}
		r.tag(f, i)
		bytes += uint64(len(f.Data))
		n++
		r.next++
	}
	for ; len(r.train) > 0 && n < b.Slots(); n++ {
		l := min(r.segSize, len(r.train))
		f := b.Slot(n)
		f.Reset(r.train[:l], Headroom, l-Headroom)
		r.train = r.train[l:]
		bytes += uint64(len(f.Data))
	}
	if bad != 0 {
		r.p.stats.RxLengthErrors.Add(bad)
	}
	if odd != 0 {
		r.p.stats.RxErrors.Add(odd)
	}
	if n == 0 {
		return false
	}
	r.p.stats.RxPackets.Add(uint64(n))
	r.p.stats.RxBytes.Add(bytes)
	b.Use(n)
	return true
}

// tag puts the VLAN tag that the kernel took off message i back into f.
func (r *packetReader) tag(f *Frame, i int) {
	c := &r.ctl[i]
	if r.msgs[i].Hdr.Controllen < unix.SizeofCmsghdr+20 ||
		c.hdr.Level != unix.SOL_PACKET || c.hdr.Type != unix.PACKET_AUXDATA ||
		c.aux.Status&unix.TP_STATUS_VLAN_VALID == 0 {
		return
	}
	tpid := uint16(unix.ETH_P_8021Q)
	if c.aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = c.aux.Vlan_tpid
	}
	f.PushTag(tpid, c.aux.Vlan_tci)
}

// cut makes r.train of a superframe within a tunnel. A virtio_net_hdr cannot say
// that there is a tunnel, so that no device would get the outer headers right.
func (r *packetReader) cut(f *Frame) bool {
	size, ok := SegmentSpace(Headroom, f)
	if !ok {
		return false
	}
	if size > len(r.scratch) {
		r.scratch = make([]byte, size)
	}
	r.train, r.segSize, _, ok = SegmentInto(r.scratch, r.room[:], f)
	return ok
}

// packetWriter is a thread's Writer to a PacketPort.
type packetWriter struct {
	p     *PacketPort
	n     int
	bytes uint64
	msgs  []unix.Mmsghdr
	iov   []unix.Iovec
	hdrs  []VnetHdr // for headers that must be put right
}

func newPacketWriter(p *PacketPort) *packetWriter {
	w := &packetWriter{
		p:    p,
		msgs: make([]unix.Mmsghdr, packetBatch),
		iov:  make([]unix.Iovec, 2*packetBatch),
		hdrs: make([]VnetHdr, packetBatch),
	}
	for i := range w.msgs {
		w.msgs[i].Hdr.Iov = &w.iov[2*i]
		w.msgs[i].Hdr.SetIovlen(2)
	}
	return w
}

// Queue implements Writer.
func (w *packetWriter) Queue(f *Frame) {
	if w.n == len(w.msgs) {
		w.Flush()
	}
	i := w.n
	setHdrIovec(&w.iov[2*i], fixHdr(f, &w.hdrs[i]))
	setIovec(&w.iov[2*i+1], f.Data)
	w.bytes += uint64(len(f.Data))
	w.n++
}

// fixHdr returns the header to send f with. HdrLen is the kernel's hint of how
// much was linear; a frame that became shorter since would be refused for it.
func fixHdr(f *Frame, spare *VnetHdr) *VnetHdr {
	if int(f.Hdr.HdrLen) <= len(f.Data) {
		return &f.Hdr
	}
	*spare = f.Hdr
	spare.HdrLen = uint16(min(len(f.Data), 0xffff))
	return spare
}

// Flush implements Writer.
func (w *packetWriter) Flush() {
	fd := int(w.p.sendFD.Load())
	var dropped, failed, lost uint64
	for m := w.msgs[:w.n]; len(m) > 0; {
		n, errno := sendmmsg(fd, m)
		if errno == 0 {
			m = m[n:]
			continue
		}
		skip := 1
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN, unix.ENOBUFS, unix.EMSGSIZE:
			// The queue is full or the frame too big for the device, where a
			// bridge in the kernel drops too. Waiting would only move the drop
			// to the sockets that this thread does not read meanwhile.
			dropped++
		case unix.ENETDOWN, unix.ENXIO, unix.ENODEV, unix.EBADF:
			// The device is down or gone: so for the rest of the batch.
			skip = len(m)
			dropped += uint64(skip)
		default:
			failed++
		}
		for i := range m[:skip] {
			lost += frameLen(&m[i])
		}
		m = m[skip:]
	}
	s := &w.p.stats
	s.TxPackets.Add(uint64(w.n) - dropped - failed)
	s.TxBytes.Add(w.bytes - lost)
	if dropped != 0 {
		s.TxDropped.Add(dropped)
	}
	if failed != 0 {
		s.TxErrors.Add(failed)
	}
	w.n, w.bytes = 0, 0
}

// frameLen returns the length of the frame in a message of ours.
func frameLen(m *unix.Mmsghdr) uint64 {
	v := unsafe.Slice(m.Hdr.Iov, 2)
	return uint64(v[1].Len)
}
