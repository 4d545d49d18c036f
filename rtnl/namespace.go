package rtnl

import (
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/vxlan"
)

// Namespace is one network namespace: the kernel's own devices, seen through
// Kernel, and the emulated ones over them. Its lock is what RTNL is in the
// kernel: requests and events take their turn.
type Namespace struct {
	kern   Kernel
	io     IO
	clock  netdev.Clock
	domain *netdev.Domain
	log    *slog.Logger
	hub    hub

	mu      sync.Mutex
	ctl     KernelConn // the daemon's own requests
	devs    map[int]*device
	vxlans  *vxlan.Registry
	portIDs map[uint32]*Session // by the port id of the session's kernel socket
	queue   []queued
	// carriers are the devices whose TAP does not know its carrier yet.
	carriers []*device
	draining bool
	closing  bool
	// closers close what remains of devices while the namespace closes.
	closers sync.WaitGroup
	done    chan struct{}
}

// NamespaceConfig is what a Namespace stands on.
type NamespaceConfig struct {
	Kernel Kernel
	IO     IO
	Clock  netdev.Clock
	// Domain is where the namespace's frame threads run.
	Domain *netdev.Domain
	Log    *slog.Logger
}

// NewNamespace makes a Namespace without emulated devices and begins to follow
// the kernel's events.
func NewNamespace(c NamespaceConfig) (*Namespace, error) {
	ns := &Namespace{
		kern: c.Kernel, io: c.IO, clock: c.Clock, log: c.Log,
		domain:  c.Domain,
		devs:    map[int]*device{},
		portIDs: map[uint32]*Session{},
		done:    make(chan struct{}),
	}
	var err error
	if ns.ctl, err = c.Kernel.Dial(); err != nil {
		return nil, err
	}
	ns.ctl.SetOptions(true, true, true)
	for _, g := range []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_NEXTHOP} {
		if err := c.Kernel.Join(g); err != nil {
			return nil, errors.Join(err, ns.ctl.Close())
		}
	}
	ns.hub.joined = ns.kern.Join
	ns.vxlans = vxlan.NewRegistry(ns.vxlanEnv())
	go ns.follow()
	return ns, nil
}

// Lock takes the namespace's RTNL.
func (ns *Namespace) Lock() { ns.mu.Lock() }

// Unlock releases it.
func (ns *Namespace) Unlock() {
	ns.linkwatch()
	ns.mu.Unlock()
}

// Empty tells whether there is no emulated device and no port.
func (ns *Namespace) Empty() bool {
	ns.Lock()
	defer ns.Unlock()
	return len(ns.devs) == 0
}

// Domain returns the namespace's frame threads.
func (ns *Namespace) Domain() *netdev.Domain { return ns.domain }

// follow passes on the kernel's events that no request of ours waits for.
func (ns *Namespace) follow() {
	defer close(ns.done)
	for {
		if err := ns.kern.Wait(); err != nil {
			if !errors.Is(err, netdev.ErrClosed) {
				ns.log.Error("kernel events", "err", err)
			}
			return
		}
		ns.Lock()
		ns.drain()
		ns.Unlock()
	}
}

// Close removes all emulated devices, releases all ports and ends the threads.
func (ns *Namespace) Close() error {
	ns.Lock()
	ns.closing = true
	for _, d := range ns.sorted() {
		if ns.devs[d.ifindex] == d {
			ns.remove(d)
		}
	}
	ns.drain()
	ns.Unlock()
	ns.closers.Wait()
	ns.domain.Wait()
	err := ns.kern.Close()
	<-ns.done
	return errors.Join(err, ns.ctl.Close())
}

// portOf remembers whose socket a kernel port id is, so that the kernel's events
// name the client's port and not ours.
func (ns *Namespace) portOf(kernelPort uint32, s *Session) { ns.portIDs[kernelPort] = s }

func (ns *Namespace) portGone(kernelPort uint32) { delete(ns.portIDs, kernelPort) }

// handle carries out one request. acked tells that the answer, acknowledgement
// included, is in the client's queue already.
func (ns *Namespace) handle(s *Session, m *message) (acked bool, err error) {
	ns.Lock()
	defer ns.Unlock()
	if m.typ > rtmMax {
		return false, nlattr.Errno(unix.EOPNOTSUPP)
	}
	if len(m.body()) < 1 {
		return false, nil
	}
	if verb(m.typ) != verbGet && !s.allowed() {
		return false, nlattr.Errno(unix.EPERM)
	}
	r := &request{ns: ns, s: s, message: m}
	acked, err = r.dispatch()
	ns.drain()
	return acked, r.warned(err)
}

// request is a message being handled for a session, under the lock.
type request struct {
	*message
	ns *Namespace
	s  *Session
	// leftover tells that bytes behind the attributes were ignored.
	leftover bool
}

