package integration_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// linkspand is a running daemon.
type linkspand struct {
	*process
	ns      *netns
	socket  string
	bin     string // the launcher
	stopped bool
}

// daemon starts a daemon in a namespace and waits until it is ready. At the end
// of the test it is stopped, see stop.
func daemon(t testing.TB, n *netns, args ...string) *linkspand {
	t.Helper()
	needTun(t)
	return daemonWith(t, n, args, nil)
}

// daemonWith is daemon with an edited command.
func daemonWith(t testing.TB, n *netns, args []string, edit func(*exec.Cmd)) *linkspand {
	t.Helper()
	d := &linkspand{ns: n, bin: program(t, "linkspan")}
	// Not t.TempDir, whose long names a socket's address has no room for.
	dir, err := os.MkdirTemp(tmp, "d")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d.socket = filepath.Join(dir, "rtnl.sock")
	ready := listenNotify(t, filepath.Join(dir, "notify"))
	argv := append([]string{program(t, "linkspand"), "--socket", d.socket, "--state-dir", "none"}, args...)
	d.process = n.spawn(t, argv, func(c *exec.Cmd) {
		c.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
		if edit != nil {
			edit(c)
		}
	})
	t.Cleanup(func() { d.stop(t) })
	select {
	case <-ready:
	case <-d.done:
		t.Fatalf("linkspand ended: %s\n%s", d.cmd.ProcessState, d.errout)
	case <-time.After(patience):
		t.Fatalf("linkspand is not ready after %s\n%s", patience, d.errout)
	}
	return d
}

// listenNotify is systemd as far as the daemon sees it: the channel is closed
// when READY=1 arrives.
func listenNotify(t testing.TB, path string) <-chan struct{} {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	// A daemon with another user may be the one to write.
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		for {
			k, err := c.Read(buf)
			if err != nil {
				return
			}
			if strings.Contains(string(buf[:k]), "READY=1") {
				close(ready)
				return
			}
		}
	}()
	return ready
}

// stop ends the daemon with SIGTERM and sees that nothing of it is left.
func (d *linkspand) stop(t testing.TB) {
	t.Helper()
	if d.stopped {
		return
	}
	d.stopped = true
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if !d.ended() {
		// Where it hangs is what one wants to know.
		_ = d.cmd.Process.Signal(syscall.SIGQUIT)
		if !d.ended() {
			_ = d.cmd.Process.Kill()
			<-d.done
		}
		t.Errorf("linkspand did not end within %s of SIGTERM", patience)
	} else if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("linkspand ended with status %d: %s", code, d.cmd.ProcessState)
	}
	log := d.errout.String()
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "level=ERROR"} {
		if strings.Contains(log, bad) {
			t.Errorf("linkspand says %q", bad)
		}
	}
	if _, err := os.Lstat(d.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := leftovers(d.ns); err != nil {
		t.Errorf("after the daemon's end: %v", err)
	}
	if t.Failed() {
		t.Logf("linkspand in this test:\n%s", log)
	}
}

// leftovers finds what a daemon must not leave in its namespace.
func leftovers(n *netns) error {
	if err := leftDevices(n); err != nil {
		return err
	}
	return n.do(func() error {
		sockets, err := os.ReadFile("/proc/thread-self/net/unix")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(sockets), "\n") {
			if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@") {
				return fmt.Errorf("an abstract socket is left: %s", line)
			}
		}
		return nil
	})
}

// leftDevices finds what a daemon without devices must not have: TAPs and tcx
// programs.
func leftDevices(n *netns) error {
	return n.do(func() error {
		out, err := exec.Command("ip", "-o", "link", "show", "type", "tun").CombinedOutput()
		if err != nil || len(out) > 0 {
			return fmt.Errorf("TAPs are left: %s (%v)", out, err)
		}
		ifs, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, i := range ifs {
			if err := noPrograms(i.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// noPrograms sees that a device in the thread's namespace has no tcx program.
func noPrograms(name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	if n, err := tcxPrograms(i.Index); err != nil || n != 0 {
		return fmt.Errorf("%s has %d tcx programs (%v)", name, n, err)
	}
	return nil
}

// tcxPrograms counts the programs at the ingress of a device in the thread's
// namespace. It asks the device, since other daemons on the machine have links too.
func tcxPrograms(ifindex int) (int, error) {
	r, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		return 0, nil // before Linux 6.6
	}
	if err != nil {
		return 0, fmt.Errorf("tcx programs: %w", err)
	}
	return len(r.Programs), nil
}

// shimArgs is the command line that runs argv under the shim.
func (d *linkspand) shimArgs(argv ...string) []string {
	return append([]string{d.bin, "exec", "--socket", d.socket, "--"}, argv...)
}

// shim runs a command in the daemon's namespace under the shim.
func (d *linkspand) shim(t testing.TB, argv ...string) result {
	t.Helper()
	return d.ns.exec(t, d.shimArgs(argv...), nil)
}

// try runs a command line under the shim.
func (d *linkspand) try(t testing.TB, line string) result {
	t.Helper()
	return d.shim(t, strings.Fields(line)...)
}

// run is try for a command that has to work.
func (d *linkspand) run(t testing.TB, line string) string {
	t.Helper()
	return d.try(t, line).ok(t, line)
}

// setup runs one command line after the other under the shim.
func (d *linkspand) setup(t testing.TB, lines ...string) {
	t.Helper()
	for _, l := range lines {
		d.run(t, l)
	}
}
