package server

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watcher calls a function when a network namespace may have been deleted: when
// the mount table changes (ip netns del), and once a second, for namespaces that
// lived by a process.
type watcher struct {
	mounts *os.File
	wake   int
	done   chan struct{}
}

// watchPeriod is how often processes are looked at.
const watchPeriod = time.Second

// newWatcher calls check until it returns false, or close.
func newWatcher(check func() bool) (*watcher, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		mounts.Close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &watcher{mounts: mounts, wake: wake, done: make(chan struct{})}
	go w.run(check)
	return w, nil
}

func (w *watcher) run(check func() bool) {
	defer close(w.done)
	defer w.mounts.Close()
	defer unix.Close(w.wake)
	// The kernel reports a changed mount table as POLLPRI.
	fds := []unix.PollFd{{Fd: int32(w.mounts.Fd()), Events: unix.POLLPRI}, {Fd: int32(w.wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, int(watchPeriod.Milliseconds()))
		if err != nil && err != unix.EINTR || fds[1].Revents != 0 || !check() {
			return
		}
	}
}

// close ends the watcher.
func (w *watcher) close() {
	select {
	case <-w.done:
		return
	default:
	}
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-w.done
}

// aliveNamespaces returns which of the network namespaces with those inodes are
// alive without the daemon, as far as it can see: a process is in them, a mount
// holds them, or a process has them open. The daemon's own do not count. nil means
// that it cannot tell.
func aliveNamespaces(inodes []uint64) map[uint64]bool {
	alive := map[uint64]bool{}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mountSpaces := map[string]bool{}
	self := strconv.Itoa(os.Getpid())
	var pids []string
	for _, p := range procs {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := "/proc/" + p.Name()
		// A namespace of mounts shows the same to all of its processes.
		if mnt, err := os.Readlink(dir + "/ns/mnt"); err == nil && !mountSpaces[mnt] {
			mountSpaces[mnt] = true
			mountedNamespaces(dir+"/mountinfo", alive)
		}
		if p.Name() == self {
			continue
		}
		pids = append(pids, dir)
		if inode, ok := nsInode(dir + "/ns/net"); ok {
			alive[inode] = true
		}
	}
	for _, inode := range inodes {
		if !alive[inode] {
			// Only now, for it is the most to read.
			openNamespaces(pids, alive)
			break
		}
	}
	return alive
}

// mountedNamespaces adds the network namespaces that a mount table holds.
func mountedNamespaces(path string, alive map[uint64]bool) {
	mounts, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		// The fourth field of an nsfs mount is net:[INODE].
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		if inode, ok := parseInode(f[3]); ok {
			alive[inode] = true
		}
	}
}

// openNamespaces adds the network namespaces that processes have open.
func openNamespaces(procs []string, alive map[uint64]bool) {
	for _, dir := range procs {
		fds, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if inode, ok := nsInode(dir + "/fd/" + fd.Name()); ok {
				alive[inode] = true
			}
		}
	}
}

// nsInode reads the inode number out of a /proc link to a network namespace.
func nsInode(path string) (uint64, bool) {
	s, err := os.Readlink(path)
	if err != nil {
		return 0, false
	}
	return parseInode(s)
}

func parseInode(s string) (uint64, bool) {
	s, ok := strings.CutPrefix(s, "net:[")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "]"), 10, 64)
	return n, err == nil
}
