package vxlan

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

const testIfindex = 7

// recorder is a notify.Publisher that keeps what it gets.
type recorder struct {
	mu   sync.Mutex
	list []notify.Change
	deaf bool
}

func (r *recorder) Wanted(uint32) bool { return !r.deaf }

func (r *recorder) Publish(c notify.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Body = append([]byte(nil), c.Body...)
	r.list = append(r.list, c)
}

func (r *recorder) take() []notify.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list
	r.list = nil
	return l
}

// nexthops is a Resolver over a map.
type nexthops map[uint32]Nexthop

func (n nexthops) Nexthop(id uint32) (Nexthop, bool) {
	h, ok := n[id]
	return h, ok
}

// hooks records what devices change of themselves.
type hooks struct {
	mtu  int
	busy int // the link that CheckLower refuses
}

func (h *hooks) SetMTU(_ *Device, mtu int) { h.mtu = mtu }

func (h *hooks) CheckLower(_ *Device, ifindex int) error {
	if ifindex == h.busy {
		return nlattr.Errno(unix.EBUSY)
	}
	return nil
}

// world is a namespace of fakes.
type world struct {
	t       testing.TB
	clock   *fake.Clock
	domain  *netdev.Domain
	sockets *fake.Sockets
	events  *recorder
	hooks   *hooks
	host    *fake.Output
	lower   map[int]Lower
	nh      nexthops
	reg     *Registry
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, clock: &fake.Clock{}, events: &recorder{}, hooks: &hooks{}, nh: nexthops{},
		lower: map[int]Lower{3: {MTU: 1500}, 4: {MTU: 9000}, 5: {MTU: 1500, NoIPv6: true}},
	}
	w.clock.Advance(1e12)
	w.domain = netdev.NewDomain(w.clock)
	w.sockets = fake.NewSockets(w.domain)
	w.host = fake.NewOutput(w.domain)
	w.reg = NewRegistry(Env{
		Clock: w.clock, Notify: w.events, Domain: w.domain, Sockets: w.sockets, Hooks: w.hooks, Nexthops: w.nh,
		Lower: func(i int) (Lower, bool) { l, ok := w.lower[i]; return l, ok },
	})
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	for len(w.reg.Devices()) > 0 {
		w.reg.Devices()[0].Close()
	}
	w.domain.Wait()
}

// attr builders, concatenated by join.
func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func u8(t uint16, v uint8) []byte          { return nlattr.AppendU8(nil, t, v) }
func u16(t, v uint16) []byte               { return nlattr.AppendU16(nil, t, v) }
func be16(t, v uint16) []byte              { return nlattr.AppendBE16(nil, t, v) }
func u32(t uint16, v uint32) []byte        { return nlattr.AppendU32(nil, t, v) }
func raw(t uint16, v ...byte) []byte       { return nlattr.Append(nil, t, v) }
func ip(t uint16, s string) []byte         { return nlattr.Append(nil, t, netip.MustParseAddr(s).AsSlice()) }
func lladdrAttr(m uapi.MAC) []byte         { return nlattr.Append(nil, uapi.NDALLAddr, m.Append(nil)) }
func nested(t uint16, b []byte) []byte     { return nlattr.Append(nil, t|nlattr.FlagNested, b) }
func parse(b []byte, off int) nlattr.Attrs { as, _ := nlattr.Parse(b, off); return as }

// link messages: IFLA_INFO_DATA is data, other is what comes beside.
func linkMessage(index int, data []byte, other ...[]byte) []byte {
	info := nested(unix.IFLA_LINKINFO, join(nlattr.AppendString(nil, unix.IFLA_INFO_KIND, "vxlan"), data))
	return join(uapi.Ifinfomsg{Index: int32(index)}.Append(nil), join(other...), info)
}

func infoData(parts ...[]byte) []byte { return nested(unix.IFLA_INFO_DATA, join(parts...)) }

// splitLink takes a link message's body apart as rtnetlink does.
func splitLink(body []byte) (data nlattr.Attrs, has bool, outer nlattr.Attrs) {
	outer = parse(body[uapi.IfinfomsgLen:], 16+uapi.IfinfomsgLen)
	info, _ := outer.Get(unix.IFLA_LINKINFO)
	d, has := info.Nest().Get(unix.IFLA_INFO_DATA)
	return d.Nest(), has, outer
}

