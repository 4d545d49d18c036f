package shim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func TestExitStatus(t *testing.T) {
	d := startDaemon(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("plain", "x", 0o644)
	script := write("script", "exit 7\n", 0o755)
	orphan := write("orphan", "#!/nonexistent/interpreter\n", 0o755)
	for _, tc := range []struct {
		argv []string
		want run
	}{
		{[]string{"true"}, run{}},
		{[]string{"sh", "-c", "exit 42"}, run{code: 42}},
		{[]string{"sh", "-c", "kill -9 $$"}, run{code: -1}},
		{[]string{script}, run{code: 7}},
		{[]string{"no-such-command"}, run{err: "linkspan: no-such-command: command not found\n", code: 127}},
		{[]string{dir + "/none"}, run{err: "linkspan: " + dir + "/none: command not found\n", code: 127}},
		{[]string{plain}, run{err: "linkspan: cannot execute " + plain + ": permission denied\n", code: 126}},
		{[]string{dir}, run{err: "linkspan: cannot execute " + dir + ": permission denied\n", code: 126}},
		{[]string{orphan}, run{err: "linkspan: cannot execute " + orphan + ": no such file or directory\n", code: 127}},
	} {
		if got := d.run(t, tc.argv...); got != tc.want {
			t.Errorf("%v: got %+v, want %+v", tc.argv, got, tc.want)
		}
	}
}

func TestDaemonNotRunning(t *testing.T) {
	d := &fakeDaemon{path: filepath.Join(t.TempDir(), "no daemon")}
	want := run{code: 1, err: fmt.Sprintf("linkspan: cannot reach linkspand at %s: no such file or directory. "+
		"Start it with: linkspand --socket '%s'\n", d.path, d.path)}
	if got := d.run(t, "true"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRefused(t *testing.T) {
	d := startDaemon(t)
	d.mu.Lock()
	d.refuse = true
	d.mu.Unlock()
	want := run{code: 1, err: "linkspan: linkspand at " + d.path + " did not take the command over: not today\n"}
	if got := d.run(t, "true"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNested(t *testing.T) {
	d := startDaemon(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := d.run(t, "env", launcherEnv+"="+d.path, self, "true")
	if got.code != 1 || strings.Count(got.err, "\n") != 1 || !strings.HasPrefix(got.err, "linkspan: this process already runs under a seccomp listener") {
		t.Errorf("%+v", got)
	}
}

// TestNotServed: a process that the daemon does not want talks to the kernel.
func TestNotServed(t *testing.T) {
	d := startDaemon(t)
	refuse := func(err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.serve = func(Caller) error { return err }
	}
	refuse(ErrNotServed)
	got := d.run(t, "sh", "-c", "ip -br link show lo")
	if got.code != 0 || !strings.Contains(got.out, "lo ") || strings.Contains(got.out, "fake0") {
		t.Errorf("%+v", got)
	}
	refuse(fmt.Errorf("no: %w", unix.EPERM))
	got = d.run(t, "ip", "link")
	if got.code == 0 || !strings.Contains(got.err, "Operation not permitted") {
		t.Errorf("%+v", got)
	}
}

// TestCaller checks what the daemon is told about a process, in particular that
// rights in a user namespace of its own do not count.
func TestCaller(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	user := []string{"setpriv", "--reuid=65534", "--regid=65534", "--groups=5,7", "--inh-caps=-all", "--bounding-set=-all"}
	for name, tc := range map[string]struct {
		argv []string
		want Caller
		ns   bool // the same network namespace
	}{
		"root":    {[]string{"ip", "link"}, Caller{NetAdmin: true}, true},
		"user":    {append(user, "ip", "link"), Caller{UID: nobody, GID: nobody, Groups: []uint32{5, 7}}, true},
		"userns":  {append(user[:4:4], "unshare", "-Ur", "ip", "link"), Caller{UID: nobody, GID: nobody, Groups: []uint32{5, 7}}, true},
		"own net": {append(user[:4:4], "unshare", "-Urn", "ip", "link"), Caller{UID: nobody, GID: nobody, Groups: []uint32{5, 7}, NetAdmin: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			if got := d.run(t, tc.argv...); got.code != 0 || !strings.Contains(got.out, "fake0") {
				t.Fatalf("%+v", got)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, c := range d.callers {
				if c.PID == 0 || (c.NetNS == ns.Ino) != tc.ns {
					t.Errorf("%+v; our namespace is %d", c, ns.Ino)
				}
				if tc.want.Groups == nil {
					c.Groups = nil // whoever runs the tests has what they have
				}
				c.PID, c.NetNS = 0, 0
				if fmt.Sprint(c) != fmt.Sprint(tc.want) {
					t.Errorf("got %+v, want %+v", c, tc.want)
				}
			}
		})
	}
}

// TestUnprivileged runs launcher and command as another user.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root; the other tests have run unprivileged then")
	}
	d := startDaemon(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(filepath.Dir(d.path), "launcher")
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "sh", "-c", "grep NoNewPrivs /proc/self/status; ip -br link")
	c.Env = append(os.Environ(), launcherEnv+"="+d.path)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	got := finish(t, c)
	if got.code != 0 || !strings.Contains(got.out, "fake0") || !strings.Contains(got.out, "NoNewPrivs:\t1") {
		t.Errorf("%+v", got)
	}
	// Root keeps set-user-ID programs working.
	if got := d.run(t, "grep", "NoNewPrivs", "/proc/self/status"); got.out != "NoNewPrivs:\t0\n" {
		t.Errorf("%+v", got)
	}
}

// TestKill kills process trees at any moment; stop checks that nothing is left.
func TestKill(t *testing.T) {
	d := startDaemon(t)
	client := compile(t, "gcc")
	before := descriptors(t)
	for range 100 {
		c := d.command(client, "forever")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	deadline := time.Now().Add(10 * time.Second)
	for descriptors(t) > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors before, %d after", before, descriptors(t))
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Logf("%d sockets were opened", d.opened)
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestCancel: the daemon ends while a tree still runs.
func TestCancel(t *testing.T) {
	d := startDaemon(t)
	client := compile(t, "gcc")
	c := d.command(client, "forever")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	d.cancel()
	err = c.Wait() // its next socket(2) fails: ENOSYS
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "linkspan")
	for _, p := range []string{self, filepath.Join(dir, "c", "ip")} {
		if err := os.WriteFile(p, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(dir, "a", "ip")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, filepath.Join(dir, "b", "ip")); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{dir + "/a", dir + "/b", dir + "/c"}, ":")
	if got, err := LookPath("ip", path, st); got != dir+"/c/ip" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := LookPath("ip", path, nil); got != dir+"/a/ip" {
		t.Errorf("got %q, %v", got, err)
	}
}
