package shim

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures of seccomp_unotify(2), from uapi/linux/seccomp.h.
type (
	notification struct { // struct seccomp_notif
		ID    uint64
		PID   uint32 // the thread, in the reader's PID namespace; 0 if not visible there
		Flags uint32
		Nr    int32 // struct seccomp_data from here on
		Arch  uint32
		IP    uint64
		Args  [6]uint64
	}
	response struct { // struct seccomp_notif_resp
		ID    uint64
		Val   int64
		Error int32
		Flags uint32
	}
	addFD struct { // struct seccomp_notif_addfd
		ID         uint64
		Flags      uint32
		SrcFD      uint32
		NewFD      uint32
		NewFDFlags uint32
	}
)

// A listener is a seccomp notification descriptor.
type listener int

func (l listener) ioctl(req uintptr, arg unsafe.Pointer) (uintptr, syscall.Errno) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), req, uintptr(arg))
		if errno != unix.EINTR {
			return r, errno
		}
	}
}

// syncWakeUp asks for the client and the supervisor to hand one CPU to and fro,
// which about halves the time of a call (Linux 6.6). Older kernels refuse, and
// nothing is lost.
func (l listener) syncWakeUp() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// receive takes the next notification. ENOENT: its process is gone already.
func (l listener) receive(n *notification) syscall.Errno {
	*n = notification{} // the kernel insists on zeros
	_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return errno
}

// valid reports whether the thread that made call id still waits for the
// answer. If so, what was read by its thread id before was its own.
func (l listener) valid(id uint64) bool {
	_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	return errno == 0
}

// send answers a call. Failures are of no interest: the caller is gone.
func (l listener) send(r *response) {
	_, _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// inject puts a copy of our descriptor src at number fd of the caller and
// answers the call with that number, in one step.
func (l listener) inject(id uint64, src int, fd uint32, cloexec bool) syscall.Errno {
	a := addFD{
		ID: id, SrcFD: uint32(src), NewFD: fd,
		Flags: unix.SECCOMP_ADDFD_FLAG_SETFD | unix.SECCOMP_ADDFD_FLAG_SEND,
	}
	if cloexec {
		a.NewFDFlags = unix.O_CLOEXEC
	}
	_, errno := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&a))
	return errno
}
