package netdev

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// failed counts what could not be sent, as iptunnel_xmit_stats and the tunnels'
// route lookups do, once for a slot.
func (s *udpSlot) failed(errno unix.Errno) {
	n, c := s.frames, s.stats
	if c == nil || n == 0 {
		return
	}
	c.TxPackets.Add(-n)
	c.TxBytes.Add(-s.bytes)
	s.frames, s.bytes = 0, 0
	switch errno {
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN:
		c.TxErrors.Add(n)
		c.TxCarrierErrors.Add(n)
	case unix.EMSGSIZE, unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		c.TxDropped.Add(n)
	default:
		c.TxErrors.Add(n)
	}
}

// splitter sends as single datagrams what the kernel refused as a train.
type splitter struct {
	n    int
	msgs [maxSegments]unix.Mmsghdr
	iov  [maxSegments][2]unix.Iovec
	of   [maxSegments]*udpSlot
}

// add makes a message of a part of s.
func (p *splitter) add(w *udpWriter, s *udpSlot) *[2]unix.Iovec {
	h := &p.msgs[p.n].Hdr
	w.message(h, s, s.plain)
	h.Iov = &p.iov[p.n][0]
	p.of[p.n] = s
	p.n++
	return &p.iov[p.n-1]
}

// slots sends count slots that were merged, from s on.
func (p *splitter) slots(w *udpWriter, fd int, s *udpSlot, count int16) {
	p.n = 0
	for ; count > 0; count-- {
		*p.add(w, s) = s.iov
		p.msgs[p.n-1].Hdr.SetIovlen(s.iovs)
		if s.next >= 0 {
			s = &w.slots[s.next]
		}
	}
	p.send(fd)
}

// train sends the segments of s.
func (p *splitter) train(w *udpWriter, fd int, s *udpSlot) {
	p.n = 0
	var parts [2][]byte
	for i := range s.iovs {
		parts[i] = unsafe.Slice(s.iov[i].Base, s.iov[i].Len)
	}
	for len(parts[0])+len(parts[1]) > 0 && p.n < maxSegments {
		iov := p.add(w, s)
		left, used := s.seg, 0
		for i := range parts {
			if l := min(left, len(parts[i])); l > 0 {
				setIovec(&iov[used], parts[i][:l])
				parts[i] = parts[i][l:]
				left -= l
				used++
			}
		}
		p.msgs[p.n-1].Hdr.SetIovlen(used)
	}
	p.send(fd)
}

func (p *splitter) send(fd int) {
	for i := 0; i < p.n; {
		sent, errno := sendmmsg(fd, p.msgs[i:p.n])
		if errno == unix.EINTR {
			continue
		}
		i += sent
		if errno != 0 {
			p.of[i].failed(errno)
			i++
		}
	}
}
