package rtnl

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// fdbFilter restricts an AF_BRIDGE neighbour dump; 0 is no restriction.
type fdbFilter struct {
	bridge, dev int
}

// fdbDumpFilter reads the filters of a dump request whose form the kernel has
// found good (valid_fdb_dump_strict, valid_fdb_dump_legacy).
func (r *request) fdbDumpFilter() (f fdbFilter) {
	if r.s.strict.Load() {
		f.dev = int(uapi.ParseNdmsg(r.body()).Ifindex)
		as, _ := r.attrs(uapi.NdmsgLen)
		if a, ok := as.Get(uapi.NDAIfindex); ok {
			f.dev = int(a.U32())
		}
		if a, ok := as.Get(uapi.NDAMaster); ok {
			f.bridge = int(a.U32())
		}
		return f
	}
	// Old clients send a ndmsg, or one with an attribute's room behind it,
	// where a ifinfomsg is expected: that is no filter.
	n := len(r.body())
	if n == uapi.NdmsgLen || n == uapi.NdmsgLen+8 || n < uapi.IfinfomsgLen {
		return f
	}
	f.dev = int(uapi.ParseIfinfomsg(r.body()).Index)
	as, _ := r.attrs(uapi.IfinfomsgLen)
	if a, ok := as.Get(unix.IFLA_MASTER); ok && len(a.Data) == 4 {
		f.bridge = int(a.U32())
	}
	return f
}

// fdbDump handles a RTM_GETNEIGH dump of AF_BRIDGE (rtnl_fdb_dump): device by
// device in the order of ifindex, for a port its bridge's entries, then the
// device's own. The kernel judges the request and knows the address lists of its
// devices.
func (r *request) fdbDump() (bool, error) {
	refusal, done, err := r.refusal()
	if err != nil || refusal != nil {
		return r.sent(refusal, err)
	}
	f := r.fdbDumpFilter()
	kernel, order, err := r.kernelFDB(f)
	if err != nil {
		return false, err
	}
	ns := r.ns
	for _, d := range ns.devs {
		if kernel[d.ifindex] == nil {
			order = append(order, d.ifindex)
		}
	}
	slices.Sort(order)
	out := &dumper{r: r}
	emit := func(body []byte) { out.row(unix.RTM_NEWNEIGH, body) }
	for _, ifindex := range order {
		d := ns.devs[ifindex]
		if !f.includes(ifindex, d) {
			continue
		}
		if d != nil && d.port != nil {
			d.master.br.FDBDump(d.port, emit)
		}
		if d == nil || d.vx == nil {
			for _, body := range kernel[ifindex] {
				emit(body)
			}
		}
		switch {
		case d != nil && d.br != nil:
			d.br.FDBDump(nil, emit)
		case d != nil && d.vx != nil:
			d.vx.FDBDump(emit)
		}
	}
	out.done(done)
	return true, nil
}

// includes tells whether a device's rows belong in the dump.
func (f fdbFilter) includes(ifindex int, d *device) bool {
	if f.dev != 0 && ifindex != f.dev {
		return false
	}
	if f.bridge == 0 {
		return true
	}
	if d == nil {
		// Whether it is a port of a bridge of the kernel's is in its rows,
		// which were asked for with this filter.
		return true
	}
	return d.br != nil && ifindex == f.bridge || d.master != nil && d.master.ifindex == f.bridge
}

// kernelFDB asks the kernel for the rows of its own devices and of our TAPs. With
// a bridge filter that names one of ours, the kernel cannot know the ports.
func (r *request) kernelFDB(f fdbFilter) (rows map[int][][]byte, order []int, err error) {
	b := beginMessage(nil, unix.RTM_GETNEIGH, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, 1, 0)
	b = uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(f.dev)}.Append(b)
	ours := r.ns.devs[f.bridge]
	if f.bridge != 0 && ours == nil {
		b = nlattr.AppendU32(b, uapi.NDAMaster, uint32(f.bridge))
	}
	rows = map[int][][]byte{}
	err = roundTrip(r.ns.ctl, endMessage(b, 0), func(m *message) {
		if m.typ != unix.RTM_NEWNEIGH || len(m.body()) < uapi.NdmsgLen {
			return
		}
		ifindex := int(uapi.ParseNdmsg(m.body()).Ifindex)
		if ours != nil && r.ns.devs[ifindex] == nil {
			return
		}
		if rows[ifindex] == nil {
			order = append(order, ifindex)
		}
		rows[ifindex] = append(rows[ifindex], append([]byte(nil), m.body()...))
	})
	return rows, order, err
}
