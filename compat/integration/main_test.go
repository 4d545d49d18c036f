// Package integration_test runs the built programs as their users do: unmodified
// clients under the shim, the kernel's own drivers on the other end of the cable,
// and what people run into. All traffic stays in network namespaces of the tests'
// own.
package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// clientEnv names the Go client that the test binary is to be instead of a test;
// it runs itself under the shim that way.
const clientEnv = "LINKSPAN_INTEGRATION_CLIENT"

// patience is how long anything may take that should take a moment: it is there
// to end what hangs, on slow machines too.
const patience = 20 * time.Second

// tmp is where the built programs are.
var tmp string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if name := os.Getenv(clientEnv); name != "" {
		return runClient(name)
	}
	var err error
	if tmp, err = os.MkdirTemp("", "linkspan-integration-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(tmp)
	// Users without privilege run the programs too.
	if err := os.Chmod(tmp, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// binEnv names a folder with programs that are built already.
const binEnv = "LINKSPAN_BIN"

// buildAll builds both programs the first time that a test needs one, with the
// race detector if it watches the tests too.
var buildAll = sync.OnceValue(func() error {
	args := []string{"build", "-o", tmp + "/"}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../../cmd/linkspand", "../../cmd/linkspan")...)
	if !raceEnabled {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile does
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

// program returns the path of a program of ours.
func program(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv(binEnv); dir != "" {
		return filepath.Join(dir, name)
	}
	if err := buildAll(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(tmp, name)
}

// await polls for what no event tells.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain for %s: %s", patience, what)
		}
	}
}
