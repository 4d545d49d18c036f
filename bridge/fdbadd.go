package bridge

import (
	"syscall"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// Bits of NFEA_ACTIVITY_NOTIFY (FDB_NOTIFY_BIT, FDB_NOTIFY_INACTIVE_BIT).
const (
	activityNotify   = 1
	activityInactive = 2
)

// FDBRequest is an RTM_NEWNEIGH that has passed the checks common to all devices.
type FDBRequest struct {
	MAC uapi.MAC
	// VID is NDA_VLAN, 0 if there was none.
	VID uint16
	// State and Flags are ndm_state and ndm_flags.
	State uint16
	Flags uint8
	// NLFlags are the nlmsg_flags; NLM_F_CREATE, EXCL and REPLACE count.
	NLFlags uint16
	// FlagsExt is NDA_FLAGS_EXT, 0 if there was none.
	FlagsExt uint32
	// Ext is NDA_FDB_EXT_ATTRS; HasExt tells whether there was one.
	Ext    nlattr.Attr
	HasExt bool
}

// fdbExtPolicy is what NDA_FDB_EXT_ATTRS may hold.
var fdbExtPolicy = nlattr.Policy{
	uapi.NFEAActivityNotify: {Kind: nlattr.U8},
	uapi.NFEADontRefresh:    {Kind: nlattr.Flag},
}

// fdbExt is NDA_FDB_EXT_ATTRS in plain form.
type fdbExt struct {
	notify      uint8
	dontRefresh bool
}

func parseFDBExt(a nlattr.Attr) (x fdbExt, err error) {
	if !a.Nested {
		return x, nlattr.ErrAttr(syscall.EINVAL, a, "NLA_F_NESTED is missing")
	}
	as, left := nlattr.Parse(a.Data, a.Off+nlattr.HeaderLen)
	if err := fdbExtPolicy.Validate(as, left, nlattr.Strict); err != nil {
		return x, err
	}
	if v, ok := as.Get(uapi.NFEAActivityNotify); ok {
		x.notify = v.U8()
	}
	x.dontRefresh = as.Has(uapi.NFEADontRefresh)
	return x, nil
}

// FDBAdd adds or changes a row (br_fdb_add); p is the port that it shall point
// to, nil the bridge itself. It emits at most one RTM_NEWNEIGH. Errors are
// *nlattr.Error: EINVAL, EPERM for a dynamic row on a port that may not learn,
// EEXIST and ENOENT according to NLFlags.
func (b *Bridge) FDBAdd(p *Port, r FDBRequest) error {
	einval := nlattr.Errno(syscall.EINVAL)
	if r.State&(uapi.NUDPermanent|uapi.NUDNoARP|uapi.NUDReachable) == 0 || r.MAC == 0 {
		return einval
	}
	if r.FlagsExt&uapi.NTFExtLocked != 0 {
		return nlattr.Errf(syscall.EINVAL, `bridge: Cannot add FDB entry with "locked" flag set`)
	}
	var x fdbExt
	if r.HasExt {
		var err error
		if x, err = parseFDBExt(r.Ext); err != nil {
			return err
		}
	}
	if r.VID != 0 {
		return einval // no port has any VLAN yet
	}
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	switch {
	case r.Flags&uapi.NTFUse != 0:
		if p == nil {
			return einval
		}
		if p.learns() {
			b.learnLocked(p, r.MAC, fdbUser)
		}
		return nil
	case r.Flags&uapi.NTFExtLearned != 0:
		if p == nil && r.State&uapi.NUDPermanent == 0 {
			return nlattr.Errf(syscall.EINVAL, "bridge: FDB entry towards bridge must be permanent")
		}
		b.extLearn(p, r.MAC)
		return nil
	}
	return b.addPlain(p, r, x)
}

// learns tells whether the port's state lets it learn (nbp_state_should_learn).
func (p *Port) learns() bool { return p.state == stateLearning || p.state == stateForwarding }

// addPlain is fdb_add_entry: the request of an ordinary user. fdbMu is held.
func (b *Bridge) addPlain(p *Port, req FDBRequest, x fdbExt) error {
	switch {
	case p != nil && req.State&(uapi.NUDPermanent|uapi.NUDNoARP) == 0 && !p.learns():
		return nlattr.Errno(syscall.EPERM)
	case p == nil && req.State&uapi.NUDPermanent == 0,
		req.Flags&uapi.NTFSticky != 0 && req.State&uapi.NUDPermanent != 0,
		x.notify&^(activityNotify|activityInactive) != 0,
		x.notify == activityInactive:
		return nlattr.Errno(syscall.EINVAL)
	}
	e := b.fdb.Lookup(key(req.MAC, req.VID))
	modified := e == nil
	switch {
	case e == nil && req.NLFlags&uapi.NLMCreate == 0:
		return nlattr.Errno(syscall.ENOENT)
	case e == nil:
		e = b.createRow(p, req.MAC, req.VID, fdbUser)
	case req.NLFlags&uapi.NLMExcl != 0:
		return nlattr.Errno(syscall.EEXIST)
	default:
		modified = e.V.dst.Swap(p) != p
		e.V.change(fdbUser, 0)
		b.unlearn(&e.V)
	}
	now := b.now()
	if b.applyPlain(&e.V, req, x, now) {
		modified = true
	}
	e.V.used.Store(int64(now))
	if modified {
		if !x.dontRefresh {
			e.V.updated.Store(int64(now))
		}
		b.notifyRow(newNeigh, e)
	}
	return nil
}

// applyPlain gives the row the state and flags of the request and tells whether
// that is a modification. The state is compared as a whole word, so that a request
// which combines bits, as iproute2's do, modifies always.
func (b *Bridge) applyPlain(r *row, req FDBRequest, x fdbExt, now ticks) bool {
	modified := b.state(r, now) != req.State
	if modified {
		switch {
		case req.State&uapi.NUDPermanent != 0:
			r.change(fdbLocal|fdbStatic, 0)
		case req.State&uapi.NUDNoARP != 0:
			r.change(fdbStatic, fdbLocal)
		default:
			r.change(0, fdbLocal|fdbStatic)
		}
	}
	set, clear := uint32(0), uint32(fdbLocked)
	if req.Flags&uapi.NTFSticky != 0 {
		set = fdbSticky
	} else {
		clear |= fdbSticky
	}
	if r.change(set, clear) {
		modified = true
	}
	return r.setActivity(x.notify) || modified
}

// setActivity applies NFEA_ACTIVITY_NOTIFY, 0 where the request had none. To take
// back the inactive bit alone does nothing.
func (r *row) setActivity(v uint8) bool {
	if v&activityNotify == 0 {
		return r.has(fdbNotify) && r.change(0, fdbNotify|fdbNotifyInactive)
	}
	set := uint32(fdbNotify)
	if v&activityInactive != 0 {
		set |= fdbNotifyInactive
	}
	return r.change(set, 0)
}

// extLearn adds, moves or refreshes a row of an external agent
// (br_fdb_external_learn_add). fdbMu is held.
func (b *Bridge) extLearn(p *Port, mac uapi.MAC) {
	set := uint32(fdbExtLearned | fdbUser)
	if p == nil {
		set |= fdbLocal
	}
	e := b.fdb.Lookup(key(mac, 0))
	if e == nil {
		b.notifyRow(newNeigh, b.createRow(p, mac, 0, set))
		return
	}
	now := int64(b.now())
	e.V.updated.Store(now)
	modified := e.V.dst.Swap(p) != p
	if e.V.has(fdbExtLearned) {
		e.V.used.Store(now)
	} else {
		modified = true
	}
	if e.V.change(0, fdbLocked) {
		modified = true
	}
	e.V.change(set, 0)
	b.unlearn(&e.V)
	if modified {
		b.notifyRow(newNeigh, e)
	}
}

// FDBDel deletes the row that points to p, nil being the bridge itself
// (br_fdb_delete); it emits one RTM_DELNEIGH. Error: ENOENT where there is none,
// or one that points elsewhere.
func (b *Bridge) FDBDel(p *Port, mac uapi.MAC, vid uint16) error {
	b.fdbMu.Lock()
	defer b.fdbMu.Unlock()
	e := b.fdb.Lookup(key(mac, vid))
	if e == nil || e.V.dst.Load() != p {
		return nlattr.Errno(syscall.ENOENT)
	}
	b.deleteRow(e)
	return nil
}
