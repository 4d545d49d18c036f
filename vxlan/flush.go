package vxlan

import (
	"net/netip"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// flushPolicy mirrors vxlan_del_bulk_policy; what it does not name is refused.
func flushPolicy() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		p[t] = nlattr.Rule{}
	}
	for _, t := range []uint16{uapi.NDASrcVNI, uapi.NDANhID, uapi.NDAVNI} {
		p[t] = nlattr.Rule{Kind: nlattr.U32}
	}
	p[uapi.NDAPort] = nlattr.Rule{Kind: nlattr.U16}
	p[uapi.NDADst] = nlattr.Rule{Kind: nlattr.Binary, Ranged: true, Min: 4, Max: 16}
	p[uapi.NDANdmStateMask] = nlattr.Rule{Kind: nlattr.U16}
	p[uapi.NDANdmFlagsMask] = nlattr.Rule{Kind: nlattr.U8}
	return p
}

// flush is what a bulk deletion looks for (struct vxlan_fdb_flush_desc). Zero
// values match everything.
type flush struct {
	stateMask, state uint16
	flagsMask, flags uint8
	srcVNI, nhid     uint32
	// Of remotes; the invalid address matches every one.
	dst  netip.Addr
	port uint16
	vni  uint32
}

// FDBFlush is RTM_DELNEIGH with NLM_F_BULK (vxlan_fdb_delete_bulk). leftover is
// what nlattr.Parse left of the message.
func (d *Device) FDBFlush(ndm uapi.Ndmsg, attrs nlattr.Attrs, leftover int) error {
	// rtnetlink's own look at the message comes first, and knows types only.
	for _, a := range attrs {
		if a.Type == 0 || a.Type > uapi.NDANdmFlagsMask {
			return nlattr.ErrAttr(unix.EINVAL, a, "Unknown attribute type")
		}
	}
	if err := (nlattr.Policy{}).Validate(nil, leftover, nlattr.Strict); err != nil {
		return err
	}
	if err := flushPolicy().Validate(attrs, leftover, nlattr.Strict); err != nil {
		return err
	}
	const ignored = uapi.NTFSelf | uapi.NTFMaster
	if ndm.Flags&^(ignored|uapi.NTFExtLearned|uapi.NTFOffloaded|uapi.NTFRouter) != 0 {
		return nlattr.Errf(unix.EINVAL, "Unsupported fdb flush ndm flag bits set")
	}
	if ndm.State&^(uapi.NUDPermanent|uapi.NUDNoARP) != 0 {
		return nlattr.Errf(unix.EINVAL, "Unsupported fdb flush ndm state bits set")
	}
	get := func(t uint16) nlattr.Attr {
		a, _ := attrs.Get(t)
		return a
	}
	f := flush{
		state: ndm.State, stateMask: get(uapi.NDANdmStateMask).U16(),
		flags: ndm.Flags &^ ignored, flagsMask: get(uapi.NDANdmFlagsMask).U8(),
		srcVNI: get(uapi.NDASrcVNI).U32(), nhid: get(uapi.NDANhID).U32(),
		port: get(uapi.NDAPort).BE16(), vni: get(uapi.NDAVNI).U32(),
	}
	if a, ok := attrs.Get(uapi.NDADst); ok {
		f.dst, _ = parseAddr(a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.table.All() {
		if f.matches(e) {
			d.flushEntry(e, &f)
		}
	}
	return nil
}

func (f *flush) matches(e *entry) bool {
	if f.stateMask != 0 && e.V.state()&f.stateMask != f.state {
		return false
	}
	if f.flagsMask != 0 && uint8(e.V.flags())&f.flagsMask != f.flags {
		return false
	}
	if f.srcVNI != 0 && e.Key().Tag != f.srcVNI {
		return false
	}
	if f.nhid != 0 {
		g := e.V.to.Load().group
		return g != nil && g.id == f.nhid
	}
	return true
}

// remotes tells whether only some remotes are meant.
func (f *flush) remotes() bool { return f.dst.IsValid() || f.port != 0 || f.vni != 0 }

func (f *flush) matchesRemote(r *remote) bool {
	return (!f.dst.IsValid() || r.ip == f.dst) && (f.port == 0 || r.port == f.port) && (f.vni == 0 || r.vni == f.vni)
}

func (d *Device) flushEntry(e *entry, f *flush) {
	if !f.remotes() {
		d.destroy(e)
		return
	}
	for i := 0; ; {
		to := e.V.to.Load()
		if i >= len(to.list) {
			return
		}
		switch {
		case !f.matchesRemote(&to.list[i]):
			i++
		case len(to.list) == 1:
			d.destroy(e)
			return
		default:
			d.drop(e, i)
		}
	}
}

// flushDynamic removes what a device that goes down forgets: all that is neither
// permanent nor static. d.mu is held.
func (d *Device) flushDynamic() {
	for e := range d.table.All() {
		if e.V.state()&(uapi.NUDPermanent|uapi.NUDNoARP) == 0 {
			d.destroy(e)
		}
	}
}

// flushAll removes every entry. d.mu is held.
func (d *Device) flushAll() {
	for e := range d.table.All() {
		d.destroy(e)
	}
}