// parse is attrs for a request that the kernel parses liberally but not silently
// (__nla_validate_parse).
func (r *request) parse(n int) nlattr.Attrs {
	as, left := r.attrs(n)
	r.leftover = r.leftover || left > 0
	return as
}

// warned adds the warning of parse to a result that has no text of its own.
func (r *request) warned(err error) error {
	if !r.leftover {
		return err
	}
	e := nlattr.Error{}
	if err != nil {
		e = *nlattr.AsError(err)
	}
	if e.Msg == "" {
		e.Msg = nlattr.LeftoverText
	}
	return &e
}

// dispatch finds the handler as rtnetlink_rcv_msg does, except that what does not
// concern our devices goes to the kernel.
func (r *request) dispatch() (acked bool, err error) {
	bridgeFamily := r.body()[0] == unix.AF_BRIDGE
	switch r.typ {
	case unix.RTM_NEWLINK, unix.RTM_SETLINK:
		if bridgeFamily && r.typ == unix.RTM_SETLINK {
			return r.bridgeSetLink()
		}
		return r.newLink()
	case unix.RTM_DELLINK:
		if bridgeFamily {
			return r.bridgeDelLink()
		}
		return r.delLink()
	case unix.RTM_GETLINK:
		if bridgeFamily && r.dump() {
			return r.bridgeLinkDump()
		}
		return r.getLink()
	}
	if bridgeFamily {
		switch r.typ {
		case unix.RTM_NEWNEIGH:
			return r.fdbAdd()
		case unix.RTM_DELNEIGH:
			return r.fdbDel()
		case unix.RTM_GETNEIGH:
			if r.dump() {
				return r.fdbDump()
			}
			return r.fdbGet()
		case unix.RTM_NEWMDB, unix.RTM_DELMDB:
			return r.mdbChange()
		case unix.RTM_GETMDB:
			if r.dump() {
				return r.mdbDump()
			}
			return r.mdbGet()
		case unix.RTM_NEWTUNNEL, unix.RTM_DELTUNNEL:
			return r.tunnelChange()
		case unix.RTM_GETTUNNEL:
			if r.dump() {
				return r.tunnelDump()
			}
		}
	}
	return r.pass()
}

// notify publishes a message that the request caused. With NLM_F_ECHO it is in the
// request's name and goes to the client if that is not in the group (rtnl_notify).
func (r *request) notify(group uint32, b []byte) {
	echo := r.flags&unix.NLM_F_ECHO != 0
	var seq, pid uint32
	if echo {
		seq, pid = r.seq, r.s.pid.Load()
	}
	ne.PutUint32(b[8:], seq)
	ne.PutUint32(b[12:], pid)
	r.ns.hub.publishRaw(group, b)
	if echo && !r.s.member(group) {
		r.s.reply(b)
	}
}

// pass hands the request to the kernel and its answer back to the client,
// unchanged but for the port id.
func (r *request) pass() (acked bool, err error) {
	return r.passAs(r.raw, nil)
}

// passAs is pass with other bytes than the client's. edit, if not nil, sees each
// message of the answer and returns what to send instead: nil drops it.
func (r *request) passAs(raw []byte, edit func(msg []byte) []byte) (acked bool, err error) {
	out, err := r.ask(raw, edit)
	if err != nil {
		return false, err
	}
	r.ns.drain()
	for _, d := range out {
		r.s.reply(d)
	}
	return true, nil
}

// ask sends raw to the kernel on the client's behalf and returns the answer as
// the datagrams the client is to get.
func (r *request) ask(raw []byte, edit func(msg []byte) []byte) ([][]byte, error) {
	if verb(r.typ) != verbGet && !r.s.caller.NetAdmin {
		return nil, nlattr.Errno(unix.EPERM)
	}
	k, err := r.s.kernel()
	if err != nil {
		return nil, err
	}
	raw, done := r.borrow(raw)
	defer done()
	var out [][]byte
	pid := r.s.pid.Load()
	// The kernel makes the parts of a dump as large as we read, and they grow as
	// they are rewritten.
	part := r.s.part()
	err = k.Do(raw, func(b []byte) {
		d := make([]byte, 0, min(len(b), part))
		for {
			m, rest, ok := split(b)
			if !ok {
				break
			}
			msg := m.raw
			if edit != nil {
				msg = edit(msg)
			}
			if msg != nil {
				if len(d) > 0 && len(d)+nlattr.Align(len(msg)) > part {
					out = append(out, d)
					d = make([]byte, 0, part)
				}
				at := len(d)
				d = append(d, msg...)
				ne.PutUint32(d[at+12:], pid)
				for len(d)&3 != 0 {
					d = append(d, 0)
				}
			}
			b = rest
		}
		if len(d) > 0 {
			out = append(out, d)
		}
	})
	if err != nil {
		return nil, nlattr.AsError(err)
	}
	return out, nil
}

