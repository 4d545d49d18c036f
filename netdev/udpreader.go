package netdev

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// udpBatch is how many datagrams or trains one system call takes or gives.
	udpBatch = 32
	// udpFrames is how many frames a batch has at most. The rest of a train
	// waits for the next Read.
	udpFrames = 256
	// udpControl is the room in bytes for the control messages of a datagram.
	udpControl = 128
)

// udpReader is the Reader of a listening socket.
type udpReader struct {
	fd    int
	v6    bool
	gate  *gate
	stats Counters
	mu    sync.Mutex // against Join and Leave on a closed descriptor

	batch *Batch
	msgs  []unix.Mmsghdr
	iov   []unix.Iovec
	names []unix.RawSockaddrInet6 // big enough for IPv4's
	ctl   [][udpControl]byte
	used  int // messages that the kernel has written to
	next  int // the first of them that is not yet all frames
	off   int // how much of that is
}

// NewBatch makes a batch for Read.
func (r *udpReader) NewBatch() *Batch { return NewBatch(udpBatch, MaxFrame, udpFrames) }

// Counters returns what the socket itself counts: datagrams and their bytes, and
// RxLengthErrors for those that were too long.
func (r *udpReader) Counters() *Counters { return &r.stats }

// Close makes Read return ErrClosed, waits for that and closes the socket, so
// that its port is free.
func (r *udpReader) Close() error {
	if !r.gate.close() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return unix.Close(r.fd)
}

// Join implements GroupReader.
func (r *udpReader) Join(group netip.Addr, ifindex int) error {
	return r.membership(unix.IP_ADD_MEMBERSHIP, unix.IPV6_JOIN_GROUP, group, ifindex)
}

// Leave implements GroupReader.
func (r *udpReader) Leave(group netip.Addr, ifindex int) error {
	return r.membership(unix.IP_DROP_MEMBERSHIP, unix.IPV6_LEAVE_GROUP, group, ifindex)
}

func (r *udpReader) membership(op4, op6 int, group netip.Addr, ifindex int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate.closed.Load() {
		return ErrClosed
	}
	var err error
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(r.fd, unix.SOL_IP, op4,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)})
	} else {
		err = unix.SetsockoptIPv6Mreq(r.fd, unix.SOL_IPV6, op6,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)})
	}
	if err != nil {
		return fmt.Errorf("cannot change the membership in group %s: %w", group, err)
	}
	return nil
}

