package netdev

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// tapBatch is how many frames a TAP's reader takes at once. Each costs a system
// call, so that more would only add latency.
const tapBatch = 32

// tapReader is the Reader of a TAP.
type tapReader struct {
	t     *TAP
	gate  *gate
	batch *Batch
	iov   []unix.Iovec
	hdrs  []VnetHdr
}

// NewBatch makes a batch for Read.
func (r *tapReader) NewBatch() *Batch { return NewBatch(tapBatch, MaxFrame, tapBatch) }

// Close makes Read return ErrClosed, and waits for that. The device stays.
func (r *tapReader) Close() error {
	r.gate.close()
	return nil
}

func (r *tapReader) point(b *Batch) {
	n := len(b.Bufs)
	r.batch = b
	r.iov = make([]unix.Iovec, 2*n)
	r.hdrs = make([]VnetHdr, n)
	for i := range n {
		setHdrIovec(&r.iov[2*i], &r.hdrs[i])
		setIovec(&r.iov[2*i+1], b.Bufs[i][Headroom:])
	}
}

// Read implements Reader.
func (r *tapReader) Read(b *Batch) error {
	err := r.gate.enter()
	defer r.gate.leave()
	if err != nil {
		return err
	}
	if r.batch != b {
		r.point(b)
	}
	for {
		n, errno := r.fill(b)
		if n > 0 {
			b.Use(n)
			return nil
		}
		switch errno {
		case unix.EAGAIN:
			events, err := r.gate.wait(-1)
			if err != nil {
				return err
			}
			if events&unix.POLLERR != 0 {
				// The device is on its way out. read tells when it is gone, and
				// would say EAGAIN until then.
				if err := r.gate.waitClosed(10); err != nil {
					return err
				}
			}
		case unix.EINTR:
		case unix.EBADFD, unix.EFAULT:
			// tun_get finds no device, or tun_ring_recv saw it shut down.
			return fmt.Errorf("TAP %s is gone: %w", r.t.name, unix.ENODEV)
		default:
			return fmt.Errorf("cannot read from TAP %s: %w", r.t.name, errno)
		}
	}
}

// fill reads frames until the batch is full or there are no more. The errno
// tells why it stopped.
func (r *tapReader) fill(b *Batch) (n int, errno unix.Errno) {
	var bytes uint64
	for n < len(b.Bufs) {
		var l int
		l, errno = readv(r.t.fd, r.iov[2*n:2*n+2])
		if errno == unix.EINVAL {
			// A superframe that virtio_net_hdr has no name for, now dropped.
			r.t.stats.RxErrors.Add(1)
			continue
		}
		if errno != 0 {
			break
		}
		l -= VnetHdrLen
		// tun_chr_read_iter cuts what does not fit and returns the buffer's size.
		if l < minFrame || l >= len(b.Bufs[n])-Headroom {
			r.t.stats.RxLengthErrors.Add(1)
			continue
		}
		f := b.Slot(n)
		f.Reset(b.Bufs[n], Headroom, l)
		f.Hdr = r.hdrs[n]
		bytes += uint64(l)
		n++
	}
	if n > 0 {
		r.t.stats.RxPackets.Add(uint64(n))
		r.t.stats.RxBytes.Add(bytes)
	}
	return n, errno
}

// tapWriter is a thread's Writer to a TAP.
type tapWriter struct {
	t      *TAP
	frames []*Frame
	iov    [2]unix.Iovec
	spare  VnetHdr
}

func newTAPWriter(t *TAP) *tapWriter {
	return &tapWriter{t: t, frames: make([]*Frame, 0, packetBatch)}
}

// Queue implements Writer.
func (w *tapWriter) Queue(f *Frame) {
	if len(w.frames) == cap(w.frames) {
		w.Flush()
	}
	w.frames = append(w.frames, f)
}

// Flush implements Writer.
func (w *tapWriter) Flush() {
	fd := int(w.t.sendFD.Load())
	var sent, bytes, dropped, failed uint64
	for _, f := range w.frames {
		setHdrIovec(&w.iov[0], fixHdr(f, &w.spare))
		setIovec(&w.iov[1], f.Data)
		_, errno := writev(fd, w.iov[:])
		for errno == unix.EINTR {
			_, errno = writev(fd, w.iov[:])
		}
		switch errno {
		case 0:
			sent++
			bytes += uint64(len(f.Data))
		case unix.EIO, unix.EBADFD, unix.EBADF, unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
			// EIO: the device is down. EBADFD: it is gone.
			dropped++
		default:
			failed++
		}
	}
	s := &w.t.stats
	s.TxPackets.Add(sent)
	s.TxBytes.Add(bytes)
	if dropped != 0 {
		s.TxDropped.Add(dropped)
	}
	if failed != 0 {
		s.TxErrors.Add(failed)
	}
	clear(w.frames)
	w.frames = w.frames[:0]
}
