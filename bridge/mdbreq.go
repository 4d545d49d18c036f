package bridge

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/uapi"
)

// maxSources is how many sources one membership may have (PG_SRC_ENT_LIMIT - 1).
const maxSources = 31

// mdbConfig is a request to add, replace or delete a membership (struct
// br_mdb_config).
type mdbConfig struct {
	key       groupKey
	p         *Port // nil is the bridge device
	ifindex   int
	permanent bool
	replace   bool
	mode      uint8
	proto     uint8
	srcs      [][16]byte
	// source tells that the request is for a source of a (*, G).
	source bool
	flags  uint8
}

// MDBRequest carries out RTM_NEWMDB and RTM_DELMDB; attrs are what follows struct
// br_port_msg, which named this bridge. NLM_F_REPLACE and, for DELMDB, NLM_F_BULK
// count in nlflags. Errors are *nlattr.Error with the kernel's texts.
func (b *Bridge) MDBRequest(typ, nlflags uint16, attrs nlattr.Attrs) error {
	bulk := typ == unix.RTM_DELMDB && nlflags&uapi.NLMBulk != 0
	if err := CheckMDB(attrs, bulk); err != nil {
		return err
	}
	a, ok := attrs.Get(uapi.MDBASetEntry)
	if !ok {
		return nlattr.Errf(syscall.EINVAL, "Missing MDBA_SET_ENTRY attribute")
	}
	e := parseMDBEntry(a.Data)
	if bulk {
		return b.mdbFlush(e, attrs)
	}
	c, err := b.mdbConfig(e, attrs)
	if err != nil {
		return err
	}
	if typ == unix.RTM_DELMDB {
		return b.mdbDelete(c)
	}
	c.replace = nlflags&uapi.NLMReplace != 0
	return b.mdbAdd(c, e)
}

func (b *Bridge) mdbAdd(c mdbConfig, e mdbEntry) error {
	einval := func(text string) error { return nlattr.Errf(syscall.EINVAL, "%s", text) }
	if c.p == nil && c.key.proto != groupL2 {
		if e.state != 0 {
			return einval("bridge: Flags are not allowed for host groups")
		}
		if !c.key.starG() {
			return einval("bridge: Groups with sources cannot be manually host joined")
		}
	}
	if c.key.proto == groupL2 && !c.permanent {
		return einval("bridge: Only permanent L2 entries allowed")
	}
	if c.p != nil && c.p.state == stateDisabled && !c.permanent {
		return einval("bridge: Port is in disabled state and entry is not permanent")
	}
	return b.addMembership(c)
}

// newGroup returns the group of the key, made if need be. One too many makes the
// bridge give up snooping altogether (br_multicast_new_group).
func (b *Bridge) newGroup(k groupKey) (*group, error) {
	if g := b.mdb.groups[k]; g != nil {
		return g, nil
	}
	if uint32(len(b.mdb.list)) >= b.mcast.hashMax {
		b.mcast.snooping = false
		b.publish()
		return nil, nlattr.Errno(syscall.E2BIG)
	}
	g := &group{key: k}
	b.mdb.groups[k] = g
	b.mdb.list = append(b.mdb.list, g)
	return g, nil
}

// addMembership is br_mdb_add_group.
func (b *Bridge) addMembership(c mdbConfig) error {
	g, err := b.newGroup(c.key)
	if err != nil {
		return err
	}
	if c.p == nil {
		return b.joinHost(g, c.replace)
	}
	pg := g.port(c.p)
	created := pg == nil
	switch {
	case created:
		if m := &c.p.mcast; m.maxGroups != 0 && m.groups >= m.maxGroups {
			b.collectGroup(g)
			return nlattr.Errf(syscall.ENOMEM, "bridge: Port is already in %d groups, and mcast_max_groups=%d", m.groups, m.maxGroups)
		}
		pg = &portGroup{g: g, p: c.p}
		b.configure(pg, c)
		b.joinPort(g, pg)
	case !c.replace:
		kind := "(*, G)"
		if !c.key.starG() {
			kind = "(S, G)"
		}
		return nlattr.Errf(syscall.EEXIST, "bridge: %s group is already joined by port", kind)
	}
	if err := b.setSources(pg, c); err != nil {
		for _, s := range slices.Backward(slices.Clone(pg.srcs)) {
			b.deleteSource(pg, s)
		}
		if created {
			b.abandon(pg)
		}
		return err
	}
	b.configure(pg, c)
	pg.timer.cancel()
	if !c.permanent && !c.source && (!c.key.starG() || c.mode == modeExclude) {
		pg.timer.set(b, b.mcast.membershipInterval, func() { b.membershipExpired(pg) })
	}
	b.mdb.publishGroup(g, false)
	b.notifyGroup(unix.RTM_NEWMDB, g, pg)
	if b.handlesMode(c.key.proto) {
		if c.key.starG() {
			b.followMode(pg, c.mode)
		} else if created {
			b.addExcludePorts(g)
		}
	}
	return nil
}

func (b *Bridge) configure(pg *portGroup, c mdbConfig) {
	pg.permanent, pg.flags, pg.proto, pg.mode = c.permanent, c.flags, c.proto, c.mode
	if !c.key.starG() {
		pg.mode = modeInclude
	}
}

