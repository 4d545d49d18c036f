package netdev

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// udpQueue is how many messages a writer takes before it sends.
	udpQueue = 64
	// maxSegments is UDP_MAX_SEGMENTS as it was until Linux 6.6, and maxTrain the
	// biggest payload of an IPv4 datagram, both per system call.
	maxSegments = 64
	maxTrain    = 65507
	// scratchChunk is how much scratch memory in bytes a writer allocates at once.
	scratchChunk = 256 << 10
)

// udpWriter is a thread's Writer to a sendPool.
type udpWriter struct {
	p *sendPool
	n int
	// slots are the queued messages. heads and tails are the list of each
	// sender's, linked by slot.next.
	slots [udpQueue]udpSlot
	heads [poolSize]int8
	tails [poolSize]int8
	// out and order are the messages of one sender in a row, and their slots.
	out   [udpQueue]unix.Mmsghdr
	order [udpQueue]int8

	chunks      [][]byte
	chunk, used int // the chunk in use, and how much of it is

	split *splitter // made when first needed
}

// udpSlot is one message: a datagram or a train.
type udpSlot struct {
	hdr  unix.Msghdr
	iov  [2]unix.Iovec
	name unix.RawSockaddrInet6
	ctl  [udpControl]byte
	// seg is the train's segment size, 0 for a datagram. The control message
	// that says so is the last, behind plain bytes of others.
	seg    int
	plain  int
	size   int // bytes
	frames uint64
	stats  *Counters
	next   int8
}

func newUDPWriter(p *sendPool) *udpWriter {
	w := &udpWriter{p: p}
	for i := range w.slots {
		s := &w.slots[i]
		s.hdr.Name = (*byte)(unsafe.Pointer(&s.name))
		s.hdr.Iov = &s.iov[0]
		s.hdr.Control = &s.ctl[0]
	}
	w.clear()
	return w
}

func (w *udpWriter) clear() {
	w.n = 0
	for i := range w.heads {
		w.heads[i] = -1
	}
}

// Queue sends nothing: a frame has no address.
func (w *udpWriter) Queue(*Frame) {}

// Scratch implements UDPWriter.
func (w *udpWriter) Scratch(n int) []byte {
	for ; w.chunk < len(w.chunks); w.chunk, w.used = w.chunk+1, 0 {
		if c := w.chunks[w.chunk]; w.used+n <= len(c) {
			b := c[w.used : w.used+n : w.used+n]
			// Heads of neighbouring frames need not share a cache line's words.
			w.used += (n + 7) &^ 7
			return b
		}
	}
	w.chunks = append(w.chunks, make([]byte, max(n, scratchChunk)))
	w.used = (n + 7) &^ 7
	return w.chunks[w.chunk][:n:n]
}

// Flush implements Writer.
func (w *udpWriter) Flush() {
	w.send()
	w.chunk, w.used = 0, 0
}

// QueueDatagram implements UDPWriter.
func (w *udpWriter) QueueDatagram(d *Datagram) {
	total := len(d.Head) + len(d.Data)
	step := total
	if d.SegSize > 0 && d.SegSize < total {
		step = max(1, min(maxSegments, maxTrain/d.SegSize)) * d.SegSize
	}
	head, data := d.Head, d.Data
	frames := uint64(max(d.Frames, 1))
	for {
		s := w.add(d)
		s.size = min(step, total)
		n := s.size
		iovs := 0
		if n > 0 && len(head) > 0 {
			l := min(n, len(head))
			setIovec(&s.iov[0], head[:l])
			head, n = head[l:], n-l
			iovs++
		}
		if n > 0 {
			setIovec(&s.iov[iovs], data[:n])
			data = data[n:]
			iovs++
		}
		s.hdr.SetIovlen(iovs)
		w.control(s, d)
		total -= s.size
		s.frames = frames
		if total == 0 {
			return
		}
		// A frame a segment is what a train is.
		s.frames = min(frames, uint64(step/d.SegSize))
		frames -= s.frames
	}
}

