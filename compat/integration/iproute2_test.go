package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// walkStep is a command line and what it prints, as a regular expression; a
// failing one has its status before the text.
type walkStep struct{ line, want string }

// walk is a tour of ip and bridge in a namespace with the cables p1-q1 and p2-q2.
// The expectations hold for the kernel too, which is asked where it can be.
var walk = []walkStep{
	{"ip link add br0 address 02:00:00:00:00:b0 type bridge ageing_time 1000", ``},
	{"ip link add br0 type bridge", `2 RTNETLINK answers: File exists\n`},
	{"ip link add vx0 address 02:00:00:00:00:f0 type vxlan id 100 local 192.0.2.1 dstport 4789", ``},
	{"ip link add vx1 type vxlan id 100 dstport 4789", `2 Error: A VXLAN device with the specified VNI already exists.\n`},
	{"ip link add vx1 type vxlan dstport 4789", `1 vxlan: missing virtual network identifier\n`},
	{"ip link set p1 master br0", ``},
	{"ip link set vx0 master br0", ``},
	{"ip link set br0 up", ``},
	{"ip link set vx0 up", ``},
	{"ip link set p1 type bridge_slave cost 77", ``},
	{"bridge link set dev p1 isolated on", ``},
	{"bridge -d link show dev p1", `(?s).*p1@q1.* master br0 state forwarding priority 32 cost 77 .*isolated on.*`},
	{"ip -br link show master br0", `p1@q1 .*\nvx0 +UNKNOWN +02:00:00:00:00:f0 .*\n`},
	{"ip -br link show type vxlan", `vx0 .*\n`},
	{"ip -d link show br0", `(?s).* state UP .*link/ether 02:00:00:00:00:b0 .* bridge forward_delay 1500 hello_time 200 max_age 2000 ageing_time 1000 .*`},
	{"ip -d link show vx0", `(?s).* master br0 .* vxlan id 100 local 192.0.2.1 srcport 0 0 dstport 4789 .* bridge_slave state forwarding .*`},
	{"ip link set br0 type bridge ageing_time 2000 mcast_snooping 0", ``},
	{"ip link set vx0 type vxlan id 100 ageing 60", ``},
	{"ip link set vx0 type vxlan id 101", `2 Error: Cannot change VNI\.\n`},

	{"bridge fdb add 02:00:00:00:00:01 dev p1 master static", ``},
	{"bridge fdb add 02:00:00:00:00:01 dev p1 master static", `255 RTNETLINK answers: File exists\n`},
	{"bridge fdb append 02:00:00:00:00:01 dev p1 master static", ``},
	{"bridge fdb replace 02:00:00:00:00:01 dev vx0 master static", ``},
	{"bridge fdb get 02:00:00:00:00:01 br br0", `02:00:00:00:00:01 dev vx0 master br0 static\n`},
	{"bridge fdb del 02:00:00:00:00:01 dev vx0 master", ``},
	{"bridge fdb del 02:00:00:00:00:01 dev vx0 master", `255 RTNETLINK answers: No such file or directory\n`},
	{"bridge fdb get 02:00:00:00:00:01 br br0", `25[45] Error: Fdb entry not found\.\n`},
	{"bridge fdb add 02:00:00:00:00:02 dev vx0 dst 192.0.2.2", ``},
	{"bridge fdb replace 02:00:00:00:00:02 dev vx0 dst 192.0.2.3 vni 7 port 9", ``},
	{"bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.4", ``},
	{"bridge fdb append 00:00:00:00:00:00 dev vx0 dst 192.0.2.5", ``},
	{"bridge fdb append 02:00:00:00:00:03 dev vx0 dst 2001:db8::1", `255 RTNETLINK answers: Address family not supported by protocol\n`},
	{"bridge fdb show dev vx0", `00:00:00:00:00:00 dst 192.0.2.4 self permanent\n00:00:00:00:00:00 dst 192.0.2.5 self permanent\n` +
		`02:00:00:00:00:02 dst 192.0.2.3 port 9 vni 7 self permanent\n02:00:00:00:00:f0 master br0 permanent\n`},
	{"bridge -s fdb show dev vx0", `(?s).*02:00:00:00:00:02 .* used \d+/\d+ .*`},
	{"bridge -d fdb show br br0 brport vx0", `(?s)02:00:00:00:00:f0 .*`},
	{"bridge fdb del 00:00:00:00:00:00 dev vx0 dst 192.0.2.5", ``},
	{"bridge fdb show dev vx0 dynamic", ``},
	{"bridge fdb flush dev vx0", ``},
	{"bridge fdb show dev vx0 self", `(?s).*`},

	{"ip link set p1 nomaster", ``},
	{"ip link set dev vx0 down", ``},
	{"ip link del vx0", ``},
	{"ip link show vx0", `1 Device "vx0" does not exist\.\n`},
	{"bridge fdb add 02:00:00:00:00:01 dev vx0 dst 192.0.2.2", `25[45] Cannot find device "vx0"\n`},
	{"ip link del br0", ``},
}

