package vxlan

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"golang.org/x/sys/unix"
)

// TunnelMsgLen is the size of struct tunnel_msg (uapi/linux/if_link.h): family,
// flags, 16 reserved bits and the interface index.
const TunnelMsgLen = 8

// tunnelStats asks for, and marks, statistics (TUNNEL_MSG_FLAG_STATS).
const tunnelStats = 1

// maxTunnelBody is where a dump begins another message for the same device, in
// bytes: what fits into a socket buffer of the kernel's.
const maxTunnelBody = 15 << 10

func appendTunnelMsg(b []byte, flags uint8, ifindex int) []byte {
	b = append(b, unix.AF_BRIDGE, flags, 0, 0)
	return binary.NativeEndian.AppendUint32(b, uint32(ifindex))
}

// appendVNIs adds an entry for the VNIs from n to last, which share a remote.
func appendVNIs(b []byte, n *vniNode, last uint32, stats bool) []byte {
	b, mark := nlattr.Nest(b, attrEntry|nlattr.FlagNested)
	b = nlattr.AppendU32(b, entryStart, n.vni)
	if last != n.vni {
		b = nlattr.AppendU32(b, entryEnd, last)
	}
	if n.own() {
		b = appendAddr(b, entryGroup, entryGroup6, n.remote)
	}
	if stats {
		var in int
		b, in = nlattr.Nest(b, entryStats|nlattr.FlagNested)
		for i, c := range n.stats.ordered() {
			b = nlattr.AppendU64(b, uint16(i+1), c.Load())
		}
		b = nlattr.EndNest(b, in)
	}
	return nlattr.EndNest(b, mark)
}

// ordered returns the counters in the order of VNIFILTER_ENTRY_STATS_*.
func (s *vniStats) ordered() [8]*atomic.Uint64 {
	return [...]*atomic.Uint64{
		&s.rxBytes, &s.rxPackets, &s.rxDrops, &s.rxErrors, &s.txBytes, &s.txPackets, &s.txDrops, &s.txErrors,
	}
}

// tellVNI publishes RTM_NEWTUNNEL or RTM_DELTUNNEL for one VNI.
func (d *Device) tellVNI(typ uint16, n *vniNode) {
	h := d.home.Load()
	if !h.notify.Wanted(unix.RTNLGRP_TUNNEL) {
		return
	}
	b := appendVNIs(appendTunnelMsg(nil, 0, h.ifindex), n, n.vni, false)
	h.notify.Publish(notify.Change{Group: unix.RTNLGRP_TUNNEL, Type: typ, Body: b})
}

// VNIDump calls emit with the bodies of the RTM_NEWTUNNEL messages that answer
// RTM_GETTUNNEL for this device, none if it has no VNI. flags are those of the
// request's struct tunnel_msg. A body is valid during the call only.
func (d *Device) VNIDump(flags uint8, emit func(body []byte)) {
	stats := flags&tunnelStats != 0
	ifindex := d.home.Load().ifindex
	list := d.vnis.list
	head := appendTunnelMsg(nil, 0, ifindex)
	b := append([]byte(nil), head...)
	for i := 0; i < len(list); {
		first, last := list[i], list[i]
		for i++; !stats && i < len(list) && list[i].vni == last.vni+1 && sameRemote(list[i], first); i++ {
			last = list[i]
		}
		b = appendVNIs(b, first, last.vni, stats)
		if len(b) > maxTunnelBody {
			emit(b)
			b = append(b[:0], head...)
		}
	}
	if len(b) > len(head) {
		emit(b)
	}
}

// sameRemote tells whether the kernel's dump puts two VNIs into one range: a
// remote of 0.0.0.0 is not the same to it as none.
func sameRemote(a, b *vniNode) bool { return a.remote == b.remote }

// VNIFilter tells whether the device has a filter, so that tunnel messages
// concern it.
func (d *Device) VNIFilter() bool { return d.cfg.VNIFilter }
