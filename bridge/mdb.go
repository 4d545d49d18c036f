package bridge

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/fdb"
)

// Protocols of a group (the proto of struct br_mdb_entry in host byte order).
const (
	groupL2   = 0
	groupIPv4 = 0x0800
	groupIPv6 = 0x86dd
)

// Modes of a port group (MCAST_EXCLUDE and MCAST_INCLUDE of linux/in.h).
const (
	modeExclude = 0
	modeInclude = 1
)

// Flags of a port group, as br_mdb_entry.flags shows them.
const (
	groupFastLeave = 1 << (iota + 1)
	groupStarExcl
	groupBlocked
)

// rtprotKernel and rtprotStatic are RTPROT_KERNEL and RTPROT_STATIC.
const (
	rtprotKernel = 2
	rtprotStatic = 4
)

// groupKey identifies a multicast group: struct br_ip. Addresses stand at the
// start of their arrays, of IPv4 in 4 bytes, of L2 in 6.
type groupKey struct {
	proto, vid uint16
	dst, src   [16]byte
}

// starG tells whether the key is (*, G). An L2 group is not: much of what holds for
// an (S, G) holds for it too (br_multicast_is_star_g).
func (k groupKey) starG() bool { return k.proto != groupL2 && k.src == [16]byte{} }

func (k groupKey) withSrc(src [16]byte) groupKey { k.src = src; return k }

// mdb is the multicast database. It is under the RTNL lock, table excepted.
type mdb struct {
	groups map[groupKey]*group
	list   []*group // newest last
	seed   maphash.Seed
	// table is what the frame path reads: groups by a hash of their key, as a
	// table of the FDB's kind is read without lock.
	table *fdb.Table[groupSlot]
	// joined tells that hosts reported groups since snooping was switched on.
	// Theirs are not in the table, because reports are not followed: a group that
	// is not there may have members all the same.
	joined atomic.Bool
}

// groupSlot heads the chain of groups whose keys have the same hash.
type groupSlot struct{ first atomic.Pointer[groupView] }

// groupView is what the frame path knows of a group. It is immutable.
type groupView struct {
	key     groupKey
	host    bool
	members []member
	next    *groupView
}

type member struct {
	p                *Port
	include, blocked bool
}

func (m *mdb) init() {
	m.groups = map[groupKey]*group{}
	m.seed = maphash.MakeSeed()
	m.table = fdb.New[groupSlot](fdb.Options{})
}

func (m *mdb) slotKey(k groupKey) fdb.Key {
	return fdb.Key{MAC: maphash.Comparable(m.seed, k) & (1<<48 - 1), Tag: uint32(k.vid)}
}

// lookup finds a group for the frame path.
func (m *mdb) lookup(k groupKey) *groupView {
	e := m.table.Lookup(m.slotKey(k))
	if e == nil {
		return nil
	}
	for g := e.V.first.Load(); g != nil; g = g.next {
		if g.key == k {
			return g
		}
	}
	return nil
}

// publishGroup makes the frame path see the group as it is now; gone removes it.
func (m *mdb) publishGroup(g *group, gone bool) {
	var chain *groupView
	if !gone {
		chain = &groupView{key: g.key, host: g.host}
		for _, pg := range g.ports {
			chain.members = append(chain.members, member{
				p: pg.p, include: pg.mode == modeInclude, blocked: pg.flags&groupBlocked != 0,
			})
		}
	}
	sk := m.slotKey(g.key)
	if e := m.table.Lookup(sk); e != nil {
		for v := e.V.first.Load(); v != nil; v = v.next {
			if v.key != g.key {
				keep := *v
				keep.next, chain = chain, &keep
			}
		}
		e.V.first.Store(chain)
		if chain == nil {
			m.table.Delete(e)
		}
	} else if chain != nil {
		m.table.Insert(sk, func(s *groupSlot) { s.first.Store(chain) })
	}
}

