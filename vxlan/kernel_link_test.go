package vxlan

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// randomInfo is IFLA_INFO_DATA of n random attributes, mostly well formed.
func randomInfo(r *rand.Rand, links []uint32, n int) []byte {
	const (
		group, local   = unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_LOCAL
		group6, local6 = unix.IFLA_VXLAN_GROUP6, unix.IFLA_VXLAN_LOCAL6
	)
	var b []byte
	for range n {
		switch r.IntN(24) {
		case 0, 1:
			b = join(b, u32(unix.IFLA_VXLAN_ID, pick[uint32](r, 0, 1, 2, 3, 1<<24)))
		case 2:
			b = join(b, ip(group, pick(r, "192.0.2.1", "239.1.1.1", "0.0.0.0", "255.255.255.255", "224.0.0.1")))
		case 3:
			b = join(b, ip(local, pick(r, "192.0.2.9", "239.1.1.1", "0.0.0.0")))
		case 4:
			b = join(b, ip(group6, pick(r, "2001:db8::1", "fe80::1", "ff02::1", "ff05::1", "::")))
		case 5:
			b = join(b, ip(local6, pick(r, "2001:db8::9", "fe80::9", "ff05::2", "::")))
		case 6, 7:
			b = join(b, u32(unix.IFLA_VXLAN_LINK, pick(r, links...)))
		case 8:
			b = join(b, raw(unix.IFLA_VXLAN_PORT_RANGE, pick[byte](r, 0, 1), 5, pick[byte](r, 0, 1), 5))
		case 9:
			b = join(b, be16(unix.IFLA_VXLAN_PORT, pick[uint16](r, 0, 4789, 4790, 5000)))
		case 10:
			b = join(b, raw(unix.IFLA_VXLAN_LABEL, 0xff, 1, 2, pick[byte](r, 0, 3)))
		case 11:
			b = join(b, u32(unix.IFLA_VXLAN_LABEL_POLICY, pick[uint32](r, 0, 1, 2)))
		case 12:
			b = join(b, u8(unix.IFLA_VXLAN_DF, pick[uint8](r, 0, 1, 2, 3)))
		case 13:
			b = join(b, raw(uapi.IFLAVXLANReservedBits, pick[byte](r, 0xf7, 0xff, 0, 0x77), 0, 0, 0, 0, 0, 0, pick[byte](r, 0, 0xff)))
		case 14:
			b = join(b, nlattr.AppendFlag(nil, pick[uint16](r, unix.IFLA_VXLAN_GBP, unix.IFLA_VXLAN_GPE, unix.IFLA_VXLAN_TTL_INHERIT, unix.IFLA_VXLAN_REMCSUM_NOPARTIAL)))
		case 15:
			b = join(b, u32(pick[uint16](r, unix.IFLA_VXLAN_AGEING, unix.IFLA_VXLAN_LIMIT), pick[uint32](r, 0, 1, 77)))
		case 16:
			b = join(b, u8(unix.IFLA_VXLAN_COLLECT_METADATA, pick[uint8](r, 0, 1, 1, 1)))
		case 17:
			b = join(b, u8(unix.IFLA_VXLAN_LEARNING, pick[uint8](r, 0, 1, 2)))
		case 18:
			b = join(b, u8(unix.IFLA_VXLAN_VNIFILTER, pick[uint8](r, 0, 1)))
		case 19: // anything, badly formed perhaps
			b = join(b, nlattr.Append(nil, uint16(r.IntN(40)), make([]byte, r.IntN(18))))
		default:
			b = join(b, u8(pick[uint16](r, unix.IFLA_VXLAN_TTL, unix.IFLA_VXLAN_TOS, unix.IFLA_VXLAN_PROXY, unix.IFLA_VXLAN_RSC,
				unix.IFLA_VXLAN_L2MISS, unix.IFLA_VXLAN_L3MISS, unix.IFLA_VXLAN_UDP_CSUM, unix.IFLA_VXLAN_UDP_ZERO_CSUM6_TX,
				unix.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, unix.IFLA_VXLAN_REMCSUM_TX, unix.IFLA_VXLAN_REMCSUM_RX, unix.IFLA_VXLAN_LOCALBYPASS,
				uapi.IFLAVXLANMCRoute), pick[uint8](r, 0, 1, 1, 9)))
		}
	}
	if r.IntN(40) == 0 {
		return nil
	}
	return infoData(b)
}

