package shim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A task is a thread of the process tree. The descriptor of its directory in
// /proc refers to the thread itself and not to its number: once the thread is
// gone every use fails, even if the number has been given away again. That is
// what makes it safe to keep tasks.
type task struct {
	tid    uint32
	dir    int    // O_PATH descriptor of /proc/TID
	tgid   uint32 // process id as the process itself sees it; 0: not yet read
	remote []unix.RemoteIovec
}

func openTask(tid uint32) (*task, error) {
	dir, err := unix.Open("/proc/"+strconv.FormatUint(uint64(tid), 10), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &task{tid: tid, dir: dir}, nil
}

func (t *task) close() { unix.Close(t.dir) }

// fdPath returns the path of descriptor fd below the task's directory. The
// kernel takes a descriptor argument as an unsigned int.
func fdPath(fd uint32) string { return "fd/" + strconv.FormatUint(uint64(fd), 10) }

// hasFD reports whether descriptor fd is open.
func (t *task) hasFD(fd uint32) bool {
	var b [1]byte
	_, err := unix.Readlinkat(t.dir, fdPath(fd), b[:])
	return err == nil
}

// socketInode returns the inode number of the socket at descriptor fd; err if
// the descriptor is closed or the task gone, zero if it is something else.
func (t *task) socketInode(fd uint32) (ino uint64, err error) {
	var b [64]byte
	n, err := unix.Readlinkat(t.dir, fdPath(fd), b[:])
	if err != nil {
		return 0, err
	}
	digits, ok := bytes.CutPrefix(b[:n], []byte("socket:["))
	if !ok {
		return 0, nil
	}
	digits, ok = bytes.CutSuffix(digits, []byte("]"))
	if !ok {
		return 0, nil
	}
	ino, err = strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0, nil
	}
	return ino, nil
}

// fdLimit returns the soft RLIMIT_NOFILE.
func (t *task) fdLimit() uint32 {
	var lim unix.Rlimit
	if err := unix.Prlimit(int(t.tid), unix.RLIMIT_NOFILE, nil, &lim); err != nil {
		// Not allowed to look: injecting fails where the number is too high.
		return selectLimit
	}
	return uint32(min(lim.Cur, math.MaxInt32))
}

// file returns the contents of a file below the task's directory.
func (t *task) file(name string) ([]byte, error) {
	fd, err := unix.Openat(t.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var out []byte
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return out, nil
		}
		out = append(out, buf[:n]...)
	}
}

// A status holds fields of /proc/PID/status, see proc_pid_status(5).
type status struct {
	tgid     uint32 // in the daemon's PID namespace
	innerPID uint32 // the process id in its own PID namespace
	uid, gid uint32 // effective
	groups   []uint32
	capEff   uint64
}

func parseStatus(b []byte) (s status, err error) {
	// A number that is missing is nobody's id.
	s.tgid, s.uid, s.gid = math.MaxUint32, math.MaxUint32, math.MaxUint32
	for line := range bytes.Lines(b) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		v := bytes.Fields(rest)
		switch string(key) {
		case "Tgid":
			s.tgid = number(v, 0)
		case "NStgid":
			s.innerPID = number(v, len(v)-1)
		case "Uid":
			s.uid = number(v, 1)
		case "Gid":
			s.gid = number(v, 1)
		case "Groups":
			for i := range v {
				s.groups = append(s.groups, number(v, i))
			}
		case "CapEff":
			if len(v) == 1 {
				s.capEff, err = strconv.ParseUint(string(v[0]), 16, 64)
			}
		}
	}
	if err != nil || s.uid == math.MaxUint32 || s.gid == math.MaxUint32 || s.tgid == 0 || s.tgid == math.MaxUint32 {
		// A caller without known ids must not pass for uid 0.
		return status{}, errors.New("unreadable /proc/PID/status")
	}
	if s.innerPID == 0 {
		s.innerPID = s.tgid
	}
	return s, nil
}

