package bridge

import (
	"math"
	"syscall"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// flushPolicy is what a bulk RTM_DELNEIGH may carry: everything else that exists
// is of kind Unspec, which strict validation refuses.
var flushPolicy = func() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		p[t] = nlattr.Rule{}
	}
	p[uapi.NDAVLAN] = nlattr.Rule{Kind: nlattr.U16, Ranged: true, Min: 1, Max: 4094}
	p[uapi.NDAIfindex] = nlattr.Rule{Kind: nlattr.S32, Ranged: true, Min: 1, Max: math.MaxInt32}
	p[uapi.NDANdmStateMask] = nlattr.Rule{Kind: nlattr.U16}
	p[uapi.NDANdmFlagsMask] = nlattr.Rule{Kind: nlattr.U8}
	return p
}()

// anyNDA accepts all attributes that exist.
var anyNDA = func() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		p[t] = nlattr.Rule{Kind: nlattr.Binary}
	}
	return p
}()

// flushDesc selects rows (struct net_bridge_fdb_flush_desc). Zero fields select
// all.
type flushDesc struct {
	vid         uint16
	ifindex     int
	flags, mask uint32
}

// matches tells whether the row is selected. Flags that are not in the mask make
// that impossible unless the mask is empty: so it is in the kernel.
func (d flushDesc) matches(b *Bridge, e *entry) bool {
	ifindex := b.ifindex
	if p := e.V.dst.Load(); p != nil {
		ifindex = p.ifindex
	}
	return (d.vid == 0 || uint32(d.vid) == e.Key().Tag) &&
		(d.ifindex == 0 || d.ifindex == ifindex) &&
		(d.mask == 0 || e.V.flags.Load()&d.mask == d.flags)
}

// flush deletes the selected rows, LOCAL ones too and without handing them over
// (br_fdb_flush).
func (b *Bridge) flush(d flushDesc) {
	b.eachRow(func(e *entry) {
		if d.matches(b, e) {
			b.deleteRow(e)
		}
	})
}

func stateFlags(state uint16) (f uint32) {
	if state&uapi.NUDPermanent != 0 {
		f |= fdbLocal
	}
	if state&uapi.NUDNoARP != 0 {
		f |= fdbStatic
	}
	return f
}

func ndmFlags(flags uint8) (f uint32) {
	for _, c := range [...]struct {
		ntf  uint8
		flag uint32
	}{
		{uapi.NTFUse, fdbUser}, {uapi.NTFExtLearned, fdbExtLearned},
		{uapi.NTFOffloaded, fdbOffloaded}, {uapi.NTFSticky, fdbSticky},
	} {
		if flags&c.ntf != 0 {
			f |= c.flag
		}
	}
	return f
}

// FDBFlush is RTM_DELNEIGH with NLM_F_BULK (br_fdb_delete_bulk). With p it is
// restricted to that port unless the request names a device itself. leftover is
// the number of bytes behind the attributes. It emits one RTM_DELNEIGH for each
// row, newest first. Errors are *nlattr.Error with the texts of the kernel: EINVAL,
// ERANGE, ENODEV.
func (b *Bridge) FDBFlush(p *Port, ndm uapi.Ndmsg, attrs nlattr.Attrs, leftover int) error {
	// The core has parsed the message strictly, without a policy, before the bridge
	// does: an unknown type beats whatever else is wrong.
	if err := anyNDA.Validate(attrs, leftover, nlattr.DeprecatedStrict); err != nil {
		return err
	}
	if err := flushPolicy.Validate(attrs, leftover, nlattr.Strict); err != nil {
		return err
	}
	flags := ndm.Flags &^ (uapi.NTFSelf | uapi.NTFMaster)
	if flags&^(uapi.NTFUse|uapi.NTFExtLearned|uapi.NTFSticky|uapi.NTFOffloaded) != 0 {
		return nlattr.Errf(syscall.EINVAL, "Unsupported fdb flush ndm flag bits set")
	}
	if ndm.State&^(uapi.NUDPermanent|uapi.NUDNoARP) != 0 {
		return nlattr.Errf(syscall.EINVAL, "Unsupported fdb flush ndm state bits set")
	}
	d := flushDesc{flags: stateFlags(ndm.State) | ndmFlags(flags)}
	if a, ok := attrs.Get(uapi.NDAVLAN); ok {
		d.vid = a.U16()
	}
	if a, ok := attrs.Get(uapi.NDANdmStateMask); ok {
		d.mask |= stateFlags(a.U16())
	}
	if a, ok := attrs.Get(uapi.NDANdmFlagsMask); ok {
		d.mask |= ndmFlags(a.U8())
	}
	if a, ok := attrs.Get(uapi.NDAIfindex); ok {
		d.ifindex = int(int32(a.U32()))
		if err := b.checkFlushIfindex(d.ifindex); err != nil {
			return err
		}
	} else if p != nil {
		d.ifindex = p.ifindex
	}
	b.flush(d)
	return nil
}

func (b *Bridge) checkFlushIfindex(ifindex int) error {
	exists, p, br := b.lookup(ifindex)
	switch {
	case !exists:
		return nlattr.Errf(syscall.ENODEV, "bridge: Unknown flush device ifindex")
	case br != nil && br != b:
		return nlattr.Errf(syscall.EINVAL, "bridge: Flush bridge device does not match target bridge device")
	case br == nil && p == nil:
		return nlattr.Errf(syscall.EINVAL, "bridge: Flush device is not a bridge or bridge port")
	case p != nil && p.b != b:
		return nlattr.Errf(syscall.EINVAL, "bridge: Port belongs to a different bridge device")
	}
	return nil
}