// abandon takes back a membership whose sources could not be added. It was never
// reported.
func (b *Bridge) abandon(pg *portGroup) {
	pg.g.ports = slices.DeleteFunc(pg.g.ports, func(o *portGroup) bool { return o == pg })
	m := &pg.p.mcast
	m.members = slices.DeleteFunc(m.members, func(o *portGroup) bool { return o == pg })
	m.groups--
	b.mdb.publishGroup(pg.g, false)
	b.collectGroup(pg.g)
}

// setSources makes the sources of a (*, G) membership those of the request, each
// with an (S, G) of its own, and removes others it had.
func (b *Bridge) setSources(pg *portGroup, c mdbConfig) error {
	if !c.key.starG() {
		return nil
	}
	for _, addr := range c.srcs {
		s := pg.src(addr)
		created := s == nil
		if created {
			s = &groupSrc{addr: addr}
			pg.srcs = append(pg.srcs, s)
		}
		s.timer.cancel()
		if !c.permanent && c.mode == modeInclude {
			s.timer.set(b, b.mcast.membershipInterval, func() { b.sourceExpired(pg, s) })
		}
		sc := c
		sc.key, sc.srcs, sc.source, sc.mode, sc.flags = c.key.withSrc(addr), nil, true, modeInclude, 0
		if c.mode == modeExclude {
			sc.flags = groupBlocked
		}
		if err := b.addMembership(sc); err != nil {
			if created {
				// An (S, G) that was there is not this source's to remove.
				s.timer.cancel()
				pg.srcs = slices.DeleteFunc(pg.srcs, func(o *groupSrc) bool { return o == s })
			}
			return err
		}
	}
	for _, s := range slices.Backward(slices.Clone(pg.srcs)) {
		if !slices.Contains(c.srcs, s.addr) {
			b.deleteSource(pg, s)
		}
	}
	return nil
}

// joinHost makes the bridge device a member, or with replace again a member.
func (b *Bridge) joinHost(g *group, replace bool) error {
	if g.host && !replace {
		return nlattr.Errf(syscall.EEXIST, "bridge: Group is already joined by host")
	}
	if !g.host {
		b.setHost(g, true)
	}
	if g.key.proto != groupL2 {
		g.timer.set(b, b.mcast.membershipInterval, func() { b.leaveHost(g) })
	}
	b.notifyGroup(unix.RTM_NEWMDB, g, nil)
	return nil
}

// membershipExpired is br_multicast_port_group_expired. Only a membership without
// sources goes; one with sources becomes an INCLUDE of those that are alive.
func (b *Bridge) membershipExpired(pg *portGroup) {
	pg.mode = modeInclude
	for _, s := range slices.Backward(slices.Clone(pg.srcs)) {
		if !s.timer.pending {
			b.deleteSource(pg, s)
		}
	}
	if len(pg.srcs) == 0 {
		b.deletePortGroup(pg)
		return
	}
	b.mdb.publishGroup(pg.g, false)
	b.followMode(pg, modeInclude)
	b.notifyGroup(unix.RTM_NEWMDB, pg.g, pg)
}

// sourceExpired is br_multicast_group_src_expired for INCLUDE mode.
func (b *Bridge) sourceExpired(pg *portGroup, s *groupSrc) {
	if pg.mode != modeInclude {
		return
	}
	b.deleteSource(pg, s)
	if len(pg.srcs) == 0 {
		b.deletePortGroup(pg)
	}
}

// mdbDelete is __br_mdb_del. What is not there is EINVAL, not ENOENT.
func (b *Bridge) mdbDelete(c mdbConfig) error {
	g := b.mdb.groups[c.key]
	if g == nil {
		return nlattr.Errno(syscall.EINVAL)
	}
	if c.p == nil {
		if !g.host {
			return nlattr.Errno(syscall.EINVAL)
		}
		b.leaveHost(g)
		return nil
	}
	pg := g.port(c.p)
	if pg == nil {
		return nlattr.Errno(syscall.EINVAL)
	}
	b.deletePortGroup(pg)
	return nil
}

// mdbFlush is br_mdb_del_bulk: every membership that matches goes, host ones too
// unless a routing protocol is asked for.
func (b *Bridge) mdbFlush(e mdbEntry, attrs nlattr.Attrs) error {
	var proto, mask uint8
	if a, ok := attrs.Get(uapi.MDBASetEntryAttrs); ok {
		as, err := parseNest(a, mdbBulkPolicy)
		if err != nil {
			return err
		}
		if a, ok := as.Get(uapi.MDBEAttrRTProt); ok {
			proto = a.U8()
		}
		if a, ok := as.Get(uapi.MDBEAttrStateMask); ok {
			if mask = a.U8(); mask&^1 != 0 {
				return nlattr.ErrAttr(syscall.EINVAL, a, "reserved bit set")
			}
		}
	}
	matches := func(ifindex int, permanent bool) bool {
		return (e.ifindex == 0 || e.ifindex == ifindex) && (mask == 0 || bool8(permanent)&mask == e.state)
	}
	for _, g := range slices.Backward(slices.Clone(b.mdb.list)) {
		if e.vid != 0 && e.vid != g.key.vid {
			continue
		}
		if g.host && proto == 0 && matches(b.ifindex, g.key.proto == groupL2) {
			b.leaveHost(g)
		}
		for _, pg := range slices.Clone(g.ports) {
			if (proto == 0 || proto == pg.proto) && matches(pg.p.ifindex, pg.permanent) && g.port(pg.p) == pg {
				b.deletePortGroup(pg)
			}
		}
	}
	return nil
}
