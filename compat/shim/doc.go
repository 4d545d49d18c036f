// Package shim leads the rtnetlink traffic of unmodified programs to linkspand.
//
// It has two halves. The launcher ([Exec], in the linkspan command) installs a
// seccomp filter with a user-notification listener, hands the listener to the
// daemon and turns itself into the command; everything the command starts
// inherits the filter. The supervisor ([Supervise], in the daemon) answers the
// system calls that the filter stops: a socket(AF_NETLINK, *, NETLINK_ROUTE)
// gets one end of a SOCK_SEQPACKET pair, and later calls on that descriptor
// which mean something else on a netlink socket are carried out in its place.
// No preloading and no ptrace: static binaries and Go programs work.
//
// The mechanism is seccomp_unotify(2). What a program can see of it, and does
// not see on a netlink socket of the kernel's:
//
//   - Descriptors are high numbers (see [DefaultRanges]).
//   - A copy made by dup2(2), or a descriptor passed over a unix socket, may
//     get a low number. It stays usable, but what is sent on it is carried out
//     after send(2) has returned, and getsockname(2) on it is that of a unix
//     socket.
//   - recvmsg(2) reports the address family AF_UNIX in an address that is laid
//     out as a sockaddr_nl from the kernel otherwise; recvfrom(2) with an
//     address reports AF_NETLINK, unless it has to wait for the data.
//   - A signal may interrupt a call that never waits on a netlink socket.
//
// The shim is a convenience and not a sandbox: a program that wants to reach
// the kernel's rtnetlink can do so.
package shim
