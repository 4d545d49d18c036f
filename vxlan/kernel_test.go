package vxlan

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// kernel is this machine's VXLAN driver in a namespace of the test's own.
type kernel struct {
	t     *testing.T
	fd    int
	ev    int
	seq   uint32
	lower map[string]int
}

// newKernel moves the calling goroutine's thread into a new network namespace.
// The comparison with the kernel is only made on request, since it needs root
// and the driver.
func newKernel(t *testing.T) *kernel {
	if os.Getenv("LINKSPAN_ASK_KERNEL") == "" {
		t.Skip("LINKSPAN_ASK_KERNEL is not set")
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("no new network namespace: ", err)
	}
	k := &kernel{t: t, fd: socketFor(t, 0), ev: socketFor(t, 1<<(unix.RTNLGRP_NEIGH-1)), lower: map[string]int{}}
	if err := unix.SetsockoptInt(k.ev, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_TUNNEL); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"ip link add u0 type veth peer name u1", "ip link add u2 mtu 9000 type veth peer name u3"} {
		k.run(c)
	}
	for _, n := range []string{"u0", "u2"} {
		i, err := net.InterfaceByName(n)
		if err != nil {
			t.Fatal(err)
		}
		k.lower[n] = i.Index
	}
	return k
}

func (k *kernel) run(cmd string) {
	k.t.Helper()
	if out, err := exec.Command("sh", "-c", cmd).CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v: %s", cmd, err, out)
	}
}

func socketFor(t *testing.T, groups uint32) int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		t.Fatal(err)
	}
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// ask sends a request and returns the acknowledgement as an error.
func (k *kernel) ask(typ, flags uint16, body []byte) error {
	k.send(typ, flags|unix.NLM_F_ACK, body)
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.fd, buf, 0)
		if err != nil {
			k.t.Fatal(err)
		}
		if b := buf[:n]; binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR {
			return ackError(b)
		}
	}
}

func (k *kernel) send(typ, flags uint16, body []byte) {
	k.seq++
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, k.seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	if err := unix.Sendto(k.fd, append(b, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		k.t.Fatal(err)
	}
}

func ackError(b []byte) error {
	errno := -int32(binary.NativeEndian.Uint32(b[16:]))
	if errno == 0 {
		return nil
	}
	e := &nlattr.Error{Errno: unix.Errno(errno)}
	if binary.NativeEndian.Uint16(b[6:])&0x200 == 0 { // NLM_F_ACK_TLVS
		return e
	}
	for _, a := range parse(b[36:], 0) {
		switch a.Type {
		case 1:
			e.Msg = a.Text()
		case 2:
			e.Offset = int(a.U32())
		}
	}
	return e
}

// events returns what was notified since the last call.
func (k *kernel) events() (l []notify.Change) {
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.ev, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return l
		}
		for b := buf[:n]; len(b) >= 16; {
			m := binary.NativeEndian.Uint32(b)
			typ := binary.NativeEndian.Uint16(b[4:])
			l = append(l, notify.Change{Group: unix.RTNLGRP_NEIGH, Type: typ, Body: append([]byte(nil), b[16:m]...)})
			b = b[min(int(m+3)&^3, len(b)):]
		}
	}
}

// dump returns the bodies of the answers to a dump request.
func (k *kernel) dump(typ uint16, body []byte) (l [][]byte) {
	k.send(typ, unix.NLM_F_DUMP, body)
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.fd, buf, 0)
		if err != nil {
			k.t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= 16; {
			m := binary.NativeEndian.Uint32(b)
			if typ := binary.NativeEndian.Uint16(b[4:]); typ == unix.NLMSG_DONE || typ == unix.NLMSG_ERROR {
				return l
			}
			l = append(l, append([]byte(nil), b[16:m]...))
			b = b[min(int(m+3)&^3, len(b)):]
		}
	}
}

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
