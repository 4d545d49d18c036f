package integration_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// wantFailure compares all that a command said.
func wantFailure(t testing.TB, r result, code int, stderr string) {
	t.Helper()
	if r.code != code || r.err != stderr {
		t.Errorf("exit status %d, %q\nwant %d, %q", r.code, r.err, code, stderr)
	}
}

func TestNoDaemon(t *testing.T) {
	n := newNS(t)
	none := filepath.Join(t.TempDir(), "none.sock")
	r := n.exec(t, []string{program(t, "linkspan"), "exec", "--socket", none, "--", "ip", "link"}, nil)
	wantFailure(t, r, 1, fmt.Sprintf("linkspan: cannot reach linkspand at %s: no such file or directory. Start it with: linkspand --socket %[1]s\n", none))

	// One that died leaves its socket, which the next one takes over.
	d := daemon(t, n)
	d.stopped = true
	_ = d.cmd.Process.Kill()
	<-d.done
	r = d.try(t, "ip link")
	wantFailure(t, r, 1, fmt.Sprintf("linkspan: cannot reach linkspand at %s: connection refused. Start it with: linkspand --socket %[1]s\n", d.socket))
	next := n.spawn(t, []string{program(t, "linkspand"), "--socket", d.socket, "--state-dir", "none"}, nil)
	await(t, "the next daemon answers", func() bool { return d.try(t, "ip link").code == 0 })
	next.end(t)
	if code := next.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the next daemon ended with status %d\n%s", code, next.errout)
	}
}

func TestSecondDaemon(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	r := n.exec(t, []string{program(t, "linkspand"), "--socket", d.socket, "--state-dir", "none"}, nil)
	wantFailure(t, r, 1, fmt.Sprintf("linkspand: a daemon is already running on %s: stop it, or choose another path with --socket\n", d.socket))
	d.run(t, "ip link add br0 type bridge")
}

func TestNestedShim(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	r := d.shim(t, d.shimArgs("ip", "link")...)
	wantFailure(t, r, 1, "linkspan: this process already runs under a seccomp listener, most likely another linkspan exec, "+
		"and the kernel allows one for a process tree: run the command without linkspan here, it is led to the daemon already\n")
}

// TestPortTaken: a tunnel of the kernel's has the UDP port.
func TestPortTaken(t *testing.T) {
	needKernelVXLAN(t)
	n := newNS(t)
	d := daemon(t, n)
	n.run(t, "ip link add kvx type vxlan id 1 dstport 4789")
	n.run(t, "ip link set kvx up")
	d.setup(t, "ip link add vx0 type vxlan id 2 dstport 4789")
	r := d.try(t, "ip link set vx0 up")
	wantFailure(t, r, 2, "RTNETLINK answers: Address already in use\n")
	d.setup(t, "ip link del vx0", "ip link add vx0 type vxlan id 2 dstport 4790", "ip link set vx0 up")
	// The other way round the kernel says the same.
	wantFailure(t, n.try(t, "ip link set kvx down"), 0, "")
	n.run(t, "ip link add kvx2 type vxlan id 1 dstport 4790")
	wantFailure(t, n.try(t, "ip link set kvx2 up"), 2, "RTNETLINK answers: Address already in use\n")
}

// withTun makes another /dev/net/tun for one command: how is a shell command.
func withTun(how string, argv []string) []string {
	return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", how + ` && exec "$@"`, "sh"}, argv...)
}

// daemonWithTun is daemon with another /dev/net/tun.
func daemonWithTun(t testing.TB, n *netns, how string) *linkspand {
	t.Helper()
	needTool(t, "unshare", "util-linux")
	if r := n.exec(t, withTun(how, []string{"true"}), nil); r.code != 0 {
		t.Skipf("/dev/net/tun cannot be replaced here: %s", r.err)
	}
	return daemonWith(t, n, nil, func(c *exec.Cmd) {
		unshare := exec.Command("unshare", withTun(how, c.Args)[1:]...)
		c.Path, c.Args = unshare.Path, unshare.Args
	})
}

