package bridge

import "github.com/linkspan/linkspan/netdev"

// view is what the frame path knows of a bridge. It is immutable: every change
// makes another one, with all its ports' views, and publishes that. The cost of a
// change is proportional to the number of ports, that of a frame to the number of
// ports it leaves by.
type view struct {
	b       *Bridge
	host    netdev.Egress
	up      bool
	promisc bool
	stp     bool
	// linkLocalLearn is the absence of BR_BOOLOPT_NO_LL_LEARN.
	linkLocalLearn bool
	groupFwdMask   uint16
	// Flood lists, in the order of the ports: those that take unknown unicast,
	// multicast and broadcast from other ports, and what the host sends to
	// groups. They hold forwarding ports only.
	unicast, multicast, broadcast, fromHost []*portView
	mcast                                   *mcastView
}

// portView is what the frame path knows of a port.
type portView struct {
	v            *view
	p            *Port
	out          netdev.Egress
	state        uint8
	flags        uint32
	groupFwdMask uint16
	// limit is the length in bytes of the largest frame that leaves by this port:
	// its MTU with an Ethernet header and one tag.
	limit int
	// down tells that frames for this port go to its backup port.
	down   bool
	backup *Port
}

// vlanHeader and etherHeader are lengths in bytes.
const (
	etherHeader = 14
	vlanHeader  = 4
)

// publish makes the frame path see the present configuration.
func (b *Bridge) publish() {
	if b.closed {
		return
	}
	v := &view{
		b: b, host: b.host, up: b.link.Up, promisc: b.link.Promisc, stp: b.cfg.stp,
		linkLocalLearn: b.cfg.boolopts&boolNoLinkLocalLearn == 0,
		groupFwdMask:   b.cfg.groupFwdMask,
	}
	views := make([]portView, len(b.ports))
	for i, p := range b.ports {
		pv := &views[i]
		*pv = portView{
			v: v, p: p, out: p.out, state: p.state, flags: p.flags, groupFwdMask: p.groupFwdMask,
			limit: p.link.MTU + etherHeader + vlanHeader, backup: p.backup, down: !p.link.Up || !p.link.Carrier,
		}
		if p.state != stateForwarding || p.flags&portProxyARP != 0 {
			continue
		}
		v.fromHost = append(v.fromHost, pv)
		for _, c := range [...]struct {
			flag uint32
			list *[]*portView
		}{{portFlood, &v.unicast}, {portMcastFlood, &v.multicast}, {portBcastFlood, &v.broadcast}} {
			if p.flags&c.flag != 0 {
				*c.list = append(*c.list, pv)
			}
		}
	}
	if v.mcast = b.mcastView(); v.mcast != nil {
		for i, p := range b.ports {
			if p.mcast.listed && p.state == stateForwarding {
				v.mcast.routers = append(v.mcast.routers, &views[i])
			}
		}
	}
	for i := range views {
		views[i].p.view.Store(&views[i])
	}
	b.view.Store(v)
}
