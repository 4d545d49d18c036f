package rtnl_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// logged is a world whose log is kept.
func logged(t *testing.T) (*world, *syncBuffer) {
	b := &syncBuffer{}
	log := slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &world{t: t, srv: rtnltest.NewWith(t, rtnltest.Config{Log: log}), names: map[int32]string{}}, b
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := strings.Split(strings.TrimSpace(s.b.String()), "\n")
	return slices.DeleteFunc(l, func(x string) bool { return x == "" })
}

// failing makes one operation fail once armed.
func failing(k *rtnltest.Kernel, op string, errno unix.Errno) {
	k.Fault(func(o, dev string) error {
		if o == op {
			return fmt.Errorf("cannot do %s of %s: %w", op, dev, errno)
		}
		return nil
	})
}

// TestDeviceCannotBeMade: the client gets the errno and one clear sentence, and
// nothing is left.
func TestDeviceCannotBeMade(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP} {
		for _, k := range []string{"bridge", "vxlan"} {
			w, log := logged(t)
			c, mon := w.client(), w.monitor()
			failing(w.srv.Kernel, "tap", errno)
			_, err := c.Do(unix.RTM_NEWLINK, create, link(0, named("dev0"), kind(k)))
			r := refusalOf(err)
			if want := "linkspan: cannot do tap of dev0: "; r.errno != errno || !strings.HasPrefix(r.msg, want) || strings.Contains(r.msg, "\n") {
				t.Errorf("%s: %v", k, r)
			}
			if l := log.lines(); len(l) != 1 || !strings.Contains(l[0], "dev=dev0") {
				t.Errorf("%s: log %q", k, l)
			}
			lines(t, "events", mon.events(), nil)
			w.srv.Kernel.Fault(nil)
			if !w.srv.Namespace.Empty() || c.index("dev0") != 0 {
				t.Errorf("%s: something is left", k)
			}
			c.must(unix.RTM_NEWLINK, create, link(0, named("dev0"), kind(k)))
		}
	}
}

// TestDeviceNameIsTaken has no sentence: the kernel has none.
func TestDeviceNameIsTaken(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	for _, errno := range []unix.Errno{unix.EBUSY, unix.EEXIST} {
		failing(w.srv.Kernel, "tap", errno)
		c.table(t, unix.RTM_NEWLINK, create, []row{
			{name: errno.Error(), body: link(0, named("dev0"), kind("bridge")), want: refused(unix.EEXIST, "")},
		})
	}
}

// TestPortCannotBeTaken at each step: the device stays what it was.
func TestPortCannotBeTaken(t *testing.T) {
	for _, op := range []string{"port", "allmulti", "promisc", "seize"} {
		w, log := logged(t)
		c := w.client()
		br := c.newBridge("br0", withMAC())
		p1 := w.veth("p1", "q1")
		c.must(unix.RTM_GETLINK, 0, link(1)) // linkwatch has run
		mon := w.monitor()
		failing(w.srv.Kernel, op, unix.EPERM)
		_, err := c.Do(unix.RTM_SETLINK, 0, link(p1, masterIs(br)))
		if r := refusalOf(err); r.errno != unix.EPERM || !strings.HasPrefix(r.msg, "linkspan: cannot do "+op+" of p1") {
			t.Errorf("%s: %v", op, r)
		}
		lines(t, op+": events", mon.events(), nil)
		if l := log.lines(); len(l) != 1 {
			t.Errorf("%s: log %q", op, l)
		}
		if l, _ := w.srv.Kernel.Link("p1"); l.OpenIOs != 0 || l.Promiscuity != 0 || l.Allmulti != 0 {
			t.Errorf("%s: left with %+v", op, l)
		}
		if _, as := c.linkOf(p1); as.Has(unix.IFLA_MASTER) {
			t.Errorf("%s: it has a master", op)
		}
		w.srv.Kernel.Fault(nil)
		c.enslave(p1, br)
	}
}

// TestKernelSocketCannotBeOpened: requests that need the kernel fail, the session
// and the namespace live on.
func TestKernelSocketCannotBeOpened(t *testing.T) {
	w := newWorld(t)
	failing(w.srv.Kernel, "dial", unix.EMFILE)
	c := w.client()
	if _, err := c.Do(unix.RTM_GETLINK, 0, link(1)); refusalOf(err).errno != unix.EMFILE {
		t.Errorf("%v", err)
	}
	w.srv.Kernel.Fault(nil)
	c.must(unix.RTM_GETLINK, 0, link(1))
}

