package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// rig is a bridge among fakes. Events of all kinds go to one log, one line each.
type rig struct {
	t     testing.TB
	clock *fake.Clock
	dom   *netdev.Domain
	b     *Bridge
	host  *fake.Output
	outs  map[*Port]*fake.Output
	rtnl  sync.Mutex
	logMu sync.Mutex
	log   []string
	deaf  bool // nobody subscribed
	thr   *netdev.Thread
	other map[int]*Port // ports of other bridges
}

const (
	bridgeIndex = 10
	bridgeMAC   = uapi.MAC(0x0200000000b0)
)

func portMAC(n int) uapi.MAC { return 0x020000001000 | uapi.MAC(n) }

func newBare(t testing.TB) *rig {
	r := &rig{t: t, clock: &fake.Clock{}, outs: map[*Port]*fake.Output{}, other: map[int]*Port{}}
	r.clock.Advance(time.Hour)
	r.dom = netdev.NewDomain(r.clock)
	r.host = fake.NewOutput(r.dom)
	r.thr = r.dom.NewThread()
	return r
}

// newRig makes a bridge that is up, of a MAC that the user chose, with n ports that
// forward. The log is empty.
func newRig(t testing.TB, n int) *rig {
	r := newBare(t)
	r.b = r.newBridge(bridgeIndex, bridgeMAC, true)
	// Without this every port is reported once more 15 s after it came up.
	if err := r.b.SetInfo(attrs(a32(unix.IFLA_BR_FORWARD_DELAY, 0))); err != nil {
		t.Fatal(err)
	}
	r.up(true)
	for i := range n {
		r.add(i + 1)
	}
	r.events()
	return r
}

func (r *rig) newBridge(ifindex int, mac uapi.MAC, user bool) *Bridge {
	env := Env{Clock: r.clock, Notify: r, Domain: r.dom, Hooks: r, Lookup: r.lookup}
	return New(env, netdev.LinkState{Name: fmt.Sprintf("br%d", ifindex-bridgeIndex), Ifindex: ifindex, MAC: mac, MTU: 1500}, r.host.Egress(), user)
}

// lookup knows device 99 that is no bridge's, and what is in other.
func (r *rig) lookup(ifindex int) (bool, *Port, *Bridge) {
	if p, ok := r.other[ifindex]; ok {
		return true, p, nil
	}
	return ifindex == 99, nil, nil
}

func (r *rig) up(on bool) {
	l := r.b.Link()
	l.Up = on
	r.b.LinkChanged(l)
}

func portLink(n int) netdev.LinkState {
	return netdev.LinkState{Name: fmt.Sprintf("p%d", n), Ifindex: n, MAC: portMAC(n), MTU: 1500, Up: true, Carrier: true, SpeedMbps: 10000}
}

func (r *rig) add(n int) *Port { return r.addLink(portLink(n)) }

func (r *rig) addLink(l netdev.LinkState) *Port {
	r.t.Helper()
	out := fake.NewOutput(r.dom)
	p, err := r.b.AddPort(l, out.Egress())
	if err != nil {
		r.t.Fatal(err)
	}
	r.outs[p] = out
	return p
}

func (r *rig) release(p *Port) {
	r.b.DelPort(p)
	r.note("released " + p.link.Name)
	r.b.Released(p, false)
}

// change alters a port's device.
func change(p *Port, f func(*netdev.LinkState)) {
	l := p.Link()
	f(&l)
	p.LinkChanged(l)
}

func (r *rig) port(n int) *Port { return r.b.Port(n) }

func (r *rig) note(s string) {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	r.log = append(r.log, s)
}

// events returns the log and clears it.
func (r *rig) events() []string {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	l := r.log
	r.log = nil
	return l
}

