package vxlan

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// plainBody clears the times of a neighbour message.
func plainBody(b []byte) string {
	b = append([]byte(nil), b...)
	for _, a := range parse(b[uapi.NdmsgLen:], uapi.NdmsgLen) {
		if a.Type == uapi.NDACacheInfo {
			clear(b[a.Off+4 : a.Off+20])
		}
	}
	return hex.EncodeToString(b)
}

func plainEvents(l []notify.Change) (out []string) {
	for _, c := range l {
		switch {
		case c.Type == unix.RTM_NEWTUNNEL || c.Type == unix.RTM_DELTUNNEL:
			out = append(out, fmt.Sprintf("%d %x", c.Type, c.Body))
		case uapi.ParseNdmsg(c.Body).Family == unix.AF_BRIDGE:
			out = append(out, fmt.Sprintf("%d %s", c.Type, plainBody(c.Body)))
		}
	}
	return out
}

// pair is a device here and its twin in the kernel.
type pair struct {
	k     *kernel
	w     *world
	d     *Device
	index int
}

// newPair creates both from the same message, and fails unless both work.
func newPair(t *testing.T, k *kernel, name string, data []byte, more ...[]byte) *pair {
	t.Helper()
	w := newWorld(t)
	w.lower = map[int]Lower{k.lower["u0"]: {MTU: 1500}, k.lower["u2"]: {MTU: 9000}}
	body := linkMessage(0, data, append(more, nlattr.AppendString(nil, unix.IFLA_IFNAME, name))...)
	k.events()
	if err := k.ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body); err != nil {
		t.Fatal(err)
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.create(i.Index, body)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{k: k, w: w, d: d, index: i.Index}
	p.compare(t, "create", nil, nil)
	return p
}

func (p *pair) close() {
	p.k.run(fmt.Sprintf("ip link del dev $(ip -o link | sed -n 's/^%d: \\([^:@]*\\).*/\\1/p')", p.index))
	p.k.events()
}

// compare checks that an operation ended alike and that the events since are the
// same.
func (p *pair) compare(t *testing.T, what string, want, got error) {
	t.Helper()
	if w, g := fullErr(want), fullErr(got); w != g {
		t.Errorf("%s\nkernel: %s\n  here: %s", what, w, g)
	}
	w, g := plainEvents(p.k.events()), plainEvents(p.w.events.take())
	if ws, gs := strings.Join(w, "\n        "), strings.Join(g, "\n        "); ws != gs {
		t.Errorf("%s: events\nkernel: %s\n  here: %s", what, ws, gs)
	}
}

func fullErr(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%s @%d", showErr(err), nlattr.AsError(err).Offset)
}

func (p *pair) add(t *testing.T, nl uint16, body []byte) {
	t.Helper()
	want := p.k.ask(unix.RTM_NEWNEIGH, nl, body)
	got := p.w.add(p.d, nl, body)
	p.compare(t, fmt.Sprintf("add %#x %s", nl, showRow(body)), want, got)
}

func (p *pair) del(t *testing.T, body []byte) {
	t.Helper()
	want := p.k.ask(unix.RTM_DELNEIGH, 0, body)
	got := p.w.del(p.d, body)
	p.compare(t, "del "+showRow(body), want, got)
}

func (p *pair) flush(t *testing.T, body []byte) {
	t.Helper()
	want := p.k.ask(unix.RTM_DELNEIGH, uapi.NLMBulk, body)
	got := flushFDB(p.d, body)
	p.compare(t, "flush "+hex.EncodeToString(body), want, got)
}

func (p *pair) change(t *testing.T, data []byte, more ...[]byte) {
	t.Helper()
	body := linkMessage(p.index, data, more...)
	want := p.k.ask(unix.RTM_NEWLINK, 0, body)
	got := change(p.d, body)
	p.compare(t, "change "+hex.EncodeToString(body), want, got)
	p.info(t)
}

