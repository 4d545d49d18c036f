package netdev

import (
	"errors"
	"fmt"

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
	endpoint
	name    string
	ifindex int
	reader  *tapReader
	stats   Counters
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
	case errors.Is(err, unix.ENOTTY):
		// Container engines put /dev/null in its place.
		return fmt.Errorf("%s is no tun device: %w", tunPath, err)
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
	return t.output(d, func() Writer { return newTAPWriter(t) })
}

// Close ends the reader, releases the TAP's outputs (they must be unpublished
// before) and closes the descriptor, with which the device vanishes unless it is
// persistent. It must not be called from a Handler. Further calls do nothing.
func (t *TAP) Close() error { return t.close(t.reader) }