// add takes a slot for a message of d.
func (w *udpWriter) add(d *Datagram) *udpSlot {
	if w.n == udpQueue {
		w.send()
	}
	// Multiplying spreads hashes that differ in their low bits only.
	mixed := uint64(d.Hash*0x9e3779b1) * uint64(len(w.p.senders))
	m := mixed >> 32
	i := int8(w.n)
	s := &w.slots[i]
	s.next = -1
	if w.heads[m] < 0 {
		w.heads[m] = i
	} else {
		w.slots[w.tails[m]].next = i
	}
	w.tails[m] = i
	w.n++
	s.stats = d.Stats
	return s
}

// control writes the address and the control messages of s.
func (w *udpWriter) control(s *udpSlot, d *Datagram) {
	v6 := w.p.config.IPv6
	addr := d.Dst.Addr()
	port := (*[2]byte)(unsafe.Pointer(&s.name.Port))
	binary.BigEndian.PutUint16(port[:], d.Dst.Port())
	var c control
	c.b = &s.ctl
	if v6 {
		s.name.Family = unix.AF_INET6
		s.name.Addr = addr.As16()
		flow := (*[4]byte)(unsafe.Pointer(&s.name.Flowinfo))
		binary.BigEndian.PutUint32(flow[:], d.Label&0xfffff)
		s.name.Scope_id = 0
		if addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() {
			s.name.Scope_id = uint32(d.Ifindex)
		}
		s.hdr.Namelen = unix.SizeofSockaddrInet6
		if d.Ifindex != 0 || d.Src.IsValid() && !d.Src.IsUnspecified() {
			b := c.add(unix.SOL_IPV6, unix.IPV6_PKTINFO, 20)
			src := [16]byte{}
			if d.Src.IsValid() {
				src = d.Src.As16()
			}
			copy(b, src[:])
			binary.NativeEndian.PutUint32(b[16:], uint32(d.Ifindex))
		}
		if d.TTL != 0 {
			binary.NativeEndian.PutUint32(c.add(unix.SOL_IPV6, unix.IPV6_HOPLIMIT, 4), uint32(d.TTL))
		}
		if d.TOS != 0 {
			binary.NativeEndian.PutUint32(c.add(unix.SOL_IPV6, unix.IPV6_TCLASS, 4), uint32(d.TOS))
		}
	} else {
		n := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name))
		n.Family = unix.AF_INET
		n.Addr = as4(addr)
		s.hdr.Namelen = unix.SizeofSockaddrInet4
		if d.Ifindex != 0 || d.Src.IsValid() && !d.Src.IsUnspecified() {
			b := c.add(unix.SOL_IP, unix.IP_PKTINFO, 12)
			binary.NativeEndian.PutUint32(b, uint32(d.Ifindex))
			src := [4]byte{}
			if d.Src.IsValid() {
				src = as4(d.Src)
			}
			copy(b[4:], src[:])
			clear(b[8:12])
		}
		if d.TTL != 0 {
			binary.NativeEndian.PutUint32(c.add(unix.SOL_IP, unix.IP_TTL, 4), uint32(d.TTL))
		}
		if d.TOS != 0 {
			binary.NativeEndian.PutUint32(c.add(unix.SOL_IP, unix.IP_TOS, 4), uint32(d.TOS))
		}
	}
	s.plain, s.seg = c.n, 0
	if d.SegSize > 0 && d.SegSize < s.size && d.SegSize <= 0xffff {
		s.seg = d.SegSize
		binary.NativeEndian.PutUint16(c.add(unix.SOL_UDP, unix.UDP_SEGMENT, 2), uint16(d.SegSize))
	}
	s.hdr.SetControllen(c.n)
}

// as4 is a.As4 that does not panic for an IPv6 address, which nobody should
// send on an IPv4 socket: it goes to 0.0.0.0 then.
func as4(a netip.Addr) [4]byte {
	if !a.Is4() && !a.Is4In6() {
		return [4]byte{}
	}
	return a.As4()
}

// control is control messages being written.
type control struct {
	b *[udpControl]byte
	n int
}

