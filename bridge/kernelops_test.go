package bridge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// device picks the bridge, as nil, or a port.
func (p *pair) device() (*Port, int) {
	ports := p.b.Ports()
	i := p.rng.IntN(len(ports) + 1)
	if i == len(ports) {
		return nil, p.b.Ifindex()
	}
	return ports[i], ports[i].ifindex
}

// same compares results and events. With sorted their order does not count, as where
// it depends on addresses of kernel objects.
func (p *pair) same(what string, errno syscall.Errno, msg string, err error, sorted bool) bool {
	var got *nlattr.Error
	if err != nil {
		got = nlattr.AsError(err)
	} else {
		got = &nlattr.Error{}
	}
	// Carriers and timers are not what is compared here.
	mine := slices.DeleteFunc(p.events(), func(s string) bool {
		return strings.HasPrefix(s, "f0") || strings.HasPrefix(s, "carrier") || strings.HasPrefix(s, "address") || strings.HasPrefix(s, "mtu")
	})
	theirs := p.k.events()
	for _, l := range [][]string{mine, theirs} {
		for i := range l {
			l[i] = timers.ReplaceAllString(l[i], " timer T")
		}
	}
	if sorted {
		slices.Sort(mine)
		slices.Sort(theirs)
	}
	p.past = append(p.past, what)
	if got.Errno == errno && got.Msg == msg && slices.Equal(mine, theirs) {
		return true
	}
	p.t.Logf("before:\n%s", strings.Join(p.past[max(0, len(p.past)-12):], "\n"))
	p.t.Errorf("%s:\nkernel: %v %q\n  %s\nours:   %v %q\n  %s", what, errno, msg, strings.Join(theirs, "\n  "), got.Errno, got.Msg, strings.Join(mine, "\n  "))
	return false
}

// nextTick makes it later for both: a source that was seen in this tick already does
// not count as seen again.
func (p *pair) nextTick() {
	time.Sleep(tick + time.Millisecond)
	p.clock.Advance(tick)
}

func (p *pair) mac() uapi.MAC {
	return pick(p.rng, macA, macB, 0x020000000003, 0x020000000004, 0x020000000005, portMAC(1), portMAC(2), portMAC(3), bridgeMAC, broadcast, 0)
}

func (p *pair) add() bool {
	dev, ifindex := p.device()
	q := FDBRequest{
		MAC: p.mac(), State: pick[uint16](p.rng, 0, 2, 2, 4, 0x40, 0x42, 0x80, 0xc0, 0x84),
		Flags:   pick[uint8](p.rng, 0, 0, 0, 0, uapi.NTFUse, uapi.NTFExtLearned, uapi.NTFSticky, uapi.NTFExtLearned|uapi.NTFSticky),
		NLFlags: pick[uint16](p.rng, create, create, create|replace, create|excl, 0, replace),
	}
	body := nlattr.Append(nil, uapi.NDALLAddr, q.MAC.Append(nil))
	if p.rng.IntN(4) == 0 {
		x := pick(p.rng, activity(1), activity(3), activity(0), activity(2), activity(7), ext(nlattr.AppendFlag(nil, 2)), ext(a8(9, 1)))
		q.Ext, q.HasExt = x, true
		body = nlattr.Append(body, x.Type|nlattr.FlagNested, x.Data)
	}
	if p.rng.IntN(20) == 0 {
		q.VID = 5
		body = append(body, a16(uapi.NDAVLAN, 5)...)
	}
	if p.rng.IntN(20) == 0 {
		q.FlagsExt = pick[uint32](p.rng, 0, 1, 2)
		body = append(body, a32(uapi.NDAFlagsExt, q.FlagsExt)...)
	}
	if q.Flags&uapi.NTFUse != 0 {
		p.nextTick()
	}
	flags := q.Flags | uapi.NTFMaster
	if dev == nil {
		flags = q.Flags | uapi.NTFSelf
	}
	m := uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(ifindex), State: q.State, Flags: flags}.Append(nil)
	errno, msg := p.k.ask(unix.RTM_NEWNEIGH, q.NLFlags, append(m, body...))
	return p.same(fmt.Sprintf("add dev %d %+v", ifindex, q), errno, msg, p.b.FDBAdd(dev, q), false)
}