// group is one multicast group (struct net_bridge_mdb_entry).
type group struct {
	key   groupKey
	host  bool // the bridge device is a member
	timer timer
	ports []*portGroup
}

// portGroup is a port's membership (struct net_bridge_port_group).
type portGroup struct {
	g         *group
	p         *Port
	permanent bool
	flags     uint8 // as in br_mdb_entry
	mode      uint8
	proto     uint8 // RTPROT_*
	timer     timer
	srcs      []*groupSrc
}

// setHost makes the bridge device a member or no member of a (*, G), and with it of
// the (S, G)s that its sources have (br_multicast_star_g_host_state).
func (b *Bridge) setHost(g *group, on bool) {
	g.host = on
	b.mdb.publishGroup(g, false)
	if !g.key.starG() {
		return
	}
	for _, pg := range g.ports {
		for _, s := range pg.srcs {
			if sg := b.mdb.groups[g.key.withSrc(s.addr)]; sg != nil {
				sg.host = on
				b.mdb.publishGroup(sg, false)
			}
		}
	}
}

// groupSrc is a source of a (*, G) membership, which has an (S, G) of its own.
type groupSrc struct {
	addr  [16]byte
	timer timer
}

func (pg *portGroup) src(addr [16]byte) *groupSrc {
	for _, s := range pg.srcs {
		if s.addr == addr {
			return s
		}
	}
	return nil
}

// port returns p's membership of the group, nil if it is no member.
func (g *group) port(p *Port) *portGroup {
	for _, pg := range g.ports {
		if pg.p == p {
			return pg
		}
	}
	return nil
}

// handlesMode tells whether sources and modes matter for the protocol
// (br_multicast_should_handle_mode).
func (b *Bridge) handlesMode(proto uint16) bool {
	return proto == groupIPv4 && b.mcast.igmp == 3 || proto == groupIPv6 && b.mcast.mld == 2
}

// joinPort adds a membership, in the order of the ports.
func (b *Bridge) joinPort(g *group, pg *portGroup) {
	rank := func(p *Port) int { return slices.Index(b.ports, p) }
	at := slices.IndexFunc(g.ports, func(o *portGroup) bool { return rank(o.p) > rank(pg.p) })
	if at < 0 {
		at = len(g.ports)
	}
	g.ports = slices.Insert(g.ports, at, pg)
	pg.p.mcast.groups++
	pg.p.mcast.members = append(pg.p.mcast.members, pg)
	b.mdb.publishGroup(g, false)
}

// deletePortGroup ends a membership (br_multicast_del_pg): the groups of its
// sources go first, then it is reported, and what other memberships owed to it is
// undone.
func (b *Bridge) deletePortGroup(pg *portGroup) {
	for _, s := range slices.Backward(slices.Clone(pg.srcs)) {
		b.deleteSource(pg, s)
	}
	g := pg.g
	g.ports = slices.DeleteFunc(g.ports, func(o *portGroup) bool { return o == pg })
	m := &pg.p.mcast
	m.members = slices.DeleteFunc(m.members, func(o *portGroup) bool { return o == pg })
	m.groups--
	b.mdb.publishGroup(g, false)
	b.notifyGroup(unix.RTM_DELMDB, g, pg) // with what was left of its timer
	pg.timer.cancel()
	if !g.key.starG() {
		b.dropStarExclude(g)
	} else {
		b.followMode(pg, modeInclude)
	}
	b.collectGroup(g)
}

// deleteSource removes a source of a membership and the (S, G) made for it.
func (b *Bridge) deleteSource(pg *portGroup, s *groupSrc) {
	s.timer.cancel()
	pg.srcs = slices.DeleteFunc(pg.srcs, func(o *groupSrc) bool { return o == s })
	if sg := b.mdb.groups[pg.g.key.withSrc(s.addr)]; sg != nil {
		if spg := sg.port(pg.p); spg != nil {
			b.deletePortGroup(spg)
		}
	}
}

