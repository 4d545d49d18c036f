package rtnl

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
)

// Caller is who is on the other end of a session.
type Caller struct {
	// PID is the thread group id in the daemon's PID namespace, 0 if unknown.
	PID uint32
	// UID and GID are the effective ids, Groups the supplementary ones.
	UID, GID uint32
	Groups   []uint32
	// NetAdmin tells whether CAP_NET_ADMIN is in the effective set.
	NetAdmin bool
	// LargeReads tells that the caller reads at least PartLarge bytes at a time.
	LargeReads bool
	// Open returns a copy of one of the caller's descriptors, for requests that
	// name a network namespace by a descriptor's number. It may be nil.
	Open func(fd int) (File, error)
}

// File is a copy of a caller's descriptor.
type File interface {
	FD() int
	Close() error
}

// Session is one client's netlink socket: its port, options, memberships and the
// queue of what it has yet to read.
type Session struct {
	srv    *Server
	ns     *Namespace
	caller Caller
	fd     int   // the daemon's end
	id     int32 // with the poller
	ended  func()
	log    *slog.Logger

	pid               atomic.Uint32
	extAck, capAck    atomic.Bool
	strict, noENOBUFS atomic.Bool
	// These are told back and change nothing here.
	broadcastError, pktInfo, allNSID atomic.Bool

	mu     sync.Mutex
	groups map[uint32]struct{}
	closed bool

	// kern is the session's own socket to the kernel, for pass-through; opened
	// when first needed, used under the namespace's lock.
	kern KernelConn

	out outbox
}

// Bind assigns the port id, 0 for one of the server's choice, and replaces the
// first 32 group memberships (bind(2) on AF_NETLINK, netlink_bind). tgid is the
// process whose id the port takes if it is free.
func (s *Session) Bind(pid, groups, tgid uint32) syscall.Errno {
	if have := s.pid.Load(); have != 0 {
		if pid != have {
			return unix.EINVAL
		}
	} else if e := s.srv.assignPort(s, pid, tgid); e != 0 {
		return e
	}
	for g := uint32(1); g <= 32; g++ {
		want := groups&(1<<(g-1)) != 0
		if err := s.setMember(g, want); err != 0 {
			return err
		}
	}
	return 0
}

// Autobind assigns a port id if there is none yet (netlink_autobind).
func (s *Session) Autobind(tgid uint32) {
	if s.pid.Load() == 0 {
		s.srv.assignPort(s, 0, tgid)
	}
}

// Name returns what getsockname(2) tells: the port id and the first 32 groups.
func (s *Session) Name() (pid, groups uint32) {
	words := s.Memberships()
	if len(words) > 0 {
		groups = words[0]
	}
	return s.pid.Load(), groups
}

// Memberships returns the joined groups as the bitmap that
// NETLINK_LIST_MEMBERSHIPS gives, 32 groups a word.
func (s *Session) Memberships() []uint32 {
	words := make([]uint32, (maxGroup+31)/32)
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.groups {
		words[(g-1)/32] |= 1 << ((g - 1) % 32)
	}
	return words
}

// maxGroup is the highest group that may be joined: RTNLGRP_MAX of Linux 6.18
// (RTNLGRP_IPV4_MCADDR, RTNLGRP_IPV6_MCADDR, RTNLGRP_IPV6_ACADDR are the newest).
const maxGroup = unix.RTNLGRP_IPV6_ACADDR

func (s *Session) setMember(g uint32, want bool) syscall.Errno {
	s.mu.Lock()
	_, have := s.groups[g]
	switch {
	case want == have || s.closed:
		s.mu.Unlock()
		return 0
	case want:
		s.groups[g] = struct{}{}
	default:
		delete(s.groups, g)
	}
	s.mu.Unlock()
	if want {
		// What happened before is not for the new member.
		s.ns.Lock()
		s.ns.drain()
		s.ns.Unlock()
		return s.ns.hub.join(s, g)
	}
	s.ns.hub.leave(s, g)
	return 0
}

// SetOption is setsockopt(2) at SOL_NETLINK.
func (s *Session) SetOption(opt int, v uint32) syscall.Errno {
	switch opt {
	case unix.NETLINK_ADD_MEMBERSHIP, unix.NETLINK_DROP_MEMBERSHIP:
		if v == 0 || v > maxGroup {
			return unix.EINVAL
		}
		return s.setMember(v, opt == unix.NETLINK_ADD_MEMBERSHIP)
	case unix.NETLINK_LISTEN_ALL_NSID:
		if !s.caller.NetAdmin {
			return unix.EPERM
		}
	}
	f := s.flag(opt)
	if f == nil {
		return unix.ENOPROTOOPT
	}
	f.Store(v != 0)
	return 0
}

