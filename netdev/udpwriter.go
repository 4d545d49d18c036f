package netdev

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// udpQueue is how many datagrams and trains a writer takes before it sends.
	udpQueue = 128
	// maxSegments is UDP_MAX_SEGMENTS as it was until Linux 6.6, and maxTrain the
	// biggest payload of an IPv4 datagram, both per message.
	maxSegments = 64
	maxTrain    = 65507
	// scratchChunk is how much scratch memory in bytes a writer allocates at once.
	scratchChunk = 256 << 10
	// mergeRest is for how many messages a writer sends datagrams one by one once
	// the kernel refused them as a train.
	mergeRest = 1000
)

// none ends a list of slots.
const noSlot = -1

// udpWriter is a thread's Writer to a sendPool. Equal datagrams to one
// destination that follow each other go to the kernel as one train, which costs
// a fraction: the route, the device and netfilter see one packet.
type udpWriter struct {
	p *sendPool
	n int
	// slots are what is queued. heads and tails are the list of each sender's,
	// linked by slot.next.
	slots [udpQueue]udpSlot
	heads [poolSize]int16
	tails [poolSize]int16
	// out are the messages of one sender in a row, first and count the slots of
	// each, and iov their payloads.
	out   [udpQueue]unix.Mmsghdr
	first [udpQueue]int16
	count [udpQueue]int16
	iov   [2 * udpQueue]unix.Iovec
	// rest is for how many messages nothing is merged.
	rest int

	chunks      [][]byte
	chunk, used int // the chunk in use, and how much of it is

	split *splitter // made when first needed
}

// udpSlot is a datagram or a train.
type udpSlot struct {
	iov  [2]unix.Iovec
	iovs int
	name unix.RawSockaddrInet6
	// ctl are the control messages, of which those in the first plain bytes are
	// for a datagram, and all in total bytes for a train.
	ctl          [udpControl]byte
	plain, total int
	seg          int    // the train's segment size, 0 for a datagram
	size         int    // bytes
	frames       uint64 // what a failure takes back, with bytes
	bytes        uint64
	stats        *Counters
	next         int16
}

func newUDPWriter(p *sendPool) *udpWriter {
	w := &udpWriter{p: p}
	w.clear()
	return w
}

