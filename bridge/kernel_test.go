package bridge

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// kernelTime is the environment variable that turns the comparison with the kernel on:
// how long each test of it takes. It is not on by itself because it depends on the
// machine's keeping up with the kernel's timers.
const kernelTime = "LINKSPAN_KERNEL_TIME"

// kernel is the real bridge driver in a network namespace of this test's own, with
// the same devices as a rig.
type kernel struct {
	t       testing.TB
	nl, ev  int
	seq     uint32
	taps    map[int]int // packet sockets on the far ends, by the port's number
	ifindex map[string]int
}

var timers = regexp.MustCompile(` timer [0-9]+`)

var ne = binary.NativeEndian

// newKernel moves the calling thread into a new namespace and makes br0 with ports
// p1..pn there. It skips the test where that is not allowed.
func newKernel(t testing.TB, n int) *kernel {
	if os.Getenv(kernelTime) == "" {
		t.Skipf("set %s to a duration, such as 5s, to compare with the kernel", kernelTime)
	}
	runtime.LockOSThread() // and never unlock: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("no new network namespace: ", err)
	}
	script := "sysctl -qw net.ipv6.conf.default.disable_ipv6=1 && ip link add br0 address 02:00:00:00:00:b0 type bridge forward_delay 0 && ip link set br0 up"
	for i := 1; i <= n; i++ {
		script += fmt.Sprintf(" && ip link add p%d address %v type veth peer name q%d && ip link set p%d up && ip link set q%d up && ip link set p%d master br0",
			i, portMAC(i), i, i, i, i)
	}
	script += " && for i in $(seq 100); do ip link show br0 | grep -q 'state UP' && break; sleep 0.03; done; sleep 0.1"
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Skipf("no bridge here: %v: %s", err, out)
	}
	k := &kernel{t: t, taps: map[int]int{}, ifindex: map[string]int{}}
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		k.ifindex[i.Name] = i.Index
	}
	k.nl, k.ev = k.socket(), k.socket()
	for _, g := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_MDB} {
		k.must(unix.SetsockoptInt(k.ev, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g))
	}
	for i := 0; i <= n; i++ {
		name := fmt.Sprint("q", i)
		if i == 0 {
			name = "br0"
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		k.must(err)
		k.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
		k.must(unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: k.ifindex[name], Protocol: 0x0300})) // ETH_P_ALL
		k.taps[i] = fd
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	return k
}

// got tells who has received frames, in the words of rig.
func (k *kernel) got() string {
	var who []string
	buf := make([]byte, 2048)
	for i, fd := range k.taps {
		for {
			n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
			if err != nil {
				break
			}
			if n < 14 || buf[12] != 0x88 || buf[13] != 0xb5 {
				continue // the kernel's own, IGMP for one
			}
			if i == 0 {
				who = append(who, "z") // the host comes last
			} else {
				who = append(who, fmt.Sprint("p", i))
			}
		}
	}
	slices.Sort(who)
	return strings.ReplaceAll(strings.Join(who, " "), "z", "host")
}

// info returns the attributes of a device's IFLA_LINKINFO.
func (k *kernel) info(ifindex int) nlattr.Attrs {
	k.seq++
	m := ne.AppendUint16(ne.AppendUint32(nil, 32), unix.RTM_GETLINK)
	m = ne.AppendUint16(m, unix.NLM_F_REQUEST)
	m = ne.AppendUint32(ne.AppendUint32(m, k.seq), 0)
	m = uapi.Ifinfomsg{Index: int32(ifindex)}.Append(m)
	k.must(unix.Sendto(k.nl, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	buf := make([]byte, 1<<16)
	n, _, err := unix.Recvfrom(k.nl, buf, 0)
	k.must(err)
	as, _ := nlattr.Parse(slices.Clone(buf[32:n]), 0)
	info, _ := as.Get(unix.IFLA_LINKINFO)
	return info.Nest()
}

func (k *kernel) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) socket() int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	k.must(err)
	k.must(unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1))
	k.must(unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1))
	k.must(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	k.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// ask sends one request and returns how it was acknowledged.
func (k *kernel) ask(typ, flags uint16, body []byte) (syscall.Errno, string) {
	k.seq++
	m := ne.AppendUint32(nil, uint32(16+len(body)))
	m = ne.AppendUint16(m, typ)
	m = ne.AppendUint16(m, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = ne.AppendUint32(ne.AppendUint32(m, k.seq), 0)
	k.must(unix.Sendto(k.nl, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(k.nl, buf, 0)
		k.must(err)
		if ne.Uint16(buf[4:]) != unix.NLMSG_ERROR || ne.Uint32(buf[8:]) != k.seq {
			continue
		}
		as, _ := nlattr.Parse(buf[36:n], 0)
		text, _ := as.Get(1)
		return syscall.Errno(-int32(ne.Uint32(buf[16:]))), text.Text()
	}
}

// dumpMDB returns the bridge's row of an MDB dump.
func (k *kernel) dumpMDB() (row []byte) {
	k.seq++
	m := ne.AppendUint16(ne.AppendUint32(nil, 24), unix.RTM_GETMDB)
	m = ne.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	m = ne.AppendUint32(ne.AppendUint32(m, k.seq), 0)
	k.must(unix.Sendto(k.nl, append(m, unix.AF_BRIDGE, 0, 0, 0, 0, 0, 0, 0), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(k.nl, buf, 0)
		k.must(err)
		for b := buf[:n]; len(b) >= 16; b = b[nlattr.Align(int(ne.Uint32(b))):] {
			switch ne.Uint16(b[4:]) {
			case unix.NLMSG_DONE:
				return row
			case unix.RTM_GETMDB:
				row = slices.Clone(b[16:ne.Uint32(b)])
			}
		}
	}
}

// events returns what subscribers were told, in the words of rig.
func (k *kernel) events() (out []string) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(k.ev, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return out
		}
		body := buf[16:n]
		if body[0] != unix.AF_BRIDGE {
			continue
		}
		switch ne.Uint16(buf[4:]) {
		case unix.RTM_NEWNEIGH:
			out = append(out, describeRow(body))
		case unix.RTM_DELNEIGH:
			out = append(out, "del "+describeRow(body))
		case unix.RTM_NEWMDB:
			out = append(out, describeMDB(body))
		case unix.RTM_DELMDB:
			out = append(out, "del "+describeMDB(body))
		case unix.RTM_NEWLINK:
			as, _ := nlattr.Parse(body[16:], 0)
			name, _ := as.Get(unix.IFLA_IFNAME)
			info, _ := as.Get(unix.IFLA_PROTINFO)
			state, _ := info.Nest().Get(unix.IFLA_BRPORT_STATE)
			out = append(out, fmt.Sprintf("f7 %s state %d", name.Text(), state.U8()))
		}
	}
}

// pair is the kernel and a rig that must do the same.
type pair struct {
	*rig
	k    *kernel
	rng  *rand.Rand
	past []string
}

func newPair(t *testing.T, n int) *pair {
	k := newKernel(t, n)
	r := newBare(t)
	r.b = r.newBridge(k.ifindex["br0"], bridgeMAC, true)
	_ = r.b.SetInfo(attrs(a32(unix.IFLA_BR_FORWARD_DELAY, 0)))
	r.up(true)
	for i := 1; i <= n; i++ {
		l := portLink(i)
		l.Ifindex = k.ifindex[l.Name]
		r.addLink(l)
	}
	r.other[1] = nil // lo
	r.events()
	k.events()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &pair{rig: r, k: k, rng: rand.New(rand.NewPCG(seed, 0))}
}
