// Package rtnltest is linkspan's rtnetlink server in a test's own process: a fake
// of the kernel beneath (Kernel), a running rtnl.Namespace and rtnl.Server over
// it (Server), and clients (Client) that send netlink messages as a program would.
// Nothing of it needs a privilege or touches the machine.
package rtnltest

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/netdev/fake"
	"github.com/linkspan/linkspan/rtnl"
)

// Config is what a Server is made of. The zero value will do.
type Config struct {
	// Clock is what devices go by; nil is Server.Clock, which stands still until
	// it is told to advance.
	Clock netdev.Clock
	// AdminGID is the group whose members may change things, 0 for none.
	AdminGID int
	// Log takes what the server logs; nil drops it.
	Log *slog.Logger
}

// Server is a server in this process, over a Kernel of its own.
type Server struct {
	Kernel    *Kernel
	Namespace *rtnl.Namespace
	Sessions  *rtnl.Server
	// Clock is nil if Config had one.
	Clock *fake.Clock

	close func() error
}

// Start makes a Server. Close must be called.
func Start(c Config) (*Server, error) {
	s := &Server{}
	clock := c.Clock
	if clock == nil {
		s.Clock = &fake.Clock{}
		clock = s.Clock
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	gid := c.AdminGID
	if gid == 0 {
		gid = -1
	}
	domain := netdev.NewDomain(clock)
	s.Kernel = NewKernel(domain)
	var err error
	if s.Namespace, err = rtnl.NewNamespace(rtnl.NamespaceConfig{
		Kernel: s.Kernel, IO: s.Kernel, Clock: clock, Domain: domain, Log: log,
	}); err != nil {
		return nil, err
	}
	if s.Sessions, err = rtnl.NewServer(rtnl.Config{AdminGID: gid, Log: log}); err != nil {
		return nil, errors.Join(err, s.Namespace.Close())
	}
	s.close = sync.OnceValue(func() error {
		s.Sessions.Close()
		return s.Namespace.Close()
	})
	return s, nil
}

// New makes a Server that is closed when the test ends.
func New(t testing.TB) *Server { return NewWith(t, Config{}) }

// NewWith is New with a Config.
func NewWith(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Close hangs up on all clients and removes all devices that are not the
// Kernel's. Further calls do nothing.
func (s *Server) Close() error { return s.close() }

// Root is the Caller that Dial speaks for.
func Root() rtnl.Caller { return rtnl.Caller{PID: uint32(os.Getpid()), NetAdmin: true} }

// Dial opens a socket to the server as root.
func (s *Server) Dial() (*Client, error) { return s.DialAs(Root()) }

// DialAs opens a socket to the server as somebody else.
func (s *Server) DialAs(c rtnl.Caller) (*Client, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	cl := &Client{fd: fds[1], ended: make(chan struct{}), Timeout: DefaultTimeout}
	if cl.Session, err = s.Sessions.Open(fds[0], s.Namespace, c, nil, func() { close(cl.ended) }); err != nil {
		unix.Close(fds[1])
		return nil, err
	}
	return cl, nil
}

// Client dials as root and closes the client when the test ends.
func (s *Server) Client(t testing.TB) *Client { return s.ClientAs(t, Root()) }

// ClientAs dials as somebody else and closes the client when the test ends.
func (s *Server) ClientAs(t testing.TB, c rtnl.Caller) *Client {
	t.Helper()
	cl, err := s.DialAs(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}
