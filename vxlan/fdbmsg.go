package vxlan

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"github.com/linkspan/linkspan/uapi"
	"golang.org/x/sys/unix"
)

// home is where a device lives, which is not always where its datagrams go.
type home struct {
	ifindex int
	notify  notify.Publisher
	// netnsid is the id of the transport namespace as seen from here; foreign
	// tells that it is another one.
	netnsid int32
	foreign bool
}

// appendEntry adds the body of a neighbour message: struct ndmsg and attributes
// (vxlan_fdb_info). r is nil for an entry with a nexthop group.
func (d *Device) appendEntry(b []byte, e *entry, r *remote, now time.Duration) []byte {
	h := d.home.Load()
	k := e.Key()
	b = uapi.Ndmsg{
		Family: unix.AF_BRIDGE, Ifindex: int32(h.ifindex), State: e.V.state(), Flags: uint8(e.V.flags()), Type: unix.RTN_UNICAST,
	}.Append(b)
	if h.foreign {
		b = nlattr.AppendU32(b, uapi.NDALinkNetnsID, uint32(h.netnsid))
	}
	mac := uapi.MAC(k.MAC).Bytes()
	b = nlattr.Append(b, uapi.NDALLAddr, mac[:])
	if g := e.V.to.Load().group; g != nil {
		b = nlattr.AppendU32(b, uapi.NDANhID, g.id)
	} else if r != nil {
		b = d.appendRemote(b, r)
	}
	if d.fixed.external && k.Tag != 0 {
		b = nlattr.AppendU32(b, uapi.NDASrcVNI, k.Tag)
	}
	return appendCacheInfo(b, now-time.Duration(e.V.used.Load()), now-time.Duration(e.V.updated.Load()))
}

func (d *Device) appendRemote(b []byte, r *remote) []byte {
	if r.ip.Is4() {
		a := r.ip.As4()
		b = nlattr.Append(b, uapi.NDADst, a[:])
	} else {
		a := r.ip.As16()
		b = nlattr.Append(b, uapi.NDADst, a[:])
	}
	if r.port != 0 && r.port != d.fixed.port {
		b = nlattr.AppendBE16(b, uapi.NDAPort, r.port)
	}
	if r.vni != d.fixed.vni {
		b = nlattr.AppendU32(b, uapi.NDAVNI, r.vni)
	}
	if r.ifindex != 0 {
		b = nlattr.AppendU32(b, uapi.NDAIfindex, r.ifindex)
	}
	return b
}

// appendCacheInfo adds struct nda_cacheinfo: confirmed, used, updated, refcnt.
func appendCacheInfo(b []byte, used, updated time.Duration) []byte {
	const unit = time.Second / uapi.HZ
	var ci [16]byte
	binary.NativeEndian.PutUint32(ci[4:], uint32(max(used, 0)/unit))
	binary.NativeEndian.PutUint32(ci[8:], uint32(max(updated, 0)/unit))
	return nlattr.Append(b, uapi.NDACacheInfo, ci[:])
}

// announce publishes RTM_NEWNEIGH or RTM_DELNEIGH. d.mu is held.
func (d *Device) announce(typ uint16, e *entry, r *remote) {
	h := d.home.Load()
	if !h.notify.Wanted(unix.RTNLGRP_NEIGH) {
		return
	}
	d.buf = d.appendEntry(d.buf[:0], e, r, d.env.Clock.Now())
	h.notify.Publish(notify.Change{Group: unix.RTNLGRP_NEIGH, Type: typ, Body: d.buf})
}

// FDBGet returns the body of the RTM_NEWNEIGH that answers RTM_GETNEIGH
// (vxlan_fdb_get): the entry's first remote. vni is NDA_VNI, which names the
// source VNI, and hasVNI whether it was there.
func (d *Device) FDBGet(mac uapi.MAC, vni uint32, hasVNI bool) (body []byte, ok bool) {
	if !hasVNI {
		vni = d.cfg.VNI
	}
	e := d.find(mac, vni)
	if e == nil {
		return nil, false
	}
	return d.appendEntry(nil, e, first(e.V.to.Load()), d.env.Clock.Now()), true
}

// FDBDump calls emit with the body of an RTM_NEWNEIGH for every remote, the
// newest entry first. The body is valid during the call only. Entries that are
// there from beginning to end come exactly once; learning goes on meanwhile.
func (d *Device) FDBDump(emit func(body []byte)) {
	d.mu.Lock()
	all := make([]*entry, 0, d.table.Len())
	for e := range d.table.All() {
		all = append(all, e)
	}
	d.mu.Unlock()
	now := d.env.Clock.Now()
	var b []byte
	for _, e := range all {
		if !e.Linked() {
			continue
		}
		to := e.V.to.Load()
		if to.group != nil {
			b = d.appendEntry(b[:0], e, nil, now)
			emit(b)
			continue
		}
		for i := range to.list {
			b = d.appendEntry(b[:0], e, &to.list[i], now)
			emit(b)
		}
	}
}

// miss tells that no entry leads to mac (vxlan_fdb_miss).
func (d *Device) miss(mac uapi.MAC) {
	h := d.home.Load()
	if !h.notify.Wanted(unix.RTNLGRP_NEIGH) {
		return
	}
	b := uapi.Ndmsg{Family: unix.AF_INET, Ifindex: int32(h.ifindex), State: uapi.NUDStale, Type: unix.RTN_UNICAST}.Append(nil)
	if h.foreign {
		b = nlattr.AppendU32(b, uapi.NDALinkNetnsID, uint32(h.netnsid))
	}
	b = nlattr.Append(b, uapi.NDALLAddr, mac.Append(nil))
	if d.fixed.vni != 0 {
		b = nlattr.AppendU32(b, uapi.NDAVNI, 0)
	}
	d.publishMiss(b)
}

// ipMiss tells that no neighbour has an address (vxlan_ip_miss).
func (d *Device) ipMiss(ip netip.Addr) {
	h := d.home.Load()
	if !h.notify.Wanted(unix.RTNLGRP_NEIGH) {
		return
	}
	family := uint8(unix.AF_INET)
	if ip.Is6() {
		family = unix.AF_INET6
	}
	b := uapi.Ndmsg{Family: family, Ifindex: int32(h.ifindex), State: uapi.NUDStale, Type: unix.RTN_UNICAST}.Append(nil)
	if h.foreign {
		b = nlattr.AppendU32(b, uapi.NDALinkNetnsID, uint32(h.netnsid))
	}
	b = nlattr.Append(b, uapi.NDADst, ip.AsSlice())
	b = nlattr.AppendU32(b, uapi.NDAVNI, vniLimit)
	d.publishMiss(b)
}

// publishMiss completes and publishes the body of an L2 or L3 miss. The kernel
// fills its times from an entry of zeros.
func (d *Device) publishMiss(b []byte) {
	now := d.env.Clock.Now()
	b = appendCacheInfo(b, now, now)
	d.home.Load().notify.Publish(notify.Change{Group: unix.RTNLGRP_NEIGH, Type: unix.RTM_GETNEIGH, Body: b})
}
