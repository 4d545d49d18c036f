package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A fakeDaemon is the least of linkspand that lets programs run under the shim:
// RTM_GETLINK knows lo and fake0, dumps of anything else are empty.
type fakeDaemon struct {
	path   string
	ln     *net.UnixListener
	cancel context.CancelFunc
	trees  sync.WaitGroup // supervisors and sessions

	mu      sync.Mutex
	refuse  bool // answer hand-offs with EPERM
	ports   map[uint32]bool
	live    int // sessions
	opened  int
	callers []Caller
	errs    []error
	serve   func(Caller) error // refuses callers; nil: none
}

func startDaemon(t testing.TB) *fakeDaemon {
	t.Helper()
	needUserNotification(t)
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &fakeDaemon{path: filepath.Join(dir, "rtnl.sock"), ports: make(map[uint32]bool)}
	d.ln, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: d.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, d.path} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	d.trees.Go(func() { d.accept(ctx) })
	t.Cleanup(func() { d.stop(t) })
	return d
}

func (d *fakeDaemon) stop(t testing.TB) {
	d.cancel()
	d.ln.Close()
	ended := make(chan struct{})
	go func() {
		d.trees.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("supervisors or sessions are still there 10 s after their process trees")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, err := range d.errs {
		t.Error(err)
	}
	if len(d.ports) > 0 || d.live > 0 {
		t.Errorf("left over: %d sessions, ports %v", d.live, d.ports)
	}
}

func (d *fakeDaemon) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
}

func (d *fakeDaemon) accept(ctx context.Context) {
	for {
		c, err := d.ln.AcceptUnix()
		if err != nil {
			return
		}
		d.trees.Go(func() { d.serveConn(ctx, c) })
	}
}

func (d *fakeDaemon) serveConn(ctx context.Context, c *net.UnixConn) {
	b, oob := make([]byte, 4096), make([]byte, 256)
	n, on, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		c.Close() // a launcher whose filter could not be installed
		return
	}
	h, ok, err := ParseHandoff(b[:n], oob[:on])
	d.mu.Lock()
	refuse := d.refuse
	d.mu.Unlock()
	switch {
	case !ok || err != nil:
		d.failed(errors.Join(errors.New("bad hand-off"), err))
		c.Close()
		return
	case refuse:
		unix.Close(h.Listener)
		_, _ = c.Write(HandoffReply(unix.EPERM, "not today"))
		c.Close()
		return
	}
	_, _ = c.Write(HandoffReply(0, ""))
	c.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := Supervise(ctx, h.Listener, h, d.open, log); err != nil && !errors.Is(err, context.Canceled) {
		d.failed(err)
	}
}

func (d *fakeDaemon) open(conn, typ int, c Caller) (Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serve != nil {
		if err := d.serve(c); err != nil {
			unix.Close(conn)
			return nil, err
		}
	}
	d.live++
	d.opened++
	d.callers = append(d.callers, c)
	s := &fakeSession{d: d, f: os.NewFile(uintptr(conn), "conn"), opts: make(map[int]uint32)}
	d.trees.Go(s.read)
	return s, nil
}

type fakeSession struct {
	d *fakeDaemon
	f *os.File

	mu     sync.Mutex
	closed bool
	port   uint32
	groups [2]uint32
	opts   map[int]uint32
}

// read carries out what passes by the supervisor, until the client hangs up.
func (s *fakeSession) read() {
	b := make([]byte, 1<<16)
	for {
		n, err := s.f.Read(b)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				s.d.failed(err)
			}
			break
		}
		s.Autobind(0)
		s.Request(b[:n])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.f.Close()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	delete(s.d.ports, s.port)
	s.d.live--
}

func (s *fakeSession) Bind(pid, groups, tgid uint32) syscall.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.port != 0 && s.port != pid {
		return unix.EINVAL
	}
	if errno := s.take(pid, tgid); errno != 0 {
		return errno
	}
	s.groups[0] = groups
	return 0
}