// number returns field i as a number; nobody's id if there is none.
func number(fields [][]byte, i int) uint32 {
	if i < 0 || i >= len(fields) {
		return math.MaxUint32
	}
	n, err := strconv.ParseUint(string(fields[i]), 10, 32)
	if err != nil {
		return math.MaxUint32
	}
	return uint32(n)
}

// processID returns the process id as the process itself sees it, which is what
// netlink_autobind prefers as port id.
func (t *task) processID() uint32 {
	if t.tgid == 0 {
		b, err := t.file("status")
		if err != nil {
			return 0
		}
		s, err := parseStatus(b)
		if err != nil {
			return 0
		}
		t.tgid = s.innerPID
	}
	return t.tgid
}

// caller describes the task's process as it is now.
func (t *task) caller() (Caller, error) {
	b, err := t.file("status")
	if err != nil {
		return Caller{}, fmt.Errorf("read status: %w", err)
	}
	s, err := parseStatus(b)
	if err != nil {
		return Caller{}, err
	}
	t.tgid = s.innerPID
	ns, err := unix.Openat(t.dir, "ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Caller{}, fmt.Errorf("open network namespace: %w", err)
	}
	defer unix.Close(ns)
	var st unix.Stat_t
	if err := unix.Fstat(ns, &st); err != nil {
		return Caller{}, fmt.Errorf("stat network namespace: %w", err)
	}
	return Caller{
		PID: s.tgid, UID: s.uid, GID: s.gid, Groups: s.groups,
		NetAdmin: s.capEff&(1<<unix.CAP_NET_ADMIN) != 0 && t.userNSOwns(ns),
		NetNS:    st.Ino,
	}, nil
}

// userNSOwns reports whether the task's user namespace is that of the network
// namespace ns or one above, so that its capabilities hold there
// (user_namespaces(7)). What cannot be found out counts as no.
func (t *task) userNSOwns(ns int) bool {
	var own, at unix.Stat_t
	if unix.Fstatat(t.dir, "ns/user", &own, 0) != nil {
		return false
	}
	fd, err := unix.IoctlRetInt(ns, unix.NS_GET_USERNS)
	for err == nil {
		err = unix.Fstat(fd, &at)
		if err == nil && at.Ino == own.Ino && at.Dev == own.Dev {
			unix.Close(fd)
			return true
		}
		parent := -1
		if err == nil {
			parent, err = unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		}
		unix.Close(fd)
		fd = parent
	}
	return false
}

// dupFD returns a copy of the task's descriptor fd, which must be the socket of
// inode ino still. errNoAccess: see ptrace(2), access mode checking.
func (t *task) dupFD(fd uint32, ino uint64) (int, syscall.Errno) {
	// PIDFD_THREAD, Linux 6.9; before, only processes have pidfds, whose
	// descriptors are those of their first thread.
	pidfd, err := unix.PidfdOpen(int(t.tid), unix.O_EXCL)
	if errors.Is(err, unix.EINVAL) {
		var b []byte
		var s status
		if b, err = t.file("status"); err == nil {
			if s, err = parseStatus(b); err == nil {
				pidfd, err = unix.PidfdOpen(int(s.tgid), 0)
			}
		}
	}
	if err != nil {
		return -1, errGone
	}
	defer unix.Close(pidfd)
	copied, err := unix.PidfdGetfd(pidfd, int(fd), 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return -1, errNoAccess
	case err != nil:
		return -1, unix.EBADF
	}
	var st unix.Stat_t
	if unix.Fstat(copied, &st) != nil || st.Ino != ino || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		unix.Close(copied)
		return -1, unix.EBADF
	}
	return copied, 0
}

func toErrno(err error, fallback syscall.Errno) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return fallback
}

// scarce tells of an error that the daemon's own limits are the cause of, or the
// system's.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// putInt32 is a C int in the host's byte order.
func putInt32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