// info compares IFLA_INFO_DATA.
func (p *pair) info(t *testing.T) {
	t.Helper()
	for _, b := range p.k.dump(unix.RTM_GETLINK, uapi.Ifinfomsg{}.Append(nil)) {
		if uapi.ParseIfinfomsg(b).Index != int32(p.index) {
			continue
		}
		li, _ := parse(b[uapi.IfinfomsgLen:], 0).Get(unix.IFLA_LINKINFO)
		data, _ := li.Nest().Get(unix.IFLA_INFO_DATA)
		if got := p.d.AppendInfo(nil); !bytes.Equal(got, data.Data) {
			t.Errorf("info\nkernel: %x\n  here: %x", data.Data, got)
		}
	}
}

func (p *pair) rows(t *testing.T) {
	t.Helper()
	var want, got []string
	for _, b := range p.k.dump(unix.RTM_GETNEIGH, uapi.Ifinfomsg{Family: unix.AF_BRIDGE, Index: int32(p.index)}.Append(nil)) {
		if uapi.ParseNdmsg(b).Ifindex == int32(p.index) {
			want = append(want, plainBody(b))
		}
	}
	p.d.FDBDump(func(b []byte) { got = append(got, plainBody(b)) })
	if w, g := strings.Join(want, "\n        "), strings.Join(got, "\n        "); w != g {
		t.Errorf("dump\nkernel: %s\n  here: %s", w, g)
	}
}

// pick returns one of the choices.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomAttrs are attributes for an FDB request, mostly sane.
func (p *pair) randomAttrs(r *rand.Rand, v6, sane bool) []byte {
	b := lladdrAttr(pick[uapi.MAC](r, 0, 0x020000000001, 0x020000000002, 0x020000000003, 0xffffffffffff, 0x01005e000001))
	if r.IntN(10) > 0 {
		dst := pick(r, "192.0.2.1", "192.0.2.2", "192.0.2.3", "0.0.0.0")
		if v6 {
			dst = pick(r, "2001:db8::1", "2001:db8::2", "::")
		}
		if r.IntN(20) == 0 {
			dst = pick(r, "192.0.2.1", "2001:db8::1")
		}
		b = join(b, ip(uapi.NDADst, dst))
	} else if !sane {
		b = join(b, nlattr.Append(nil, uapi.NDADst, make([]byte, r.IntN(20))))
	}
	if r.IntN(4) == 0 {
		b = join(b, be16(uapi.NDAPort, pick[uint16](r, 0, 4789, 5000)))
	}
	if r.IntN(4) == 0 {
		b = join(b, u32(uapi.NDAVNI, pick[uint32](r, 0, 10, 11, 0x1234567)))
	}
	if r.IntN(4) == 0 {
		b = join(b, u32(uapi.NDASrcVNI, pick[uint32](r, 0, 10, 55)))
	}
	if r.IntN(6) == 0 {
		b = join(b, u32(uapi.NDAIfindex, pick(r, uint32(p.k.lower["u0"]), uint32(p.k.lower["u2"]), 0, 9999)))
	}
	if r.IntN(8) == 0 {
		b = join(b, u32(uapi.NDANhID, pick[uint32](r, 0, 1, 3, 10, 11, 20, 99)))
	}
	if !sane && r.IntN(4) == 0 {
		t := pick[uint16](r, uapi.NDAPort, uapi.NDAVNI, uapi.NDASrcVNI, uapi.NDAIfindex)
		b = join(b, nlattr.Append(nil, t, make([]byte, r.IntN(7))))
	}
	return b
}

func (p *pair) randomFlush(r *rand.Rand) []byte {
	var b []byte
	for _, a := range [][]byte{
		u32(uapi.NDASrcVNI, pick[uint32](r, 0, 10, 55)), u32(uapi.NDANhID, pick[uint32](r, 0, 10, 20)),
		u32(uapi.NDAVNI, pick[uint32](r, 0, 10, 11)), be16(uapi.NDAPort, pick[uint16](r, 0, 4789, 5000)),
		ip(uapi.NDADst, pick(r, "192.0.2.1", "192.0.2.2", "0.0.0.0", "::", "2001:db8::1")),
		u16(uapi.NDANdmStateMask, pick[uint16](r, 0, 0x80, 0xc0, 0x40)), u8(uapi.NDANdmFlagsMask, pick[uint8](r, 0, 0x10, 0x90)),
		u32(uapi.NDAIfindex, 1), nlattr.Append(nil, uint16(r.IntN(20)), make([]byte, r.IntN(18))),
	} {
		if r.IntN(9) == 0 {
			b = join(b, a)
		}
	}
	return neighMessage(p.index, pick[uint16](r, 0, 0, 0x80, 0x40, 2), uapi.NTFSelf|pick[uint8](r, 0, 0, 0x10, 0x80, 1, 0x40), b)
}