// collectGroup forgets a group without members.
func (b *Bridge) collectGroup(g *group) {
	if len(g.ports) > 0 || g.host || b.mdb.groups[g.key] != g {
		return
	}
	g.timer.cancel()
	delete(b.mdb.groups, g.key)
	b.mdb.list = slices.DeleteFunc(b.mdb.list, func(o *group) bool { return o == g })
	b.mdb.publishGroup(g, true)
}

// leaveHost ends the bridge device's own membership.
func (b *Bridge) leaveHost(g *group) {
	b.setHost(g, false)
	b.notifyGroup(unix.RTM_DELMDB, g, nil)
	g.timer.cancel()
	b.collectGroup(g)
}

// deleteGroups ends a port's memberships, newest first: the temporary ones, or all.
func (p *Port) deleteGroups(all bool) {
	for {
		i := len(p.mcast.members) - 1
		for i >= 0 && p.mcast.members[i].permanent && !all {
			i--
		}
		if i < 0 {
			return
		}
		p.b.deletePortGroup(p.mcast.members[i])
	}
}

// mdbClose stops the timers of a bridge that is being deleted. Its host groups go
// without a word, as in the kernel.
func (b *Bridge) mdbClose() {
	for _, g := range b.mdb.list {
		g.timer.cancel()
	}
}

// followMode adds a (*, G) membership in EXCLUDE mode to the (S, G)s that other
// ports' sources have, or takes it off them again
// (br_multicast_star_g_handle_mode).
func (b *Bridge) followMode(pg *portGroup, mode uint8) {
	for _, o := range slices.Clone(pg.g.ports) {
		if o == pg {
			continue
		}
		for _, s := range slices.Backward(slices.Clone(o.srcs)) {
			k := pg.g.key.withSrc(s.addr)
			if mode == modeExclude {
				b.addStarExclude(k, pg.p)
			} else if sg := b.mdb.groups[k]; sg != nil {
				if member := sg.port(pg.p); member != nil && member.flags&groupStarExcl != 0 {
					b.deletePortGroup(member)
				}
			}
		}
	}
}

// addExcludePorts adds the ports that want all of (*, G) to a new (S, G)
// (br_multicast_sg_add_exclude_ports).
func (b *Bridge) addExcludePorts(sg *group) {
	star := b.mdb.groups[sg.key.withSrc([16]byte{})]
	if star == nil {
		return
	}
	if star.host && !sg.host {
		sg.host = true
		b.mdb.publishGroup(sg, false)
	}
	for _, pg := range slices.Clone(star.ports) {
		if pg.mode == modeExclude {
			b.addStarExclude(sg.key, pg.p)
		}
	}
}

// addStarExclude adds a port to an (S, G) because it wants all of (*, G). The group
// is made if need be: a user may have deleted it under its source.
func (b *Bridge) addStarExclude(k groupKey, p *Port) {
	m := &p.mcast
	if p.state == stateDisabled || m.maxGroups != 0 && m.groups >= m.maxGroups {
		return
	}
	sg, err := b.newGroup(k)
	if err != nil || sg.port(p) != nil {
		return
	}
	pg := &portGroup{g: sg, p: p, mode: modeInclude, proto: rtprotKernel}
	b.joinPort(sg, pg)
	b.notifyGroup(unix.RTM_NEWMDB, sg, pg)
	pg.flags |= groupStarExcl
}

// dropStarExclude ends the memberships of an (S, G) that were there because of
// others only, once the last of those is gone (br_multicast_sg_del_exclude_ports).
func (b *Bridge) dropStarExclude(sg *group) {
	for _, pg := range sg.ports {
		if pg.flags&groupStarExcl == 0 && !pg.permanent {
			return
		}
	}
	if sg.host {
		sg.host = false
		b.mdb.publishGroup(sg, false)
	}
	for _, pg := range slices.Clone(sg.ports) {
		if !pg.permanent && sg.port(pg.p) == pg {
			b.deletePortGroup(pg)
		}
	}
}
