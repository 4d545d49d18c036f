package vxlan

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/linkspan/linkspan/fdb"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// flagUser marks an entry that a user's request touched. It lies beyond the
// eight bits of ndm_flags, so no message shows it (NTF_VXLAN_ADDED_BY_USER).
const flagUser = 0x100

// entry is a row of the table: one address under one source VNI.
type entry = fdb.Entry[row]

// row is what an address leads to. The frame path reads it without a lock;
// whoever writes holds Device.mu, except for the two times.
type row struct {
	// to is replaced, never changed.
	to atomic.Pointer[targets]
	// used is when a frame was last sent by the row, updated when it was last
	// confirmed: nanoseconds of the clock, exact to a tick.
	used, updated atomic.Int64
	// meta holds the state in its low 16 bits and the flags in its high 16.
	meta atomic.Uint32
}

func (r *row) state() uint16 { return uint16(r.meta.Load()) }
func (r *row) flags() uint16 { return uint16(r.meta.Load() >> 16) }

func (r *row) setMeta(state, flags uint16) { r.meta.Store(uint32(state) | uint32(flags)<<16) }

// tick is how exact the times of a row are, in nanoseconds: no finer than what a
// message can tell (1/100 s).
const tick = int64(time.Second / uapi.HZ)

// touch stores now into at unless it is of the same tick: a busy row costs one
// store a tick and not one a frame.
func touch(at *atomic.Int64, now time.Duration) {
	if int64(now)-at.Load() >= tick {
		at.Store(int64(now))
	}
}

// identity is what tells one remote of an entry from another.
type identity struct {
	ip netip.Addr
	// port is 0 where the device's port was meant but not said.
	port         uint16
	vni, ifindex uint32
}

// remote is a tunnel endpoint, resolved as far as the device's unchanging
// configuration allows.
type remote struct {
	identity
	// to is where datagrams go; head is their header.
	to   netip.AddrPort
	head [headerLen]byte
}

// targets are the remotes of an entry in the order in which they were added, or
// a nexthop group. An entry with a group may have remotes, which are out of use.
type targets struct {
	group *group
	list  []remote
}

// find returns the index of the remote id, -1 if it is not there.
func (t *targets) find(id identity) int {
	for i := range t.list {
		if t.list[i].identity == id {
			return i
		}
	}
	return -1
}

// with returns the targets with r behind the others. It may share their memory:
// only the newest targets of an entry are ever extended.
func (t *targets) with(r remote) *targets {
	return &targets{group: t.group, list: append(t.list, r)}
}

// without returns the targets but the i-th.
func (t *targets) without(i int) *targets {
	list := make([]remote, 0, len(t.list)-1)
	return &targets{group: t.group, list: append(append(list, t.list[:i]...), t.list[i+1:]...)}
}

// replacing returns the targets with the i-th replaced.
func (t *targets) replacing(i int, r remote) *targets {
	list := append([]remote(nil), t.list...)
	list[i] = r
	return &targets{group: t.group, list: list}
}

func (d *Device) resolve(id identity) remote {
	port := id.port
	if port == 0 {
		port = d.fixed.port
	}
	return remote{identity: id, to: netip.AddrPortFrom(id.ip, port), head: makeHeader(id.vni)}
}

// many tells whether an address may have several remotes.
func many(mac uapi.MAC) bool { return mac == 0 || mac.Multicast() }

// find looks an entry up as vxlan_find_mac does: a device that is not steered by
// metadata knows one source VNI only, its own.
func (d *Device) find(mac uapi.MAC, vni uint32) *entry {
	if !d.fixed.external {
		vni = d.fixed.vni
	}
	return d.table.Lookup(fdb.Key{MAC: uint64(mac), Tag: vni})
}

// request is a change to the table as vxlan_fdb_update takes it.
type request struct {
	mac    uapi.MAC
	srcVNI uint32
	id     identity
	state  uint16
	flags  uint16 // NTF_* and flagUser
	nl     uint16 // NLM_F_*
	nhid   uint32
}

