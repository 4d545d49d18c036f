package rtnl_test

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl/rtnltest"
	"github.com/linkspan/linkspan/uapi"
)

// Messages as lines, for comparison: devices by name, and only what tells one
// event from another.

var typeNames = map[uint16]string{
	unix.RTM_NEWLINK: "NEWLINK", unix.RTM_DELLINK: "DELLINK", unix.RTM_NEWNEIGH: "NEWNEIGH", unix.RTM_DELNEIGH: "DELNEIGH",
	unix.NLMSG_ERROR: "ACK", unix.NLMSG_DONE: "DONE",
}

// describe turns messages into lines.
func (w *world) describe(ms []rtnltest.Message) (out []string) {
	for _, m := range ms {
		name := typeNames[m.Type]
		switch m.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			out = append(out, name+w.describeLink(m.Body))
		case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
			if m.Body[0] != unix.AF_BRIDGE {
				continue // the kernel's own, of addresses
			}
			out = append(out, name+w.describeNeigh(m.Body))
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			if r := refusalOf(m.Error()); r.errno != 0 {
				name += " " + r.String()
			}
			out = append(out, name)
		default:
			out = append(out, fmt.Sprintf("type %d", m.Type))
		}
	}
	return out
}

// events returns what the client was notified of and has not read yet. The kernel
// is given time for what it does later, up to a second.
func (c *client) events() []string {
	ms := c.Pending()
	for c.w.srv == nil {
		c.Timeout = 1200 * time.Millisecond
		b, err := c.Receive()
		if err != nil {
			break
		}
		ms = append(ms, rtnltest.Messages(b)...)
	}
	return c.w.describe(ms)
}

func (w *world) name(ifindex int32) string {
	if n := w.names[ifindex]; n != "" {
		return n
	}
	return fmt.Sprint("#", ifindex)
}

// describeLink shows a link message: ifi_flags as words, ifi_change, master, and
// for AF_BRIDGE the port's state.
func (w *world) describeLink(body []byte) string {
	info := uapi.ParseIfinfomsg(body)
	as, _ := nlattr.Parse(body[uapi.IfinfomsgLen:], 0)
	if a, ok := as.Get(unix.IFLA_IFNAME); ok {
		w.names[info.Index] = a.Text()
	}
	var b strings.Builder
	if info.Family == unix.AF_BRIDGE {
		fmt.Fprintf(&b, "/bridge %s", w.name(info.Index))
		if p, ok := as.Get(unix.IFLA_PROTINFO); ok {
			state, _ := p.Nest().Get(unix.IFLA_BRPORT_STATE)
			fmt.Fprintf(&b, " state %d", state.U8())
		}
		return b.String()
	}
	fmt.Fprintf(&b, " %s", w.name(info.Index))
	for _, f := range []struct {
		bit  uint32
		name string
	}{{unix.IFF_UP, "up"}, {unix.IFF_RUNNING, "running"}, {unix.IFF_LOWER_UP, "lower"}} {
		if info.Flags&f.bit != 0 {
			b.WriteString(" " + f.name)
		}
	}
	if info.Change != 0 {
		fmt.Fprintf(&b, " change %#x", info.Change)
	}
	if a, ok := as.Get(unix.IFLA_MASTER); ok {
		fmt.Fprintf(&b, " master %s", w.name(int32(a.U32())))
	}
	if a, ok := as.Get(unix.IFLA_EVENT); ok {
		fmt.Fprintf(&b, " event %d", a.U32())
	}
	return b.String()
}

// describeNeigh shows an AF_BRIDGE neighbour message.
func (w *world) describeNeigh(body []byte) string {
	ndm := uapi.ParseNdmsg(body)
	as, _ := nlattr.Parse(body[uapi.NdmsgLen:], 0)
	ll, _ := as.Get(uapi.NDALLAddr)
	var b strings.Builder
	addr := "?"
	if len(ll.Data) == 6 {
		addr = macName(uapi.MACFrom(ll.Data))
	}
	fmt.Fprintf(&b, " %s %s state %#x", w.name(ndm.Ifindex), addr, ndm.State)
	if ndm.Flags != 0 {
		fmt.Fprintf(&b, " flags %#x", ndm.Flags)
	}
	if a, ok := as.Get(uapi.NDAMaster); ok {
		fmt.Fprintf(&b, " master %s", w.name(int32(a.U32())))
	}
	if a, ok := as.Get(uapi.NDADst); ok && len(a.Data) == 4 {
		fmt.Fprintf(&b, " dst %d.%d.%d.%d", a.Data[0], a.Data[1], a.Data[2], a.Data[3])
	}
	return b.String()
}

// macName is the address, or "random" for one that the kernel chose.
func macName(m uapi.MAC) string {
	if m>>32 != 0x0200 && m != 0 && !m.Multicast() {
		return "random"
	}
	return m.String()
}

// linkOf returns a device's link message and attributes.
func (c *client) linkOf(ifindex int32) (uapi.Ifinfomsg, nlattr.Attrs) {
	c.w.t.Helper()
	ms := c.must(unix.RTM_GETLINK, 0, link(ifindex))
	if len(ms) != 1 {
		c.w.t.Fatalf("%d link messages", len(ms))
	}
	as, left := nlattr.Parse(ms[0].Body[uapi.IfinfomsgLen:], 0)
	if left != 0 {
		c.w.t.Errorf("%d bytes behind the attributes", left)
	}
	return uapi.ParseIfinfomsg(ms[0].Body), as
}
