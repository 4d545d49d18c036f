package shim

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// read fills p from the thread's memory. What was read counts only once
// [listener.valid] has confirmed that the thread id still means this thread.
//
// Errors are errGone, errNoAccess and EFAULT.
func (t *task) read(p []byte, addr uint64) syscall.Errno {
	return t.readv(p, []iovec{{base: addr, size: uint64(len(p))}})
}

func (t *task) readv(p []byte, vecs []iovec) syscall.Errno {
	if len(p) == 0 {
		return 0
	}
	local := unix.Iovec{Base: &p[0]}
	local.SetLen(len(p))
	remote := t.remote[:0]
	for _, v := range vecs {
		remote = append(remote, unix.RemoteIovec{Base: uintptr(v.base), Len: int(v.size)})
	}
	t.remote = remote
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(t.tid),
		uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote[0])), uintptr(len(remote)), 0)
	switch {
	case errno == unix.ESRCH:
		return errGone
	case errno == unix.EPERM:
		return errNoAccess
	case errno != 0, int(n) != len(p):
		return unix.EFAULT
	}
	return 0
}

// A writer writes to a client's memory. It holds on to the address space, not
// to a number: should the client be killed and its thread id reused, nothing is
// written to the wrong process.
type writer struct{ fd int }

// writer opens the thread's memory. The caller closes it.
func (t *task) writer() (writer, syscall.Errno) {
	fd, err := unix.Openat(t.dir, "mem", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if toErrno(err, 0) == unix.EACCES || toErrno(err, 0) == unix.EPERM {
			return writer{-1}, errNoAccess
		}
		return writer{-1}, errGone
	}
	return writer{fd}, 0
}

func (w writer) close() { unix.Close(w.fd) }

func (w writer) write(addr uint64, p []byte) syscall.Errno {
	// The offset of pwrite(2) is signed, and no user address is that high.
	if len(p) > 0 && int64(addr) < 0 {
		return unix.EFAULT
	}
	for len(p) > 0 {
		n, err := unix.Pwrite(w.fd, p, int64(addr))
		if err != nil || n <= 0 {
			return unix.EFAULT
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return 0
}