func (w *udpWriter) clear() {
	w.n = 0
	for i := range w.heads {
		w.heads[i] = noSlot
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
	frames, size := uint64(d.Frames), uint64(d.Bytes)
	for {
		s := w.add(d)
		s.size = min(step, total)
		n := s.size
		s.iovs = 0
		if n > 0 && len(head) > 0 {
			l := min(n, len(head))
			setIovec(&s.iov[0], head[:l])
			head, n = head[l:], n-l
			s.iovs++
		}
		if n > 0 {
			setIovec(&s.iov[s.iovs], data[:n])
			data = data[n:]
			s.iovs++
		}
		w.control(s, d)
		total -= s.size
		// The first message answers for a train that takes several.
		s.frames, s.bytes = frames, size
		frames, size = 0, 0
		if total == 0 {
			return
		}
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
	i := int16(w.n)
	s := &w.slots[i]
	s.next = noSlot
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
	c := control{b: &s.ctl}
	s.name = unix.RawSockaddrInet6{}
	binary.BigEndian.PutUint16(port[:], d.Dst.Port())
	if v6 {
		s.name.Family = unix.AF_INET6
		s.name.Addr = addr.As16()
		flow := (*[4]byte)(unsafe.Pointer(&s.name.Flowinfo))
		binary.BigEndian.PutUint32(flow[:], d.Label&0xfffff)
		if addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() {
			s.name.Scope_id = uint32(d.Ifindex)
		}
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
	s.plain, s.total, s.seg = c.n, c.n, 0
	if d.SegSize > 0 && d.SegSize < s.size && d.SegSize <= 0xffff {
		s.setTrain(d.SegSize)
	}
}

// setTrain makes a train of s with segments of so many bytes.
func (s *udpSlot) setTrain(seg int) {
	s.seg = seg
	c := control{&s.ctl, s.plain}
	binary.NativeEndian.PutUint16(c.add(unix.SOL_UDP, unix.UDP_SEGMENT, 2), uint16(seg))
	s.total = c.n
}

// follows tells whether s can be a segment behind those of first in one train.
func (s *udpSlot) follows(first *udpSlot) bool {
	return s.seg == 0 && s.size > 0 && s.size <= first.size && s.plain == first.plain &&
		s.name == first.name && bytes.Equal(s.ctl[:s.plain], first.ctl[:s.plain])
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
		sender := &w.p.senders[m]
		fd, msgs, iovs := -1, 0, 0
		for i := w.heads[m]; i >= 0; {
			s := &w.slots[i]
			first, start, count := i, iovs, int16(0)
			for size := 0; ; {
				iovs += copy(w.iov[iovs:], w.slots[i].iov[:w.slots[i].iovs])
				size += w.slots[i].size
				last := w.slots[i].size < s.size
				i = w.slots[i].next
				count++
				if i < 0 || last || count == maxSegments || !w.mayMerge(s, &w.slots[i], size) {
					break
				}
			}
			if count > 1 {
				s.setTrain(s.size)
			}
			to := sender.fd
			if s.seg != 0 {
				to = sender.trains
			}
			if to != fd {
				// In order, also between two sockets of one port.
				w.sendRun(fd, sender.fd, msgs)
				fd, msgs = to, 0
			}
			w.first[msgs], w.count[msgs] = first, count
			w.message(&w.out[msgs].Hdr, s, s.total)
			h := &w.out[msgs].Hdr
			h.Iov = &w.iov[min(start, len(w.iov)-1)]
			h.SetIovlen(iovs - start)
			msgs++
		}
		w.sendRun(fd, sender.fd, msgs)
	}
	w.clear()
}

// mayMerge tells whether s can go on with the train that first begins and that
// has size bytes so far.
func (w *udpWriter) mayMerge(first, s *udpSlot, size int) bool {
	// On a socket without checksums there are no trains, and a datagram that has
	// none should not get one.
	return first.seg == 0 && w.rest == 0 && !w.p.config.NoCsum && size+s.size <= maxTrain && s.follows(first)
}

// message makes a message to s's destination with ctl bytes of control messages.
func (w *udpWriter) message(h *unix.Msghdr, s *udpSlot, ctl int) {
	h.Name = (*byte)(unsafe.Pointer(&s.name))
	h.Namelen = unix.SizeofSockaddrInet4
	if w.p.config.IPv6 {
		h.Namelen = unix.SizeofSockaddrInet6
	}
	h.Control = &s.ctl[0]
	h.SetControllen(ctl)
}

// sendRun sends the first n of w.out on fd; single is the socket for datagrams
// that are no trains.
func (w *udpWriter) sendRun(fd, single, n int) {
	for i := 0; i < n; {
		sent, errno := sendmmsg(fd, w.out[i:n])
		if errno == unix.EINTR {
			continue
		}
		w.rest = max(0, w.rest-sent)
		i += sent
		if errno == 0 {
			continue
		}
		s := &w.slots[w.first[i]]
		count := w.count[i]
		i++
		switch errno {
		case unix.EINVAL, unix.EIO, unix.EMSGSIZE, unix.EOPNOTSUPP:
			if s.seg == 0 {
				break
			}
			// The kernel does not cut it: the segments need fragments, the route
			// has an xfrm or the device has no checksum offload.
			if w.split == nil {
				w.split = &splitter{}
			}
			if count > 1 {
				w.rest = mergeRest
				w.split.slots(w, single, s, count)
			} else {
				w.split.train(w, single, s)
			}
			continue
		}
		for ; count > 0; count-- {
			s.failed(errno)
			if s.next >= 0 {
				s = &w.slots[s.next]
			}
		}
	}
}
