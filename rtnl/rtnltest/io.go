package rtnltest

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/rtnl"
	"github.com/linkspan/linkspan/uapi"
)

// io is an open TAP or an open port.
type io struct {
	k      *Kernel
	l      *link
	tap    bool
	reader *fake.Reader
	outs   []*fake.Output
	// What a port added to its device's counts, and whether it seized it.
	allmulti, promisc, seized bool
	closed                    bool
}

var (
	_ rtnl.TAP  = (*io)(nil)
	_ rtnl.Port = (*io)(nil)
)

// OpenTAP implements rtnl.IO.
func (k *Kernel) OpenTAP(name string, ifindex int) (rtnl.TAP, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail("tap", name); err != nil {
		return nil, err
	}
	name = k.freeName(name)
	if k.named(name) != nil || k.links[ifindex] != nil {
		return nil, fmt.Errorf("cannot make the TAP %s: %w", name, unix.EBUSY)
	}
	l := k.add(&link{index: ifindex, name: name, kind: "tun", arp: unix.ARPHRD_ETHER, maxMTU: tapMaxMTU, carrier: true, qdisc: "noop"})
	return k.open(l, true), nil
}

// OpenPort implements rtnl.IO.
func (k *Kernel) OpenPort(ifindex int) (rtnl.Port, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.links[ifindex]
	if l == nil {
		return nil, fmt.Errorf("cannot open the device %d: %w", ifindex, unix.ENODEV)
	}
	if err := k.fail("port", l.name); err != nil {
		return nil, err
	}
	return k.open(l, false), nil
}

func (k *Kernel) open(l *link, tap bool) *io {
	o := &io{k: k, l: l, tap: tap, reader: fake.NewReader()}
	l.ios = append(l.ios, o)
	return o
}

// Speed implements rtnl.IO.
func (k *Kernel) Speed(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.speeds[name]
}

// Receive has the open port or TAP of a device receive frames, for a TAP those
// that the host sends. It reports false where nobody reads.
func (k *Kernel) Receive(name string, frames ...[]byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.named(name)
	if l == nil || len(l.ios) == 0 {
		return false
	}
	for _, o := range l.ios {
		o.reader.Push(frames...)
	}
	return true
}

// Wire returns where the frames arrive that are sent out of a port, or to the
// host by a TAP; nil where the device is not open.
func (k *Kernel) Wire(name string) *fake.Output {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.named(name)
	if l == nil || len(l.ios) == 0 || len(l.ios[0].outs) == 0 {
		return nil
	}
	return l.ios[0].outs[0]
}

// Name implements rtnl.TAP.
func (o *io) Name() string {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	return o.l.name
}

// Ifindex implements rtnl.TAP.
func (o *io) Ifindex() int { return o.l.index }

// Reader implements rtnl.TAP and rtnl.Port.
func (o *io) Reader() netdev.Reader { return o.reader }

// Output implements rtnl.TAP and rtnl.Port.
func (o *io) Output(d *netdev.Domain) *netdev.Output {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	out := fake.NewOutput(d)
	o.outs = append(o.outs, out)
	return out.Out()
}

// SetCarrier implements rtnl.TAP.
func (o *io) SetCarrier(on bool) error {
	k := o.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail("carrier", o.l.name); err != nil {
		return err
	}
	if k.links[o.l.index] != o.l {
		return fmt.Errorf("cannot set the carrier of %s: %w", o.l.name, unix.EBADFD)
	}
	k.setCarrier(o.l, on)
	k.changed.Broadcast()
	return nil
}

// snoopers are 224.0.0.106 and ff02::6a as MAC addresses.
var snoopers = [2]uapi.MAC{0x01005e00006a, 0x33330000006a}

// SetSnoopers implements rtnl.TAP.
func (o *io) SetSnoopers(on bool) error {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	if err := o.k.fail("snoopers", o.l.name); err != nil {
		return err
	}
	for _, mac := range snoopers {
		o.l.filter(mac, on)
	}
	return nil
}

// SetAllmulti implements rtnl.Port. The kernel announces no counts but
// promiscuity.
func (o *io) SetAllmulti() error {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	if err := o.k.fail("allmulti", o.l.name); err != nil {
		return err
	}
	o.l.allmulti++
	o.allmulti = true
	return nil
}

// SetPromisc implements rtnl.Port.
func (o *io) SetPromisc() error {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	if err := o.k.fail("promisc", o.l.name); err != nil {
		return err
	}
	o.l.promisc++
	o.promisc = true
	o.k.notifyLink(unix.RTM_NEWLINK, o.l, unix.IFF_PROMISC)
	return nil
}

// Seize implements rtnl.Port.
func (o *io) Seize() error {
	o.k.mu.Lock()
	defer o.k.mu.Unlock()
	if err := o.k.fail("seize", o.l.name); err != nil {
		return err
	}
	o.seized = true
	return nil
}

// Seized tells whether a device's frames are kept from the host.
func (k *Kernel) Seized(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.named(name)
	return l != nil && slices.ContainsFunc(l.ios, func(o *io) bool { return o.seized })
}

// Close implements rtnl.TAP and rtnl.Port. With its TAP a device vanishes.
func (o *io) Close() error {
	if err := o.reader.Close(); err != nil {
		return err
	}
	k := o.k
	k.mu.Lock()
	outs := o.outs
	o.outs = nil
	k.mu.Unlock()
	for _, out := range outs {
		out.Out().Release()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	o.l.ios = slices.DeleteFunc(o.l.ios, func(p *io) bool { return p == o })
	if k.links[o.l.index] != o.l {
		return nil
	}
	if o.tap {
		k.unregister(o.l)
		return nil
	}
	if o.allmulti {
		o.l.allmulti--
	}
	if o.promisc {
		o.l.promisc--
		k.notifyLink(unix.RTM_NEWLINK, o.l, unix.IFF_PROMISC)
	}
	return nil
}
