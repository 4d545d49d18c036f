package rtnltest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/rtnl"
	"github.com/linkspan/linkspan/uapi"
)

// Kernel is the rtnetlink of one network namespace, in memory: loopback, devices
// without a driver of their own, veth pairs and TAPs. It implements rtnl.Kernel
// and rtnl.IO. What it answers and announces is what Linux 6.18 was seen to answer
// and announce, except that what linkwatch does some time later happens when events
// are asked for.
type Kernel struct {
	*fake.Sockets

	mu        sync.Mutex
	changed   *sync.Cond
	links     map[int]*link
	nextIndex int
	nextPort  uint32
	joined    map[uint32]bool
	queue     []event
	lost      bool
	closed    bool
	watch     []*link // whose carrier changed: linkwatch's list
	fault     func(op, dev string) error
	speeds    map[string]int
	conns     int
}

// event is a notification that waits for Events.
type event struct {
	group uint32
	msg   []byte
}

var (
	_ rtnl.Kernel = (*Kernel)(nil)
	_ rtnl.IO     = (*Kernel)(nil)
)

// NewKernel makes a Kernel with lo, whose frames are for the threads of d.
func NewKernel(d *netdev.Domain) *Kernel {
	k := &Kernel{
		Sockets: fake.NewSockets(d), links: map[int]*link{}, joined: map[uint32]bool{},
		nextIndex: 1, nextPort: 1 << 31, speeds: map[string]int{},
	}
	k.changed = sync.NewCond(&k.mu)
	lo := k.add(&link{name: "lo", arp: unix.ARPHRD_LOOPBACK, flags: unix.IFF_LOOPBACK | unix.IFF_UP, mtu: 65536, carrier: true, qdisc: "noqueue"})
	lo.mac, lo.maxMTU = [6]byte{}, 0
	k.queue = nil
	return k
}

// Join implements rtnl.Kernel.
func (k *Kernel) Join(group uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if group == 0 || group > 1<<10 {
		return unix.EINVAL
	}
	k.joined[group] = true
	return nil
}

// Events implements rtnl.Kernel.
func (k *Kernel) Events(f func(group uint32, msg []byte)) (lost bool, err error) {
	k.mu.Lock()
	k.linkwatch()
	queue := k.queue
	lost, k.queue, k.lost = k.lost, nil, false
	k.mu.Unlock()
	for _, e := range queue {
		f(e.group, e.msg)
	}
	return lost, nil
}

// Wait implements rtnl.Kernel.
func (k *Kernel) Wait() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.queue) == 0 && len(k.watch) == 0 && !k.lost && !k.closed {
		k.changed.Wait()
	}
	if k.closed {
		return netdev.ErrClosed
	}
	return nil
}

// Close implements rtnl.Kernel.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.changed.Broadcast()
	return nil
}

// Fault makes f decide whether an operation of rtnl.IO or Dial fails. op is one
// of "dial", "tap", "port", "allmulti", "promisc", "seize", "snoopers" and
// "carrier", dev the
// device's name. nil ends it.
func (k *Kernel) Fault(f func(op, dev string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = f
}

// fail asks the fault function. The lock is held.
func (k *Kernel) fail(op, dev string) error {
	if k.fault == nil {
		return nil
	}
	return k.fault(op, dev)
}

// Lose drops the events that wait and has Events report so, as a socket's
// overrun does.
func (k *Kernel) Lose() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue, k.lost = nil, true
	k.changed.Broadcast()
}

// Announce queues a notification of any bytes.
func (k *Kernel) Announce(group uint32, msg []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, event{group, bytes.Clone(msg)})
	k.changed.Broadcast()
}

// Conns returns how many sockets from Dial are open.
func (k *Kernel) Conns() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conns
}

// AddVeth makes two devices that are each other's cable, down as new ones are,
// and returns their indexes. The kernel numbers the peer first.
func (k *Kernel) AddVeth(name, peer string) (ifindex, peerIndex int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.addVeth(name, peer, 0)
	return l.index, l.peer.index
}