func (p *pair) addNexthops() {
	for _, c := range []string{"id 1 via 192.0.2.11 fdb", "id 2 via 2001:db8::2 fdb", "id 10 group 1 fdb", "id 11 group 2 fdb", "id 20 group 1 fdb"} {
		p.k.run("ip nexthop replace " + c)
	}
	p.w.nh[1] = Nexthop{FDB: true, IPv4: true}
	p.w.nh[2] = Nexthop{FDB: true}
	p.w.nh[10] = Nexthop{FDB: true, Group: true, IPv4: true}
	p.w.nh[11] = Nexthop{FDB: true, Group: true}
	p.w.nh[20] = Nexthop{FDB: true, Group: true, IPv4: true}
}

// TestKernelFDB sends random requests to both and compares answers, events,
// lookups and dumps.
func TestKernelFDB(t *testing.T) {
	k := newKernel(t)
	const vni, port = unix.IFLA_VXLAN_ID, unix.IFLA_VXLAN_PORT
	for _, c := range []struct {
		name string
		v6   bool
		data []byte
	}{
		{"plain", false, infoData(u32(vni, 10), be16(port, 4789))},
		{"remote", false, infoData(u32(vni, 10), be16(port, 4789), ip(unix.IFLA_VXLAN_GROUP, "192.0.2.2"), u32(unix.IFLA_VXLAN_LINK, uint32(k.lower["u0"])))},
		{"ipv6", true, infoData(u32(vni, 10), be16(port, 4789), ip(unix.IFLA_VXLAN_LOCAL6, "2001:db8::9"))},
		{"external", false, infoData(be16(port, 4789), u8(unix.IFLA_VXLAN_COLLECT_METADATA, 1))},
		{"limit", false, infoData(u32(vni, 10), be16(port, 4789), u32(unix.IFLA_VXLAN_LIMIT, 3), ip(unix.IFLA_VXLAN_GROUP, "192.0.2.2"))},
	} {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPair(t, k, "vx-"+c.name, c.data)
		p.addNexthops()
		for i := 0; i < 1500 && !t.Failed(); i++ {
			sane := r.IntN(5) > 0
			switch n := r.IntN(100); {
			case n < 65:
				state := pick[uint16](r, 0xc0, 0x80, 2, 0x42, 0x82)
				flags := uapi.NTFSelf | pick[uint8](r, 0, 0, 0, 0x10, 0x80, 1)
				if !sane {
					state, flags = pick[uint16](r, 0, 4, 0x40, 0xff, 2), flags|uint8(r.IntN(256))&^uapi.NTFMaster
				}
				nl := pick[uint16](r, 0x600, 0x600, 0xc00, 0xc00, 0x500, 0x500, uint16(r.IntN(16))<<8)
				p.add(t, nl, neighMessage(p.index, state, flags, p.randomAttrs(r, c.v6, sane)))
			case n < 90:
				p.del(t, neighMessage(p.index, 0, uapi.NTFSelf, p.randomAttrs(r, c.v6, sane)))
			case n < 95:
				p.flush(t, p.randomFlush(r))
			case n < 97:
				g := pick(r, "192.0.2.2", "192.0.2.3", "0.0.0.0")
				if !c.v6 {
					p.change(t, infoData(ip(unix.IFLA_VXLAN_GROUP, g), u32(unix.IFLA_VXLAN_LINK, pick(r, 0, uint32(k.lower["u0"]), uint32(k.lower["u2"])))))
				}
			default:
				p.rows(t)
			}
		}
		p.rows(t)
		p.info(t)
		p.close()
		if t.Failed() {
			t.Fatalf("%s, seed %d", c.name, seed)
		}
	}
}
