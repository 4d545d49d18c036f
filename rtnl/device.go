package rtnl

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/bridge"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
	"github.com/linkspan/linkspan/vxlan"
)

// device is a network device that linkspan has to do with: one it emulates, a
// bridge port, or both.
type device struct {
	ifindex int
	// state follows the kernel's link messages.
	state netdev.LinkState
	// operState is IFLA_OPERSTATE as the kernel has it.
	operState uint8

	// tap, with br or vx, makes it an emulated device.
	tap  TAP
	host *netdev.Output
	br   *bridge.Bridge
	vx   *vxlan.Device
	// muted keeps the kernel's events about the TAP from the clients while we
	// make or remove the device and announce it ourselves.
	muted bool

	// arpType is ifi_type of a real device.
	arpType uint16
	// bigMTU is the MTU in bytes where it is more than a TAP takes, else 0.
	bigMTU int
	// carrier is the emulated device's, tapCarrier what its TAP was told.
	carrier, tapCarrier bool
	protoDown           bool
	// tapMAC is the TAP's address, which stays where a bridge has none.
	tapMAC uapi.MAC
	// queueLen is the emulated device's queue length; the TAP keeps its own,
	// because it is the length of a real queue. queueTick makes the TAP's
	// change with it.
	queueLen, queueTick uint32
	// tsoSize and tsoSegs are IFLA_TSO_MAX_*, 0 where they are the TAP's.
	tsoSize, tsoSegs uint32
	// flags and link are ifi_flags and IFLA_LINK of the last link message, for
	// messages about a device that the kernel has deleted already.
	flags   uint32
	link    uint32
	hasLink bool
	// leaving tells that it is being deleted: the kernel announces no change
	// of a device in that state.
	leaving bool
	// deletedBy is the request that deletes it, nil if none does.
	deletedBy *request
	// ended closes when the TAP's thread has ended.
	ended             chan struct{}
	dissolved, closed bool

	// port, with its master, makes it a bridge port. The frame I/O is nil for
	// an emulated device, whose frames never enter the kernel.
	port   *bridge.Port
	master *device
	// closingMaster tells that it leaves because its bridge is being deleted.
	closingMaster bool
	io            Port
	out           *netdev.Output
}

// emulated tells whether the device is ours and not the kernel's.
func (d *device) emulated() bool { return d.tap != nil }

// kind is IFLA_INFO_KIND of an emulated device.
func (d *device) kind() string {
	if d.br != nil {
		return "bridge"
	}
	return "vxlan"
}

// portState is what a bridge is told of the device: its carrier is what
// netif_oper_up says, not the plain carrier.
func (d *device) portState() netdev.LinkState {
	s := d.state
	s.Carrier = d.operState == operUp || d.operState == operUnknown
	s.Tunnel = d.vx != nil
	return s
}

// IF_OPER_* (uapi/linux/if.h).
const (
	operUnknown = 0
	operDown    = 2
	operUp      = 6
)

// sorted returns the devices by ifindex, ports and tunnels before bridges: the
// order in which they can be removed.
func (ns *Namespace) sorted() []*device {
	var out []*device
	for _, d := range ns.devs {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *device) int {
		if (a.br == nil) != (b.br == nil) {
			if a.br == nil {
				return -1
			}
			return 1
		}
		return a.ifindex - b.ifindex
	})
	return out
}

// link asks the kernel for a device and returns its RTM_NEWLINK, nil if there is
// none. Either ifindex or name is given.
func (ns *Namespace) link(ifindex int, name string) *message {
	b := beginMessage(nil, unix.RTM_GETLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 1, 0)
	b = uapi.Ifinfomsg{Index: int32(ifindex)}.Append(b)
	if ifindex == 0 {
		t := uint16(unix.IFLA_IFNAME)
		if len(name) >= unix.IFNAMSIZ {
			t = unix.IFLA_ALT_IFNAME
		}
		b = nlattr.AppendString(b, t, name)
	}
	b = endMessage(b, 0)
	var found *message
	err := roundTrip(ns.ctl, b, func(m *message) {
		if m.typ == unix.RTM_NEWLINK {
			c := *m
			c.raw = append([]byte(nil), m.raw...)
			found = &c
		}
	})
	if err != nil {
		return nil
	}
	return found
}

// linkView is what an RTM_NEWLINK says of a device.
type linkView struct {
	info  uapi.Ifinfomsg
	attrs nlattr.Attrs
}

func viewLink(m *message) (v linkView, ok bool) {
	if len(m.body()) < uapi.IfinfomsgLen {
		return v, false
	}
	v.info = uapi.ParseIfinfomsg(m.body())
	v.attrs, _ = m.attrs(uapi.IfinfomsgLen)
	return v, true
}

// state reads the device's state; carrier is the plain one.
func (v linkView) state() (s netdev.LinkState, oper uint8) {
	s.Ifindex = int(v.info.Index)
	s.Up = v.info.Flags&unix.IFF_UP != 0
	s.Promisc = v.info.Flags&unix.IFF_PROMISC != 0
	for _, a := range v.attrs {
		switch a.Type {
		case unix.IFLA_IFNAME:
			s.Name = a.Text()
		case unix.IFLA_MTU:
			s.MTU = int(a.U32())
		case unix.IFLA_ADDRESS:
			if len(a.Data) == 6 {
				s.MAC = uapi.MACFrom(a.Data)
			}
		case unix.IFLA_CARRIER:
			s.Carrier = a.U8() != 0
		case unix.IFLA_OPERSTATE:
			oper = a.U8()
		case unix.IFLA_PROMISCUITY:
			// Packet sockets and devices on top count without the user's flag.
			s.Promisc = s.Promisc || a.U32() != 0
		}
	}
	return s, oper
}

// refresh reads a device's state from the kernel, for a device that is about to
// become ours.
func (ns *Namespace) refresh(d *device) {
	m := ns.link(d.ifindex, "")
	if m == nil {
		return
	}
	if v, ok := viewLink(m); ok {
		d.follow(v)
		d.state, d.operState = v.state()
	}
}

// follow remembers what messages about the device need once it is gone.
func (d *device) follow(v linkView) {
	d.flags = v.info.Flags
	a, ok := v.attrs.Get(unix.IFLA_LINK)
	d.link, d.hasLink = a.U32(), ok
}

// speed fills in ethtool's speed: a real device's own, a tunnel's that of the link
// below it.
func (ns *Namespace) speed(d *device) {
	switch {
	case !d.emulated():
		d.state.SpeedMbps = ns.io.Speed(d.state.Name)
	case d.vx != nil && d.vx.Lower() != 0:
		if m := ns.link(d.vx.Lower(), ""); m != nil {
			v, _ := viewLink(m)
			s, _ := v.state()
			d.state.SpeedMbps = ns.io.Speed(s.Name)
		}
	}
}

// release closes what is open for the device's frames. The frame threads no
// longer use it when it returns.
func (d *device) closeIO(log func(string, error)) {
	if d.io == nil {
		return
	}
	// The port waits until no frame thread uses it any more.
	if err := d.io.Close(); err != nil {
		log("close port", err)
	}
	d.io, d.out = nil, nil
}

func (ns *Namespace) logErr(what string, err error) { ns.log.Warn(what, "err", err) }
