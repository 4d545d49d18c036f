package shim

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary is also the launcher, when this variable names a socket, and
// a netlink client in Go, when its argument is goClient.
const (
	launcherEnv = "SHIM_TEST_SOCKET"
	goClient    = "shim-test-go-client"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == goClient {
		if err := runGoClient(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if socket := os.Getenv(launcherEnv); socket != "" {
		os.Unsetenv(launcherEnv)
		err := Exec(ExecOptions{Socket: socket, Argv: os.Args[1:]})
		fmt.Fprintf(os.Stderr, "linkspan: %v\n", err)
		code := 99
		var exit *ExitError
		if errors.As(err, &exit) {
			code = exit.Code
		}
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func runGoClient() error {
	for range 20 {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("vishvananda/netlink: %w", err)
		}
		if len(links) != 2 || links[1].Attrs().Name != "fake0" {
			return fmt.Errorf("vishvananda/netlink: %v", links)
		}
		ifs, err := net.Interfaces()
		if err != nil {
			return fmt.Errorf("net: %w", err)
		}
		if len(ifs) != 2 || ifs[1].Name != "fake0" {
			return fmt.Errorf("net: %v", ifs)
		}
	}
	fmt.Println("ok")
	return nil
}

// needUserNotification skips a test where the kernel or a container denies what
// the shim is built on.
func needUserNotification(t testing.TB) {
	t.Helper()
	var sizes [3]uint16
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, ptr(&sizes))
	if errno != 0 {
		t.Skipf("no seccomp user notification here: %v", errno)
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil && !bytes.Contains(b, []byte("Seccomp_filters:\t0\n")) {
		t.Log("the tests themselves run under a seccomp filter")
	}
}

// A run is how a command ended.
type run struct {
	out, err string
	code     int
}

// command returns a command under the shim.
func (d *fakeDaemon) command(argv ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", argv...)
	c.Env = append(os.Environ(), launcherEnv+"="+d.path)
	return c
}

func finish(t testing.TB, c *exec.Cmd) run {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(60*time.Second, func() { _ = c.Process.Kill() })
	err := c.Wait()
	if !timer.Stop() {
		t.Errorf("%v did not end in time", c.Args)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return run{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

func (d *fakeDaemon) run(t *testing.T, argv ...string) run {
	t.Helper()
	return finish(t, d.command(argv...))
}

// compile builds testdata/client.c.
func compile(t testing.TB, cc string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("%s is not installed", cc)
	}
	out := filepath.Join(t.TempDir(), "client")
	args := append([]string{"-O1", "-w", "-pthread", "-o", out, "testdata/client.c"}, flags...)
	if b, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, b)
	}
	return out
}

// compilers are the C libraries to test with.
func compilers() map[string][]string {
	return map[string][]string{"glibc": {"gcc"}, "musl": {"musl-gcc", "-static", "-idirafter", "/usr/include", "-idirafter", "/usr/include/" + machine() + "-linux-gnu"}}
}

// machine is how GNU calls the architecture; musl-gcc does not find the kernel's
// headers by itself.
func machine() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

func TestClientsInC(t *testing.T) {
	for name, cc := range compilers() {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			client := compile(t, cc[0], cc[1:]...)
			for mode, want := range map[string]string{
				"names": "1 lo\n42 fake0\n", "threads": "ok\n", "signals": "ok\n", "hostile": "ok\n",
			} {
				if got := d.run(t, client, mode); got != (run{out: want}) {
					t.Errorf("%s: %+v", mode, got)
				}
			}
			// The kernel knows best how these end.
			for _, mode := range []string{"options", "waits", "copies", "others"} {
				want := finish(t, exec.Command(client, mode))
				got := d.run(t, client, mode)
				if diff := cmp.Diff(strings.Split(want.out, "\n"), strings.Split(got.out, "\n")); diff != "" || got.err != want.err || got.code != want.code {
					t.Errorf("%s: exit status %d and %d, stderr %q and %q, output (-kernel +shim):\n%s",
						mode, want.code, got.code, want.err, got.err, diff)
				}
			}
		})
	}
}

func TestClientInGo(t *testing.T) {
	d := startDaemon(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := d.run(t, self, goClient); got != (run{out: "ok\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestIproute2(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("iproute2 is not installed")
	}
	for name, argv := range map[string][]string{
		"direct":    {"ip", "-br", "link"},
		"shell":     {"sh", "-c", "ip -br link; exit $?"},
		"pipe":      {"sh", "-c", "ip -br link | cat"},
		"limit":     {"sh", "-c", "ulimit -n 256; ip -br link"},
		"low limit": {"sh", "-c", "ulimit -n 64; ip -br link"},
		"odd limit": {"sh", "-c", "ulimit -n 715; ip -br link"},
		"hard limit before": {"sh", "-c", "ulimit -n 20; exec \"$@\"", "sh",
			"/proc/self/exe", "ip", "-br", "link"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			c := d.command(argv...)
			if name == "hard limit before" {
				exe, _ := os.Executable()
				argv[4] = exe
				c = exec.Command(argv[0], argv[1:]...)
				c.Env = append(os.Environ(), launcherEnv+"="+d.path)
			}
			got := finish(t, c)
			if got.code != 0 || got.err != "" || strings.Count(got.out, "\n") != 2 || !strings.Contains(got.out, "fake0") {
				t.Errorf("%+v", got)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.opened == 0 {
				t.Error("ip did not use the daemon")
			}
		})
	}
}

// TestManySockets is about how many sockets a process may have.
func TestManySockets(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	d := startDaemon(t)
	script := `import socket
s=[]
try:
  while len(s)<600:
    s.append(socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0))
except OSError as e:
  print(e.strerror)
fds=[x.fileno() for x in s]
print(len(s)>=40, min(fds), max(fds), len(s)==len(set(fds)))
print(all(x.getsockname()[0]==0 for x in s))`
	for limit, want := range map[string]string{
		"2000": "True 700 1299 True\nTrue\n",
		"256":  "Too many open files\nTrue 56 255 True\nTrue\n",
	} {
		got := d.run(t, "sh", "-c", "ulimit -n "+limit+"; exec \"$@\"", "sh", python, "-c", script)
		if got != (run{out: want}) {
			t.Errorf("limit %s: %+v", limit, got)
		}
	}
}