// AddNIC makes an Ethernet device as a driver of hardware does: without a kind.
func (k *Kernel) AddNIC(name string) (ifindex int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(&link{name: name, arp: unix.ARPHRD_ETHER, carrier: true, qdisc: "noop"}).index
}

// AddTun makes a device without Ethernet addresses (ARPHRD_NONE).
func (k *Kernel) AddTun(name string) (ifindex int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(&link{name: name, kind: "tun", arp: unix.ARPHRD_NONE, carrier: true, qdisc: "noop"}).index
}

// Delete deletes a device as if somebody else had asked for it, and reports
// whether there was one.
func (k *Kernel) Delete(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.named(name)
	if l == nil {
		return false
	}
	k.unregister(l)
	k.changed.Broadcast()
	return true
}

// SetUp sets a device up or down as if somebody else had asked for it.
func (k *Kernel) SetUp(name string, up bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.named(name); l != nil {
		flags := uint32(0)
		if up {
			flags = unix.IFF_UP
		}
		k.changeFlags(l, unix.IFF_UP, flags)
		k.changed.Broadcast()
	}
}

// SetAddress gives a device another MAC as if somebody else had asked for it.
func (k *Kernel) SetAddress(name string, mac uapi.MAC) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.named(name); l != nil {
		l.mac = mac.Bytes()
		k.notifyLink(unix.RTM_NEWLINK, l, 0)
	}
}

// SetSpeed sets ethtool's speed of a device in Mbit/s.
func (k *Kernel) SetSpeed(name string, mbps int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.speeds[name] = mbps
}

// SetDisableIPv6 sets net.ipv6.conf.NAME.disable_ipv6.
func (k *Kernel) SetDisableIPv6(name string, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.named(name); l != nil {
		l.noIPv6 = on
	}
}

// AddSelf adds an address to a device's filter lists, which AF_BRIDGE dumps show.
func (k *Kernel) AddSelf(name string, mac uapi.MAC) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.named(name); l != nil {
		l.filter(mac, true)
	}
}

// Link is what is known of a device from outside.
type Link struct {
	Name                           string
	Ifindex, MTU                   int
	MAC                            uapi.MAC
	Up, Carrier                    bool
	Promiscuity, Allmulti, OpenIOs int
}

// Link returns a device by its name.
func (k *Kernel) Link(name string) (l Link, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.named(name)
	if d == nil {
		return l, false
	}
	return Link{
		Name: d.name, Ifindex: d.index, MTU: d.mtu, MAC: uapi.MACFrom(d.mac[:]),
		Up: d.flags&unix.IFF_UP != 0, Carrier: d.carrier,
		Promiscuity: int(d.promisc), Allmulti: int(d.allmulti), OpenIOs: len(d.ios),
	}, true
}

// Names returns the names of all devices by ifindex.
func (k *Kernel) Names() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.sorted() {
		names = append(names, l.name)
	}
	return names
}

func (k *Kernel) sorted() (all []*link) {
	for _, l := range k.links {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *link) int { return a.index - b.index })
	return all
}

func (k *Kernel) named(name string) *link {
	for _, l := range k.links {
		if l.name == name {
			return l
		}
	}
	return nil
}

// freeName is dev_alloc_name for a pattern with %d; other names are returned.
func (k *Kernel) freeName(pattern string) string {
	if !strings.Contains(pattern, "%d") {
		return pattern
	}
	for i := 0; ; i++ {
		if name := strings.Replace(pattern, "%d", fmt.Sprint(i), 1); k.named(name) == nil {
			return name
		}
	}
}

// notify queues a notification for those who joined. The lock is held.
func (k *Kernel) notify(group uint32, typ uint16, body []byte) {
	if k.joined[group] {
		k.queue = append(k.queue, event{group, appendMessage(nil, typ, 0, 0, 0, body)})
		k.changed.Broadcast()
	}
}

func (k *Kernel) notifyLink(typ uint16, l *link, change uint32) {
	k.notify(unix.RTNLGRP_LINK, typ, l.body(change))
}

// LastPort returns the port id of the socket that was opened last.
func (k *Kernel) LastPort() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nextPort
}