// add appends a message and returns its data of n bytes.
func (c *control) add(level, typ int32, n int) []byte {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&c.b[c.n]))
	h.Level, h.Type = level, typ
	h.SetLen(unix.CmsgLen(n))
	b := c.b[c.n+unix.SizeofCmsghdr:][:n]
	c.n += unix.CmsgSpace(n)
	return b
}

// send sends what is queued.
func (w *udpWriter) send() {
	if w.n == 0 {
		return
	}
	for m := range w.p.senders {
		if w.heads[m] < 0 {
			continue
		}
		sender := &w.p.senders[m]
		n := 0
		fd := -1
		for i := w.heads[m]; i >= 0; i = w.slots[i].next {
			s := &w.slots[i]
			to := sender.fd
			if s.seg != 0 {
				to = sender.trains
			}
			if to != fd {
				// In order, also between two sockets of one port.
				w.sendRun(fd, sender.fd, n)
				fd, n = to, 0
			}
			w.out[n].Hdr = s.hdr
			w.order[n] = i
			n++
		}
		w.sendRun(fd, sender.fd, n)
	}
	w.clear()
}

// sendRun sends the first n of w.out on fd; single is the socket for datagrams
// that are no trains.
func (w *udpWriter) sendRun(fd, single, n int) {
	for i := 0; i < n; {
		sent, errno := sendmmsg(fd, w.out[i:n])
		if errno == unix.EINTR {
			continue
		}
		i += sent
		if errno == 0 {
			continue
		}
		s := &w.slots[w.order[i]]
		i++
		if s.seg == 0 {
			countFailure(s.stats, errno, s.frames)
			continue
		}
		switch errno {
		case unix.EINVAL, unix.EIO, unix.EMSGSIZE, unix.EOPNOTSUPP:
			// The kernel does not cut it: the segments need fragments, the route
			// has an xfrm or the device has no checksum offload.
			if w.split == nil {
				w.split = newSplitter()
			}
			w.split.send(single, s)
		default:
			countFailure(s.stats, errno, s.frames)
		}
	}
}

// countFailure counts n frames that could not be sent, as iptunnel_xmit_stats
// and the tunnels' route lookups do.
func countFailure(s *Counters, errno unix.Errno, n uint64) {
	if s == nil {
		return
	}
	switch errno {
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN:
		s.TxErrors.Add(n)
		s.TxCarrierErrors.Add(n)
	case unix.EMSGSIZE, unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		s.TxDropped.Add(n)
	default:
		s.TxErrors.Add(n)
	}
}

// splitter sends a train as single datagrams.
type splitter struct {
	msgs [maxSegments]unix.Mmsghdr
	iov  [maxSegments][2]unix.Iovec
}

func newSplitter() *splitter {
	p := &splitter{}
	for i := range p.msgs {
		p.msgs[i].Hdr.Iov = &p.iov[i][0]
	}
	return p
}

func (p *splitter) send(fd int, s *udpSlot) {
	head := unsafe.Slice(s.iov[0].Base, s.iov[0].Len)
	var data []byte
	if s.hdr.Iovlen > 1 {
		data = unsafe.Slice(s.iov[1].Base, s.iov[1].Len)
	}
	n := 0
	for len(head)+len(data) > 0 && n < maxSegments {
		h := &p.msgs[n].Hdr
		iov := &p.iov[n]
		left, used := s.seg, 0
		for _, part := range [2]*[]byte{&head, &data} {
			if l := min(left, len(*part)); l > 0 {
				setIovec(&iov[used], (*part)[:l])
				*part = (*part)[l:]
				left -= l
				used++
			}
		}
		h.SetIovlen(used)
		h.Name, h.Namelen = s.hdr.Name, s.hdr.Namelen
		h.Control = s.hdr.Control
		h.SetControllen(s.plain)
		n++
	}
	for m := p.msgs[:n]; len(m) > 0; {
		sent, errno := sendmmsg(fd, m)
		if errno == unix.EINTR {
			continue
		}
		m = m[sent:]
		if errno != 0 {
			countFailure(s.stats, errno, 1)
			m = m[1:]
		}
	}
}
