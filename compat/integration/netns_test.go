package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// netns is a network namespace that lives as long as the test: a handle and no
// process holds it, so that nothing survives a killed test either.
type netns struct{ f *os.File }

const threadNS = "/proc/thread-self/ns/net"

// newNS makes a namespace with lo up, or skips the test. IPv6 is off, so that
// there is no traffic but the test's.
func newNS(t testing.TB) *netns {
	t.Helper()
	needRoot(t)
	needTool(t, "ip", "iproute2")
	n := &netns{}
	made := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(threadNS)
		if err == nil {
			defer home.Close()
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		if err == nil {
			n.f, err = os.Open(threadNS)
		}
		goHome(home)
		made <- err
	}()
	if err := <-made; err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	t.Cleanup(func() { n.f.Close() })
	n.ipv6(t, false)
	n.run(t, "ip link set lo up")
	return n
}

// path names the namespace for ip(8).
func (n *netns) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.f.Fd()) }

// do calls f on a thread in the namespace: sockets that f opens and processes
// that it starts are there.
func (n *netns) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(threadNS)
		if err == nil {
			defer home.Close()
			err = unix.Setns(int(n.f.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		goHome(home)
		done <- err
	}()
	return <-done
}

// goHome gives the thread back. It must not end instead: the processes that it
// has started would be killed, see Pdeathsig in prctl(2).
func goHome(home *os.File) {
	if home != nil {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}
	runtime.UnlockOSThread()
}

// ipv6 turns IPv6 on or off, for the devices to come as well.
func (n *netns) ipv6(t testing.TB, on bool) {
	t.Helper()
	v := []byte("1")
	if on {
		v = []byte("0")
	}
	err := n.do(func() error {
		for _, dev := range []string{"all", "default"} {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/"+dev+"/disable_ipv6", v, 0)
			if err != nil && (on || !errors.Is(err, unix.ENOENT)) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		if on {
			t.Skipf("IPv6 cannot be used here: %v", err)
		}
		t.Fatal(err)
	}
}

// result is what a command left.
type result struct {
	out, err string
	code     int
}

// exec runs cmd in the namespace to its end. A command that does not end is a
// failure.
func (n *netns) exec(t testing.TB, argv []string, edit func(*exec.Cmd)) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.WaitDelay = time.Second // for children that keep the pipes open
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if edit != nil {
		edit(cmd)
	}
	if err := n.do(cmd.Start); err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%s: did not end within %s\n%s%s", strings.Join(argv, " "), patience, &out, &stderr)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, &stderr)
	}
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok returns what a command printed, and fails the test if the command failed.
func (r result) ok(t testing.TB, what string) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("%s: exit status %d\n%s%s", what, r.code, r.out, r.err)
	}
	return r.out
}

// try runs a command line in the namespace.
func (n *netns) try(t testing.TB, line string) result {
	t.Helper()
	return n.exec(t, strings.Fields(line), nil)
}

// run is try for a command that has to work.
func (n *netns) run(t testing.TB, line string) string {
	t.Helper()
	return n.try(t, line).ok(t, line)
}

// veth lays a cable between two namespaces. Its ends are up.
func veth(t testing.TB, a *netns, nameA string, b *netns, nameB string) {
	t.Helper()
	a.run(t, fmt.Sprintf("ip link add name %s type veth peer name %s netns %s", nameA, nameB, b.path()))
	a.run(t, "ip link set dev "+nameA+" up")
	b.run(t, "ip link set dev "+nameB+" up")
}

// host makes a namespace with eth0, cabled to a port of n.
func host(t testing.TB, n *netns, port, mac, addr string, mtu int) *netns {
	t.Helper()
	h := newNS(t)
	veth(t, n, port, h, "eth0")
	h.run(t, fmt.Sprintf("ip link set eth0 address %s mtu %d", mac, mtu))
	h.run(t, "ip addr add "+addr+" dev eth0")
	return h
}