func (p *pair) del() bool {
	dev, ifindex := p.device()
	mac := p.mac()
	flags := uint8(uapi.NTFMaster)
	if dev == nil {
		flags = uapi.NTFSelf
	}
	m := uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(ifindex), Flags: flags}.Append(nil)
	errno, msg := p.k.ask(unix.RTM_DELNEIGH, 0, nlattr.Append(m, uapi.NDALLAddr, mac.Append(nil)))
	return p.same(fmt.Sprintf("del %v dev %d", mac, ifindex), errno, msg, p.b.FDBDel(dev, mac, 0), false)
}

func (p *pair) flushRows() bool {
	dev, ifindex := p.device()
	ndm := uapi.Ndmsg{
		Family: unix.AF_BRIDGE, Ifindex: int32(ifindex), State: pick[uint16](p.rng, 0, 0, 0x40, 0x80, 2),
		Flags: uapi.NTFMaster | pick[uint8](p.rng, 0, 0, uapi.NTFUse, uapi.NTFSticky, uapi.NTFExtLearned, uapi.NTFRouter, uapi.NTFProxy),
	}
	if dev == nil {
		ndm.Flags ^= uapi.NTFMaster | uapi.NTFSelf
	}
	var body []byte
	for range p.rng.IntN(4) {
		body = append(body, pick(p.rng, a16(16, 0xc0), a16(16, 0x80), a8(17, uapi.NTFUse), a8(17, 0xff), a16(5, 7), a16(5, 0), a32(5, 1),
			a32(8, uint32(p.b.Ports()[0].ifindex)), a32(8, uint32(p.b.ifindex)), a32(8, 0), a32(8, 9999), a32(8, 1), a32(9, 1), a8(99, 1), a8(16, 1))...)
	}
	errno, msg := p.k.ask(unix.RTM_DELNEIGH, uapi.NLMBulk, append(ndm.Append(nil), body...))
	as, left := nlattr.Parse(body, 0)
	return p.same(fmt.Sprintf("flush %+v %x", ndm, body), errno, msg, p.b.FDBFlush(dev, ndm, as, left), false)
}

// frame has a frame come in on a port, or be sent by the host.
func (p *pair) frame() bool {
	i := p.rng.IntN(len(p.k.taps))
	dst := pick(p.rng, broadcast, 0x0180c2000000|uapi.MAC(p.rng.IntN(17)), 0x010000000001, p.mac(), p.mac())
	f := ether(dst, p.mac())
	p.nextTick()
	if _, err := unix.Write(p.k.taps[i], f); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	p.send(p.b.Port(p.k.ifindex[fmt.Sprint("p", i)]), f)
	what := fmt.Sprintf("frame %v > %v on p%d", uapi.MACFrom(f[6:]), dst, i)
	theirs, mine := p.k.got(), p.got()
	if theirs != mine {
		p.t.Errorf("%s: the kernel gave it to %q, we to %q", what, theirs, mine)
	}
	return p.same(what, 0, "", nil, false) && theirs == mine
}

