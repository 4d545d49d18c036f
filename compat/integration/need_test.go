package integration_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// needRoot skips a test that the user may not run.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
}

// needTun skips a test where no TAP can be made.
func needTun(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		t.Skip("there is no /dev/net/tun here")
	case err != nil:
		t.Skipf("/dev/net/tun cannot be opened: %v", err)
	}
	f.Close()
}

// needTool skips a test that runs a program which is not installed.
func needTool(t testing.TB, name, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed (Debian: apt install %s)", name, pkg)
	}
}

// needKernel skips a test against a driver that this kernel lacks. args make a
// device of it.
func needKernel(t testing.TB, driver, args string) {
	t.Helper()
	n := newNS(t)
	if r := n.try(t, "ip link add "+driver+"0 "+args); r.code != 0 {
		t.Skipf("this kernel has no %s driver to compare with: %s", driver, r.err)
	}
}

func needKernelVXLAN(t testing.TB) {
	t.Helper()
	needKernel(t, "vxlan", "type vxlan id 1 dstport 4789")
}

func needKernelBridge(t testing.TB) {
	t.Helper()
	needKernel(t, "bridge", "type bridge")
}

// python returns the interpreter that has a module. Debian's python3 is asked
// first, since another one in PATH does not see Debian's modules.
func python(t testing.TB, module, pkg string) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	t.Skipf("no python3 here has %s (Debian: apt install %s)", module, pkg)
	return ""
}
