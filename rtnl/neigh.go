package rtnl

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// fdbRequest is an AF_BRIDGE neighbour request about a device of ours.
type fdbRequest struct {
	ndm      uapi.Ndmsg
	attrs    nlattr.Attrs
	leftover int
	mac      uapi.MAC
	vid      uint16
	dev      *device
}

// fdbTarget finds the device of a request; nil means that it is the kernel's
// affair, malformed requests included.
func (r *request) fdbTarget() *fdbRequest {
	if len(r.body()) < uapi.NdmsgLen {
		return nil
	}
	f := &fdbRequest{ndm: uapi.ParseNdmsg(r.body())}
	f.dev = r.ns.devs[int(f.ndm.Ifindex)]
	if f.dev == nil {
		return nil
	}
	f.attrs, f.leftover = r.attrs(uapi.NdmsgLen)
	return f
}

// parseAddress reads NDA_LLADDR and NDA_VLAN with the checks of rtnl_fdb_add and
// rtnl_fdb_del; verb is "add" or "delete".
func (f *fdbRequest) parseAddress(verb string) error {
	a, ok := f.attrs.Get(uapi.NDALLAddr)
	if !ok || len(a.Data) != 6 {
		return nlattr.Errf(unix.EINVAL, "invalid address")
	}
	f.mac = uapi.MACFrom(a.Data)
	var err error
	add := verb == "add"
	if add {
		err = f.checkType(verb)
	}
	if err == nil {
		f.vid, err = parseVID(f.attrs)
	}
	if err == nil && !add {
		err = f.checkType(verb)
	}
	return err
}

// checkType refuses devices without Ethernet addresses.
func (f *fdbRequest) checkType(verb string) error {
	if f.dev.vx != nil && f.dev.vx.Config().GPE || !f.dev.emulated() && f.dev.arpType != unix.ARPHRD_ETHER {
		return nlattr.Errf(unix.EINVAL, "FDB %s only supported for Ethernet devices", verb)
	}
	return nil
}

// parseVID is fdb_vid_parse.
func parseVID(as nlattr.Attrs) (uint16, error) {
	a, ok := as.Get(uapi.NDAVLAN)
	if !ok {
		return 0, nil
	}
	if len(a.Data) != 2 {
		return 0, nlattr.Errf(unix.EINVAL, "invalid vlan attribute size")
	}
	if v := a.U16(); v == 0 || v >= 4095 {
		return 0, nlattr.Errf(unix.EINVAL, "invalid vlan id")
	}
	return a.U16(), nil
}

// viaMaster tells whether the bridge that the device is a port of is meant.
func (f *fdbRequest) viaMaster() bool {
	return (f.ndm.Flags == 0 || f.ndm.Flags&uapi.NTFMaster != 0) && f.dev.port != nil
}

// selfOnly returns the request with NTF_SELF alone of SELF and MASTER, for the
// device's own table in the kernel.
func (r *request) selfOnly() []byte {
	raw := append([]byte(nil), r.raw...)
	raw[headerLen+10] &^= uapi.NTFMaster
	return raw
}

// unsupportedUnless is the answer where neither the master's table nor the
// device's own was meant.
func unsupportedUnless(handled bool) error {
	if handled {
		return nil
	}
	return nlattr.Errno(unix.EOPNOTSUPP)
}

// fdbAdd handles RTM_NEWNEIGH of AF_BRIDGE (rtnl_fdb_add).
func (r *request) fdbAdd() (bool, error) {
	f := r.fdbTarget()
	if f == nil {
		return r.pass()
	}
	r.leftover = f.leftover > 0
	if err := f.parseAddress("add"); err != nil {
		return false, err
	}
	handled := false
	if f.viaMaster() {
		if err := f.dev.master.br.FDBAdd(f.dev.port, r.bridgeEntry(f)); err != nil {
			return false, err
		}
		f.ndm.Flags &^= uapi.NTFMaster
		handled = true
	}
	if f.ndm.Flags&uapi.NTFSelf == 0 {
		return false, unsupportedUnless(handled)
	}
	switch d := f.dev; {
	case d.br != nil:
		return false, d.br.FDBAdd(nil, r.bridgeEntry(f))
	case d.vx != nil:
		return false, d.vx.FDBAdd(f.ndm, r.flags, f.attrs, r.ns.linkExists)
	}
	return r.passAs(r.selfOnly(), nil)
}