func (p *pair) setPort() bool {
	ports := p.b.Ports()
	q := ports[p.rng.IntN(len(ports))]
	var body []byte
	for range 1 + p.rng.IntN(3) {
		flag := portFlags[p.rng.IntN(len(portFlags))].typ
		if flag == unix.IFLA_BRPORT_PROXYARP_WIFI || flag == unix.IFLA_BRPORT_NEIGH_SUPPRESS {
			flag = unix.IFLA_BRPORT_ISOLATED
		}
		value := uint8(p.rng.IntN(2))
		body = append(body, pick(p.rng, a8(flag, value), a8(flag, value), a8(flag, value), a8(flag, value), a8(flag, value), a8(flag, value),
			a16(2, uint16(p.rng.IntN(64))), a16(31, 0x4005), a16(31, 0), a8(1, uint8(p.rng.IntN(6))), a8(1, 3), a8(1, 3), a8(8, 0), a8(8, 1), a8(39, 1), a8(39, 0), a8(40, 1), a8(40, 0), a32(3, 0), a32(3, 7),
			a16(2, 99), abytes(24), a8(25, uint8(p.rng.IntN(5))), a16(31, 2), a32(34, uint32(ports[0].ifindex)), a32(34, 0), a32(34, 1), a8(43, 2),
			a32(41, 1), a32(37, 0), a8(99, 1))...)
	}
	m := uapi.Ifinfomsg{Family: unix.AF_BRIDGE, Index: int32(q.ifindex)}.Append(nil)
	errno, msg := p.k.ask(unix.RTM_SETLINK, 0, nlattr.Append(m, unix.IFLA_PROTINFO|nlattr.FlagNested, body))
	as, _ := nlattr.Parse(body, 0)
	err := q.SetInfo(as)
	if err == nil {
		p.PortChanged(q, false)
	}
	what := fmt.Sprintf("port %s %s", q.link.Name, layout(as))
	data, _ := p.k.info(q.ifindex).Get(unix.IFLA_INFO_SLAVE_DATA)
	return p.same(what, errno, msg, err, false) && p.sameAttrs(what, data.Data, q.AppendInfo(nil))
}

// setState changes what groups depend on. Limits of the number of groups are not in
// it: a refusal leaves an empty group behind in the kernel, which nothing shows but the
// place that the group has in the list when it is filled.
func (p *pair) setState() bool {
	ports := p.b.Ports()
	q := ports[p.rng.IntN(len(ports))]
	body := pick(p.rng, a8(1, 0), a8(1, 1), a8(1, 3), a8(1, 3), a8(25, uint8(p.rng.IntN(4))))
	m := uapi.Ifinfomsg{Family: unix.AF_BRIDGE, Index: int32(q.ifindex)}.Append(nil)
	errno, msg := p.k.ask(unix.RTM_SETLINK, 0, nlattr.Append(m, unix.IFLA_PROTINFO|nlattr.FlagNested, body))
	err := q.SetInfo(attrs(body))
	if err == nil {
		p.PortChanged(q, false)
	}
	time.Sleep(3 * tick)
	what := fmt.Sprintf("port %s %x", q.link.Name, body)
	return p.same(what, errno, msg, err, true) && p.sameMDB(what)
}

