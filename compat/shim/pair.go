package shim

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// clientSendBuffer bounds what a client can write past the supervisor in one
// packet; netlink's own default would be net.core.wmem_default.
const clientSendBuffer = 1 << 20

// newPair returns the two ends of a SOCK_SEQPACKET connection: the client's,
// blocking, and the daemon's, non-blocking.
//
// It is not a socketpair(2) because the daemon's end needs a name. recvmsg(2)
// reports the sender's address, and libnetlink wants 12 bytes there, the size of
// sockaddr_nl, with zero at bytes 4 to 7, the port id of the kernel. The address
// of a unix socket with an abstract name of 10 bytes is that long and begins
//
//	0  AF_UNIX      nl_family
//	2  0, a number  nl_pad: the mark of an abstract name, and what makes it unique
//	4  0 0 0 0      nl_pid
//	8  0 0 0 0      nl_groups
//
// The accepted end of a connection keeps the listening socket's address after
// that one is closed, while the name itself becomes free. So one byte is enough
// to keep apart those that are made at the same moment.
func newPair() (client, daemon int, err error) {
	client, daemon = -1, -1
	var b [1]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	for try := range 3 * 255 {
		name := [10]byte{'@', 1 + byte((int(b[0])+try)%255)}
		if try >= 255 {
			// Someone holds all the good names. A group mask is the least
			// harmful field to give up.
			_, _ = rand.Read(name[6:])
		}
		client, daemon, err = connectPair(string(name[:]))
		if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err != nil {
		return -1, -1, err
	}
	if unix.SetsockoptInt(client, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, clientSendBuffer) != nil {
		_ = unix.SetsockoptInt(client, unix.SOL_SOCKET, unix.SO_SNDBUF, clientSendBuffer)
	}
	return client, daemon, nil
}

func connectPair(name string) (client, daemon int, err error) {
	const typ = unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	addr := &unix.SockaddrUnix{Name: name}
	l, err := unix.Socket(unix.AF_UNIX, typ, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(l)
	if err := unix.Bind(l, addr); err != nil {
		return -1, -1, fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(l, 1); err != nil {
		return -1, -1, fmt.Errorf("listen: %w", err)
	}
	client, err = unix.Socket(unix.AF_UNIX, typ, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(client, addr); err != nil {
		unix.Close(client)
		return -1, -1, fmt.Errorf("connect: %w", err)
	}
	daemon, err = acceptOwn(l)
	if err == nil {
		err = unix.SetNonblock(client, false)
		if err == nil {
			return client, daemon, nil
		}
		unix.Close(daemon)
	}
	unix.Close(client)
	return -1, -1, err
}

// acceptOwn accepts the connection that this process made. The abstract name
// can be reached by every process in the network namespace: without the check a
// stranger who connects at the right moment would get a session with the rights
// of the caller.
func acceptOwn(l int) (int, error) {
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("accept: %w", err)
		}
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && int(peer.Pid) == os.Getpid() {
			return fd, nil
		}
		unix.Close(fd)
	}
}
