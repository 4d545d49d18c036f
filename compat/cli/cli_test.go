package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// call runs this package's main in a process of its own, for it may become
// another command.
const callEnv = "LINKSPAN_TEST_CALL"

func TestMain(m *testing.M) {
	if os.Getenv(callEnv) != "" {
		os.Exit(Run(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func call(t *testing.T, name string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0] = name
	c.Env = append(os.Environ(), callEnv+"=1", "LINKSPAN_SOCKET=/nonexistent/sock")
	c.Env = append(c.Env, env...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func TestRun(t *testing.T) {
	const unreachable = "linkspan: cannot reach linkspand at "
	// A directory with nothing but the link to ourselves.
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "bridge")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args string
		out  string // how output begins
		err  string // how errors begin
		code int
	}{
		{"linkspan", "", "linkspan runs a command", "", 0},
		{"linkspan", "version", "linkspan ", "", 0},
		{"linkspan", "exec --help", "exec runs COMMAND", "", 0},
		{"linkspan", "exec", "", "linkspan: no command given; usage: linkspan exec [--socket PATH]", 2},
		{"linkspan", "exec --sucket /x true", "", "linkspan: unknown flag: --sucket", 2},
		{"linkspan", "frob", "", `linkspan: unknown command "frob"`, 2},
		{"linkspan", "exec true --no-flag-of-ours", "", unreachable + "/nonexistent/sock:", 1},
		{"linkspan", "exec --socket /nonexistent/b -- true", "", unreachable + "/nonexistent/b:", 1},
		{"linkspan", "exec no-such-command", "", "linkspan: no-such-command: command not found\n", 127},
		{"linkspan", "exec -- --no-such-command", "", "linkspan: --no-such-command: command not found\n", 127},
		{"linkspan", "ip --help", "", unreachable, 1},
		{"/some/where/bridge", "-d link", "", unreachable, 1},
	} {
		t.Run(tc.name+" "+tc.args, func(t *testing.T) {
			if strings.Contains(tc.name+tc.args, "bridge") || strings.HasPrefix(tc.args, "ip") {
				if _, err := exec.LookPath("bridge"); err != nil {
					t.Skip("iproute2 is not installed")
				}
			}
			out, errs, code := call(t, tc.name, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, strings.Fields(tc.args)...)
			if !strings.HasPrefix(out, tc.out) || !strings.HasPrefix(errs, tc.err) || code != tc.code || (tc.err == "") != (errs == "") {
				t.Errorf("output %q, errors %q, exit status %d", out, errs, code)
			}
			if tc.code > 1 && strings.Count(errs, "\n") != 1 {
				t.Errorf("more than a line: %q", errs)
			}
		})
	}
}
