// Package server is the daemon: the listening socket, the sessions and shims
// that connect to it, and the network namespace that they work on.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/compat/shim"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/rtnl"
)

// Config is what a Daemon is made of.
type Config struct {
	// Socket is the path of the listening socket.
	Socket string
	// Mode is the socket's permissions, AdminGID the group that may change
	// things and owns the socket, -1 for none.
	Mode     os.FileMode
	AdminGID int
	// OwnNetns keeps to the daemon's own network namespace: processes in others
	// talk to the kernel.
	OwnNetns bool
	Log      *slog.Logger
}

// Daemon is a running server.
type Daemon struct {
	cfg    Config
	lis    *net.UnixListener
	spaces *spaces
	srv    *rtnl.Server
	// clients are the goroutines that look at a connection's first packet, shims
	// those that supervise.
	clients, shims sync.WaitGroup
	ctx            context.Context
	cancel         context.CancelFunc
}

// Start opens the socket last, so that it exists once the daemon answers.
func Start(cfg Config) (*Daemon, error) {
	d := &Daemon{cfg: cfg}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	var err error
	if d.spaces, err = newSpaces(!cfg.OwnNetns, cfg.Log); err != nil {
		return nil, err
	}
	if d.srv, err = rtnl.NewServer(rtnl.Config{AdminGID: cfg.AdminGID, Log: cfg.Log}); err != nil {
		return nil, errors.Join(err, d.spaces.close())
	}
	if d.lis, err = listen(cfg); err != nil {
		d.srv.Close()
		return nil, errors.Join(err, d.spaces.close())
	}
	return d, nil
}

// listen makes the socket, replacing one that a dead daemon left behind.
func listen(cfg Config) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Socket), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the socket's folder: %w", err)
	}
	if c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: cfg.Socket, Net: "unixpacket"}); err == nil {
		c.Close()
		return nil, fmt.Errorf("a daemon is already running on %s: stop it, or choose another path with --socket", cfg.Socket)
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(cfg.Socket); err != nil {
			return nil, fmt.Errorf("cannot remove the stale socket: %w", err)
		}
	}
	// The socket gets its final mode and owner before it can be found.
	tmp := fmt.Sprintf("%s.%d", cfg.Socket, os.Getpid())
	lis, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: tmp, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", cfg.Socket, err)
	}
	lis.SetUnlinkOnClose(false)
	err = os.Chmod(tmp, cfg.Mode)
	if err == nil && cfg.AdminGID >= 0 {
		err = os.Chown(tmp, -1, cfg.AdminGID)
	}
	if err == nil {
		err = os.Rename(tmp, cfg.Socket)
	}
	if err != nil {
		lis.Close()
		os.Remove(tmp)
		return nil, fmt.Errorf("cannot set up the socket: %w", err)
	}
	return lis, nil
}

// Serve accepts clients until Close.
func (d *Daemon) Serve() error {
	for {
		c, err := d.lis.AcceptUnix()
		if err != nil {
			if d.ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED) {
				d.cfg.Log.Warn("cannot accept a client", "err", err)
				time.Sleep(acceptPause)
				continue
			}
			return fmt.Errorf("accept: %w", err)
		}
		d.clients.Add(1)
		go func() {
			defer d.clients.Done()
			d.client(c)
		}()
	}
}

// client looks at the first packet of a connection: a shim's hand-off, or the
// first request of a raw session.
func (d *Daemon) client(c *net.UnixConn) {
	stop := context.AfterFunc(d.ctx, func() { c.Close() })
	buf, oob := make([]byte, rtnl.MaxRequest), make([]byte, 128)
	n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
	if !stop() || err != nil || n == 0 {
		c.Close()
		return
	}
	h, ok, err := shim.ParseHandoff(buf[:n], oob[:oobn])
	if ok {
		d.shims.Add(1)
		go func() {
			defer d.shims.Done()
			d.shim(c, h, err)
		}()
		return
	}
	d.raw(c, buf[:n])
}

