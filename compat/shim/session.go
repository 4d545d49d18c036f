package shim

import (
	"errors"
	"syscall"
)

// ErrNotServed is returned by an [Opener] for callers that the daemon does not
// serve, those in other network namespaces for example. Their socket is the
// kernel's.
var ErrNotServed = errors.New("shim: caller is not served")

// A Caller is who made a system call, as /proc describes the process at that
// moment, seen from the daemon's namespaces.
type Caller struct {
	// PID is the process (thread group), not the thread.
	PID uint32
	// UID and GID are the effective ones.
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
	// NetAdmin says whether CAP_NET_ADMIN is among the effective capabilities
	// and holds over the caller's network namespace: a process with all
	// capabilities in a user namespace of its own has none over the host's.
	NetAdmin bool
	// NetNS is the inode number of the caller's network namespace.
	NetNS uint64
}

// An Opener makes the session behind one socket(AF_NETLINK, typ, NETLINK_ROUTE)
// call of c. typ is SOCK_RAW or SOCK_DGRAM.
//
// conn is the daemon's end of the connection, a non-blocking AF_UNIX
// SOCK_SEQPACKET socket; the session owns it from now on, also if Opener fails.
// The session reads from conn what arrives past the supervisor (write(2),
// io_uring, copies of the descriptor with low numbers) and ends itself when the
// client hangs up. To hang up on the client it must use shutdown(2), since the
// supervisor holds a copy of conn until the client's end is closed.
//
// Go's network poller is a bad place for conn: it asks for writability too, and
// so wakes a thread each time the client takes a reply, which adds a third to the
// time of a request. An epoll set that asks for EPOLLIN and EPOLLRDHUP does not.
//
// An error that wraps a [syscall.Errno] becomes that of socket(2).
type Opener func(conn int, typ int, c Caller) (Session, error)

// A Session is one netlink socket as the supervisor needs it. The supervisor of
// a process tree calls from one goroutine.
type Session interface {
	// Bind is bind(2) with an address of port id pid (0: choose one) and the
	// group mask groups, by process tgid (netlink_bind in af_netlink.c). tgid
	// is the number that the process itself sees.
	Bind(pid, groups, tgid uint32) syscall.Errno
	// Autobind chooses a port id before first use, unless there is one; tgid
	// if it is free (netlink_autobind).
	Autobind(tgid uint32)
	// Name returns the port id and the mask of the first 32 groups, for
	// getsockname(2).
	Name() (pid, groups uint32)
	// SetOption is setsockopt(2) at level SOL_NETLINK.
	SetOption(opt int, v uint32) syscall.Errno
	// Option is getsockopt(2) at level SOL_NETLINK for the options that are
	// one int: ENOPROTOOPT for unknown ones.
	Option(opt int) (uint32, syscall.Errno)
	// Memberships returns the bitmap of joined groups for
	// NETLINK_LIST_MEMBERSHIPS: bit 0 of word 0 is group 1.
	Memberships() []uint32
	// Request carries out all messages of b, which is what one send(2) sent.
	// When it returns, the replies are in the socket. b is only valid during
	// the call.
	Request(b []byte)
}
