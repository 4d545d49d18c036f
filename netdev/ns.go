package netdev

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsGetNstype is NS_GET_NSTYPE (uapi/linux/nsfs.h): which CLONE_NEW* made the
// namespace that a descriptor stands for.
const nsGetNstype = 0xb703

// threadNS is the network namespace of the calling OS thread.
const threadNS = "/proc/thread-self/ns/net"

// NS is a handle of a network namespace. A nil *NS is the namespace of whoever
// calls, which is the process's own as long as nobody plays with threads.
type NS struct {
	f     *os.File
	inode uint64
}

// OwnNS returns the namespace of the calling thread, which is the process's own
// unless the caller locked its thread and moved it.
func OwnNS() (*NS, error) { return OpenNS(threadNS) }

// OpenNS opens a network namespace by a path such as /proc/PID/ns/net or
// /run/netns/NAME. The error wraps the errno of what failed; EINVAL means that
// the path is no network namespace.
func OpenNS(path string) (*NS, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the network namespace: %w", err)
	}
	ns, err := newNS(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is no network namespace: %w", path, err)
	}
	return ns, nil
}

// newNS takes over f, which must be a network namespace.
func newNS(f *os.File) (*NS, error) {
	typ, err := unix.IoctlRetInt(int(f.Fd()), nsGetNstype)
	if err != nil {
		return nil, err
	}
	if typ != unix.CLONE_NEWNET {
		return nil, unix.EINVAL
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	return &NS{f: f, inode: st.Ino}, nil
}

// Inode returns the inode number of the namespace in nsfs, by which namespaces
// are told apart, and 0 for nil.
func (ns *NS) Inode() uint64 {
	if ns == nil {
		return 0
	}
	return ns.inode
}

// FD returns the descriptor of the namespace, as IFLA_NET_NS_FD wants it. It is
// valid until Close.
func (ns *NS) FD() int { return int(ns.f.Fd()) }

// Close gives up the handle. The namespace lives on as long as anything is in it.
func (ns *NS) Close() error {
	if ns == nil {
		return nil
	}
	return ns.f.Close()
}

// Do calls f in the namespace: sockets and devices that f opens belong there. f
// may run in another goroutine, on a thread that is locked meanwhile, so it must
// not start goroutines that are to be in the namespace too. The error is f's, or
// tells that the namespace cannot be entered: EPERM without CAP_SYS_ADMIN.
func (ns *NS) Do(f func() error) error {
	if ns == nil || ns.isCurrent() {
		// Entering one's own namespace would need CAP_SYS_ADMIN too.
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- ns.visit(f) }()
	return <-done
}

// visit calls f in ns on a goroutine of its own.
func (ns *NS) visit(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(threadNS)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot open the thread's network namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(ns.FD(), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		if errors.Is(err, unix.EPERM) {
			return fmt.Errorf("entering another network namespace needs CAP_SYS_ADMIN: %w", err)
		}
		return fmt.Errorf("cannot enter the network namespace: %w", err)
	}
	err = f()
	if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	// A thread that cannot go home stays locked and ends with the goroutine.
	return err
}

// isCurrent reports whether the calling thread is in ns. If it is, nothing else
// than the caller itself can change that; if it is not, Do finds out for good.
func (ns *NS) isCurrent() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var st unix.Stat_t
	return unix.Stat(threadNS, &st) == nil && st.Ino == ns.inode
}
