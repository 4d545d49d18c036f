package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// interfacesClient is the standard library, which opens a socket for every call
// and asks for it with SOCK_RAW.
func interfacesClient() {
	must(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs("br0")}))
	// More than fits into the 4 KiB that it receives at a time.
	const more = 10
	for i := range more {
		must(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs(fmt.Sprintf("more%d", i))}))
	}
	must(netlink.AddrAdd(get(netlink.LinkByName("br0")), get(netlink.ParseAddr("192.0.2.1/24"))))
	all := get(net.Interfaces())
	check(len(all) == 4+more, "%d interfaces: %+v", len(all), all)
	br := get(net.InterfaceByName("br0"))
	check(br.MTU == 1500 && len(br.HardwareAddr) == 6 && br.Flags&net.FlagBroadcast != 0, "br0: %+v", br)
	check(get(net.InterfaceByIndex(br.Index)).Name == "br0", "not found by its index")
	addrs := get(br.Addrs())
	check(len(addrs) == 1 && addrs[0].String() == "192.0.2.1/24", "addresses: %v", addrs)
	for _, i := range all {
		if i.Name == "br0" || strings.HasPrefix(i.Name, "more") {
			must(netlink.LinkDel(get(netlink.LinkByName(i.Name))))
		}
	}
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func mac(s string) net.HardwareAddr { return get(net.ParseMAC(s)) }

// vishvanandaClient is vishvananda/netlink, which many container networks use.
func vishvanandaClient() {
	done := make(chan struct{})
	defer close(done)
	links := make(chan netlink.LinkUpdate, 1000)
	must(netlink.LinkSubscribe(links, done))
	neighs := make(chan netlink.NeighUpdate, 1000)
	must(netlink.NeighSubscribe(neighs, done))
	added := func(name string) {
		event(links, "the birth of "+name, func(u netlink.LinkUpdate) bool {
			return u.Header.Type == unix.RTM_NEWLINK && u.Link.Attrs().Name == name
		})
	}

	must(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs("br0")}))
	added("br0")
	err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs("br0")})
	check(errors.Is(err, unix.EEXIST), "a second br0: %v", err)
	must(netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs("vx0"), VxlanId: 100, Port: 4789, Learning: true,
		SrcAddr: net.IPv4(192, 0, 2, 1), Group: net.IPv4(192, 0, 2, 2), Age: 77,
	}))
	added("vx0")

	br, ok := get(netlink.LinkByName("br0")).(*netlink.Bridge)
	check(ok, "br0 is no bridge")
	vx, ok := get(netlink.LinkByName("vx0")).(*netlink.Vxlan)
	check(ok, "vx0 is no vxlan")
	check(vx.VxlanId == 100 && vx.Port == 4789 && vx.Learning && vx.Age == 77 &&
		vx.SrcAddr.Equal(net.IPv4(192, 0, 2, 1)) && vx.Group.Equal(net.IPv4(192, 0, 2, 2)), "vx0: %+v", vx)
	must(netlink.LinkSetMaster(vx, br))
	must(netlink.LinkSetUp(vx))
	must(netlink.LinkSetUp(br))
	p1 := get(netlink.LinkByName("p1"))
	must(netlink.LinkSetMaster(p1, br))
	kinds := map[string]string{}
	for _, l := range get(netlink.LinkList()) {
		kinds[l.Attrs().Name] = l.Type()
		if n := l.Attrs().Name; n == "p1" || n == "vx0" {
			check(l.Attrs().MasterIndex == br.Index, "%s has the master %d", n, l.Attrs().MasterIndex)
		}
	}
	check(kinds["br0"] == "bridge" && kinds["vx0"] == "vxlan" && kinds["p1"] == "veth", "kinds: %v", kinds)
	must(netlink.LinkSetHairpin(p1, true))
	prot := get(netlink.LinkGetProtinfo(p1))
	check(prot.Hairpin && prot.Learning, "protinfo: %+v", prot)

	entry := func(addr string, dst byte) *netlink.Neigh {
		return &netlink.Neigh{
			LinkIndex: vx.Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
			IP: net.IPv4(192, 0, 2, dst), HardwareAddr: mac(addr),
		}
	}
	at := func(addr string) (dst []string) {
		for _, n := range get(netlink.NeighList(vx.Index, unix.AF_BRIDGE)) {
			if bytes.Equal(n.HardwareAddr, mac(addr)) && n.Flags&netlink.NTF_SELF != 0 {
				dst = append(dst, n.IP.String())
			}
		}
		return dst
	}
	told := func(typ uint16, dst byte) {
		event(neighs, "a change of an entry", func(u netlink.NeighUpdate) bool {
			return u.Type == typ && u.Family == unix.AF_BRIDGE && u.IP.Equal(net.IPv4(192, 0, 2, dst))
		})
	}
	const host, flood = "02:00:00:00:00:01", "00:00:00:00:00:00"
	must(netlink.NeighAdd(entry(host, 11)))
	told(unix.RTM_NEWNEIGH, 11)
	err = netlink.NeighAdd(entry(host, 12))
	check(errors.Is(err, unix.EEXIST), "a second remote by add: %v", err)
	must(netlink.NeighSet(entry(host, 13)))
	told(unix.RTM_NEWNEIGH, 13)
	check(len(at(host)) == 1 && at(host)[0] == "192.0.2.13", "after set: %v", at(host))
	must(netlink.NeighAppend(entry(flood, 14)))
	must(netlink.NeighAppend(entry(flood, 15)))
	told(unix.RTM_NEWNEIGH, 15)
	check(len(at(flood)) == 3, "after append: %v", at(flood)) // one from the device's own remote
	must(netlink.NeighDel(entry(host, 13)))
	told(unix.RTM_DELNEIGH, 13)
	err = netlink.NeighDel(entry(host, 13))
	check(errors.Is(err, unix.ENOENT), "del of what is not there: %v", err)
	check(len(at(host)) == 0, "after del: %v", at(host))

	must(netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: p1.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP,
		Flags: netlink.NTF_MASTER, HardwareAddr: mac(host),
	}))
	e := event(neighs, "a bridge's entry", func(u netlink.NeighUpdate) bool { return bytes.Equal(u.HardwareAddr, mac(host)) })
	check(e.MasterIndex == br.Index && e.LinkIndex == p1.Attrs().Index, "event: %+v", e)

	must(netlink.LinkSetNoMaster(p1))
	must(netlink.LinkDel(vx))
	must(netlink.LinkDel(br))
	event(links, "the end of br0", func(u netlink.LinkUpdate) bool {
		return u.Header.Type == unix.RTM_DELLINK && u.Link.Attrs().Name == "br0"
	})
	_, err = netlink.LinkByName("br0")
	check(errors.As(err, &netlink.LinkNotFoundError{}), "br0 after its end: %v", err)
}
