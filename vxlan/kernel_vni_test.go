package vxlan

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/linkspan/linkspan/nlattr"
	"golang.org/x/sys/unix"
)

func tunnelMessage(index int, parts ...[]byte) []byte {
	return append(appendTunnelMsg(nil, 0, index), join(parts...)...)
}

// vniRequest is a tunnel message as rtnetlink handles it.
func vniRequest(d *Device, typ uint16, body []byte) error {
	as, left := nlattr.Parse(body[TunnelMsgLen:], 16+TunnelMsgLen)
	if err := CheckTunnel(as, left); err != nil {
		return err
	}
	return d.VNIRequest(typ, as)
}

func (p *pair) vni(t *testing.T, typ uint16, body []byte) {
	t.Helper()
	want := p.k.ask(typ, 0, body)
	p.compare(t, "vni "+hex.EncodeToString(body), want, vniRequest(p.d, typ, body))
}

func (p *pair) vnis(t *testing.T, flags uint8) {
	t.Helper()
	var want, got []string
	for _, b := range p.k.dump(unix.RTM_GETTUNNEL, appendTunnelMsg(nil, flags, p.index)) {
		want = append(want, hex.EncodeToString(b))
	}
	p.d.VNIDump(flags, func(b []byte) { got = append(got, hex.EncodeToString(b)) })
	if w, g := strings.Join(want, "\n"), strings.Join(got, "\n"); w != g {
		t.Errorf("dump\nkernel: %s\n  here: %s", w, g)
	}
}

func randomVNIs(r *rand.Rand) (b []byte) {
	for range 1 + r.IntN(4)/3 {
		var e []byte
		start := uint32(r.IntN(12))
		if r.IntN(8) > 0 {
			e = join(e, u32(entryStart, start))
		}
		if r.IntN(3) == 0 {
			e = join(e, u32(entryEnd, start+uint32(r.IntN(5))-1))
		}
		switch r.IntN(6) {
		case 0:
			e = join(e, ip(entryGroup, pick(r, "192.0.2.1", "192.0.2.2", "0.0.0.0", "239.1.1.1")))
		case 1:
			e = join(e, ip(entryGroup6, pick(r, "2001:db8::1", "::")))
		}
		if r.IntN(10) == 0 {
			e = join(e, nlattr.Append(nil, uint16(r.IntN(8)), make([]byte, r.IntN(18))))
		}
		if r.IntN(20) == 0 {
			b = join(b, nlattr.Append(nil, uint16(r.IntN(3)), e))
		} else {
			b = join(b, nested(attrEntry, e))
		}
	}
	return b
}

// TestKernelVNI compares VNI filters of two devices on one port.
func TestKernelVNI(t *testing.T) {
	k := newKernel(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 3))
	data := infoData(be16(unix.IFLA_VXLAN_PORT, 4789), u8(unix.IFLA_VXLAN_COLLECT_METADATA, 1), u8(unix.IFLA_VXLAN_VNIFILTER, 1))
	a := newPair(t, k, "vxa", data)
	b := &pair{k: k, w: a.w}
	link := u32(unix.IFLA_VXLAN_LINK, uint32(k.lower["u0"]))
	body := linkMessage(0, infoData(be16(unix.IFLA_VXLAN_PORT, 4789), u8(unix.IFLA_VXLAN_COLLECT_METADATA, 1),
		u8(unix.IFLA_VXLAN_VNIFILTER, 1), link), nlattr.AppendString(nil, unix.IFLA_IFNAME, "vxb"))
	if err := k.ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE, body); err != nil {
		t.Fatal(err)
	}
	b.index = ifindexOf(t, "vxb")
	var err error
	if b.d, err = a.w.create(b.index, body); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 1500 && !t.Failed(); i++ {
		p := pick(r, a, b)
		switch n := r.IntN(20); {
		case n < 12:
			p.vni(t, unix.RTM_NEWTUNNEL, tunnelMessage(p.index, randomVNIs(r)))
		case n < 17:
			p.vni(t, unix.RTM_DELTUNNEL, tunnelMessage(p.index, randomVNIs(r)))
		case n < 18:
			p.change(t, infoData(ip(unix.IFLA_VXLAN_GROUP, pick(r, "192.0.2.7", "192.0.2.8", "0.0.0.0"))))
		default:
			p.vnis(t, uint8(r.IntN(2)))
			p.rows(t)
		}
	}
	for _, p := range []*pair{a, b} {
		if !t.Failed() {
			k.run("ip link del " + map[bool]string{true: "vxa", false: "vxb"}[p == a])
			p.d.Close()
			p.compare(t, "delete", nil, nil)
		}
	}
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}

func ifindexOf(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		t.Fatal(err)
	}
	return int(ifr.Uint32())
}