func (ns *Namespace) linkExists(ifindex int) bool {
	return ns.devs[ifindex] != nil || ifindex > 0 && ns.link(ifindex, "") != nil
}

func (r *request) bridgeEntry(f *fdbRequest) bridge.FDBRequest {
	q := bridge.FDBRequest{MAC: f.mac, VID: f.vid, State: f.ndm.State, Flags: f.ndm.Flags, NLFlags: r.flags}
	if a, ok := f.attrs.Get(uapi.NDAFlagsExt); ok {
		q.FlagsExt = a.U32()
	}
	q.Ext, q.HasExt = f.attrs.Get(uapi.NDAFDBExtAttrs)
	return q
}

// fdbDel handles RTM_DELNEIGH of AF_BRIDGE (rtnl_fdb_del), bulk deletion
// included.
func (r *request) fdbDel() (bool, error) {
	f := r.fdbTarget()
	if f == nil {
		return r.pass()
	}
	bulk := r.flags&uapi.NLMBulk != 0
	if bulk {
		// Without a policy the kernel looks at the types only.
		err := ndaTypes.Validate(f.attrs, f.leftover, nlattr.DeprecatedStrict)
		if err == nil {
			err = f.checkType("delete")
		}
		if err != nil {
			return false, err
		}
	} else {
		r.leftover = f.leftover > 0
		if err := f.parseAddress("delete"); err != nil {
			return false, err
		}
	}
	handled := false
	if f.viaMaster() {
		br := f.dev.master.br
		var err error
		if bulk {
			err = br.FDBFlush(f.dev.port, f.ndm, f.attrs, f.leftover)
		} else {
			err = br.FDBDel(f.dev.port, f.mac, f.vid)
		}
		if err != nil {
			return false, err
		}
		f.ndm.Flags &^= uapi.NTFMaster
		handled = true
	}
	if f.ndm.Flags&uapi.NTFSelf == 0 {
		return false, unsupportedUnless(handled)
	}
	switch d := f.dev; {
	case d.br != nil && bulk:
		return false, d.br.FDBFlush(nil, f.ndm, f.attrs, f.leftover)
	case d.br != nil:
		return false, d.br.FDBDel(nil, f.mac, f.vid)
	case d.vx != nil && bulk:
		return false, d.vx.FDBFlush(f.ndm, f.attrs, f.leftover)
	case d.vx != nil:
		return false, d.vx.FDBDel(f.ndm, f.attrs, r.ns.linkExists)
	}
	return r.passAs(r.selfOnly(), nil)
}

// ndaTypes holds the attributes that exist, whatever they look like.
var ndaTypes = func() nlattr.Policy {
	p := nlattr.Policy{}
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		p[t] = nlattr.Rule{}
	}
	return p
}()

// fdbGetPolicy is nda_policy.
var fdbGetPolicy = nlattr.Policy{
	uapi.NDADst: {Kind: nlattr.Binary, Len: 32}, uapi.NDALLAddr: {Kind: nlattr.Binary, Len: 32},
	uapi.NDACacheInfo: {Len: 16}, uapi.NDAProbes: {Kind: nlattr.U32},
	uapi.NDAVLAN: {Kind: nlattr.U16}, uapi.NDAPort: {Kind: nlattr.U16}, uapi.NDAVNI: {Kind: nlattr.U32},
	uapi.NDAIfindex: {Kind: nlattr.U32}, uapi.NDAMaster: {Kind: nlattr.U32}, uapi.NDALinkNetnsID: {},
	uapi.NDASrcVNI: {}, uapi.NDAProtocol: {Kind: nlattr.U8}, uapi.NDANhID: {Kind: nlattr.U32, Strict: true},
	uapi.NDAFDBExtAttrs: {Kind: nlattr.Nested, Strict: true}, uapi.NDAFlagsExt: {Kind: nlattr.U32, Mask: 5, Strict: true},
	uapi.NDANdmStateMask: {Strict: true}, uapi.NDANdmFlagsMask: {Strict: true},
}