func TestIproute2Walk(t *testing.T) {
	needTool(t, "bridge", "iproute2")
	for _, kind := range []string{"linkspan", "kernel"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "kernel" {
				needKernelVXLAN(t)
				needKernelBridge(t)
			}
			v := newVTEP(t, kind)
			for _, i := range "12" {
				veth(t, v.netns, fmt.Sprintf("p%c", i), v.netns, fmt.Sprintf("q%c", i))
			}
			for _, s := range walk {
				r := v.tryAsk(t, s.line)
				got := r.out + r.err
				if strings.HasPrefix(s.line, "bridge fdb show") { // in the order of a hash table
					lines := strings.SplitAfter(got, "\n")
					slices.Sort(lines)
					got = strings.Join(lines, "")
				}
				if r.code != 0 {
					got = fmt.Sprint(r.code, " ", got)
				}
				if !regexp.MustCompile(`^(` + s.want + `)$`).MatchString(got) {
					t.Errorf("%s\n got: %q\nwant: %q", s.line, got, s.want)
				}
			}
			if err := leftDevices(v.netns); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIproute2JSON: -j of what people parse.
func TestIproute2JSON(t *testing.T) {
	n := newNS(t)
	veth(t, n, "p1", n, "q1")
	d := daemon(t, n)
	d.setup(t, "ip link add br0 type bridge", "ip link add vx0 type vxlan id 100 dstport 4789",
		"ip link set p1 master br0", "bridge fdb add 02:00:00:00:00:02 dev vx0 dst 192.0.2.2",
		"bridge fdb add 02:00:00:00:00:01 dev p1 master static")
	var fdb []struct{ MAC, Ifname, Dst, Master, State string }
	decode(t, d.run(t, "bridge -j fdb show"), &fdb)
	found := 0
	for _, e := range fdb {
		if e.MAC == "02:00:00:00:00:02" && e.Ifname == "vx0" && e.Dst == "192.0.2.2" && e.State == "permanent" ||
			e.MAC == "02:00:00:00:00:01" && e.Ifname == "p1" && e.Master == "br0" && e.State == "static" {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%+v", fdb)
	}
	var links []struct {
		Ifname, Master string
		Linkinfo       struct {
			Kind  string                 `json:"info_kind"`
			Slave string                 `json:"info_slave_kind"`
			Data  struct{ ID, Port int } `json:"info_data"`
		}
	}
	decode(t, d.run(t, "ip -j -d link show"), &links)
	if len(links) != 5 {
		t.Errorf("%d links: %+v", len(links), links)
	}
	for _, l := range links {
		i := l.Linkinfo
		if l.Ifname == "br0" && i.Kind != "bridge" ||
			l.Ifname == "vx0" && (i.Kind != "vxlan" || i.Data.ID != 100 || i.Data.Port != 4789) ||
			l.Ifname == "p1" && (i.Kind != "veth" || i.Slave != "bridge" || l.Master != "br0") {
			t.Errorf("%+v", l)
		}
	}
}

func decode(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestIproute2Batch: many commands over one socket, up to the first that fails.
func TestIproute2Batch(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	d.setup(t, "ip link add vx0 type vxlan id 100 dstport 4789")
	const entries = 5000
	var b strings.Builder
	for i := range uint32(entries) {
		fmt.Fprintf(&b, "fdb add %s dev vx0 dst 192.0.2.1\n", entryNumber(i+1))
	}
	file := t.TempDir() + "/batch"
	writeFile(t, file, b.String(), 0o644)
	d.run(t, "bridge -batch "+file)
	if got := strings.Count(d.run(t, "bridge fdb show dev vx0"), "dst 192.0.2.1 self permanent"); got != entries {
		t.Errorf("%d entries", got)
	}
	writeFile(t, file, "fdb del "+entryNumber(1)+" dev vx0\nfdb del "+entryNumber(1)+" dev vx0\nfdb del "+entryNumber(2)+" dev vx0\n", 0o644)
	r := d.try(t, "bridge -batch "+file)
	if want := "RTNETLINK answers: No such file or directory\nCommand failed " + file + ":2\n"; r.code == 0 || r.err != want {
		t.Errorf("%+v", r)
	}
	if got := strings.Count(d.run(t, "bridge fdb show dev vx0"), "dst 192.0.2.1"); got != entries-1 {
		t.Errorf("%d entries after the failed batch", got)
	}
}

// TestIproute2Monitor: both monitors see what happens, in order.
func TestIproute2Monitor(t *testing.T) {
	needTool(t, "stdbuf", "coreutils")
	n := newNS(t)
	veth(t, n, "p1", n, "q1")
	d := daemon(t, n)
	monitor := func(line string) *process {
		p := n.spawn(t, d.shimArgs(strings.Fields("stdbuf -oL "+line)...), nil)
		return p
	}
	links, fdb := monitor("ip monitor link"), monitor("bridge monitor fdb")
	// Nobody tells when they have joined their groups: ask until they answer.
	d.setup(t, "ip link add probe type bridge")
	for i, p := range []*process{links, fdb} {
		await(t, p.what+" begins", func() bool {
			d.setup(t, "ip link set probe address 02:00:00:00:0a:01", "ip link set probe address 02:00:00:00:0a:02",
				"bridge fdb replace 02:00:00:00:0b:01 dev probe self permanent", "bridge fdb del 02:00:00:00:0b:01 dev probe self")
			return strings.Contains(p.out.String(), []string{"02:00:00:00:0a:02", "Deleted 02:00:00:00:0b:01"}[i])
		})
	}
	d.setup(t,
		"ip link add br0 type bridge", "ip link set p1 master br0", "ip link set br0 up",
		"bridge fdb add 02:00:00:00:00:01 dev p1 master static",
		"bridge fdb replace 02:00:00:00:00:01 dev p1 master dynamic",
		"bridge fdb del 02:00:00:00:00:01 dev p1 master",
		"ip link set p1 nomaster", "ip link del br0", "bridge fdb add 02:00:00:00:0b:ff dev probe self permanent")
	out := fdb.expectText(t, "02:00:00:00:0b:ff")
	inOrder(t, out, "02:00:00:00:00:01 dev p1 master br0 static", "02:00:00:00:00:01 dev p1 master br0",
		"Deleted 02:00:00:00:00:01 dev p1 master br0", "02:00:00:00:0b:ff dev probe")
	out = links.expect(t, "the end of br0", func(out string) bool { return regexp.MustCompile(`Deleted \d+: br0:`).MatchString(out) })
	inOrder(t, out, ": br0: <BROADCAST,MULTICAST> mtu 1500", "p1@q1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 master br0 state UP", ": br0: <BROADCAST,MULTICAST,UP", "Deleted ")
	d.setup(t, "ip link del probe")
}

// inOrder sees that pieces of text follow one another.
func inOrder(t testing.TB, text string, pieces ...string) {
	t.Helper()
	rest := text
	for _, p := range pieces {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("%q is missing, or too early, in:\n%s", p, text)
			return
		}
		rest = after
	}
}

// TestToolNames: links to linkspan with the tools' names run the real ones.
func TestToolNames(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	dir := t.TempDir()
	for _, name := range []string{"ip", "bridge"} {
		if err := os.Symlink(d.bin, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(line string) string {
		return n.exec(t, []string{"env", "LINKSPAN_SOCKET=" + d.socket, "PATH=" + dir + ":" + os.Getenv("PATH"), "sh", "-c", line}, nil).ok(t, line)
	}
	sh("ip link add br0 type bridge && ip link add vx0 master br0 type vxlan id 1 dstport 4789")
	if out := sh("bridge link show"); !strings.Contains(out, "vx0") {
		t.Errorf("bridge link show: %q", out)
	}
	if out := sh(d.bin + " ip -br link show type bridge"); !strings.HasPrefix(out, "br0 ") {
		t.Errorf("linkspan ip: %q", out)
	}
}
