package bridge

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// mcastPort is what a port has to do with multicast. It is under the RTNL lock.
type mcastPort struct {
	router uint8 // IFLA_BRPORT_MULTICAST_ROUTER
	// listed tells that the port is on the list of router ports; timer takes a
	// temporary one off.
	listed    bool
	timer     timer
	ehtLimit  uint32
	maxGroups uint32
	groups    uint32       // how many port groups there are
	members   []*portGroup // newest last
}

func (m *mcastPort) init() { m.router, m.ehtLimit = routerLearned, 512 }

// mcastView is the part of a view that concerns multicast. It is nil with snooping
// off.
type mcastView struct {
	// since is when the restriction to members and routers begins, as there is a
	// querier; never without one.
	since        ticks
	igmp3, mld2  bool
	bridgeRouter bool
	routers      []*portView
}

const never = ticks(math.MaxInt64)

// mcastView makes the multicast part of a view, all but the router ports, which
// publish adds.
func (b *Bridge) mcastView() *mcastView {
	m := &b.mcast
	if !m.snooping {
		return nil
	}
	v := &mcastView{since: never, igmp3: m.igmp == 3, mld2: m.mld == 2, bridgeRouter: m.router == routerPermanent}
	if m.querier {
		v.since = m.querierDelay
	}
	return v
}

// setMcastRouter is br_multicast_set_router.
func (b *Bridge) setMcastRouter(a nlattr.Attr) error {
	if a.U8() > routerPermanent {
		return nlattr.Errno(syscall.EINVAL)
	}
	b.mcast.router = a.U8()
	return nil
}

// setQuerier is br_multicast_set_querier: a new querier is not relied upon until
// hosts have had the time to answer it.
func (b *Bridge) setQuerier(on bool) {
	if b.mcast.querier == on {
		return
	}
	b.mcast.querier = on
	if on {
		b.mcast.querierDelay = b.now() + b.mcast.queryResponseInterval
	}
}

// setSnooping is br_multicast_toggle. Switched off, temporary groups and router
// ports are forgotten; the rest stays listed without effect.
func (b *Bridge) setSnooping(on bool) {
	if b.mcast.snooping == on {
		return
	}
	b.mcast.snooping = on
	b.mdb.joined.Store(false)
	for _, p := range b.ports {
		if on {
			p.mcastEnable()
		} else {
			p.mcastDisable()
		}
	}
}

// mcastEnable puts a port in service: a permanent router port is listed
// (br_multicast_enable_port).
func (p *Port) mcastEnable() {
	if p.b.mcast.snooping && p.b.link.Up && p.mcast.router == routerPermanent {
		p.listRouter()
	}
}

// mcastDisable takes a port out of service: its temporary groups go, newest first,
// and it is no router port (br_multicast_disable_port).
func (p *Port) mcastDisable() {
	p.deleteGroups(false)
	p.unlistRouter()
}

// mcastDelete forgets the rest of a port that was released.
func (p *Port) mcastDelete() {
	p.deleteGroups(true)
	p.mcast.timer.cancel()
}

// mcastOpen and mcastStop follow the bridge device's admin state. Queries are not
// sent yet.
func (b *Bridge) mcastOpen() {}

func (b *Bridge) mcastStop() {}

// setMcastRouter is br_multicast_set_port_router.
func (p *Port) setMcastRouter(a nlattr.Attr) error {
	m, val := &p.mcast, a.U8()
	if val > routerTemporary {
		return nlattr.Errno(syscall.EINVAL)
	}
	if m.router == val {
		if val == routerTemporary && m.listed {
			m.timer.set(p.b, p.b.mcast.querierInterval, p.routerExpired)
		}
		return nil
	}
	m.router = val
	switch val {
	case routerDisabled, routerLearned:
		p.unlistRouter()
	case routerPermanent:
		m.timer.cancel()
		p.listRouter()
	case routerTemporary:
		if p.state != stateDisabled {
			p.listRouter()
			m.timer.set(p.b, p.b.mcast.querierInterval, p.routerExpired)
		}
	}
	return nil
}

func (p *Port) routerExpired() {
	if p.mcast.router != routerDisabled && p.mcast.router != routerPermanent {
		p.unlistRouter()
		p.b.publish()
	}
}

func (p *Port) listRouter() {
	if !p.mcast.listed {
		p.mcast.listed = true
		p.b.notifyRouter(unix.RTM_NEWMDB, p)
	}
}

func (p *Port) unlistRouter() {
	m := &p.mcast
	m.timer.cancel()
	if !m.listed {
		return
	}
	m.listed = false
	p.b.notifyRouter(unix.RTM_DELMDB, p)
	if m.router == routerTemporary {
		m.router = routerLearned
	}
}

// notifyRouter reports a router port (br_rtr_notify).
func (b *Bridge) notifyRouter(typ uint16, p *Port) {
	if !b.env.Notify.Wanted(unix.RTNLGRP_MDB) {
		return
	}
	buf, mark := nlattr.Nest(b.appendPortMsg(nil, unix.AF_BRIDGE), uapi.MDBARouter)
	buf = nlattr.EndNest(nlattr.AppendU32(buf, mdbaRouterPort, uint32(p.ifindex)), mark)
	b.env.Notify.Publish(notify.Change{Group: unix.RTNLGRP_MDB, Type: typ, Body: buf})
}

// appendPortMsg adds struct br_port_msg.
func (b *Bridge) appendPortMsg(buf []byte, family byte) []byte {
	return appendNative32(append(buf, family, 0, 0, 0), uint32(b.ifindex))
}

// Snooping tells whether IGMP and MLD snooping is on (IFLA_BR_MCAST_SNOOPING). A
// bridge that is up and snoops listens to the all-snoopers groups 224.0.0.106 and
// ff02::6a itself (br_multicast_join_snoopers); the layer above joins for it.
func (b *Bridge) Snooping() bool { return b.mcast.snooping }
