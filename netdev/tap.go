package netdev

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const tunPath = "/dev/net/tun"

// TAPConfig says what TAP to make.
type TAPConfig struct {
	// Name is the device's name; a %d in it, or an empty name, lets the kernel
	// choose.
	Name string
	// Ifindex is the index that the device is to have, 0 for any.
	Ifindex int
	// NS is where the device is made, nil for the caller's namespace.
	NS *NS
	// Existing takes over a persistent TAP of that name if there is one, which
	// otherwise is an error.
	Existing bool
}

// TAP is a network device of the kernel whose cable ends in this process: frames
// that the host sends on it are read here, and what is written the host
// receives. Superframes and partial checksums stay what they are.
type TAP struct {
	fd      int
	name    string
	ifindex int
	reader  *tapReader
	stats   Counters

	mu      sync.Mutex
	outputs []*Output
	closed  bool
	sendFD  atomic.Int64 // fd until Close, then -1
}

// OpenTAP makes a TAP, which lives until Close. It is down and has the random
// address that the kernel gave it. The error wraps ENOENT, ENODEV or ENXIO where
// the machine has no TAPs, EPERM or EACCES without the right to make one, and
// EBUSY if the name or index is taken.
func OpenTAP(c TAPConfig) (*TAP, error) {
	if len(c.Name) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("%q is too long for a device's name: %w", c.Name, unix.EINVAL)
	}
	t := &TAP{}
	err := c.NS.Do(func() (err error) {
		// The device belongs to the namespace where /dev/net/tun was opened.
		t.fd, err = unix.Open(tunPath, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return tunOpenError(err)
		}
		if err = t.setup(c); err != nil {
			unix.Close(t.fd)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func tunOpenError(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("there is no %s here: a container needs it passed in: %w", tunPath, err)
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("the kernel has no tun driver behind %s: %w", tunPath, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("no permission to open %s: %w", tunPath, err)
	}
	return fmt.Errorf("cannot open %s: %w", tunPath, err)
}

func (t *TAP) setup(c TAPConfig) error {
	if c.Ifindex != 0 {
		if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETIFINDEX, c.Ifindex); err != nil {
			return fmt.Errorf("the kernel refuses interface index %d for a TAP: %w", c.Ifindex, err)
		}
	}
	ifr, err := unix.NewIfreq(c.Name)
	if err != nil {
		return fmt.Errorf("%q is no name for a device: %w", c.Name, err)
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if !c.Existing {
		flags |= unix.IFF_TUN_EXCL
	}
	ifr.SetUint16(flags)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, ifr); err != nil {
		return tunCreateError(c, err)
	}
	t.name = ifr.Name()
	if t.ifindex, err = ifindexOf(t.name); err != nil {
		return fmt.Errorf("cannot learn the index of TAP %s: %w", t.name, err)
	}
	if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETVNETHDRSZ, VnetHdrLen); err != nil {
		return fmt.Errorf("the kernel refuses the frame header of TAP %s: %w", t.name, err)
	}
	const tso = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	// USO came with Linux 6.2.
	for _, offload := range []int{tso | unix.TUN_F_USO4 | unix.TUN_F_USO6, tso, unix.TUN_F_CSUM, 0} {
		if err = unix.IoctlSetInt(t.fd, unix.TUNSETOFFLOAD, offload); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the kernel refuses offloads on TAP %s: %w", t.name, err)
	}
	// What is written goes to the host at once, so this only bounds one write.
	if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETSNDBUF, socketBuffer); err != nil {
		return fmt.Errorf("the kernel refuses the send buffer of TAP %s: %w", t.name, err)
	}
	g, err := newGate(t.fd)
	if err != nil {
		return fmt.Errorf("cannot make an eventfd: %w", err)
	}
	t.sendFD.Store(int64(t.fd))
	t.reader = &tapReader{t: t, gate: g}
	return nil
}

func tunCreateError(c TAPConfig, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("making TAP %q needs CAP_NET_ADMIN in its network namespace: %w", c.Name, err)
	case errors.Is(err, unix.EBUSY) && c.Ifindex != 0:
		return fmt.Errorf("the name %q or the interface index %d is taken: %w", c.Name, c.Ifindex, err)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("a device with the name %q exists or belongs to another process: %w", c.Name, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%q is no name for a TAP, or a device that is none has it: %w", c.Name, err)
	}
	return fmt.Errorf("cannot make TAP %q: %w", c.Name, err)
}

// ifindexOf returns the index of a device in the thread's namespace.
func ifindexOf(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, err
	}
	return int(ifr.Uint32()), nil
}

// Name returns the name that the device was made with.
func (t *TAP) Name() string { return t.name }

// Ifindex returns the device's index in the namespace where it was made.
func (t *TAP) Ifindex() int { return t.ifindex }

// SetCarrier tells the device whether its cable is plugged in. A new TAP has
// carrier.
func (t *TAP) SetCarrier(on bool) error {
	v := 0
	if on {
		v = 1
	}
	if err := t.ioctl(unix.TUNSETCARRIER, v); err != nil {
		return fmt.Errorf("cannot set the carrier of TAP %s: %w", t.name, err)
	}
	return nil
}

// SetPersist says whether the device outlives Close and the process.
func (t *TAP) SetPersist(on bool) error {
	v := 0
	if on {
		v = 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if err := unix.IoctlSetInt(t.fd, unix.TUNSETPERSIST, v); err != nil {
		return fmt.Errorf("cannot make TAP %s persistent: %w", t.name, err)
	}
	return nil
}

func (t *TAP) ioctl(req uint, v int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	return unix.IoctlSetPointerInt(t.fd, req, v)
}

// Reader returns the TAP's only queue. Its Read ends with ENODEV once the device
// was deleted.
func (t *TAP) Reader() Reader { return t.reader }

// Counters returns what the TAP itself counts, seen from this process: Rx is
// what the host sent. RxLengthErrors are frames too short or too long, TxDropped
// those that the host did not take because the device is down or gone, TxErrors
// those that it refused.
func (t *TAP) Counters() *Counters { return &t.stats }

// Output makes a way to the host for the threads of d.
func (t *TAP) Output(d *Domain) *Output {
	o := d.NewOutput(func() Writer { return newTAPWriter(t) })
	t.mu.Lock()
	t.outputs = append(t.outputs, o)
	t.mu.Unlock()
	return o
}

// Close ends the reader, releases the TAP's outputs (they must be unpublished
// before) and closes the descriptor, with which the device vanishes unless it is
// persistent. It must not be called from a Handler. Further calls do nothing.
func (t *TAP) Close() error {
	t.reader.Close()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	outputs := t.outputs
	t.outputs = nil
	t.mu.Unlock()
	t.sendFD.Store(-1)
	for _, o := range outputs {
		o.Release()
	}
	return unix.Close(t.fd)
}

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