// TestBehindOurBack: a device of ours or a port of ours is deleted by somebody who
// does not ask us. What depends on it goes with it, with events, and nothing stays.
func TestBehindOurBack(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	before := w.srv.Kernel.Conns()
	br := c.newBridge("br0", withMAC())
	p1 := w.veth("p1", "q1")
	vx := c.newVXLAN("vx0", u32(unix.IFLA_VXLAN_ID, 7), u32(unix.IFLA_VXLAN_LINK, uint32(p1)))
	c.enslave(p1, br)
	c.enslave(vx, br)
	c.must(unix.RTM_NEWNEIGH, create, neigh(vx, noarp, master, mac(testMAC)))
	c.must(unix.RTM_GETLINK, 0, link(1)) // linkwatch has run
	gone := func(m *client, name string) {
		t.Helper()
		if !w.srv.Kernel.Delete(name) {
			t.Fatalf("there is no %s", name)
		}
		var got []string
		for want := "DELLINK " + name + " change 0xffffffff"; !slices.Contains(got, want); {
			b, err := m.Receive()
			if err != nil {
				t.Fatalf("%s: %v after %q", name, err, got)
			}
			got = append(got, w.describe(rtnltest.Messages(b))...)
		}
		for _, l := range got {
			if strings.HasPrefix(l, "DELLINK/bridge "+name) {
				return
			}
		}
		if name != "br0" {
			t.Errorf("%s: it did not leave its bridge: %q", name, got)
		}
	}
	mon := w.monitor()
	gone(mon, "vx0")
	if c.index("vx0") != 0 {
		t.Error("vx0 is there")
	}
	vx = c.newVXLAN("vx0", u32(unix.IFLA_VXLAN_ID, 7), u32(unix.IFLA_VXLAN_LINK, uint32(p1)))
	c.enslave(vx, br)
	gone(w.monitor(), "p1") // the tunnel's lower device, too
	if c.index("vx0") != 0 {
		t.Error("a tunnel over a device that is gone")
	}
	gone(w.monitor(), "br0")
	if devices, _ := w.srv.Namespace.Traces(); devices != 0 || !w.srv.Namespace.Empty() {
		t.Errorf("%d devices are left", devices)
	}
	if names := w.srv.Kernel.Names(); !slices.Equal(names, []string{"lo"}) {
		t.Errorf("the kernel has %q", names)
	}
	if n := w.srv.Kernel.Conns() - before; n > 1 {
		t.Errorf("%d sockets to the kernel more than before", n)
	}
	if n := w.srv.Clock.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

// TestLostEvents: the kernel's socket overran while devices went and changed.
func TestLostEvents(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	br := c.newBridge("br0", withMAC())
	p1, p2 := w.veth("p1", "q1"), w.veth("p2", "q2")
	c.enslave(p1, br)
	c.enslave(p2, br)
	w.srv.Namespace.Lock() // nobody sees the events
	w.srv.Kernel.Delete("p1")
	w.srv.Kernel.SetAddress("p2", 0x020000000055)
	w.srv.Kernel.Lose()
	w.srv.Namespace.Unlock()
	c.must(unix.RTM_GETLINK, 0, link(p2))
	if rows := c.dump(link7(0, masterIs(br))); !slices.Contains(rows, "NEWNEIGH p2 02:00:00:00:00:55 state 0x80 master br0") ||
		slices.ContainsFunc(rows, func(l string) bool { return strings.Contains(l, " p1 ") }) {
		t.Errorf("rows: %q", rows)
	}
	if devices, _ := w.srv.Namespace.Traces(); devices != 2 {
		t.Errorf("%d devices", devices)
	}
}

// TestClose removes everything; that no goroutine is left is TestMain's affair.
func TestClose(t *testing.T) {
	w := newWorld(t)
	c, mon := w.client(), w.monitor()
	br := c.newBridge("br0", withMAC())
	p1 := w.veth("p1", "q1")
	c.enslave(p1, br)
	vx := c.newVXLAN("vx0", u32(unix.IFLA_VXLAN_ID, 7))
	c.must(unix.RTM_SETLINK, 0, upOrDown(vx, true))
	c.enslave(vx, br)
	if w.srv.Kernel.Socket(8472, false) == nil {
		t.Fatal("no socket of the tunnel")
	}
	if err := w.srv.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(unix.RTM_GETLINK, 0, link(1)); !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("a client is told %v", err)
	}
	mon.Pending()
	if names := w.srv.Kernel.Names(); !slices.Equal(names, []string{"lo", "q1", "p1"}) {
		t.Errorf("the kernel has %q", names)
	}
	if l, _ := w.srv.Kernel.Link("p1"); l.OpenIOs != 0 || l.Promiscuity != 0 {
		t.Errorf("the port is %+v", l)
	}
	if w.srv.Kernel.Socket(8472, false) != nil {
		t.Error("the tunnel's socket is open")
	}
	if n := w.srv.Kernel.Conns(); n != 0 {
		t.Errorf("%d sockets to the kernel are open", n)
	}
	if n := w.srv.Clock.Timers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

// TestManyClients come and go while devices do.
func TestManyClients(t *testing.T) {
	w := newWorld(t)
	br := w.client().newBridge("br0")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				k, err := w.srv.Dial()
				if err != nil {
					t.Error(err)
					return
				}
				if err := k.SetOption(unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_NEIGH); err != nil {
					t.Error(err)
				}
				m := mac(uapi.MAC(0x020000000000 + i*1000 + j))
				if _, err := k.Do(unix.RTM_NEWNEIGH, create, neigh(br, perm, self, m)); err != nil {
					t.Error(err)
				}
				if j%2 == 0 {
					if _, err := k.Do(unix.RTM_GETLINK, dumpFlag, link(0)); err != nil {
						t.Error(err)
					}
				}
				if err := k.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c := w.client()
	c.option(unix.NETLINK_GET_STRICT_CHK, 1)
	n := 0
	for _, l := range c.dump(neigh(br, 0, 0)) {
		if strings.Contains(l, " 02:00:00:") {
			n++
		}
	}
	if n != 160 {
		t.Errorf("%d entries", n)
	}
}