// point makes the messages point at the batch's buffers.
func (r *udpReader) point(b *Batch) {
	n := len(b.Bufs)
	r.batch = b
	r.msgs = make([]unix.Mmsghdr, n)
	r.iov = make([]unix.Iovec, n)
	r.names = make([]unix.RawSockaddrInet6, n)
	r.ctl = make([][udpControl]byte, n)
	for i := range r.msgs {
		setIovec(&r.iov[i], b.Bufs[i][Headroom:])
		h := &r.msgs[i].Hdr
		h.Iov = &r.iov[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		h.Control = &r.ctl[i][0]
	}
	r.used, r.next, r.off = n, n, 0
}

// Read implements Reader.
func (r *udpReader) Read(b *Batch) error {
	err := r.gate.enter()
	defer r.gate.leave()
	if err != nil {
		return err
	}
	if r.batch != b {
		r.point(b)
	}
	for failed := 0; ; {
		if r.next < r.used {
			if r.take(b) {
				return nil
			}
			continue
		}
		for i := range r.msgs[:r.used] {
			h := &r.msgs[i].Hdr
			h.Namelen = unix.SizeofSockaddrInet6
			h.SetControllen(udpControl)
			h.Flags = 0
		}
		var errno unix.Errno
		r.used, errno = recvmmsg(r.fd, r.msgs)
		r.next, r.off = 0, 0
		switch errno {
		case 0:
			failed = 0
			continue
		case unix.EAGAIN, unix.EINTR:
			if _, err := r.gate.wait(-1); err != nil {
				return err
			}
			failed = 0
		default:
			// Nothing that lasts is known to come from here.
			if failed++; failed > maxReadErrors {
				return fmt.Errorf("cannot read from a UDP socket: %w", errno)
			}
		}
	}
}

// take makes frames of the messages, as many as the batch holds. It reports
// false if none is usable.
func (r *udpReader) take(b *Batch) bool {
	n, slots := 0, b.Slots()
	var bad, bytes uint64
	for r.next < r.used && n < slots {
		m := &r.msgs[r.next]
		if m.Hdr.Flags&unix.MSG_TRUNC != 0 || m.Len == 0 {
			bad++
			r.next++
			continue
		}
		buf := b.Bufs[r.next]
		var meta UDPMeta
		seg := r.meta(r.next, &meta)
		if seg > 0 && seg < int(m.Len) && innerSuperframe(buf[Headroom:Headroom+int(m.Len)]) {
			meta.InnerGSO = uint16(seg)
			seg = 0
		}
		if seg <= 0 {
			seg = int(m.Len)
		}
		for r.off < int(m.Len) && n < slots {
			l := min(seg, int(m.Len)-r.off)
			f := b.Slot(n)
			if r.off == 0 {
				f.Reset(buf, Headroom, l)
			} else {
				// What lies in front is the previous frame's.
				f.Reset(buf[Headroom+r.off:], 0, l)
			}
			f.Meta = meta
			r.off += l
			bytes += uint64(l)
			n++
		}
		if r.off >= int(m.Len) {
			r.next++
			r.off = 0
		}
	}
	if bad != 0 {
		r.stats.RxLengthErrors.Add(bad)
	}
	if n == 0 {
		return false
	}
	r.stats.RxPackets.Add(uint64(n))
	r.stats.RxBytes.Add(bytes)
	b.Use(n)
	return true
}

// innerSuperframe tells whether a payload that the kernel calls a train is one
// VXLAN datagram instead. A tunnel of the kernel over veth hands over superframes
// whole, and where the inner packets are UDP's their segment size is taken for
// the outer one's. Then there is one inner packet that fills the payload.
func innerSuperframe(p []byte) bool {
	const vxlan = 8
	if len(p) < vxlan {
		return false
	}
	var h headers
	inner := p[vxlan:]
	switch {
	case p[0]&0x04 != 0 && p[3] == 1: // VXLAN-GPE with IPv4
		h.ipv4(inner)
	case p[0]&0x04 != 0 && p[3] == 2: // and with IPv6
		h.ipv6(inner)
	default:
		h, _ = parseHeaders(inner)
	}
	return h.version != 0 && h.proto == protoUDP && h.end == len(inner)
}

// meta fills m from the address and control messages of message i, and returns
// the size in bytes of the train's segments, 0 if it is no train.
func (r *udpReader) meta(i int, m *UDPMeta) (seg int) {
	name := &r.names[i]
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	m.SrcPort = binary.BigEndian.Uint16(port[:])
	if r.v6 {
		m.Src = netip.AddrFrom16(name.Addr)
	} else {
		m.Src = netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr)
	}
	ctl := r.ctl[i][:min(uint64(r.msgs[i].Hdr.Controllen), udpControl)]
	for len(ctl) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&ctl[0]))
		l := int(h.Len)
		if l < unix.SizeofCmsghdr || l > len(ctl) {
			break
		}
		data := ctl[unix.SizeofCmsghdr:l]
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			seg = int(int32(binary.NativeEndian.Uint32(data)))
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(data) >= 4:
			m.Ifindex = int32(binary.NativeEndian.Uint32(data))
		case h.Level == unix.SOL_IP && h.Type == unix.IP_TOS && len(data) >= 1:
			m.TOS = data[0]
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= 20:
			m.Ifindex = int32(binary.NativeEndian.Uint32(data[16:]))
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_TCLASS && len(data) >= 4:
			m.TOS = uint8(binary.NativeEndian.Uint32(data))
		}
		next := unix.CmsgSpace(l - unix.SizeofCmsghdr)
		if next >= len(ctl) {
			break
		}
		ctl = ctl[next:]
	}
	return seg
}
