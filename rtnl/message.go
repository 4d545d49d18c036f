// Package rtnl is the rtnetlink server: sessions with clients, the messages'
// codec, dispatch to the devices of a network namespace, dumps, errors with
// extended acknowledgement, and notification groups.
package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

var ne = binary.NativeEndian

// headerLen is NLMSG_HDRLEN.
const headerLen = unix.SizeofNlMsghdr

// Part is the size in bytes that the parts of a dump do not exceed, unless a
// single message does. The kernel starts with NLMSG_GOODSIZE, a page less the
// socket buffer's overhead, and Go's net.Interfaces reads by the page. A caller
// that is known to read more at a time gets PartLarge, which is where the kernel
// stops too.
const (
	Part      = 3776
	PartLarge = 32 << 10
)

// message is one request: header fields and the whole bytes.
type message struct {
	typ   uint16
	flags uint16
	seq   uint32
	// raw is the message with its header, without padding.
	raw []byte
}

// body is what follows the header.
func (m *message) body() []byte { return m.raw[headerLen:] }

// attrs parses what follows a fixed header of n bytes in the body.
func (m *message) attrs(n int) (nlattr.Attrs, int) {
	n = min(nlattr.Align(n), len(m.body()))
	return nlattr.Parse(m.raw[headerLen+n:], headerLen+n)
}

// dump tells whether the request asks for a dump (NLM_F_DUMP is two bits, both
// of which have other meanings on other requests).
func (m *message) dump() bool {
	return m.flags&unix.NLM_F_DUMP != 0 && verb(m.typ) == verbGet
}

// Verbs of rtnetlink message types: the low two bits (enum rtnl_kinds).
const (
	verbNew = iota
	verbDel
	verbGet
	verbSet
)

// rtmMax is RTM_MAX of Linux 6.18: types above it are refused before anything else
// is looked at (rtnetlink_rcv_msg).
const rtmMax = unix.RTM_GETTUNNEL | 3

func verb(typ uint16) uint16 { return typ & 3 }

// split cuts the next message off b as netlink_rcv_skb does; ok is false at the
// end and where the length lies, in which case the rest is dropped silently.
func split(b []byte) (m message, rest []byte, ok bool) {
	if len(b) < headerLen {
		return m, nil, false
	}
	n := int(ne.Uint32(b))
	if n < headerLen || n > len(b) {
		return m, nil, false
	}
	m = message{typ: ne.Uint16(b[4:]), flags: ne.Uint16(b[6:]), seq: ne.Uint32(b[8:]), raw: b[:n:n]}
	return m, b[min(nlattr.Align(n), len(b)):], true
}

// beginMessage appends a header whose length endMessage fills in.
func beginMessage(b []byte, typ, flags uint16, seq, pid uint32) []byte {
	b = ne.AppendUint32(b, 0)
	b = ne.AppendUint16(b, typ)
	b = ne.AppendUint16(b, flags)
	b = ne.AppendUint32(b, seq)
	return ne.AppendUint32(b, pid)
}

// endMessage closes the message that began at mark and pads it.
func endMessage(b []byte, mark int) []byte {
	ne.PutUint32(b[mark:], uint32(len(b)-mark))
	for len(b)&3 != 0 {
		b = append(b, 0)
	}
	return b
}

// appendMessage appends a message with a ready body.
func appendMessage(b []byte, typ, flags uint16, seq, pid uint32, body []byte) []byte {
	mark := len(b)
	b = beginMessage(b, typ, flags, seq, pid)
	return endMessage(append(b, body...), mark)
}

// appendAck appends the NLMSG_ERROR that answers m (netlink_ack). err nil is
// success; an *nlattr.Error without errno is success with a warning. ext and cap are the client's NETLINK_EXT_ACK and NETLINK_CAP_ACK.
func appendAck(b []byte, m *message, pid uint32, err error, ext, capped bool) []byte {
	e := &nlattr.Error{}
	flags, payload := uint16(unix.NLM_F_CAPPED), m.raw[:headerLen]
	if err != nil {
		e = nlattr.AsError(err)
	}
	if e.Errno != 0 && !capped {
		flags, payload = 0, m.raw
	}
	tlv := ext && (e.Msg != "" || e.Offset != 0 || e.MissType != 0 || e.MissNest != 0)
	if tlv {
		flags |= unix.NLM_F_ACK_TLVS
	}
	mark := len(b)
	b = beginMessage(b, unix.NLMSG_ERROR, flags, m.seq, pid)
	b = ne.AppendUint32(b, uint32(-int32(e.Errno)))
	b = append(b, payload...)
	// The copy is padded within the message (nlmsg_append), TLVs or not.
	for len(b)&3 != 0 {
		b = append(b, 0)
	}
	if tlv {
		b = appendExtack(b, e)
	}
	return endMessage(b, mark)
}

// appendExtack appends the NLMSGERR_ATTR_* of e in the kernel's order
// (netlink_ack_tlv_fill).
func appendExtack(b []byte, e *nlattr.Error) []byte {
	if e.Msg != "" {
		b = nlattr.AppendString(b, unix.NLMSGERR_ATTR_MSG, e.Msg)
	}
	if e.Offset != 0 {
		b = nlattr.AppendU32(b, unix.NLMSGERR_ATTR_OFFS, uint32(e.Offset))
	}
	if len(e.Policy) != 0 {
		b = nlattr.Append(b, attrPolicy|nlattr.FlagNested, e.Policy)
	}
	if e.MissType != 0 {
		b = nlattr.AppendU32(b, attrMissType, e.MissType)
	}
	if e.MissNest != 0 {
		b = nlattr.AppendU32(b, attrMissNest, uint32(e.MissNest))
	}
	return b
}

// NLMSGERR_ATTR_POLICY, _MISS_TYPE and _MISS_NEST (uapi/linux/netlink.h).
const (
	attrPolicy   = 4
	attrMissType = 5
	attrMissNest = 6
)

// EachMessage calls f with every message of a datagram, each without padding.
func EachMessage(b []byte, f func(msg []byte)) {
	for {
		m, rest, ok := split(b)
		if !ok {
			return
		}
		f(m.raw)
		b = rest
	}
}
