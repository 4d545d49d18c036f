package bridge

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
)

// Attributes of MDBA_ROUTER and of a source that package uapi lacks
// (uapi/linux/if_bridge.h).
const (
	mdbaRouterPort       = 1
	mdbaRouterTimer      = 1
	mdbaRouterType       = 2
	mdbaRouterInetTimer  = 3
	mdbaRouterInet6Timer = 4
	mdbaSrcListEntry     = 1
	mdbaSrcAddress       = 1
	mdbaSrcTimer         = 2
)

// mdbEntryLen is the size of struct br_mdb_entry.
const mdbEntryLen = 28

// mdbEntry is struct br_mdb_entry.
type mdbEntry struct {
	ifindex int
	state   uint8 // 0 temporary, 1 permanent
	flags   uint8
	vid     uint16
	addr    [16]byte
	proto   uint16 // host byte order
}

func parseMDBEntry(b []byte) (e mdbEntry) {
	e.ifindex = int(int32(binary.NativeEndian.Uint32(b)))
	e.state, e.flags = b[4], b[5]
	e.vid = binary.NativeEndian.Uint16(b[6:])
	copy(e.addr[:], b[8:24])
	e.proto = binary.BigEndian.Uint16(b[24:])
	return e
}

func (e mdbEntry) append(b []byte) []byte {
	b = append(appendNative32(b, uint32(e.ifindex)), e.state, e.flags)
	b = append(binary.NativeEndian.AppendUint16(b, e.vid), e.addr[:]...)
	return append(binary.BigEndian.AppendUint16(b, e.proto), 0, 0)
}

// key is the group of the entry: __mdb_entry_to_br_ip. What the union holds beyond
// the address of its protocol does not count.
func (e mdbEntry) key() groupKey {
	k := groupKey{proto: e.proto, vid: e.vid}
	copy(k.dst[:], e.addr[:addrLen(e.proto)])
	return k
}

// addrLen is the length of an address of the protocol in bytes.
func addrLen(proto uint16) int {
	switch proto {
	case groupIPv4:
		return 4
	case groupIPv6:
		return 16
	}
	return 6
}

// appendGroup adds MDBA_MDB_ENTRY_INFO of one membership; pg is nil for the bridge
// device's own (__mdb_fill_info).
func (b *Bridge) appendGroup(buf []byte, g *group, pg *portGroup, now ticks) []byte {
	e := mdbEntry{ifindex: b.ifindex, vid: g.key.vid, addr: g.key.dst, proto: g.key.proto}
	tm := &g.timer
	if pg != nil {
		e.ifindex, e.flags, tm = pg.p.ifindex, pg.flags, &pg.timer
		e.state = bool8(pg.permanent)
	}
	if g.key.proto == groupL2 {
		e.state = 1
	}
	buf, mark := nlattr.Nest(buf, uapi.MDBAMDBEntryInfo)
	buf = e.append(buf)
	buf = nlattr.AppendU32(buf, uapi.MDBAMDBEAttrTimer, uint32(tm.left(now)))
	if g.key.src != [16]byte{} {
		buf = nlattr.Append(buf, uapi.MDBAMDBEAttrSource, g.key.src[:addrLen(g.key.proto)])
	}
	if pg != nil {
		buf = nlattr.AppendU8(buf, uapi.MDBAMDBEAttrRTProt, pg.proto)
		if b.handlesMode(g.key.proto) {
			buf = pg.appendSources(buf, now)
			buf = nlattr.AppendU8(buf, uapi.MDBAMDBEAttrGroupMode, pg.mode)
		}
	}
	return nlattr.EndNest(buf, mark)
}

func (pg *portGroup) appendSources(buf []byte, now ticks) []byte {
	if len(pg.srcs) == 0 {
		return buf
	}
	buf, list := nlattr.Nest(buf, uapi.MDBAMDBEAttrSrcList|nlattr.FlagNested)
	for i := len(pg.srcs) - 1; i >= 0; i-- { // newest first
		s := pg.srcs[i]
		var mark int
		buf, mark = nlattr.Nest(buf, mdbaSrcListEntry|nlattr.FlagNested)
		buf = nlattr.Append(buf, mdbaSrcAddress, s.addr[:addrLen(pg.g.key.proto)])
		buf = nlattr.EndNest(nlattr.AppendU32(buf, mdbaSrcTimer, uint32(s.timer.left(now))), mark)
	}
	return nlattr.EndNest(buf, list)
}

// notifyGroup reports one membership (br_mdb_notify).
func (b *Bridge) notifyGroup(typ uint16, g *group, pg *portGroup) {
	if !b.env.Notify.Wanted(unix.RTNLGRP_MDB) {
		return
	}
	buf, mdb := nlattr.Nest(b.appendPortMsg(nil, unix.AF_BRIDGE), uapi.MDBAMDB)
	buf, ent := nlattr.Nest(buf, uapi.MDBAMDBEntry)
	buf = b.appendGroup(buf, g, pg, b.now())
	buf = nlattr.EndNest(nlattr.EndNest(buf, ent), mdb)
	b.env.Notify.Publish(notify.Change{Group: unix.RTNLGRP_MDB, Type: typ, Body: buf})
}

// appendEntry adds MDBA_MDB_ENTRY: all memberships of a group, the host's first.
func (b *Bridge) appendEntry(buf []byte, g *group, now ticks) []byte {
	buf, mark := nlattr.Nest(buf, uapi.MDBAMDBEntry)
	if g.host {
		buf = b.appendGroup(buf, g, nil, now)
	}
	for _, pg := range g.ports {
		buf = b.appendGroup(buf, g, pg, now)
	}
	return nlattr.EndNest(buf, mark)
}

// MDBDump returns the bridge's row of an RTM_GETMDB dump, to be sent with the type
// RTM_GETMDB: struct br_port_msg of family 0, MDBA_MDB with the groups, newest
// first, and MDBA_ROUTER if there are router ports.
func (b *Bridge) MDBDump() []byte {
	now := b.now()
	buf, mark := nlattr.Nest(b.appendPortMsg(nil, 0), uapi.MDBAMDB)
	for i := len(b.mdb.list) - 1; i >= 0; i-- {
		buf = b.appendEntry(buf, b.mdb.list[i], now)
	}
	return b.appendRouters(nlattr.EndNest(buf, mark), now)
}

// appendRouters is br_rports_fill_info.
func (b *Bridge) appendRouters(buf []byte, now ticks) []byte {
	start := len(buf)
	buf, mark := nlattr.Nest(buf, uapi.MDBARouter)
	n := 0
	for _, p := range b.ports {
		if !p.mcast.listed {
			continue
		}
		n++
		left := uint32(p.mcast.timer.left(now))
		var port int
		buf, port = nlattr.Nest(buf, mdbaRouterPort)
		buf = appendNative32(buf, uint32(p.ifindex))
		buf = nlattr.AppendU32(buf, mdbaRouterTimer, left)
		buf = nlattr.AppendU8(buf, mdbaRouterType, p.mcast.router)
		buf = nlattr.AppendU32(buf, mdbaRouterInetTimer, left)
		buf = nlattr.EndNest(nlattr.AppendU32(buf, mdbaRouterInet6Timer, left), port)
	}
	if n == 0 {
		return buf[:start]
	}
	return nlattr.EndNest(buf, mark)
}
