package fake

import (
	"sync"

	"github.com/linkspan/linkspan/netdev"
)

// batchSize is how many frames a Reader gives at once.
const batchSize = 64

// Packet is a frame or datagram that a Reader is to give.
type Packet struct {
	Data []byte
	Hdr  netdev.VnetHdr
	Meta netdev.UDPMeta
}

// Reader is a netdev.Reader that is filled by hand.
type Reader struct {
	mu      sync.Mutex
	changed *sync.Cond
	packets []Packet
	err     error
	onClose func()
}

var _ netdev.Reader = (*Reader)(nil)

// NewReader makes an empty Reader.
func NewReader() *Reader {
	r := &Reader{}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// Push queues copies of frames.
func (r *Reader) Push(frames ...[]byte) {
	for _, f := range frames {
		r.PushPacket(Packet{Data: f})
	}
}

// PushPacket queues p with a copy of its data.
func (r *Reader) PushPacket(p Packet) {
	p.Data = append([]byte(nil), p.Data...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.packets = append(r.packets, p)
		r.changed.Signal()
	}
}

// Fail makes Read return err once what was pushed is read.
func (r *Reader) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.changed.Broadcast()
}

// NewBatch makes a batch for Read.
func (r *Reader) NewBatch() *netdev.Batch {
	return netdev.NewBatch(batchSize, netdev.MaxFrame, batchSize)
}

// Read waits for packets and fills b.
func (r *Reader) Read(b *netdev.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.packets) == 0 && r.err == nil {
		r.changed.Wait()
	}
	if len(r.packets) == 0 || r.err == netdev.ErrClosed {
		return r.err
	}
	n := min(len(r.packets), len(b.Bufs))
	for i, p := range r.packets[:n] {
		f := b.Slot(i)
		l := copy(b.Bufs[i][netdev.Headroom:], p.Data)
		f.Reset(b.Bufs[i], netdev.Headroom, l)
		f.Hdr, f.Meta = p.Hdr, p.Meta
	}
	r.packets = r.packets[n:]
	b.Use(n)
	return nil
}

// Close makes Read return netdev.ErrClosed.
func (r *Reader) Close() error {
	r.mu.Lock()
	first := r.err != netdev.ErrClosed
	r.err = netdev.ErrClosed
	r.changed.Broadcast()
	r.mu.Unlock()
	if first && r.onClose != nil {
		r.onClose()
	}
	return nil
}

// Closed reports whether Close was called.
func (r *Reader) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err == netdev.ErrClosed
}