// setBridge changes IFLA_INFO_DATA.
func (p *pair) setBridge() bool {
	var body []byte
	for range 1 + p.rng.IntN(3) {
		mask := pick[uint32](p.rng, 0, 1, 8, 9, 2, 4, 1<<7, 16)
		v := pick[uint32](p.rng, 0, 1, 2, 3, 99, 100, 199, 200, 555, 1000, 1001, 4000, 99999)
		body = append(body, pick(p.rng, a32(1, v), a32(2, v), a32(3, v), a16(6, uint16(v)), a16(9, uint16(v)), a16(9, 0x4008), a16(9, 0), abytes(21), a8(22, uint8(v)),
			a8(24, uint8(v)), a32(26, v), a32(27, 4096+v), a32(28, v), a32(29, v), a64(30, uint64(v)), a64(33, uint64(v)), a64(35, uint64(v)), a64(34, uint64(v)),
			a8(36, uint8(v)), a8(37, uint8(v)), a8(42, uint8(v)), a8(43, uint8(v)), a8(44, uint8(v)), boolopt(mask&uint32(p.rng.IntN(32)), mask), a32(49, v), a32(50, v),
			abytes(20, 1, 0x80, 0xc2, 0, 0, byte(v&0x1f)), abytes(20, 1, 0x80, 0xc2), a8(7, uint8(v)), a32(8, v), a8(1, 5), a64(11, 3), a32(48, 1))...)
	}
	m := uapi.Ifinfomsg{Index: int32(p.b.ifindex)}.Append(nil)
	kind := nlattr.AppendString(nil, unix.IFLA_INFO_KIND, "bridge")
	errno, msg := p.k.ask(unix.RTM_NEWLINK, 0, append(m, nest(unix.IFLA_LINKINFO, kind, nest(unix.IFLA_INFO_DATA, body))...))
	as, _ := nlattr.Parse(body, 0)
	err := CheckInfo(as, false)
	if err == nil {
		err = p.b.SetInfo(as)
	}
	// Without a forward delay nothing but requests makes events.
	_ = p.b.SetInfo(attrs(a32(unix.IFLA_BR_FORWARD_DELAY, 0), a32(unix.IFLA_BR_FDB_MAX_LEARNED, 0)))
	if n, _ := p.k.ask(unix.RTM_NEWLINK, 0, append(m, nest(unix.IFLA_LINKINFO, kind, nest(unix.IFLA_INFO_DATA, a32(1, 0), a32(49, 0)))...)); n != 0 {
		p.t.Fatal(n)
	}
	what := fmt.Sprintf("bridge %x", body)
	data, _ := p.k.info(p.b.ifindex).Get(unix.IFLA_INFO_DATA)
	return p.same(what, errno, msg, err, false) && p.sameAttrs(what, data.Data, p.b.AppendInfo(nil))
}

// sameAttrs compares attributes, timers excepted.
func (p *pair) sameAttrs(what string, theirs, mine []byte) bool {
	lines := func(b []byte) (out []string) {
		as, _ := nlattr.Parse(b, 0)
		for _, a := range as {
			if len(a.Data) == 8 && (a.Type >= 16 && a.Type <= 19 || a.Type >= 21 && a.Type <= 23) {
				a.Data = nil
			}
			out = append(out, fmt.Sprintf("%d:%x", a.Type, a.Data))
		}
		return out
	}
	k, m := lines(theirs), lines(mine)
	if slices.Equal(k, m) {
		return true
	}
	p.t.Logf("before:\n%s", strings.Join(p.past[max(0, len(p.past)-12):], "\n"))
	p.t.Errorf("%s:\nkernel %v\nours   %v", what, k, m)
	return false
}

// address changes the MAC of a port or of the bridge.
func (p *pair) address() bool {
	dev, ifindex := p.device()
	mac := pick(p.rng, portMAC(1), portMAC(2), portMAC(3), bridgeMAC, macA, macB)
	m := uapi.Ifinfomsg{Index: int32(ifindex)}.Append(nil)
	errno, _ := p.k.ask(unix.RTM_SETLINK, 0, nlattr.Append(m, unix.IFLA_ADDRESS, mac.Append(nil)))
	if dev == nil {
		p.b.SetUserAddress(mac)
	} else {
		dev.AddressSet(mac)
	}
	return p.same(fmt.Sprintf("address of %d %v", ifindex, mac), errno, "", nil, false)
}