// create makes a device as RTM_NEWLINK does.
func (w *world) create(index int, body []byte) (*Device, error) {
	data, has, outer := splitLink(body)
	c, err := ParseConfig(data, has, outer, nil)
	if err != nil {
		return nil, err
	}
	if err := w.reg.Check(c); err != nil {
		return nil, err
	}
	mac := uapi.MAC(0x02000000fe00 + uapi.MAC(index))
	if a, ok := outer.Get(unix.IFLA_ADDRESS); ok {
		mac = uapi.MACFrom(a.Data)
	}
	link := netdev.LinkState{Name: fmt.Sprintf("vx%d", index), Ifindex: index, MAC: mac, MTU: w.reg.InitialMTU(c)}
	w.hooks.mtu = 0
	d, err := w.reg.New(link, c, w.host.Egress())
	if err != nil {
		return nil, err
	}
	if err := d.Announce(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// must makes a device of attributes of IFLA_INFO_DATA.
func (w *world) must(parts ...[]byte) *Device {
	w.t.Helper()
	d, err := w.create(testIfindex+len(w.reg.Devices()), linkMessage(0, infoData(parts...)))
	if err != nil {
		w.t.Fatalf("create: %v", err)
	}
	return d
}

func (w *world) exists(i int) bool { _, ok := w.lower[i]; return ok }

func change(d *Device, body []byte) error {
	data, has, outer := splitLink(body)
	return d.Change(data, has, outer)
}

// neighMessage is the body of a neighbour message.
func neighMessage(index int, state uint16, flags uint8, parts ...[]byte) []byte {
	return join(uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(index), State: state, Flags: flags}.Append(nil), join(parts...))
}

func splitNeigh(body []byte) (uapi.Ndmsg, nlattr.Attrs, int) {
	as, left := nlattr.Parse(body[uapi.NdmsgLen:], 16+uapi.NdmsgLen)
	return uapi.ParseNdmsg(body), as, left
}

func (w *world) add(d *Device, nl uint16, body []byte) error {
	ndm, as, _ := splitNeigh(body)
	return d.FDBAdd(ndm, nl, as, w.exists)
}

func (w *world) del(d *Device, body []byte) error {
	ndm, as, _ := splitNeigh(body)
	return d.FDBDel(ndm, as, w.exists)
}

func flushFDB(d *Device, body []byte) error {
	ndm, as, left := splitNeigh(body)
	return d.FDBFlush(ndm, as, left)
}

// row renders the body of a neighbour message.
func showRow(body []byte) string {
	ndm, as, _ := splitNeigh(body)
	s := ""
	for _, a := range as {
		switch a.Type {
		case uapi.NDALLAddr:
			s += uapi.MACFrom(a.Data).String()
		case uapi.NDADst:
			ip, _ := netip.AddrFromSlice(a.Data)
			s += " dst " + ip.String()
		case uapi.NDAPort:
			s += fmt.Sprintf(" port %d", a.BE16())
		case uapi.NDAVNI:
			s += fmt.Sprintf(" vni %d", a.U32())
		case uapi.NDASrcVNI:
			s += fmt.Sprintf(" src_vni %d", a.U32())
		case uapi.NDAIfindex:
			s += fmt.Sprintf(" via %d", a.U32())
		case uapi.NDANhID:
			s += fmt.Sprintf(" nhid %d", a.U32())
		case uapi.NDALinkNetnsID:
			s += fmt.Sprintf("netnsid %d ", a.U32())
		case uapi.NDACacheInfo:
		default:
			s += fmt.Sprintf(" attr%d:%x", a.Type, a.Data)
		}
	}
	return fmt.Sprintf("%s %02x/%02x", s, ndm.State, ndm.Flags)
}

func showEvents(l []notify.Change) (out []string) {
	for _, c := range l {
		switch c.Type {
		case unix.RTM_NEWNEIGH:
			out = append(out, "new "+showRow(c.Body))
		case unix.RTM_DELNEIGH:
			out = append(out, "del "+showRow(c.Body))
		case unix.RTM_GETNEIGH:
			out = append(out, "miss "+showRow(c.Body))
		default:
			out = append(out, fmt.Sprintf("%d %x", c.Type, c.Body))
		}
	}
	return out
}

func dump(d *Device) (out []string) {
	d.FDBDump(func(b []byte) { out = append(out, showRow(b)) })
	return out
}

// showErr renders an error as a client sees it.
func showErr(err error) string {
	if err == nil {
		return "ok"
	}
	e := nlattr.AsError(err)
	s := unix.ErrnoName(e.Errno)
	if e.Msg != "" {
		s += fmt.Sprintf(" %q", e.Msg)
	}
	return s
}

// frame builds an Ethernet frame.
func frame(dst, src uapi.MAC, proto uint16, payload ...byte) []byte {
	b := dst.Append(nil)
	b = src.Append(b)
	b = binary.BigEndian.AppendUint16(b, proto)
	return append(b, payload...)
}
