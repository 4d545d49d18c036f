package server

import (
	"encoding/binary"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// newNetns moves the test's thread into a network namespace of its own, for good:
// the thread ends with the test.
func newNetns(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("needs /dev/net/tun: ", err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("cannot make a network namespace: ", err)
	}
}

// client is a raw session with the daemon.
type client struct {
	t *testing.T
	c *net.UnixConn
}

func dial(t *testing.T, path string) client {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	return client{t, c}
}

// ask sends a link request with attributes and returns the errno of the answer.
func (c client) ask(typ, flags uint16, ifindex int, attrs []byte) unix.Errno {
	c.t.Helper()
	ne := binary.NativeEndian
	b := make([]byte, 16)
	ne.PutUint16(b[4:], typ)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	b = append(uapi.Ifinfomsg{Index: int32(ifindex)}.Append(b), attrs...)
	ne.PutUint32(b, uint32(len(b)))
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
	c.c.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := make([]byte, 1<<16)
	n, err := c.c.Read(r)
	if err != nil {
		c.t.Fatal(err)
	}
	if n < 20 || ne.Uint16(r[4:]) != unix.NLMSG_ERROR {
		c.t.Fatalf("unexpected answer % x", r[:n])
	}
	return unix.Errno(-int32(ne.Uint32(r[16:])))
}

// create is RTM_NEWLINK for a new device; data are the attributes of the kind.
func (c client) create(name, kind string, data, more []byte) unix.Errno {
	b := nlattr.AppendString(more, unix.IFLA_IFNAME, name)
	b, info := nlattr.Nest(b, unix.IFLA_LINKINFO)
	b = nlattr.AppendString(b, unix.IFLA_INFO_KIND, kind)
	b, mark := nlattr.Nest(b, unix.IFLA_INFO_DATA)
	b = nlattr.EndNest(append(b, data...), mark)
	return c.ask(unix.RTM_NEWLINK, uapi.NLMCreate|uapi.NLMExcl, 0, nlattr.EndNest(b, info))
}

// programs counts the tcx programs at a device's ingress.
func programs(t *testing.T, ifindex int) int {
	t.Helper()
	r, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Log("this kernel has no tcx: ", err)
		return 0
	}
	return len(r.Programs)
}

func index(t *testing.T, name string) int {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return i.Index
}

// TestCloseLeavesNothing is what SIGTERM does to a daemon with devices, ports and
// clients.
func TestCloseLeavesNothing(t *testing.T) {
	newNetns(t)
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "rtnl.sock")
	d, err := Start(Config{Socket: path, Mode: 0o600, AdminGID: -1, OwnNetns: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve() }()
	c := dial(t, path)
	defer c.c.Close()
	if e := c.create("br0", "bridge", nil, nil); e != 0 {
		t.Fatal("bridge: ", e)
	}
	master := nlattr.AppendU32(nil, unix.IFLA_MASTER, uint32(index(t, "br0")))
	if e := c.create("vx0", "vxlan", nlattr.AppendU32(nil, unix.IFLA_VXLAN_ID, 7), nil); e != 0 {
		t.Fatal("vxlan: ", e)
	}
	if e := c.create("p1", "veth", nil, nil); e != 0 {
		t.Fatal("veth: ", e)
	}
	for _, name := range []string{"vx0", "p1"} {
		if e := c.ask(unix.RTM_SETLINK, 0, index(t, name), master); e != 0 {
			t.Fatal(name, " master br0: ", e)
		}
	}
	for _, name := range []string{"br0", "vx0", "p1"} {
		up := uapi.Ifinfomsg{Index: int32(index(t, name)), Flags: unix.IFF_UP, Change: unix.IFF_UP}
		if e := c.up(up); e != 0 {
			t.Fatal(name, " up: ", e)
		}
	}
	port := index(t, "p1")
	if netdev.ProbeIngress(nil) == nil && programs(t, port) != 1 {
		t.Error("no program keeps the port's frames from the host")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if n := programs(t, port); n != 0 {
		t.Errorf("%d programs are left on the port", n)
	}
	left, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range left {
		if i.Name == "br0" || i.Name == "vx0" {
			t.Errorf("%s is left", i.Name)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

func (c client) up(m uapi.Ifinfomsg) unix.Errno {
	ne := binary.NativeEndian
	b := make([]byte, 16)
	ne.PutUint16(b[4:], unix.RTM_SETLINK)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = m.Append(b)
	ne.PutUint32(b, uint32(len(b)))
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
	r := make([]byte, 1<<16)
	n, err := c.c.Read(r)
	if err != nil || n < 20 {
		c.t.Fatalf("%d bytes, %v", n, err)
	}
	return unix.Errno(-int32(ne.Uint32(r[16:])))
}

// TestSocket is about the socket itself: one daemon each, and a dead one's
// leftover is no obstacle.
func TestSocket(t *testing.T) {
	newNetns(t)
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "run", "rtnl.sock")
	cfg := Config{Socket: path, Mode: 0o660, AdminGID: -1, Log: slog.New(slog.DiscardHandler)}
	for range 2 {
		d, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Start(cfg); err == nil {
			t.Error("a second daemon started on the same socket")
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o660 {
			t.Errorf("socket: %v, %v", st, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		// What kill -9 would leave behind.
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
}
