package rtnl

import (
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config is what a Server is made of.
type Config struct {
	// AdminGID is the group whose members may change things, -1 for none.
	AdminGID int
	Log      *slog.Logger
}

// port is a port id, which is unique in its network namespace.
type port struct {
	ns  *Namespace
	pid uint32
}

// Server holds the sessions of all clients and their port ids.
type Server struct {
	cfg  Config
	poll *poller

	mu       sync.Mutex
	ports    map[port]*Session
	nextPort uint32
}

// MaxRequest is the largest packet of requests in bytes. A socket of the kernel's
// refuses more than its send buffer, 208 KiB by default.
const MaxRequest = 1 << 18

// NewServer makes a Server without sessions.
func NewServer(cfg Config) (*Server, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, poll: p, ports: map[port]*Session{},
		// The kernel starts here too when a process's own id is taken.
		nextPort: ^uint32(4096) + 1,
	}, nil
}

// sessionSendBuffer is how many bytes the socket of a session may hold.
const sessionSendBuffer = 4 << 20

// Open makes a session of conn, the daemon's end of a SOCK_SEQPACKET connection,
// which it owns from then on, in ns. first is a packet that was read from it
// already, nil if none was. ended, if not nil, is called once the session has ended,
// and also if Open fails.
func (v *Server) Open(conn int, ns *Namespace, c Caller, first []byte, ended func()) (*Session, error) {
	if ended == nil {
		ended = func() {}
	}
	if err := unix.SetNonblock(conn, true); err != nil {
		unix.Close(conn)
		ended()
		return nil, fmt.Errorf("session socket: %w", err)
	}
	if unix.SetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sessionSendBuffer) != nil {
		_ = unix.SetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_SNDBUF, sessionSendBuffer)
	}
	s := &Session{srv: v, ns: ns, caller: c, fd: conn, ended: ended, groups: map[uint32]struct{}{}, log: v.cfg.Log}
	if first != nil {
		s.Request(first)
	}
	if err := v.poll.add(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// Close hangs up on all clients.
func (v *Server) Close() { v.poll.close() }

// assignPort gives s the port id pid, or for 0 the id of the process, or if that
// is taken the next free one from the top (netlink_bind, netlink_autobind).
func (v *Server) assignPort(s *Session, pid, tgid uint32) syscall.Errno {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.pid.Load() != 0 {
		return 0
	}
	if pid != 0 {
		if v.ports[port{s.ns, pid}] != nil {
			return unix.EADDRINUSE
		}
	} else {
		pid = tgid
		for pid == 0 || v.ports[port{s.ns, pid}] != nil {
			pid = v.nextPort
			v.nextPort--
		}
	}
	v.ports[port{s.ns, pid}] = s
	s.pid.Store(pid)
	return 0
}

func (v *Server) forget(s *Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := (port{s.ns, s.pid.Load()}); v.ports[p] == s {
		delete(v.ports, p)
	}
}
