package shim

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// solNetlink is SOL_NETLINK, the level of netlink's socket options
// (linux/socket.h).
const solNetlink = unix.SOL_NETLINK

// buildFilter returns the seccomp program that stops what the supervisor has to
// see. All else is allowed; the kernel remembers which system calls are allowed
// whatever their arguments, and runs no filter for those.
//
// dup2 and dup3 are not stopped: their caller chooses the number. So that
// copies outside of the ranges can still be bound and configured, the calls
// that are rare and unmistakable are stopped on every descriptor.
func buildFilter(ranges []Range) ([]unix.SockFilter, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("the shim does not support the %s architecture", runtime.GOARCH)
	}
	if !validRanges(ranges) {
		return nil, fmt.Errorf("shim: bad descriptor ranges %v", ranges)
	}
	a := newAssembler()
	a.load(dataArch)
	a.jumpEqual(auditArch, "", "allow")
	a.load(dataNr)
	a.jumpEqual(unix.SYS_SOCKET, "socket", "")
	a.jumpEqual(unix.SYS_SENDTO, "descriptor", "")
	a.jumpEqual(unix.SYS_SENDMSG, "descriptor", "")
	a.jumpEqual(unix.SYS_SENDMMSG, "descriptor", "")
	a.jumpEqual(unix.SYS_RECVFROM, "recvfrom", "")
	a.jumpEqual(unix.SYS_BIND, "address", "")
	a.jumpEqual(unix.SYS_CONNECT, "address", "")
	a.jumpEqual(unix.SYS_GETSOCKNAME, "descriptor", "")
	a.jumpEqual(unix.SYS_GETPEERNAME, "descriptor", "")
	a.jumpEqual(unix.SYS_SETSOCKOPT, "setsockopt", "")
	a.jumpEqual(unix.SYS_GETSOCKOPT, "getsockopt", "")
	a.jumpEqual(unix.SYS_DUP, "descriptor", "")
	a.jumpEqual(unix.SYS_FCNTL, "fcntl", "allow")

	a.label("socket")
	a.loadArg(0)
	a.jumpEqual(unix.AF_NETLINK, "", "allow")
	a.loadArg(2)
	a.jumpEqual(unix.NETLINK_ROUTE, "notify", "allow")

	a.label("recvfrom") // only the address that it returns needs help
	a.loadArg(4)
	a.jumpEqual(0, "", "descriptor")
	a.loadArgHigh(4)
	a.jumpEqual(0, "allow", "descriptor")

	a.label("address") // on any descriptor if the length is that of sockaddr_nl
	a.loadArg(2)
	a.jumpEqual(sockaddrLen, "notify", "descriptor")

	a.label("setsockopt")
	a.loadArg(1)
	a.jumpEqual(solNetlink, "notify", "allow")

	a.label("getsockopt")
	a.loadArg(1)
	a.jumpEqual(solNetlink, "notify", "")
	a.jumpEqual(unix.SOL_SOCKET, "", "allow")
	a.loadArg(2)
	a.jumpEqual(unix.SO_TYPE, "descriptor", "")
	a.jumpEqual(unix.SO_DOMAIN, "descriptor", "")
	a.jumpEqual(unix.SO_PROTOCOL, "descriptor", "allow")

	a.label("fcntl")
	a.loadArg(1)
	a.jumpEqual(unix.F_DUPFD, "descriptor", "")
	a.jumpEqual(unix.F_DUPFD_CLOEXEC, "descriptor", "allow")

	a.label("descriptor")
	a.loadArg(0)
	for _, r := range ranges {
		a.jumpAtLeast(r.Hi, "allow", "")
		a.jumpAtLeast(r.Lo, "notify", "")
	}
	a.label("allow")
	a.ret(unix.SECCOMP_RET_ALLOW)
	a.label("notify")
	a.ret(unix.SECCOMP_RET_USER_NOTIF)
	return a.assemble()
}