func (r *rig) want(lines ...string) {
	r.t.Helper()
	if got := r.events(); !slices.Equal(got, lines) {
		r.t.Errorf("events:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

func (r *rig) Lock()   { r.rtnl.Lock() }
func (r *rig) Unlock() { r.rtnl.Unlock() }

func (r *rig) PortChanged(p *Port, gone bool) {
	if gone {
		r.note("f7 del " + p.link.Name)
		return
	}
	r.note(fmt.Sprintf("f7 %s state %d", p.link.Name, p.state))
}

func (r *rig) BridgeChanged(b *Bridge, features bool) {
	if features {
		r.note("f0 " + b.link.Name + " features")
		return
	}
	r.note("f0 " + b.link.Name)
}

func (r *rig) SetAddress(b *Bridge, mac uapi.MAC) { r.note("address " + mac.String()) }
func (r *rig) SetMTU(b *Bridge, mtu int)          { r.note(fmt.Sprintf("mtu %d", mtu)) }
func (r *rig) SetCarrier(b *Bridge, on bool)      { r.note(fmt.Sprintf("carrier %v", on)) }

func (r *rig) Wanted(uint32) bool { return !r.deaf }

func (r *rig) Publish(c notify.Change) {
	switch c.Type {
	case unix.RTM_NEWNEIGH:
		r.note(describeRow(c.Body))
	case unix.RTM_DELNEIGH:
		r.note("del " + describeRow(c.Body))
	case unix.RTM_NEWMDB:
		r.note(describeMDB(c.Body))
	case unix.RTM_DELMDB:
		r.note("del " + describeMDB(c.Body))
	}
}

// parsedRow is a FDB message in plain form.
type parsedRow struct {
	ndm           uapi.Ndmsg
	mac           uapi.MAC
	vid           uint16
	master, ext   uint32
	used, updated uint32
	activity      int // -1 for none
}

func parseRow(body []byte) (p parsedRow) {
	p.ndm = uapi.ParseNdmsg(body)
	as, left := nlattr.Parse(body[uapi.NdmsgLen:], 0)
	if left != 0 {
		panic("trailing bytes")
	}
	p.activity = -1
	for _, a := range as {
		switch a.Type {
		case uapi.NDALLAddr:
			p.mac = uapi.MACFrom(a.Data)
		case uapi.NDAMaster:
			p.master = a.U32()
		case uapi.NDAFlagsExt:
			p.ext = a.U32()
		case uapi.NDAVLAN:
			p.vid = a.U16()
		case uapi.NDACacheInfo:
			p.used, p.updated = binary.NativeEndian.Uint32(a.Data[4:]), binary.NativeEndian.Uint32(a.Data[8:])
		case uapi.NDAFDBExtAttrs:
			v, _ := a.Nest().Get(uapi.NFEAActivityNotify)
			p.activity = int(v.U8())
		default:
			panic(fmt.Sprint("attribute ", a.Type))
		}
	}
	return p
}

// describeRow is the row as "MAC devN STATE [flags]".
func describeRow(body []byte) string {
	p := parseRow(body)
	s := fmt.Sprintf("%v dev%d %02x", p.mac, p.ndm.Ifindex, p.ndm.State)
	if p.ndm.Flags != 0 {
		s += fmt.Sprintf(" flags %02x", p.ndm.Flags)
	}
	if p.ext != 0 {
		s += " locked"
	}
	if p.activity >= 0 {
		s += fmt.Sprint(" activity ", p.activity)
	}
	return s
}

// rows are the table's rows as dumps show them, device after device in the order of
// ifindex.
func (r *rig) rows() (out []string) {
	emit := func(b []byte) { out = append(out, describeRow(b)) }
	ports := r.b.Ports()
	slices.SortFunc(ports, func(a, b *Port) int { return a.ifindex - b.ifindex })
	for _, p := range ports {
		r.b.FDBDump(p, emit)
	}
	r.b.FDBDump(nil, emit)
	return out
}

func (r *rig) wantRows(lines ...string) {
	r.t.Helper()
	if got := r.rows(); !slices.Equal(got, lines) {
		r.t.Errorf("rows:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

// row returns the row of a MAC, as describeRow, "" for none.
func (r *rig) row(mac uapi.MAC) string {
	body, ok := r.b.FDBGet(mac, 0)
	if !ok {
		return ""
	}
	return describeRow(body)
}

// send has frames come in on a port, nil for the host.
func (r *rig) send(p *Port, frames ...[]byte) {
	r.thr.Begin()
	defer r.thr.End()
	fs := make([]netdev.Frame, len(frames))
	for i, f := range frames {
		fs[i] = *netdev.NewFrame(f)
	}
	if p == nil {
		r.b.HostInput(r.thr, fs)
	} else {
		p.Input(r.thr, fs)
	}
}

// got tells who has received frames since the last call: "p2 host".
func (r *rig) got() string {
	var who []string
	for p, o := range r.outs {
		for range o.Take() {
			who = append(who, p.link.Name)
		}
	}
	slices.Sort(who)
	for range r.host.Take() {
		who = append(who, "host")
	}
	return strings.Join(who, " ")
}

func ether(dst, src uapi.MAC, rest ...byte) []byte {
	f := src.Append(dst.Append(nil))
	f = append(f, 0x88, 0xb5)
	f = append(f, rest...)
	for len(f) < 60 {
		f = append(f, 0)
	}
	return f
}

const broadcast = uapi.MAC(1<<48 - 1)

func wantErr(t testing.TB, what string, err error, errno syscall.Errno, msg string) {
	t.Helper()
	if errno == 0 {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	var e *nlattr.Error
	if !errors.As(err, &e) || e.Errno != errno || e.Msg != msg {
		t.Errorf("%s: got %v, want %v %q", what, err, errno, msg)
	}
}

// attrs builds and parses attributes.
func attrs(parts ...[]byte) nlattr.Attrs {
	as, _ := nlattr.Parse(slices.Concat(parts...), 0)
	return as
}

func a8(t uint16, v uint8) []byte       { return nlattr.AppendU8(nil, t, v) }
func a16(t uint16, v uint16) []byte     { return nlattr.AppendU16(nil, t, v) }
func a32(t uint16, v uint32) []byte     { return nlattr.AppendU32(nil, t, v) }
func a64(t uint16, v uint64) []byte     { return nlattr.AppendU64(nil, t, v) }
func abytes(t uint16, b ...byte) []byte { return nlattr.Append(nil, t, b) }
func nest(t uint16, p ...[]byte) []byte {
	return nlattr.Append(nil, t|nlattr.FlagNested, slices.Concat(p...))
}
func plain(t uint16, p ...[]byte) []byte { return nlattr.Append(nil, t, slices.Concat(p...)) }

func describeMDB(body []byte) string {
	as, _ := nlattr.Parse(body[8:], 0)
	var out []string
	for _, a := range as {
		for _, e := range a.Nest() {
			if a.Type == uapi.MDBARouter {
				out = append(out, fmt.Sprintf("router dev%d", e.U32()))
				continue
			}
			for _, i := range e.Nest() {
				out = append(out, describeGroup(i.Data))
			}
		}
	}
	return strings.Join(out, "; ")
}

func describeGroup(data []byte) string {
	e := parseMDBEntry(data)
	s := fmt.Sprintf("mdb %s dev%d state %d flags %d", ipText(e.proto, e.addr[:]), e.ifindex, e.state, e.flags)
	if e.vid != 0 {
		s += fmt.Sprint(" vid ", e.vid)
	}
	as, _ := nlattr.Parse(data[mdbEntryLen:], 0)
	for _, a := range as {
		switch a.Type {
		case uapi.MDBAMDBEAttrTimer:
			if a.U32() != 0 {
				s += fmt.Sprint(" timer ", a.U32())
			}
		case uapi.MDBAMDBEAttrSource:
			s += " src " + ipText(e.proto, a.Data)
		case uapi.MDBAMDBEAttrRTProt:
			s += fmt.Sprint(" proto ", a.U8())
		case uapi.MDBAMDBEAttrSrcList:
			s += " list"
			for _, x := range a.Nest() {
				addr, _ := x.Nest().Get(mdbaSrcAddress)
				s += " " + ipText(e.proto, addr.Data)
			}
		case uapi.MDBAMDBEAttrGroupMode:
			s += fmt.Sprint(" mode ", a.U8())
		}
	}
	return s
}

func ipText(proto uint16, b []byte) string {
	switch proto {
	case groupIPv4:
		return fmt.Sprintf("%d.%d.%d.%d", b[0], b[1], b[2], b[3])
	case groupIPv6:
		return fmt.Sprintf("%x", b)
	}
	return uapi.MACFrom(b).String()
}