func randomOuter(r *rand.Rand) (b []byte) {
	if r.IntN(10) == 0 {
		b = join(b, nlattr.Append(nil, unix.IFLA_ADDRESS, pick(r, []byte{2, 0, 0, 0, 0, 1}, []byte{1, 0, 0, 0, 0, 1}, []byte{2, 0, 0}, make([]byte, 6))))
	}
	if r.IntN(6) == 0 {
		b = join(b, u32(unix.IFLA_MTU, pick[uint32](r, 67, 68, 1200, 1430, 9000, 65535, 65536)))
	}
	return b
}

// TestKernelLink creates and changes devices at random in both and compares
// answers, IFLA_INFO_DATA and MTUs.
func TestKernelLink(t *testing.T) {
	k := newKernel(t)
	k.run("sysctl -qw net.ipv6.conf.u3.disable_ipv6=1")
	u3, err := net.InterfaceByName("u3")
	if err != nil {
		t.Fatal(err)
	}
	links := []uint32{0, uint32(k.lower["u0"]), uint32(k.lower["u0"]), uint32(k.lower["u2"]), uint32(u3.Index), 9999}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t)
	w.lower = map[int]Lower{k.lower["u0"]: {MTU: 1500}, k.lower["u2"]: {MTU: 9000}, u3.Index: {MTU: 1500, NoIPv6: true}}
	var all []*pair
	made := 0
	for i := 0; i < 3000 && !t.Failed(); i++ {
		if len(all) > 0 && r.IntN(2) == 0 {
			p := all[r.IntN(len(all))]
			if r.IntN(4) == 0 {
				k.run(fmt.Sprintf("ip link del vx%d", p.index))
				p.d.Close()
				p.compare(t, "delete", nil, nil)
				for j := range all {
					if all[j] == p {
						all = append(all[:j], all[j+1:]...)
						break
					}
				}
				continue
			}
			data := randomInfo(r, links, 1+r.IntN(3))
			p.change(t, data, randomOuterChange(r))
			p.mtu(t, "change "+hex.EncodeToString(data))
			continue
		}
		body := linkMessage(0, randomInfo(r, links, r.IntN(7)), nlattr.AppendString(nil, unix.IFLA_IFNAME, "vxnew"), randomOuter(r))
		want := k.ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
		index := 1
		if i, err := net.InterfaceByName("vxnew"); err == nil {
			index = i.Index
			k.run(fmt.Sprintf("ip link set vxnew name vx%d", index))
		}
		d, got := w.create(index, body)
		p := &pair{k: k, w: w, d: d, index: index}
		p.compare(t, "create "+hex.EncodeToString(body), want, got)
		if want == nil && got == nil {
			made++
			p.info(t)
			p.mtu(t, "create "+hex.EncodeToString(body))
			all = append(all, p)
		}
	}
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
	t.Logf("%d devices made", made)
}

// randomOuterChange keeps to what the driver has a say in when a link changes.
func randomOuterChange(r *rand.Rand) []byte {
	if r.IntN(20) == 0 {
		return u32(unix.IFLA_MTU, 1200)
	}
	return nil
}

func (p *pair) mtu(t *testing.T, what string) {
	t.Helper()
	i, err := net.InterfaceByIndex(p.index)
	if err != nil {
		t.Fatal(err)
	}
	if i.MTU != p.d.Link().MTU {
		t.Errorf("%s: MTU is %d, %d in the kernel", what, p.d.Link().MTU, i.MTU)
	}
}
