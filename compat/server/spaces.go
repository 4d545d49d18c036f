package server

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/linkspan/linkspan/compat/kernel"
	"github.com/linkspan/linkspan/netdev"
	"github.com/linkspan/linkspan/rtnl"
)

// space is a network namespace that the daemon serves: its handle, the kernel's
// rtnetlink in it, and the emulated devices.
type space struct {
	netns *netdev.NS
	kern  *kernel.Kernel
	ns    *rtnl.Namespace
	// users are the sessions in it, and for the daemon's own the daemon.
	users int
}

// openSpace makes a space of a namespace and takes over the handle, also on
// error.
func openSpace(netns *netdev.NS, log *slog.Logger) (*space, error) {
	kern, err := kernel.Open(netns)
	if err != nil {
		return nil, errors.Join(err, netns.Close())
	}
	clock := netdev.SystemClock()
	domain := netdev.NewDomain(clock)
	ns, err := rtnl.NewNamespace(rtnl.NamespaceConfig{
		Kernel: kern, IO: kernel.NewIO(netns, netdev.NewSockets(domain, netns)),
		Clock: clock, Domain: domain, Log: log,
	})
	if err != nil {
		kern.Release()
		return nil, errors.Join(err, netns.Close())
	}
	return &space{netns: netns, kern: kern, ns: ns}, nil
}

func (s *space) close() error {
	err := s.ns.Close()
	s.kern.Release()
	return errors.Join(err, s.netns.Close())
}

// spaces are the namespaces in service, by inode. A namespace other than the
// daemon's own is let go once nobody uses it and nothing is emulated in it, or
// once it was deleted: whatever the daemon has open there would keep it alive.
type spaces struct {
	own *space
	// all serves foreign namespaces too.
	all bool
	log *slog.Logger

	mu      sync.Mutex
	byInode map[uint64]*space
	closed  bool
	watch   *watcher // while there is a foreign namespace with devices
}

func newSpaces(all bool, log *slog.Logger) (*spaces, error) {
	netns, err := netdev.OwnNS()
	if err != nil {
		return nil, err
	}
	own, err := openSpace(netns, log)
	if err != nil {
		return nil, err
	}
	own.users = 1
	return &spaces{own: own, all: all, log: log, byInode: map[uint64]*space{netns.Inode(): own}}, nil
}

// errNotServed tells that a namespace is left to the kernel.
var errNotServed = errors.New("server: this network namespace is not served")

// use returns the space of a process's network namespace, which has that inode,
// and counts a user. unuse takes the user off again.
func (v *spaces) use(pid uint32, inode uint64) (*space, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.byInode[inode]; s != nil {
		s.users++
		return s, nil
	}
	if !v.all || v.closed {
		return nil, errNotServed
	}
	netns, err := netdev.OpenNS(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	if netns.Inode() != inode {
		// A thread in another namespace than its process: the kernel serves it.
		return nil, errors.Join(errNotServed, netns.Close())
	}
	s, err := openSpace(netns, v.log)
	if err != nil {
		return nil, err
	}
	s.users = 1
	v.byInode[inode] = s
	return s, nil
}

// unuse takes a user off s, and lets go of it if it was the last of one that has
// no devices.
func (v *spaces) unuse(s *space) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.users--
	if s == v.own || s.users > 0 || v.closed {
		return
	}
	if s.ns.Empty() {
		v.drop(s)
		return
	}
	if v.watch == nil {
		w, err := newWatcher(v.reap)
		if err != nil {
			v.log.Warn("deleted network namespaces are not noticed", "err", err)
			return
		}
		v.watch = w
	}
}

// drop closes a space. The lock is held.
func (v *spaces) drop(s *space) {
	delete(v.byInode, s.netns.Inode())
	if err := s.close(); err != nil {
		v.log.Warn("cannot close a network namespace", "err", err)
	}
}

// reap lets go of the namespaces that only the daemon keeps alive. The watcher
// calls it; it reports whether there is anything left to watch.
func (v *spaces) reap() (more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	var idle []*space
	for _, s := range v.byInode {
		if s != v.own && s.users == 0 {
			idle = append(idle, s)
		}
	}
	if len(idle) > 0 {
		var inodes []uint64
		for _, s := range idle {
			inodes = append(inodes, s.netns.Inode())
		}
		alive := aliveNamespaces(inodes)
		for _, s := range idle {
			if alive != nil && !alive[s.netns.Inode()] || s.ns.Empty() {
				v.drop(s)
				continue
			}
			more = true
		}
	}
	if !more {
		v.watch = nil
	}
	return more
}

// close closes all spaces, after the sessions have ended.
func (v *spaces) close() error {
	v.mu.Lock()
	v.closed = true
	w := v.watch
	v.watch = nil
	v.mu.Unlock()
	if w != nil {
		w.close()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var err error
	for inode, s := range v.byInode {
		delete(v.byInode, inode)
		err = errors.Join(err, s.close())
	}
	return err
}
