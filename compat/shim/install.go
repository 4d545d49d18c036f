package shim

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// install puts the filter on the calling thread alone and returns the listener
// for its notifications and whether the kernel keeps a stopped call from being
// interrupted once the daemon has seen it (WAIT_KILLABLE_RECV, Linux 5.19). See
// seccomp(2).
//
// The thread is the one that will exec; the others of this process stay
// unfiltered, so that they can still talk to the daemon on any descriptor.
func install(filter []unix.SockFilter) (listener int, killable bool, err error) {
	const plain = uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	flags := plain | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	listener, errno := setFilter(filter, flags)
	if errno == unix.EACCES {
		// Without CAP_SYS_ADMIN a filter needs no_new_privs. It is not set
		// otherwise: it would take set-user-ID programs their rights.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, false, fmt.Errorf("set no_new_privs: %w", err)
		}
		listener, errno = setFilter(filter, flags)
	}
	if errno == unix.EINVAL {
		flags = plain
		listener, errno = setFilter(filter, flags)
	}
	if errno != 0 {
		return -1, false, installError(errno)
	}
	return listener, flags != plain, nil
}

func setFilter(filter []unix.SockFilter, flags uintptr) (int, syscall.Errno) {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return -1, errno
	}
	return int(r), 0
}

// installError says what a failure of seccomp(2) means to the person at the
// keyboard.
func installError(errno syscall.Errno) error {
	switch {
	case errors.Is(errno, unix.EBUSY):
		return errors.New("this process already runs under a seccomp listener, most likely another linkspan exec, " +
			"and the kernel allows one for a process tree: run the command without linkspan here, it is led to the daemon already")
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EINVAL):
		return fmt.Errorf("this kernel has no seccomp user notification, which linkspan exec needs (Linux 5.14 with CONFIG_SECCOMP_FILTER): %w", errno)
	default:
		return fmt.Errorf("cannot install the seccomp filter: %w", errno)
	}
}
