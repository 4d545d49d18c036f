package vxlan

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// fixed is the configuration that no change reaches. Any goroutine reads it.
type fixed struct {
	vni      uint32
	port     uint16
	limit    uint32
	external bool
}

// Device is one VXLAN device (struct vxlan_dev).
type Device struct {
	reg   *Registry
	env   *Env
	fixed fixed
	host  netdev.Egress
	stats netdev.Counters

	// Control side, under the RTNL lock.
	cfg  Config
	link netdev.LinkState
	// lower is the link below as messages show it. Unlike cfg.Link it is never
	// set back to 0 (struct vxlan_rdst default_dst).
	lower   int
	sockets []*socket
	sends   []netdev.SendConfig
	vnis    vniSet
	closed  bool

	// mu is for the table's writers, learning threads among them.
	mu      sync.Mutex
	table   *fdb.Table[row] // lookups need no lock
	running bool
	ageing  uint32 // seconds
	gc      ager
	buf     []byte

	home  atomic.Pointer[home]
	path  atomic.Pointer[path]
	upper atomic.Pointer[upper]
	logs  limiter
	pool  sync.Pool // of *sending
}

// Config returns the configuration. Its Link is the last one that was asked
// for; Lower is the link that is below.
func (d *Device) Config() Config { return d.cfg }

// Link returns the device's own link state.
func (d *Device) Link() netdev.LinkState { return d.link }

// Lower returns the interface index of the link below, 0 if there is none.
func (d *Device) Lower() int { return d.lower }

// Counters returns the device's statistics.
func (d *Device) Counters() *netdev.Counters { return &d.stats }

// Len returns the number of entries in the forwarding table.
func (d *Device) Len() int { return d.table.Len() }

// LinkChanged tells a new state of the device's own link. Administrative state
// is Up's and Down's business and not looked at.
func (d *Device) LinkChanged(s netdev.LinkState) {
	d.link = s
	h := *d.home.Load()
	h.ifindex = s.Ifindex
	d.home.Store(&h)
	d.publish()
}

// SetHome tells that the device now lives in another namespace, whose
// notifications go to n and in which netnsid names the namespace of the
// Registry. foreign is false once it is back home. LinkChanged tells the new
// interface index.
func (d *Device) SetHome(n notify.Publisher, netnsid int32, foreign bool) {
	h := *d.home.Load()
	h.notify, h.netnsid, h.foreign = n, netnsid, foreign
	d.home.Store(&h)
}

// Announce makes the default entry, if there is a remote, and announces it. The
// device was announced before. On error the device is to be closed again.
func (d *Device) Announce() error {
	if d.cfg.Remote.IsUnspecified() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.update(d.defaultEntry(d.cfg.Remote, d.cfg.VNI, d.cfg.VNI, d.lower, uapi.NLMExcl|uapi.NLMCreate))
}

// defaultEntry is the request for where unknown addresses go.
func (d *Device) defaultEntry(ip netip.Addr, srcVNI, vni uint32, link int, nl uint16) request {
	return request{
		srcVNI: srcVNI, nl: nl, state: uapi.NUDReachable | uapi.NUDPermanent, flags: uapi.NTFSelf,
		id: identity{ip: ip, port: d.fixed.port, vni: vni, ifindex: uint32(link)},
	}
}

// Up opens the sockets and starts ageing (vxlan_open). It fails with EADDRINUSE
// where the port is taken by another program or by devices that receive in
// another way.
func (d *Device) Up() error {
	if d.sockets != nil || d.closed {
		return nil
	}
	if err := d.reg.openSockets(d); err != nil {
		return err
	}
	if err := d.joinAll(); err != nil {
		d.reg.closeSockets(d)
		return err
	}
	if err := d.openOutputs(); err != nil {
		d.leaveAll()
		d.reg.closeSockets(d)
		return err
	}
	d.mu.Lock()
	d.running = true
	d.armGC(gcInterval)
	d.mu.Unlock()
	d.publish()
	d.listen()
	return nil
}

// listen starts taking the device's datagrams from its sockets.
func (d *Device) listen() {
	for _, s := range d.sockets {
		if d.cfg.VNIFilter {
			for vni := range d.vnis.all() {
				s.listen(vni, d)
			}
		} else {
			s.listen(d.cfg.VNI, d)
		}
	}
}

func (d *Device) ignore() {
	for _, s := range d.sockets {
		if d.cfg.VNIFilter {
			for vni := range d.vnis.all() {
				s.ignore(vni, d)
			}
		} else {
			s.ignore(d.cfg.VNI, d)
		}
	}
}

func (d *Device) openOutputs() error {
	plain, df, usePlain, useDF := d.cfg.sendConfigs()
	var want []netdev.SendConfig
	if usePlain {
		want = append(want, plain)
	}
	if useDF {
		want = append(want, df)
	}
	for i, c := range want {
		if _, err := d.reg.openOutput(c); err != nil {
			for _, c := range want[:i] {
				d.reg.closeOutput(c)
			}
			var errno unix.Errno
			if errors.As(err, &errno) {
				return nlattr.Errno(errno)
			}
			return err
		}
	}
	d.sends = want
	return nil
}

// Down stops receiving and sending, forgets what is neither permanent nor static
// and announces that (vxlan_stop). It waits for the frame path to leave the
// device's outputs, so no lock that a frame may need is to be held.
func (d *Device) Down() {
	if d.sockets != nil {
		d.stop(d.flushDynamic)
	}
}

func (d *Device) stop(flush func()) {
	d.leaveAll()
	d.mu.Lock()
	d.running = false
	d.disarmGC()
	flush()
	d.mu.Unlock()
	if d.sockets == nil {
		return
	}
	d.ignore()
	d.reg.closeSockets(d)
	sends := d.sends
	d.sends = nil
	d.publish()
	for _, c := range sends {
		d.reg.closeOutput(c)
	}
}

// Retire stops the device and deletes its entries (vxlan_dellink). Close follows.
func (d *Device) Retire() {
	if !d.closed {
		d.stop(d.flushAll)
	}
}

// Close takes the device away: every entry is announced as deleted, the newest
// first, and then every VNI of its filter. It may be called for a device that is
// up, and again.
func (d *Device) Close() {
	if d.closed {
		return
	}
	d.closed = true
	d.stop(d.flushAll)
	d.closeVNIs()
	d.reg.forget(d)
}

// CheckMTU tells whether the device may have an MTU (dev_validate_mtu and
// vxlan_change_mtu).
func (d *Device) CheckMTU(mtu int) error {
	if mtu < minMTU {
		return nlattr.Errf(unix.EINVAL, "mtu less than device minimum")
	}
	if mtu > maxMTU {
		return nlattr.Errf(unix.EINVAL, "mtu greater than device maximum")
	}
	if low, ok := d.reg.lower(d.lower); ok && mtu > low.MTU-d.cfg.Overhead() {
		return nlattr.Errno(unix.EINVAL)
	}
	return nil
}

// limiter lets a line through to the log once in a while.
type limiter struct{ next atomic.Int64 }

// logInterval is how far apart lines about frames are at least.
const logInterval = time.Second

func (l *limiter) allow(now time.Duration) bool {
	next := l.next.Load()
	return int64(now) >= next && l.next.CompareAndSwap(next, int64(now+logInterval))
}
