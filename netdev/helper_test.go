package netdev

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTestNS makes a network namespace that lives until the test ends, or skips
// the test.
func newTestNS(t testing.TB) *NS {
	t.Helper()
	type result struct {
		ns  *NS
		err error
	}
	c := make(chan result)
	go func() {
		// The thread is never unlocked, so it ends here.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			c <- result{nil, err}
			return
		}
		ns, err := OwnNS()
		c <- result{ns, err}
	}()
	r := <-c
	if r.err != nil {
		t.Skipf("cannot make a network namespace: %v", r.err)
	}
	t.Cleanup(func() { r.ns.Close() })
	do(t, r.ns, func() error {
		// No neighbour or router discovery: only the test's own frames.
		os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	ip(t, r.ns, "link set lo up")
	return r.ns
}

// do runs f in a namespace and ends the test if it fails.
func do(t testing.TB, ns *NS, f func() error) {
	t.Helper()
	if err := ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

// ip runs ip(8) in a namespace.
func ip(t testing.TB, ns *NS, args string) string {
	t.Helper()
	return command(t, ns, "ip", strings.Fields(args)...)
}

// runIP runs ip(8) in the thread's namespace.
func runIP(args string) error {
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

func command(t testing.TB, ns *NS, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("no %s here", name)
	}
	var out []byte
	do(t, ns, func() error {
		var err error
		out, err = exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
		}
		return nil
	})
	return string(out)
}

// up sets devices up and waits for their carrier: until then they drop frames.
func up(t testing.TB, ns *NS, names ...string) {
	t.Helper()
	for _, n := range names {
		ip(t, ns, "link set "+n+" up")
	}
	for _, n := range names {
		for i := 0; !strings.Contains(ip(t, ns, "link show "+n), "state UP"); i++ {
			if i == 500 {
				t.Fatalf("%s has no carrier", n)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// ifindex returns a device's index.
func ifindex(t testing.TB, ns *NS, name string) int {
	t.Helper()
	n := 0
	do(t, ns, func() (err error) {
		n, err = ifindexOf(name)
		return err
	})
	return n
}

// hwaddr returns a device's address.
func hwaddr(t testing.TB, ns *NS, name string) net.HardwareAddr {
	t.Helper()
	var a net.HardwareAddr
	do(t, ns, func() error {
		i, err := net.InterfaceByName(name)
		if err == nil {
			a = i.HardwareAddr
		}
		return err
	})
	return a
}

// openFDs returns how many descriptors the process has.
func openFDs(t testing.TB) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(l)
}

// checkFDs fails the test if at its end more descriptors are open than now.
func checkFDs(t testing.TB) {
	t.Helper()
	// The runtime's own epoll descriptor comes with the first pipe.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := openFDs(t)
	t.Cleanup(func() {
		for range 50 {
			if openFDs(t) <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		out, _ := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", os.Getpid())).Output()
		t.Errorf("%d descriptors were open before the test, %d are now: %s", before, openFDs(t), out)
	})
}

// handlerFunc is a Handler.
type handlerFunc func(t *Thread, frames []Frame)

func (h handlerFunc) Input(t *Thread, frames []Frame) { h(t, frames) }

// forward is a Handler that sends all frames to an output.
func forward(o *Output) Handler {
	return handlerFunc(func(t *Thread, frames []Frame) {
		for i := range frames {
			t.Queue(o, &frames[i])
		}
	})
}

// collect starts a thread that copies what r reads, up to n frames.
func collect(d *Domain, r Reader, n int) <-chan Frame {
	c := make(chan Frame, n)
	d.Start(r, handlerFunc(func(_ *Thread, frames []Frame) {
		for i := range frames {
			f := NewFrame(frames[i].Data)
			f.Hdr, f.Meta = frames[i].Hdr, frames[i].Meta
			select {
			case c <- *f:
			default:
			}
		}
	}), nil)
	return c
}

// next waits for a frame.
func next(t testing.TB, c <-chan Frame) Frame {
	t.Helper()
	select {
	case f := <-c:
		return f
	case <-time.After(5 * time.Second):
		t.Fatal("no frame within 5 s")
		return Frame{}
	}
}

// none checks that no frame comes.
func none(t testing.TB, c <-chan Frame) {
	t.Helper()
	select {
	case f := <-c:
		t.Fatalf("unexpected frame % x", f.Data)
	case <-time.After(50 * time.Millisecond):
	}
}

// once sends frames to an output.
func once(d *Domain, o *Output, frames ...*Frame) {
	t := d.NewThread()
	t.Begin()
	for _, f := range frames {
		t.Queue(o, f)
	}
	t.End()
}

// writeFile writes to a file of sysfs or procfs.
func writeFile(name, s string) error { return os.WriteFile(name, []byte(s), 0) }