// TestNoTun: where the daemon can make no TAP it tells the client why, and serves
// what needs none.
func TestNoTun(t *testing.T) {
	for name, tc := range map[string]struct{ how, want string }{
		"missing": {"mount -t tmpfs none /dev/net",
			"Error: linkspan: there is no /dev/net/tun here: a container needs it passed in: no such file or directory.\n"},
		// As container engines mask what the container is not to have.
		"masked": {"mount --bind /dev/null /dev/net/tun", "Error: linkspan: /dev/net/tun is no tun device: inappropriate ioctl for device.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNS(t)
			needTun(t)
			d := daemonWithTun(t, n, tc.how)
			wantFailure(t, d.try(t, "ip link add br0 type bridge"), 2, tc.want)
			wantFailure(t, d.try(t, "ip link add vx0 type vxlan id 1 dstport 4789"), 2, tc.want)
			if out := d.run(t, "ip -br link"); !strings.HasPrefix(out, "lo ") {
				t.Errorf("what needs no TAP: %q", out)
			}
		})
	}
}

const nobody = 65534

func asNobody(c *exec.Cmd) {
	c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
}

// TestClientWithoutPrivilege: whoever may open the socket may look; changes are
// refused as the kernel does.
func TestClientWithoutPrivilege(t *testing.T) {
	n := newNS(t)
	veth(t, n, "p1", n, "p2")
	d := daemon(t, n)
	d.setup(t, "ip link add br0 type bridge", "ip link set p1 master br0", "bridge fdb add 02:00:00:00:00:01 dev p1 master static")
	user := func(line string) result { return n.exec(t, d.shimArgs(strings.Fields(line)...), asNobody) }

	wantFailure(t, user("ip link"), 1, fmt.Sprintf("linkspan: cannot reach linkspand at %s: permission denied. "+
		"Run this as a user who may open the socket, or name another one with --socket\n", d.socket))
	n.run(t, "chmod 666 "+d.socket)
	if out := user("bridge fdb get 02:00:00:00:00:01 br br0").ok(t, "get"); !strings.HasPrefix(out, "02:00:00:00:00:01 dev p1") {
		t.Errorf("get: %q", out)
	}
	if out := user("ip -br link show master br0").ok(t, "show"); !strings.HasPrefix(out, "p1@p2") {
		t.Errorf("show: %q", out)
	}
	for line, code := range map[string]int{
		"ip link add br1 type bridge":                           2,
		"ip link set p1 nomaster":                               2,
		"ip link del br0":                                       2,
		"ip link set lo down":                                   2, // the kernel's own affair
		"ip addr add 192.0.2.1/24 dev p2":                       2,
		"bridge fdb add 02:00:00:00:00:02 dev p1 master static": 255,
		"bridge fdb del 02:00:00:00:00:01 dev p1 master":        255,
		"bridge link set dev p1 cost 5":                         255,
	} {
		t.Run(line, func(t *testing.T) {
			r := user(line)
			if r.code != code || r.err != "RTNETLINK answers: Operation not permitted\n" {
				t.Errorf("%+v", r)
			}
		})
	}
	// In a user namespace of its own a process looks like root to itself only.
	t.Run("root of a user namespace", func(t *testing.T) {
		needTool(t, "unshare", "util-linux")
		if r := n.exec(t, []string{"unshare", "-Ur", "true"}, asNobody); r.code != 0 {
			t.Skip("user namespaces are not allowed here")
		}
		if r := user("unshare -Ur ip link del br0"); r.code != 2 || r.err != "RTNETLINK answers: Operation not permitted\n" {
			t.Errorf("%+v", r)
		}
	})
}

// TestDaemonWithoutPrivilege: it starts, and says what it may not do to whoever
// asks for it.
func TestDaemonWithoutPrivilege(t *testing.T) {
	needTool(t, "setpriv", "util-linux")
	const mknod = "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && chmod %s /dev/net/tun"
	for name, tc := range map[string]struct{ mode, want string }{
		"may not open tun": {"600", "Error: linkspan: no permission to open /dev/net/tun: permission denied.\n"},
		"may open tun":     {"666", "Error: linkspan: making TAP \"br0\" needs CAP_NET_ADMIN in its network namespace: operation not permitted.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNS(t)
			needTun(t)
			d := daemonWithTun(t, n, fmt.Sprintf(mknod, tc.mode)+" && set -- setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"")
			user := func(line string) result { return n.exec(t, d.shimArgs(strings.Fields(line)...), asNobody) }
			if out := user("ip -br link").ok(t, "ip link"); !strings.HasPrefix(out, "lo ") {
				t.Errorf("ip link: %q", out)
			}
			wantFailure(t, user("ip link add br0 type bridge"), 2, tc.want)
			wantFailure(t, user("ip link set lo up"), 2, "RTNETLINK answers: Operation not permitted\n")
		})
	}
}