func (p *pair) mdbRequest() bool {
	_, ifindex := p.device()
	e := entry4(ifindex, uint8(p.rng.IntN(2)), pick(p.rng, groupG, groupG, groupH))
	if p.rng.IntN(6) == 0 {
		e = pick(p.rng, mdbEntry{ifindex: ifindex, state: e.state, addr: [16]byte{1, 2}}, mdbEntry{ifindex: 1, state: e.state, addr: groupG, proto: groupIPv4},
			entry4(ifindex, 3, groupG), entry4(ifindex, 0, ip4(224, 0, 0, 1)), mdbEntry{ifindex: ifindex, state: 1, proto: groupIPv6, addr: [16]byte{0xff, 0x0e, 15: 1}})
	}
	typ, flags := pick[uint16](p.rng, unix.RTM_NEWMDB, unix.RTM_NEWMDB, unix.RTM_DELMDB), pick[uint16](p.rng, create, create|replace, replace)
	var extra [][]byte
	for range p.rng.IntN(4) {
		extra = append(extra, pick(p.rng, source(10, 0, 0, byte(1+p.rng.IntN(3))), mode(uint8(p.rng.IntN(3))), mode(0), mode(1), sources(1, 2), sources(2, 3), sources(),
			a8(4, 4), a8(4, 9), a8(4, 1), a8(10, 1)))
	}
	if typ == unix.RTM_DELMDB && p.rng.IntN(4) == 0 {
		flags = uapi.NLMBulk
		e = pick(p.rng, mdbEntry{}, mdbEntry{ifindex: ifindex}, mdbEntry{state: e.state}, mdbEntry{vid: 3}, e)
	}
	body := e.attr()
	if len(extra) > 0 {
		body = append(body, setAttrs(extra...)...)
	}
	errno, msg := p.k.ask(typ, flags, append(p.b.appendPortMsg(nil, unix.AF_BRIDGE), body...))
	if typ == unix.RTM_DELMDB {
		time.Sleep(3 * tick) // the kernel collects empty groups a little later
	}
	as, _ := nlattr.Parse(body, 0)
	what := fmt.Sprintf("mdb %d %#x %+v %x", typ, flags, e, extra)
	return p.same(what, errno, msg, p.b.MDBRequest(typ, flags, as), true) && p.sameMDB(what)
}

// sameMDB compares dumps. A group that has lost all its members is listed until the
// kernel has collected it.
func (p *pair) sameMDB(what string) bool {
	lines := func(body []byte) []string {
		l := strings.Split(timers.ReplaceAllString(describeMDB(body), " timer T"), "; ")
		slices.Sort(l)
		return l
	}
	mine, theirs := lines(p.b.MDBDump()), lines(p.k.dumpMDB())
	if slices.Equal(mine, theirs) {
		return true
	}
	p.t.Logf("before:\n%s", strings.Join(p.past[max(0, len(p.past)-12):], "\n"))
	p.t.Errorf("%s: dump:\nkernel:\n  %s\nours:\n  %s", what, strings.Join(theirs, "\n  "), strings.Join(mine, "\n  "))
	return false
}

// run does random operations until something differs, for as long as the environment
// says.
func (p *pair) run(ops ...func() bool) {
	d, err := time.ParseDuration(os.Getenv(kernelTime))
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		if !ops[p.rng.IntN(len(ops))]() {
			break
		}
	}
	p.t.(*testing.T).Logf("%d operations", n)
}

// TestAgainstKernelFDB does random things to the kernel's bridge and to ours. It needs
// root and a kernel with the bridge driver.
func TestAgainstKernelFDB(t *testing.T) {
	p := newPair(t, 3)
	p.run(p.add, p.add, p.add, p.add, p.del, p.flushRows, p.frame, p.frame, p.frame, p.setPort, p.setPort, p.setBridge, p.address)
	// Dumps have the order in which a flush deletes.
	if !t.Failed() {
		errno, msg := p.k.ask(unix.RTM_DELNEIGH, uapi.NLMBulk, uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: int32(p.b.ifindex), Flags: uapi.NTFSelf}.Append(nil))
		p.same("flush all", errno, msg, p.b.FDBFlush(nil, uapi.Ndmsg{Flags: uapi.NTFSelf}, nil, 0), false)
	}
}

func TestAgainstKernelMDB(t *testing.T) {
	for _, version := range []uint8{2, 3} {
		t.Run(fmt.Sprint("igmp ", version), func(t *testing.T) {
			p := newPair(t, 3)
			if out, err := exec.Command("ip", "link", "set", "br0", "type", "bridge", "mcast_igmp_version", fmt.Sprint(version)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_ = p.b.SetInfo(attrs(a8(unix.IFLA_BR_MCAST_IGMP_VERSION, version)))
			p.run(p.mdbRequest, p.mdbRequest, p.mdbRequest, p.mdbRequest, p.mdbRequest, p.setState)
		})
	}
}