// update adds or changes an entry (vxlan_fdb_update). d.mu is held.
func (d *Device) update(q request) error {
	if e := d.find(q.mac, q.srcVNI); e != nil {
		if q.nl&uapi.NLMExcl != 0 {
			return nlattr.Errno(unix.EEXIST)
		}
		return d.updateExisting(e, q)
	}
	if q.nl&uapi.NLMCreate == 0 {
		return nlattr.Errno(unix.ENOENT)
	}
	if q.nl&uapi.NLMReplace != 0 && many(q.mac) {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	e, err := d.create(q)
	if err != nil {
		return err
	}
	d.announce(unix.RTM_NEWNEIGH, e, first(e.V.to.Load()))
	return nil
}

func (d *Device) create(q request) (*entry, error) {
	if limit := d.fixed.limit; limit != 0 && d.table.Len() >= int(limit) {
		return nil, nlattr.Errno(unix.ENOSPC)
	}
	to := &targets{}
	if q.nhid != 0 {
		g, err := d.resolveGroup(q.nhid)
		if err != nil {
			return nil, err
		}
		to.group = g
	} else {
		to.list = []remote{d.resolve(q.id)}
	}
	e, made := d.table.Insert(fdb.Key{MAC: uint64(q.mac), Tag: q.srcVNI}, func(r *row) {
		now := int64(d.env.Clock.Now())
		r.to.Store(to)
		r.used.Store(now)
		r.updated.Store(now)
		r.setMeta(q.state, q.flags&^uapi.NTFUse)
	})
	if !made {
		// The key is taken although the lookup, which is by the device's VNI,
		// did not find it.
		return nil, nlattr.Errno(unix.EEXIST)
	}
	return e, nil
}

func (d *Device) updateExisting(e *entry, q request) error {
	to := e.V.to.Load()
	if q.nhid != 0 && to.group == nil {
		return nlattr.Errf(unix.EOPNOTSUPP, "Cannot replace an existing non nexthop fdb with a nexthop")
	}
	if q.nhid != 0 && q.nl&uapi.NLMAppend != 0 {
		return nlattr.Errf(unix.EOPNOTSUPP, "Cannot append to a nexthop fdb")
	}
	notify := false
	flags := q.flags &^ uapi.NTFUse
	if flags&uapi.NTFExtLearned == 0 || e.V.flags()&flagUser == 0 {
		if e.V.state() != q.state || e.V.flags() != flags {
			e.V.setMeta(q.state, flags)
			notify = true
		}
	}
	shown := -1 // the remote that the notification shows, -1 for the first
	if q.nl&uapi.NLMReplace != 0 {
		if many(q.mac) {
			return nlattr.Errf(unix.EOPNOTSUPP, "Cannot replace non-unicast fdb entries")
		}
		changed, err := d.replace(e, q)
		if err != nil {
			return err
		}
		notify = notify || changed
	}
	if q.nl&uapi.NLMAppend != 0 && many(q.mac) && to.find(q.id) < 0 {
		shown = len(to.list)
		e.V.to.Store(to.with(d.resolve(q.id)))
		notify = true
	}
	if notify || q.flags&uapi.NTFUse != 0 {
		e.V.updated.Store(int64(d.env.Clock.Now()))
	}
	if notify {
		to = e.V.to.Load()
		r := first(to)
		if shown >= 0 {
			r = &to.list[shown]
		}
		d.announce(unix.RTM_NEWNEIGH, e, r)
	}
	return nil
}

// replace makes q's remote or group the entry's only one, and reports whether
// that changed something.
func (d *Device) replace(e *entry, q request) (bool, error) {
	to := e.V.to.Load()
	if q.nhid != 0 {
		if to.group.id == q.nhid {
			return false, nil
		}
		g, err := d.resolveGroup(q.nhid)
		if err != nil {
			return false, err
		}
		e.V.to.Store(&targets{group: g, list: to.list})
		return true, nil
	}
	// An entry with a group has no remote to replace: nothing happens.
	if len(to.list) == 0 || to.find(q.id) >= 0 {
		return false, nil
	}
	e.V.to.Store(to.replacing(0, d.resolve(q.id)))
	return true, nil
}

// first returns the first remote, nil if there is none.
func first(t *targets) *remote {
	if len(t.list) == 0 {
		return nil
	}
	return &t.list[0]
}

// destroy takes an entry out and tells of each of its remotes. d.mu is held.
func (d *Device) destroy(e *entry) {
	if !d.table.Delete(e) {
		return
	}
	to := e.V.to.Load()
	if to.group != nil {
		d.announce(unix.RTM_DELNEIGH, e, nil)
		return
	}
	for i := range to.list {
		d.announce(unix.RTM_DELNEIGH, e, &to.list[i])
	}
}

// drop takes the i-th of several remotes out of an entry.
func (d *Device) drop(e *entry, i int) {
	to := e.V.to.Load()
	e.V.to.Store(to.without(i))
	d.announce(unix.RTM_DELNEIGH, e, &to.list[i])
}

// remove is __vxlan_fdb_delete: it removes a remote, or the entry if id has no
// address or names its only remote. d.mu is held.
func (d *Device) remove(mac uapi.MAC, srcVNI uint32, id identity) error {
	e := d.find(mac, srcVNI)
	if e == nil {
		return nlattr.Errno(unix.ENOENT)
	}
	if !id.ip.IsUnspecified() {
		to := e.V.to.Load()
		i := to.find(id)
		if i < 0 {
			return nil
		}
		if len(to.list) > 1 {
			d.drop(e, i)
			return nil
		}
	}
	d.destroy(e)
	return nil
}
