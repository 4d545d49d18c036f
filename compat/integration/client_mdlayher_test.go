package integration_test

import (
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/jsimonetti/rtnetlink/v2/driver"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// rtnetlinkClient is jsimonetti/rtnetlink with its typed drivers.
func rtnetlinkClient() {
	c := get(rtnetlink.Dial(nil))
	defer c.Close()
	must(c.SetReadDeadline(time.Now().Add(patience)))
	id, port := uint32(100), uint16(4789)
	must(c.Link.New(&rtnetlink.LinkMessage{Attributes: &rtnetlink.LinkAttributes{
		Name: "br0", Info: &rtnetlink.LinkInfo{Kind: "bridge", Data: &driver.Bridge{}},
	}}))
	must(c.Link.New(&rtnetlink.LinkMessage{Attributes: &rtnetlink.LinkAttributes{
		Name: "vx0", Info: &rtnetlink.LinkInfo{Kind: "vxlan", Data: &driver.Vxlan{ID: &id, Port: &port}},
	}}))
	index := map[string]uint32{}
	for _, l := range get(c.Link.List()) {
		index[l.Attributes.Name] = l.Index
	}
	check(len(index) == 5, "links: %v", index)
	vxlans := get(c.Link.ListByKind("vxlan"))
	check(len(vxlans) == 1 && vxlans[0].Index == index["vx0"], "vxlans: %+v", vxlans)
	vx, ok := vxlans[0].Attributes.Info.Data.(*driver.Vxlan)
	check(ok && *vx.ID == id && *vx.Port == port, "vx0: %+v", vxlans[0].Attributes.Info)

	must(c.Link.SetMaster(index["vx0"], index["br0"], nil))
	l := get(c.Link.Get(index["vx0"]))
	check(l.Attributes.Master != nil && *l.Attributes.Master == index["br0"], "vx0: %+v", l.Attributes)
	check(l.Attributes.Info.SlaveKind == "bridge", "vx0: %+v", l.Attributes.Info)

	must(c.Neigh.New(&rtnetlink.NeighMessage{
		Family: unix.AF_BRIDGE, Index: index["vx0"], State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
		// It always sends NDA_IFINDEX, which is the way out.
		Attributes: &rtnetlink.NeighAttributes{
			Address: net.IPv4(192, 0, 2, 9).To4(), LLAddress: mac("02:00:00:00:00:01"), IfIndex: index["p1"],
		},
	}))
	// The service lists AF_UNSPEC, where FDB entries are not.
	for _, n := range get(c.Neigh.List()) {
		check(n.Family != unix.AF_BRIDGE, "an FDB entry among the neighbours: %+v", n)
	}
	must(c.Link.RemoveMaster(index["vx0"]))
	for _, name := range []string{"vx0", "br0"} {
		must(c.Link.Delete(index[name]))
	}
	_, err := c.Link.Get(index["br0"])
	check(err != nil, "br0 is there after its end")
}

// mdlayherClient is mdlayher/netlink with hand-made messages.
func mdlayherClient() {
	ev := get(netlink.Dial(unix.NETLINK_ROUTE, nil))
	defer ev.Close()
	must(ev.JoinGroup(unix.RTNLGRP_NEIGH))
	must(ev.SetReadDeadline(time.Now().Add(patience)))
	c := get(netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Strict: true}))
	defer c.Close()
	must(c.SetReadDeadline(time.Now().Add(patience)))
	check(c.PID() != 0 && ev.PID() != c.PID(), "port ids: %d and %d", c.PID(), ev.PID())

	const create = netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl
	get(c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWLINK, Flags: create}, Data: newLink("vx0", "vxlan", func(ae *netlink.AttributeEncoder) {
			ae.Uint32(unix.IFLA_VXLAN_ID, 100)
		}),
	}))
	vx := uint32(get(net.InterfaceByName("vx0")).Index)
	add := netlink.Message{
		Header: netlink.Header{Type: unix.RTM_NEWNEIGH, Flags: create},
		Data:   fdbEntry(vx, "02:00:00:00:00:01", net.IPv4(192, 0, 2, 9)),
	}
	get(c.Execute(add))
	msgs := get(ev.Receive())
	check(len(msgs) == 1 && msgs[0].Header.Type == unix.RTM_NEWNEIGH && msgs[0].Header.PID == 0 &&
		bytes.Contains(msgs[0].Data, mac("02:00:00:00:00:01")), "event: %+v", msgs)

	// The second is refused, with the errno; a missing device with a text.
	_, err := c.Execute(add)
	check(errors.Is(err, unix.EEXIST), "a second add: %v", err)
	add.Data = fdbEntry(9999, "02:00:00:00:00:01", net.IPv4(192, 0, 2, 9))
	_, err = c.Execute(add)
	var op *netlink.OpError
	check(errors.As(err, &op) && errors.Is(op.Err, unix.ENODEV) && op.Message == "unknown ifindex", "an unknown device: %+v", err)

	dump := netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETNEIGH, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{unix.AF_BRIDGE}, make([]byte, unix.SizeofNdMsg-1)...),
	}
	found := 0
	for _, m := range get(c.Execute(dump)) {
		check(m.Header.Type == unix.RTM_NEWNEIGH && m.Header.PID == c.PID(), "a row: %+v", m.Header)
		if bytes.Contains(m.Data, mac("02:00:00:00:00:01")) {
			found++
		}
	}
	check(found == 1, "the entry was dumped %d times", found)
	get(c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_DELLINK, Flags: netlink.Request | netlink.Acknowledge},
		Data:   newLink("vx0", "", nil),
	}))
}