// shim answers a launcher and supervises its process tree.
func (d *Daemon) shim(c *net.UnixConn, h shim.Handoff, err error) {
	if err == nil && d.ctx.Err() != nil {
		unix.Close(h.Listener)
		err = unix.ESHUTDOWN
	}
	_, werr := c.Write(handoffReply(err))
	c.Close()
	if err != nil || werr != nil {
		d.cfg.Log.Warn("shim refused", "err", errors.Join(err, werr))
		if err == nil {
			unix.Close(h.Listener)
		}
		return
	}
	if err := shim.Supervise(d.ctx, h.Listener, h, d.open, d.cfg.Log); err != nil && d.ctx.Err() == nil {
		d.cfg.Log.Warn("shim ended", "err", err)
	}
}

// handoffReply tells the launcher whether its command may start.
func handoffReply(err error) []byte {
	if err == nil {
		return shim.HandoffReply(0, "")
	}
	errno := unix.EINVAL
	errors.As(err, &errno)
	return shim.HandoffReply(errno, err.Error())
}

// open makes the session of a trapped socket call. Processes in namespaces that
// are not served talk to the kernel.
func (d *Daemon) open(conn, _ int, c shim.Caller) (shim.Session, error) {
	s, err := d.session(conn, c.NetNS, rtnl.Caller{
		PID: c.PID, UID: c.UID, GID: c.GID, Groups: c.Groups, NetAdmin: c.NetAdmin, Open: openFile(c.PID),
		LargeReads: readsLarge(c.PID),
	}, nil)
	if errors.Is(err, errNotServed) {
		return nil, shim.ErrNotServed
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// session opens a session in the network namespace of the caller, which has that
// inode.
func (d *Daemon) session(conn int, netns uint64, c rtnl.Caller, first []byte) (*rtnl.Session, error) {
	sp, err := d.spaces.use(c.PID, netns)
	if err != nil {
		unix.Close(conn)
		return nil, err
	}
	// A session may end in the middle of the poller's round: letting go of a
	// namespace takes its own time.
	return d.srv.Open(conn, sp.ns, c, first, func() { go d.spaces.unuse(sp) })
}

// readsLarge tells whether a process is one of iproute2's, which look at a
// datagram's size before they read it.
func readsLarge(pid uint32) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	switch filepath.Base(exe) {
	case "ip", "bridge", "tc":
		return true
	}
	return false
}

// openFile opens a process's descriptors of network namespaces by their numbers.
func openFile(pid uint32) func(fd int) (rtnl.File, error) {
	return func(fd int) (rtnl.File, error) {
		return netdev.OpenNS(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	}
}

// raw makes a session of a plain connection, in the daemon's own network
// namespace: that a process can open the socket says nothing of its own.
func (d *Daemon) raw(c *net.UnixConn, first []byte) {
	caller, fd, err := peer(c)
	c.Close()
	if err != nil {
		d.cfg.Log.Warn("client refused", "err", err)
		return
	}
	if _, err := d.session(fd, d.spaces.own.netns.Inode(), caller, first); err != nil {
		d.cfg.Log.Warn("client refused", "err", err)
	}
}

// peer returns who is on the other end, by SO_PEERCRED, and a descriptor of the
// connection that outlives c.
func peer(c *net.UnixConn) (caller rtnl.Caller, fd int, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return caller, -1, err
	}
	var cred *unix.Ucred
	cerr := rc.Control(func(p uintptr) {
		if cred, err = unix.GetsockoptUcred(int(p), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err := errors.Join(cerr, err); err != nil {
		return caller, -1, fmt.Errorf("peer credentials: %w", err)
	}
	caller = rtnl.Caller{PID: uint32(cred.Pid), UID: cred.Uid, GID: cred.Gid, Open: openFile(uint32(cred.Pid))}
	caller.NetAdmin = cred.Uid == 0 || cred.Uid == uint32(os.Geteuid())
	return caller, fd, nil
}

// acceptPause is how long the daemon leaves clients waiting when it has no
// descriptor for them.
const acceptPause = 50 * time.Millisecond

// shimGrace is how long Close waits for the shims' supervisors.
const shimGrace = 3 * time.Second

// Close hangs up on everybody and removes all devices.
func (d *Daemon) Close() error {
	d.cancel()
	err := d.lis.Close()
	if e := os.Remove(d.cfg.Socket); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	// A client that stalls its own supervisor does not keep the daemon.
	gone := make(chan struct{})
	go func() { d.shims.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(shimGrace):
		d.cfg.Log.Warn("a shim did not end in time")
	}
	d.srv.Close()
	d.clients.Wait()
	return errors.Join(err, d.spaces.close())
}