// Option is getsockopt(2) at SOL_NETLINK for the options that are flags.
func (s *Session) Option(opt int) (uint32, syscall.Errno) {
	f := s.flag(opt)
	switch {
	case f == nil:
		return 0, unix.ENOPROTOOPT
	case f.Load():
		return 1, 0
	}
	return 0, 0
}

// flag returns the option's flag, nil if there is no such flag.
func (s *Session) flag(opt int) *atomic.Bool {
	switch opt {
	case unix.NETLINK_EXT_ACK:
		return &s.extAck
	case unix.NETLINK_CAP_ACK:
		return &s.capAck
	case unix.NETLINK_GET_STRICT_CHK:
		return &s.strict
	case unix.NETLINK_NO_ENOBUFS:
		return &s.noENOBUFS
	case unix.NETLINK_BROADCAST_ERROR:
		return &s.broadcastError
	case unix.NETLINK_PKTINFO:
		return &s.pktInfo
	case unix.NETLINK_LISTEN_ALL_NSID:
		return &s.allNSID
	}
	return nil
}

// Request carries out the messages of one send, in order. Their replies are in
// the client's socket, or in line for it, when it returns.
func (s *Session) Request(b []byte) {
	s.Autobind(s.caller.PID)
	for {
		m, rest, ok := split(b)
		if !ok {
			return
		}
		s.one(&m)
		b = rest
	}
}

// one carries out a message and acknowledges it where the kernel would
// (netlink_rcv_skb).
func (s *Session) one(m *message) {
	var err error
	acked := false
	if m.flags&unix.NLM_F_REQUEST != 0 && m.typ >= unix.NLMSG_MIN_TYPE {
		acked, err = s.ns.handle(s, m)
	}
	failed := err != nil && nlattr.AsError(err).Errno != 0
	if acked || !failed && m.flags&unix.NLM_F_ACK == 0 {
		return
	}
	s.reply(appendAck(nil, m, s.pid.Load(), err, s.extAck.Load(), s.capAck.Load()))
}

// part is the size that the parts of the client's dumps do not exceed.
func (s *Session) part() int {
	if s.caller.LargeReads {
		return PartLarge
	}
	return Part
}

// member tells whether the session is in a group.
func (s *Session) member(group uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.groups[group]
	return ok
}

// reply queues a datagram that answers a request: it is never dropped.
func (s *Session) reply(b []byte) { s.out.send(s, b, true) }

// notify queues a notification; without room the client gets ENOBUFS instead.
func (s *Session) notify(b []byte) { s.out.send(s, b, false) }

// allowed tells whether the caller may change anything (design: root in the
// daemon's user namespace, the daemon's own uid, or the configured group).
func (s *Session) allowed() bool {
	c := &s.caller
	if c.UID == 0 || c.UID == uint32(os.Geteuid()) {
		return true
	}
	gid := s.srv.cfg.AdminGID
	if gid < 0 {
		return false
	}
	for _, g := range append([]uint32{c.GID}, c.Groups...) {
		if g == uint32(gid) {
			return true
		}
	}
	return false
}

// close ends the session once its client has hung up. The supervisor of a shim
// may hold a copy of the socket, hence the shutdown.
func (s *Session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ns.hub.leaveAll(s)
	s.srv.forget(s)
	s.ns.Lock()
	if s.kern != nil {
		s.ns.portGone(s.kern.PortID())
		if err := s.kern.Close(); err != nil {
			s.log.Warn("session", "err", err)
		}
		s.kern = nil
	}
	s.ns.Unlock()
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	s.out.close(s.fd)
	s.ended()
}

// kernel returns the session's socket to the kernel with the client's options.
// The namespace's lock is held.
func (s *Session) kernel() (KernelConn, error) {
	if s.kern == nil {
		k, err := s.ns.kern.Dial()
		if err != nil {
			return nil, nlattr.AsError(err)
		}
		s.kern = k
		s.ns.portOf(k.PortID(), s)
	}
	s.kern.SetOptions(s.extAck.Load(), s.capAck.Load(), s.strict.Load())
	return s.kern, nil
}