// fdbGet handles a RTM_GETNEIGH of AF_BRIDGE that is not a dump (rtnl_fdb_get).
// What it says about the kernel's own devices, the kernel says.
func (r *request) fdbGet() (bool, error) {
	if len(r.body()) < uapi.NdmsgLen {
		return r.pass()
	}
	ndm := uapi.ParseNdmsg(r.body())
	as, leftover := r.attrs(uapi.NdmsgLen)
	master, hasMaster := as.Get(uapi.NDAMaster)
	d, m := r.ns.devs[int(ndm.Ifindex)], (*device)(nil)
	if hasMaster {
		m = r.ns.devs[int(master.U32())]
	}
	if d == nil && m == nil {
		return r.pass()
	}
	q, err := parseFDBGet(ndm, as, leftover)
	if err != nil {
		return false, err
	}
	hasMaster = hasMaster && master.U32() != 0
	if ndm.Ifindex != 0 && d == nil && !r.ns.linkExists(int(ndm.Ifindex)) {
		return false, nlattr.Errf(unix.ENODEV, "Unknown device ifindex")
	}
	if ndm.Ifindex != 0 && hasMaster {
		return false, nlattr.Errf(unix.EINVAL, "Master and device are mutually exclusive")
	}
	var body []byte
	var ok, able bool
	switch {
	case m != nil:
		body, ok, able = m.ownEntry(q)
	case ndm.Flags == 0 || ndm.Flags&uapi.NTFMaster != 0:
		if d.port == nil {
			return false, nlattr.Errf(unix.EINVAL, "Device is not a bridge port")
		}
		body, ok = d.master.br.FDBGet(q.mac, q.vid)
		able = true
	default:
		body, ok, able = d.ownEntry(q)
	}
	switch {
	case !able:
		return false, nlattr.Errf(unix.EOPNOTSUPP, "Fdb get operation not supported by device")
	case !ok:
		return false, nlattr.Errf(unix.ENOENT, "Fdb entry not found")
	}
	r.replyMessage(unix.RTM_NEWNEIGH, 0, body)
	return false, nil
}

// fdbKey is what a get asks for.
type fdbKey struct {
	mac    uapi.MAC
	vid    uint16
	vni    uint32
	hasVNI bool
}

// parseFDBGet is valid_fdb_get_strict.
func parseFDBGet(ndm uapi.Ndmsg, as nlattr.Attrs, leftover int) (q fdbKey, err error) {
	if ndm.Pad1 != 0 || ndm.Pad2 != 0 || ndm.State != 0 || ndm.Type != 0 {
		return q, nlattr.Errf(unix.EINVAL, "Invalid values in header for fdb get request")
	}
	if ndm.Flags&^(uapi.NTFMaster|uapi.NTFSelf) != 0 {
		return q, nlattr.Errf(unix.EINVAL, "Invalid flags in header for fdb get request")
	}
	if err := fdbGetPolicy.Validate(as, leftover, nlattr.DeprecatedStrict); err != nil {
		return q, err
	}
	hasMAC := false
	for t := uint16(1); t <= uapi.NDANdmFlagsMask; t++ {
		a, ok := as.Get(t)
		if !ok {
			continue
		}
		switch t {
		case uapi.NDAMaster:
		case uapi.NDALLAddr:
			if len(a.Data) != 6 {
				return q, nlattr.Errf(unix.EINVAL, "Invalid address in fdb get request")
			}
			q.mac, hasMAC = uapi.MACFrom(a.Data), true
		case uapi.NDAVLAN:
			if q.vid, err = parseVID(as); err != nil {
				return q, err
			}
		case uapi.NDAVNI:
			q.vni, q.hasVNI = a.U32(), true
		default:
			return q, nlattr.Errf(unix.EINVAL, "Unsupported attribute in fdb get request")
		}
	}
	if !hasMAC {
		return q, nlattr.Errf(unix.EINVAL, "Missing lookup address for fdb get request")
	}
	return q, nil
}

// ownEntry looks a key up in the device's own table; able tells whether it has
// one that can be asked.
func (d *device) ownEntry(q fdbKey) (body []byte, ok, able bool) {
	switch {
	case d.br != nil:
		body, ok = d.br.FDBGet(q.mac, q.vid)
	case d.vx != nil && !d.vx.Config().GPE:
		body, ok = d.vx.FDBGet(q.mac, q.vni, q.hasVNI)
	default:
		return nil, false, false
	}
	return body, ok, true
}

// byIndex returns the devices by ifindex.
func (ns *Namespace) byIndex() []*device {
	var out []*device
	for _, d := range ns.devs {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *device) int { return a.ifindex - b.ifindex })
	return out
}
