package rtnl

import (
	"fmt"
	"log/slog"
	"os"
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

// Server holds the sessions of all clients and their port ids.
type Server struct {
	cfg     Config
	buffers sync.Pool

	mu       sync.Mutex
	ports    map[uint32]*Session
	sessions map[*Session]struct{}
	nextPort uint32
	wg       sync.WaitGroup
}

// NewServer makes a Server without sessions.
func NewServer(cfg Config) *Server {
	return &Server{
		cfg: cfg, ports: map[uint32]*Session{}, sessions: map[*Session]struct{}{},
		// The kernel starts here too when a process's own id is taken.
		nextPort: ^uint32(4096) + 1,
		buffers:  sync.Pool{New: func() any { return new([1 << 18]byte) }},
	}
}

// sessionSendBuffer is how many bytes the socket of a session may hold.
const sessionSendBuffer = 4 << 20

// Open makes a session of conn, the daemon's end of a SOCK_SEQPACKET connection,
// which it owns from then on, in ns. It reads conn in a goroutine of its own.
func (v *Server) Open(conn int, ns *Namespace, c Caller) (*Session, error) {
	if err := unix.SetNonblock(conn, true); err != nil {
		unix.Close(conn)
		return nil, fmt.Errorf("session socket: %w", err)
	}
	if unix.SetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sessionSendBuffer) != nil {
		_ = unix.SetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_SNDBUF, sessionSendBuffer)
	}
	s := &Session{srv: v, ns: ns, caller: c, fd: conn, file: os.NewFile(uintptr(conn), "session"),
		groups: map[uint32]struct{}{}, log: v.cfg.Log}
	s.startPump()
	v.mu.Lock()
	v.sessions[s] = struct{}{}
	v.mu.Unlock()
	v.wg.Add(1)
	go func() {
		defer v.wg.Done()
		s.serve()
	}()
	return s, nil
}

// Close hangs up on all clients and waits until their sessions have ended.
func (v *Server) Close() {
	v.mu.Lock()
	for s := range v.sessions {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
	v.mu.Unlock()
	v.wg.Wait()
}

// assignPort gives s the port id pid, or for 0 the id of the process, or if that
// is taken the next free one from the top (netlink_bind, netlink_autobind).
func (v *Server) assignPort(s *Session, pid, tgid uint32) syscall.Errno {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.pid.Load() != 0 {
		return 0
	}
	if pid != 0 {
		if v.ports[pid] != nil {
			return unix.EADDRINUSE
		}
	} else {
		pid = tgid
		for pid == 0 || v.ports[pid] != nil {
			pid = v.nextPort
			v.nextPort--
		}
	}
	v.ports[pid] = s
	s.pid.Store(pid)
	return 0
}

func (v *Server) forget(s *Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sessions, s)
	if p := s.pid.Load(); p != 0 && v.ports[p] == s {
		delete(v.ports, p)
	}
}
