package rtnl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kernelTime is the environment variable with which tests that run on both worlds
// put the same requests to the kernel too; its value does not matter here.
const kernelTime = "LINKSPAN_KERNEL_TIME"

var ne = binary.NativeEndian

// world is linkspan over the fake kernel, or the real kernel in a network
// namespace of the test's own.
type world struct {
	t     testing.TB
	srv   *rtnltest.Server // nil for the kernel
	names map[int32]string
	pairs int // of veths
}

// newWorld makes linkspan over a fake kernel.
func newWorld(t testing.TB) *world {
	return &world{t: t, srv: rtnltest.New(t), names: map[int32]string{}}
}

// worlds runs f on linkspan, and on the kernel where that is wanted and allowed.
func worlds(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("linkspan", func(t *testing.T) { f(t, newWorld(t)) })
	t.Run("kernel", func(t *testing.T) {
		if os.Getenv(kernelTime) == "" {
			t.Skipf("set %s to compare with the kernel", kernelTime)
		}
		runtime.LockOSThread() // and never unlock: the thread ends with the test
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Skip("no new network namespace: ", err)
		}
		w := &world{t: t, names: map[int32]string{}}
		w.sh("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 && ip link set lo up")
		f(t, w)
	})
}

func (w *world) sh(script string) {
	w.t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// vethMAC is the MAC of the first device of the n-th pair, from 1.
func vethMAC(n int) uapi.MAC { return 0x020000001000 | uapi.MAC(n) }

// veth makes a pair of devices, both up, and returns the first one's index.
func (w *world) veth(name, peer string) int32 {
	w.t.Helper()
	w.pairs++
	addr := vethMAC(w.pairs)
	if w.srv == nil {
		w.sh(fmt.Sprintf("ip link add %s address %v type veth peer name %s && ip link set %s up && ip link set %s up && sleep 0.3", name, addr, peer, peer, name))
		for _, n := range []string{peer, name} {
			i, err := net.InterfaceByName(n)
			if err != nil {
				w.t.Fatal(err)
			}
			w.names[int32(i.Index)] = n
		}
		return w.byName(name)
	}
	i, j := w.srv.Kernel.AddVeth(name, peer)
	w.srv.Kernel.SetAddress(name, addr)
	w.srv.Kernel.SetUp(peer, true)
	w.srv.Kernel.SetUp(name, true)
	w.names[int32(i)], w.names[int32(j)] = name, peer
	return int32(i)
}

// byName returns a device's index as far as the test knows it.
func (w *world) byName(name string) int32 {
	for i, n := range w.names {
		if n == name {
			return i
		}
	}
	w.t.Fatalf("there was no %s", name)
	return 0
}

// client opens a socket as root, with extended acknowledgements.
func (w *world) client() *client {
	w.t.Helper()
	if w.srv != nil {
		return w.with(w.srv.Client(w.t))
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		w.t.Fatal(err) // without a port id it would be told of nothing
	}
	c, err := rtnltest.NewClient(fd)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return w.with(c)
}

func (w *world) with(c *rtnltest.Client) *client {
	k := &client{w: w, Client: c}
	k.option(unix.NETLINK_EXT_ACK, 1)
	return k
}

// client is a socket of a test.
type client struct {
	w *world
	*rtnltest.Client
}

func (c *client) option(opt int, v uint32) {
	c.w.t.Helper()
	if err := c.SetOption(opt, v); err != nil {
		c.w.t.Fatal(err)
	}
}

// monitor opens a socket that is in the groups of links and neighbours.
func (w *world) monitor() *client {
	c := w.client()
	for _, g := range []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH} {
		c.option(unix.NETLINK_ADD_MEMBERSHIP, g)
	}
	return c
}

// must sends a request that has to succeed.
func (c *client) must(typ, flags uint16, body []byte) []rtnltest.Message {
	c.w.t.Helper()
	ms, err := c.Do(typ, flags, body)
	if err != nil {
		c.w.t.Fatalf("request %d %#x: %v", typ, flags, err)
	}
	return ms
}

// index returns a device's index by its name, 0 if there is none.
func (c *client) index(name string) int32 {
	c.w.t.Helper()
	ms, err := c.Do(unix.RTM_GETLINK, 0, link(0, str(unix.IFLA_IFNAME, name)))
	if err != nil || len(ms) != 1 {
		return 0
	}
	i := uapi.ParseIfinfomsg(ms[0].Body).Index
	c.w.names[i] = name
	return i
}

const (
	create     = uapi.NLMCreate | uapi.NLMExcl
	dumpFlag   = unix.NLM_F_DUMP
	testMAC    = uapi.MAC(0x020000000001)
	unknownIdx = 999
)