func (s *fakeSession) take(pid, tgid uint32) syscall.Errno {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.port != 0 || s.closed {
		return 0
	}
	if pid != 0 && s.d.ports[pid] {
		return unix.EADDRINUSE
	}
	if pid == 0 {
		for pid = tgid; pid == 0 || s.d.ports[pid]; pid-- {
			pid = min(pid, 0xffffefff)
		}
	}
	s.port, s.d.ports[pid] = pid, true
	return 0
}

func (s *fakeSession) Autobind(tgid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(0, tgid)
}

func (s *fakeSession) Name() (pid, groups uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port, s.groups[0]
}

func (s *fakeSession) SetOption(opt int, v uint32) syscall.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch opt {
	case unix.NETLINK_ADD_MEMBERSHIP, unix.NETLINK_DROP_MEMBERSHIP:
		if v == 0 || v > 64 {
			return unix.EINVAL
		}
		s.groups[(v-1)/32] |= 1 << ((v - 1) % 32)
		if opt == unix.NETLINK_DROP_MEMBERSHIP {
			s.groups[(v-1)/32] &^= 1 << ((v - 1) % 32)
		}
	case unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK:
		s.opts[opt] = min(v, 1)
	default:
		return unix.ENOPROTOOPT
	}
	return 0
}

func (s *fakeSession) Option(opt int) (uint32, syscall.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch opt {
	case unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK:
		return s.opts[opt], 0
	}
	return 0, unix.ENOPROTOOPT
}

func (s *fakeSession) Memberships() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.groups[:])
}

func (s *fakeSession) Request(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ne := binary.NativeEndian
	for len(b) >= 16 {
		n := int(ne.Uint32(b))
		if n < 16 || n > len(b) {
			return
		}
		typ, flags, seq := ne.Uint16(b[4:]), ne.Uint16(b[6:]), ne.Uint32(b[8:])
		dump := flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
		switch {
		case dump:
			var out []byte
			if typ == unix.RTM_GETLINK {
				out = s.link(out, seq, unix.NLM_F_MULTI, 1, "lo")
				out = s.link(out, seq, unix.NLM_F_MULTI, 42, "fake0")
			}
			s.send(s.message(out, unix.NLMSG_DONE, unix.NLM_F_MULTI, seq, make([]byte, 4)))
		case typ == unix.RTM_GETLINK:
			s.send(s.link(nil, seq, 0, 1, "lo"))
		default:
			s.send(s.message(nil, unix.NLMSG_ERROR, 0, seq, append(ne.AppendUint32(nil, negative(unix.EOPNOTSUPP)), b[:16]...)))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
}

func negative(errno syscall.Errno) uint32 { return uint32(-int32(errno)) }

func (s *fakeSession) message(b []byte, typ, flags uint16, seq uint32, body []byte) []byte {
	ne := binary.NativeEndian
	b = ne.AppendUint32(b, uint32(16+len(body)))
	b = ne.AppendUint16(b, typ)
	b = ne.AppendUint16(b, flags)
	b = ne.AppendUint32(b, seq)
	b = ne.AppendUint32(b, s.port)
	return append(b, body...)
}

func (s *fakeSession) link(b []byte, seq uint32, flags uint16, index uint32, name string) []byte {
	ne := binary.NativeEndian
	body := make([]byte, 16)
	ne.PutUint16(body[2:], unix.ARPHRD_ETHER)
	ne.PutUint32(body[4:], index)
	ne.PutUint32(body[8:], unix.IFF_UP)
	attr := func(typ uint16, v []byte) {
		body = ne.AppendUint16(body, uint16(4+len(v)))
		body = ne.AppendUint16(body, typ)
		body = append(body, v...)
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
	}
	attr(unix.IFLA_IFNAME, append([]byte(name), 0))
	attr(unix.IFLA_MTU, ne.AppendUint32(nil, 1500))
	attr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, byte(index)})
	return s.message(b, unix.RTM_NEWLINK, flags, seq, body)
}

func (s *fakeSession) send(b []byte) {
	if s.closed {
		return
	}
	_, err := s.f.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		s.d.failed(err)
	}
}
