package rtnltest

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl"
)

var ne = binary.NativeEndian

const (
	headerLen = unix.SizeofNlMsghdr
	// rtmMax is RTM_MAX of Linux 6.18.
	rtmMax = unix.RTM_GETTUNNEL | 3
	// dumpPart is how many bytes one part of a dump has at most.
	dumpPart = 16 << 10
)

// conn is a socket to the Kernel.
type conn struct {
	k                      *Kernel
	port                   uint32
	extAck, capAck, strict bool
	closed                 bool
}

var _ rtnl.KernelConn = (*conn)(nil)

// Dial implements rtnl.Kernel.
func (k *Kernel) Dial() (rtnl.KernelConn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail("dial", ""); err != nil {
		return nil, err
	}
	k.nextPort++
	k.conns++
	return &conn{k: k, port: k.nextPort}, nil
}

// PortID implements rtnl.KernelConn.
func (c *conn) PortID() uint32 { return c.port }

// SetOptions implements rtnl.KernelConn.
func (c *conn) SetOptions(extAck, capAck, strict bool) {
	c.extAck, c.capAck, c.strict = extAck, capAck, strict
}

// Close implements rtnl.KernelConn.
func (c *conn) Close() error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.closed {
		return errors.New("rtnltest: socket closed twice")
	}
	c.closed = true
	c.k.conns--
	return nil
}

// Do implements rtnl.KernelConn (netlink_rcv_skb).
func (c *conn) Do(packet []byte, reply func(b []byte)) error {
	c.k.mu.Lock()
	if c.closed {
		c.k.mu.Unlock()
		return errors.New("rtnltest: socket is closed")
	}
	var out [][]byte
	for len(packet) >= headerLen {
		n := int(ne.Uint32(packet))
		if n < headerLen || n > len(packet) {
			break
		}
		r := &request{k: c.k, c: c, raw: packet[:n:n], typ: ne.Uint16(packet[4:]), flags: ne.Uint16(packet[6:]), seq: ne.Uint32(packet[8:])}
		var err error
		if r.flags&unix.NLM_F_REQUEST != 0 && r.typ >= unix.NLMSG_MIN_TYPE {
			err = r.handle()
		}
		out = append(out, r.out...)
		// A dump that was begun ends itself.
		if err != nil || r.flags&unix.NLM_F_ACK != 0 && !r.dumped {
			out = append(out, c.ack(r, err))
		}
		packet = packet[min(nlattr.Align(n), len(packet)):]
	}
	c.k.changed.Broadcast()
	c.k.mu.Unlock()
	for _, b := range out {
		reply(b)
	}
	return nil
}

// ack is netlink_ack.
func (c *conn) ack(r *request, err error) []byte {
	e := r.result(err)
	body := ne.AppendUint32(nil, uint32(-int32(e.Errno)))
	flags := uint16(0)
	if e.Errno == 0 || c.capAck {
		flags |= unix.NLM_F_CAPPED
		body = append(body, r.raw[:headerLen]...)
	} else {
		body = append(body, r.raw...)
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
	}
	if c.extAck && hasText(e) {
		flags |= unix.NLM_F_ACK_TLVS
		body = appendText(body, e)
	}
	return appendMessage(nil, unix.NLMSG_ERROR, flags, r.seq, c.port, body)
}