// newBridge makes a bridge that is up and returns its index.
func (c *client) newBridge(name string, attrs ...[]byte) int32 {
	c.w.t.Helper()
	c.must(unix.RTM_NEWLINK, create, link(0, append(attrs, str(unix.IFLA_IFNAME, name), kind("bridge"))...))
	i := c.index(name)
	c.must(unix.RTM_SETLINK, 0, linkFlags(i, unix.IFF_UP, unix.IFF_UP))
	return i
}

// newVXLAN makes a tunnel that is down and returns its index.
func (c *client) newVXLAN(name string, data ...[]byte) int32 {
	c.w.t.Helper()
	c.must(unix.RTM_NEWLINK, create, link(0, str(unix.IFLA_IFNAME, name), kind("vxlan", data...)))
	return c.index(name)
}

// enslave gives a device a master, 0 for none.
func (c *client) enslave(ifindex, master int32) {
	c.w.t.Helper()
	c.must(unix.RTM_SETLINK, 0, link(ifindex, u32(unix.IFLA_MASTER, uint32(master))))
}

// Attributes and bodies of requests.

func attr(t uint16, data []byte) []byte  { return nlattr.Append(nil, t, data) }
func u8(t uint16, v uint8) []byte        { return nlattr.AppendU8(nil, t, v) }
func u16(t uint16, v uint16) []byte      { return nlattr.AppendU16(nil, t, v) }
func u32(t uint16, v uint32) []byte      { return nlattr.AppendU32(nil, t, v) }
func str(t uint16, s string) []byte      { return nlattr.AppendString(nil, t, s) }
func nest(t uint16, in ...[]byte) []byte { return attr(t, slices.Concat(in...)) }
func mac(m uapi.MAC) []byte              { return attr(uapi.NDALLAddr, m.Append(nil)) }

// kind is IFLA_LINKINFO; without data it has no IFLA_INFO_DATA, except that a
// vxlan's is required.
func kind(k string, data ...[]byte) []byte {
	in := [][]byte{str(unix.IFLA_INFO_KIND, k)}
	if len(data) > 0 || k == "vxlan" {
		in = append(in, nest(unix.IFLA_INFO_DATA, data...))
	}
	return nest(unix.IFLA_LINKINFO, in...)
}

func link(ifindex int32, attrs ...[]byte) []byte {
	return append(uapi.Ifinfomsg{Index: ifindex}.Append(nil), slices.Concat(attrs...)...)
}

func linkFlags(ifindex int32, flags, change uint32) []byte {
	return uapi.Ifinfomsg{Index: ifindex, Flags: flags, Change: change}.Append(nil)
}

func link7(ifindex int32, attrs ...[]byte) []byte {
	return append(uapi.Ifinfomsg{Family: unix.AF_BRIDGE, Index: ifindex}.Append(nil), slices.Concat(attrs...)...)
}

// neigh is an AF_BRIDGE neighbour request.
func neigh(ifindex int32, state uint16, flags uint8, attrs ...[]byte) []byte {
	return append(uapi.Ndmsg{Family: unix.AF_BRIDGE, Ifindex: ifindex, State: state, Flags: flags}.Append(nil), slices.Concat(attrs...)...)
}

// refusal is an expected error; the zero refusal is success.
type refusal struct {
	errno unix.Errno
	msg   string
	at    int // NLMSGERR_ATTR_OFFS
}

func refused(errno unix.Errno, msg string) refusal { return refusal{errno, msg, 0} }

func refusalOf(err error) refusal {
	var e *nlattr.Error
	if err == nil || !errors.As(err, &e) {
		return refusal{}
	}
	return refusal{unix.Errno(e.Errno), e.Msg, e.Offset}
}

func (r refusal) String() string {
	if r.errno == 0 {
		return "success"
	}
	return fmt.Sprintf("%s %q @%d", unix.ErrnoName(r.errno), r.msg, r.at)
}

// row is a request and what is to come of it.
type row struct {
	name  string
	body  []byte
	want  refusal
	flags uint16 // instead of the table's
}

// table sends each row's request.
func (c *client) table(t *testing.T, typ, flags uint16, rows []row) {
	t.Helper()
	for _, r := range rows {
		f := flags
		if r.flags != 0 {
			f = r.flags
		}
		if _, err := c.Do(typ, f, r.body); refusalOf(err) != r.want || err != nil && r.want.errno == 0 {
			t.Errorf("%s: got %v, want %v", r.name, refusalOf(err), r.want)
		}
	}
}

// lines compares two lists of lines.
func lines(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
