package rtnl

import (
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// linkFilter is what a link dump is restricted to where our view and the
// kernel's differ (rtnl_dump_ifinfo).
type linkFilter struct {
	master    uint32
	hasMaster bool
	kind      string
}

// getLink handles RTM_GETLINK outside of AF_BRIDGE: the kernel answers, and what
// it says of our devices is rewritten.
func (r *request) getLink() (bool, error) {
	f, stripped := r.linkFilter()
	if stripped == nil {
		return r.passAs(r.raw, r.editLink(linkFilter{}))
	}
	// The kernel would filter by what it takes our devices for. It still
	// judges the request as it came.
	if refusal, _, err := r.refusal(); err != nil || refusal != nil {
		return r.sent(refusal, err)
	}
	return r.passAs(stripped, r.editLink(f))
}

// linkFilter reads the filters of a dump request and returns a request without
// them, or nil if it has none that concern us.
func (r *request) linkFilter() (f linkFilter, stripped []byte) {
	if !r.dump() || len(r.body()) < uapi.IfinfomsgLen || r.body()[0] == unix.AF_INET6 {
		// AF_INET6 has a dump of its own, which does not filter.
		return f, nil
	}
	as, _ := r.attrs(uapi.IfinfomsgLen)
	out := append([]byte(nil), r.raw[:headerLen+uapi.IfinfomsgLen]...)
	strip := false
	for _, a := range as {
		switch {
		case a.Type == unix.IFLA_MASTER && len(a.Data) >= 4:
			f.master, f.hasMaster, strip = a.U32(), a.U32() != 0, true
			continue
		case a.Type == unix.IFLA_LINKINFO:
			if k, ok := a.Nest().Get(unix.IFLA_INFO_KIND); ok {
				f.kind = k.Text()
			}
			if f.kind == "bridge" || f.kind == "vxlan" || f.kind == "tun" {
				strip = true
				continue
			}
			f.kind = ""
		}
		out = nlattr.Append(out, a.Type, a.Data)
	}
	if !strip {
		return linkFilter{}, nil
	}
	return f, endMessage(out, 0)
}

// editLink rewrites link messages and drops those that do not pass f.
func (r *request) editLink(f linkFilter) func(msg []byte) []byte {
	return func(msg []byte) []byte {
		m, _, ok := split(msg)
		if !ok || m.typ != unix.RTM_NEWLINK {
			return msg
		}
		out := r.ns.rewriteLink(&m)
		if f == (linkFilter{}) {
			return out
		}
		m.raw = out
		if !f.passes(&m) {
			return nil
		}
		out = append([]byte(nil), out...)
		ne.PutUint16(out[6:], ne.Uint16(out[6:])|unix.NLM_F_DUMP_FILTERED)
		return out
	}
}

// passes mirrors link_master_filtered and link_kind_filtered.
func (f linkFilter) passes(m *message) bool {
	v, ok := viewLink(m)
	if !ok {
		return false
	}
	if f.hasMaster {
		a, has := v.attrs.Get(unix.IFLA_MASTER)
		if f.master == ^uint32(0) {
			if has {
				return false
			}
		} else if !has || a.U32() != f.master {
			return false
		}
	}
	if f.kind == "" {
		return true
	}
	info, _ := v.attrs.Get(unix.IFLA_LINKINFO)
	k, _ := info.Nest().Get(unix.IFLA_INFO_KIND)
	return k.Text() == f.kind
}

// refusal sends the request to the kernel as it is and returns the kernel's
// error answer, or else the message that ends its dump.
func (r *request) refusal() (refused []byte, done *message, err error) {
	out, err := r.ask(r.raw, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range out {
		for d := b; ; {
			m, rest, ok := split(d)
			if !ok {
				break
			}
			switch {
			case m.typ == unix.NLMSG_ERROR && parseAck(&m) != nil,
				m.typ == unix.NLMSG_DONE && len(m.body()) >= 4 && ne.Uint32(m.body()) != 0:
				return m.raw, nil, nil
			case m.typ == unix.NLMSG_DONE:
				done = &m
			}
			d = rest
		}
	}
	return nil, done, nil
}

// sent replies with the kernel's refusal.
func (r *request) sent(refusal []byte, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	r.s.reply(refusal)
	return true, nil
}

// merge answers a dump with the kernel's rows and then ours, or with the kernel's
// refusal. keep selects among the kernel's rows; nil keeps all.
func (r *request) merge(keep func(m *message) bool, ours func(d *dumper)) (bool, error) {
	out, err := r.ask(r.raw, nil)
	if err != nil {
		return false, err
	}
	d := &dumper{r: r}
	var done *message
	for _, b := range out {
		for {
			m, rest, ok := split(b)
			if !ok {
				break
			}
			b = rest
			switch {
			case m.typ == unix.NLMSG_ERROR, m.typ == unix.NLMSG_DONE && len(m.body()) >= 4 && ne.Uint32(m.body()) != 0:
				return r.sent(m.raw, nil)
			case m.typ == unix.NLMSG_DONE:
				done = &m
			case keep == nil || keep(&m):
				d.row(m.typ, m.body())
			}
		}
	}
	ours(d)
	d.done(done)
	return true, nil
}