// appendMessage adds a message, padded.
func appendMessage(b []byte, typ, flags uint16, seq, port uint32, body []byte) []byte {
	b = ne.AppendUint32(b, uint32(headerLen+len(body)))
	b = ne.AppendUint16(b, typ)
	b = ne.AppendUint16(b, flags)
	b = ne.AppendUint32(b, seq)
	b = ne.AppendUint32(b, port)
	b = append(b, body...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// request is one message to the Kernel.
type request struct {
	k          *Kernel
	c          *conn
	raw        []byte
	typ, flags uint16
	seq        uint32
	out        [][]byte
	dumped     bool
	remark     string // the text for a result that has none of its own
}

func (r *request) body() []byte { return r.raw[headerLen:] }

// attrs parses what follows a header of n bytes: as nlmsg_parse_deprecated does,
// or as nlmsg_parse_deprecated_strict.
func (r *request) attrs(n int, p nlattr.Policy, strict bool) (nlattr.Attrs, error) {
	n = min(nlattr.Align(n), len(r.body()))
	as, leftover := nlattr.Parse(r.body()[n:], headerLen+n)
	mode := nlattr.Liberal
	if strict {
		mode = nlattr.DeprecatedStrict
	}
	if leftover > 0 {
		r.remark = nlattr.LeftoverText
	}
	return as, p.Validate(as, leftover, mode)
}

// result adds the kernel's remark to a result without a text.
func (r *request) result(err error) *nlattr.Error {
	e := &nlattr.Error{}
	if err != nil {
		*e = *nlattr.AsError(err)
	}
	if e.Msg == "" {
		e.Msg = r.remark
	}
	return e
}

// answer sends one message that is not a dump's.
func (r *request) answer(typ uint16, body []byte) {
	r.out = append(r.out, appendMessage(nil, typ, 0, r.seq, r.c.port, body))
}

// dump sends rows in parts, and NLMSG_DONE (netlink_dump).
func (r *request) dump(typ, flags uint16, rows [][]byte) {
	var part []byte
	add := func(typ uint16, body []byte) {
		if len(part) > 0 && len(part)+headerLen+len(body)+4 > dumpPart {
			r.out = append(r.out, part)
			part = nil
		}
		part = appendMessage(part, typ, unix.NLM_F_MULTI|flags, r.seq, r.c.port, body)
	}
	for _, body := range rows {
		add(typ, body)
	}
	if len(part) > 0 {
		r.out = append(r.out, part)
	}
	r.endDump(r.result(nil), flags)
}

// failDump answers a dump that did not come about: the kernel says so in
// NLMSG_DONE, with the text that an acknowledgement would have (netlink_dump_done).
func (r *request) failDump(err error) { r.endDump(r.result(err), 0) }

func (r *request) endDump(e *nlattr.Error, flags uint16) {
	r.dumped = true
	body := ne.AppendUint32(nil, uint32(-int32(e.Errno)))
	flags |= unix.NLM_F_MULTI
	if r.c.extAck && hasText(e) {
		flags |= unix.NLM_F_ACK_TLVS
		body = appendText(body, e)
	}
	r.out = append(r.out, appendMessage(nil, unix.NLMSG_DONE, flags, r.seq, r.c.port, body))
}

func hasText(e *nlattr.Error) bool { return e.Msg != "" || e.Offset != 0 }

// attrPolicy is NLMSGERR_ATTR_POLICY.
const attrPolicy = 4

// appendText adds the extended acknowledgement (netlink_ack_tlv_fill).
func appendText(b []byte, e *nlattr.Error) []byte {
	if e.Msg != "" {
		b = nlattr.AppendString(b, unix.NLMSGERR_ATTR_MSG, e.Msg)
	}
	if e.Offset != 0 {
		b = nlattr.AppendU32(b, unix.NLMSGERR_ATTR_OFFS, uint32(e.Offset))
	}
	if len(e.Policy) > 0 {
		b = nlattr.Append(b, attrPolicy|nlattr.FlagNested, e.Policy)
	}
	return b
}

// handle is rtnetlink_rcv_msg.
func (r *request) handle() error {
	if r.typ > rtmMax {
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	if len(r.body()) < 1 {
		return nil
	}
	bridge := r.body()[0] == unix.AF_BRIDGE
	if r.typ&3 == unix.RTM_GETLINK&3 && r.flags&unix.NLM_F_DUMP != 0 {
		return r.handleDump(bridge)
	}
	switch {
	case r.typ == unix.RTM_GETLINK:
		return r.linkGet()
	case r.typ == unix.RTM_NEWLINK:
		return r.newLink()
	case (r.typ == unix.RTM_SETLINK || r.typ == unix.RTM_DELLINK) && bridge:
		return r.bridgeChange()
	case r.typ == unix.RTM_SETLINK:
		return r.setLink()
	case r.typ == unix.RTM_DELLINK:
		return r.delLink()
	case r.typ == unix.RTM_NEWNEIGH && bridge, r.typ == unix.RTM_DELNEIGH && bridge:
		return r.fdbChange()
	case r.typ == unix.RTM_GETNEIGH && bridge:
		return r.fdbGet()
	}
	return nlattr.Errno(unix.EOPNOTSUPP)
}

func (r *request) handleDump(bridge bool) error {
	var err error
	switch {
	case r.typ == unix.RTM_GETLINK && bridge:
		err = r.bridgeLinkDump()
	case r.typ == unix.RTM_GETLINK:
		err = r.linkDump()
	case r.typ == unix.RTM_GETNEIGH && bridge:
		err = r.fdbDump()
	case r.typ == unix.RTM_GETMDB && bridge:
		err = r.mdbDump()
	case r.typ == unix.RTM_GETTUNNEL && bridge:
		err = r.tunnelDump()
	default:
		return nlattr.Errno(unix.EOPNOTSUPP)
	}
	if err != nil {
		r.failDump(err)
	}
	return nil
}
