package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// clients are the Go programs that run under the shim: the test binary itself,
// told by clientEnv which one to be. They check what they see and fail with a
// panic, which has the line.
var clients = map[string]func(){
	"interfaces":  interfacesClient,
	"vishvananda": vishvanandaClient,
	"rtnetlink":   rtnetlinkClient,
	"mdlayher":    mdlayherClient,
	"subscriber":  subscriberClient,
	"dialer":      dialerClient,
}

// runClient is main of a client.
func runClient(name string) int {
	f := clients[name]
	if f == nil {
		fmt.Fprintln(os.Stderr, "no such client:", name)
		return 2
	}
	f()
	fmt.Println("ok")
	return 0
}

// must stops a client.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// get is must for a call with a result.
func get[T any](v T, err error) T {
	must(err)
	return v
}

// check stops a client unless ok holds.
func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

// event waits for an element of a channel that ok likes.
func event[T any](c <-chan T, what string, ok func(T) bool) T {
	limit := time.After(patience)
	var seen []T
	for {
		select {
		case v, open := <-c:
			check(open, "the channel was closed before %s; seen: %+v", what, seen)
			if ok(v) {
				return v
			}
			seen = append(seen, v)
		case <-limit:
			check(false, "no event for %s; seen: %+v", what, seen)
		}
	}
}

// client runs one of the clients against the VTEP's drivers.
func (v *vtep) client(t *testing.T, name string) {
	t.Helper()
	argv := []string{get(os.Executable())}
	if v.d != nil {
		argv = v.d.shimArgs(argv...)
	}
	r := v.exec(t, argv, func(c *exec.Cmd) { c.Env = append(os.Environ(), clientEnv+"="+name) })
	if r.code != 0 || !strings.HasSuffix(r.out, "ok\n") {
		t.Fatalf("client %s: exit status %d\n%s%s", name, r.code, r.out, r.err)
	}
}

// TestGoClients runs each client in a namespace with a cable, p1, whose other end
// is p2. It has to get along with the kernel too.
func TestGoClients(t *testing.T) {
	for _, name := range []string{"interfaces", "vishvananda", "rtnetlink", "mdlayher"} {
		for _, kind := range []string{"linkspan", "kernel"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				if kind == "kernel" {
					needKernelVXLAN(t)
					needKernelBridge(t)
				}
				v := newVTEP(t, kind)
				veth(t, v.netns, "p1", v.netns, "p2")
				v.client(t, name)
				// The clients take away what they make.
				if out := v.ask(t, "ip -br link show type bridge") + v.ask(t, "ip -br link show type vxlan"); out != "" {
					t.Errorf("left:\n%s", out)
				}
				if err := leftDevices(v.netns); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestMusl: a static program whose getifaddrs does not wait for replies, so that
// they have to be there.
func TestMusl(t *testing.T) {
	needTool(t, "musl-gcc", "musl-tools")
	needTun(t)
	n := newNS(t)
	veth(t, n, "p1", n, "p2")
	n.run(t, "ip addr add 192.0.2.1/24 dev p1")
	d := daemon(t, n)
	d.setup(t, "ip link add br0 type bridge", "ip link add vx0 type vxlan id 1 dstport 4789", "ip link set p1 master br0")
	for i := range 10 { // dumps of more than one part
		d.setup(t, fmt.Sprintf("ip link add brx%d type bridge", i))
	}
	bin := t.TempDir() + "/getifaddrs"
	build := newNS(t).exec(t, []string{"musl-gcc", "-static", "-Wall", "-Werror", "-o", bin, "testdata/getifaddrs.c"}, nil)
	build.ok(t, "musl-gcc")
	out := d.shim(t, bin).ok(t, "getifaddrs")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, want := range []string{"lo packet", "br0 packet", "vx0 packet", "p1 packet", "brx9 packet", "p1 192.0.2.1", "lo 127.0.0.1"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if len(lines) != 5+10+2 {
		t.Errorf("%d addresses on %s:\n%s", len(lines), runtime.GOARCH, out)
	}
}