// try sends raw to the kernel as ask does, for a request whose success we
// announce ourselves: an error of the kernel's comes back as *nlattr.Error with
// its text and offset.
func (r *request) try(raw []byte) error {
	raw, done := r.borrow(append([]byte(nil), raw...))
	defer done()
	ne.PutUint16(raw[6:], ne.Uint16(raw[6:])|unix.NLM_F_ACK)
	if !r.s.caller.NetAdmin {
		return nlattr.Errno(unix.EPERM)
	}
	k, err := r.s.kernel()
	if err != nil {
		return err
	}
	k.SetOptions(true, true, r.s.strict.Load())
	return roundTrip(k, raw, nil)
}

// roundTrip sends raw, which asks for an acknowledgement, and calls each with
// every other message of the answer. The kernel's error comes back as
// *nlattr.Error.
func roundTrip(k KernelConn, raw []byte, each func(m *message)) error {
	var result error
	err := k.Do(raw, func(b []byte) {
		for {
			m, rest, ok := split(b)
			if !ok {
				return
			}
			b = rest
			switch m.typ {
			case unix.NLMSG_ERROR:
				if e := parseAck(&m); e != nil {
					result = e
				}
			case unix.NLMSG_DONE:
			default:
				if each != nil {
					each(&m)
				}
			}
		}
	})
	if err != nil {
		return nlattr.AsError(err)
	}
	return result
}

// parseAck reads an NLMSG_ERROR; nil is success.
func parseAck(m *message) error {
	b := m.body()
	if len(b) < 4 {
		return nil
	}
	errno := -int32(ne.Uint32(b))
	if errno == 0 {
		return nil
	}
	e := nlattr.Errno(unix.Errno(errno))
	if m.flags&unix.NLM_F_ACK_TLVS == 0 || len(b) < 4+headerLen {
		return e
	}
	skip := 4 + headerLen
	if m.flags&unix.NLM_F_CAPPED == 0 {
		skip = 4 + nlattr.Align(max(headerLen, int(ne.Uint32(b[4:]))))
	}
	if skip > len(b) {
		return e
	}
	as, _ := nlattr.Parse(b[skip:], 0)
	for _, a := range as {
		switch a.Type {
		case unix.NLMSGERR_ATTR_MSG:
			e.Msg = a.Text()
		case unix.NLMSGERR_ATTR_OFFS:
			e.Offset = int(a.U32())
		case attrPolicy:
			e.Policy = append([]byte(nil), a.Data...)
		case attrMissType:
			e.MissType = a.U32()
		case attrMissNest:
			e.MissNest = int(a.U32())
		}
	}
	return e
}

// replyMessage sends one message as the answer to the request.
func (r *request) replyMessage(typ, flags uint16, body []byte) {
	r.s.reply(appendMessage(nil, typ, flags, r.seq, r.s.pid.Load(), body))
}

// dumper collects the rows of a dump into parts and sends each as it fills.
type dumper struct {
	r     *request
	flags uint16 // NLM_F_DUMP_FILTERED or 0
	buf   []byte
}

// row adds a message with a ready body.
func (d *dumper) row(typ uint16, body []byte) {
	if len(d.buf) > 0 && len(d.buf)+headerLen+nlattr.Align(len(body)) > d.r.s.part() {
		d.flush()
	}
	d.buf = appendMessage(d.buf, typ, unix.NLM_F_MULTI|d.flags, d.r.seq, d.r.s.pid.Load(), body)
}

func (d *dumper) flush() {
	if len(d.buf) > 0 {
		d.r.s.reply(d.buf)
		d.buf = d.buf[:0]
	}
}

// done ends the dump with NLMSG_DONE, with the kernel's own if there is one: it may
// carry a remark on the request.
func (d *dumper) done(kernel *message) {
	d.flush()
	flags, body := uint16(0), []byte{0, 0, 0, 0}
	if kernel != nil {
		flags, body = kernel.flags&unix.NLM_F_ACK_TLVS, kernel.body()
	}
	d.buf = appendMessage(d.buf, unix.NLMSG_DONE, unix.NLM_F_MULTI|d.flags|flags, d.r.seq, d.r.s.pid.Load(), body)
	d.flush()
}

// failDump ends a dump as netlink_dump does where it finds the request wanting only
// once it has begun: in NLMSG_DONE.
func (r *request) failDump(err error) (bool, error) {
	e := nlattr.AsError(err)
	body := ne.AppendUint32(nil, uint32(-int32(e.Errno)))
	flags := uint16(unix.NLM_F_MULTI)
	if tlvs := appendExtack(nil, e); r.s.extAck.Load() && len(tlvs) > 0 {
		flags |= unix.NLM_F_ACK_TLVS
		body = append(body, tlvs...)
	}
	r.replyMessage(unix.NLMSG_DONE, flags, body)
	return true, nil
}
