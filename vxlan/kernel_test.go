package vxlan

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/notify"
	"golang.org/x/sys/unix"
)

// kernel is this machine's VXLAN driver in a namespace of the test's own.
type kernel struct {
	t     *testing.T
	fd    int
	ev    int
	seq   uint32
	lower map[string]int
}

// newKernel moves the calling goroutine's thread into a new network namespace.
// The comparison with the kernel is only made on request, since it needs root
// and the driver.
func newKernel(t *testing.T) *kernel {
	if os.Getenv("LINKSPAN_ASK_KERNEL") == "" {
		t.Skip("LINKSPAN_ASK_KERNEL is not set")
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("no new network namespace: ", err)
	}
	k := &kernel{t: t, fd: socketFor(t, 0), ev: socketFor(t, 1<<(unix.RTNLGRP_NEIGH-1)), lower: map[string]int{}}
	if err := unix.SetsockoptInt(k.ev, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_TUNNEL); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"ip link add u0 type veth peer name u1", "ip link add u2 mtu 9000 type veth peer name u3"} {
		k.run(c)
	}
	for _, n := range []string{"u0", "u2"} {
		i, err := net.InterfaceByName(n)
		if err != nil {
			t.Fatal(err)
		}
		k.lower[n] = i.Index
	}
	return k
}

func (k *kernel) run(cmd string) {
	k.t.Helper()
	if out, err := exec.Command("sh", "-c", cmd).CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v: %s", cmd, err, out)
	}
}

func socketFor(t *testing.T, groups uint32) int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		t.Fatal(err)
	}
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// ask sends a request and returns the acknowledgement as an error.
func (k *kernel) ask(typ, flags uint16, body []byte) error {
	k.send(typ, flags|unix.NLM_F_ACK, body)
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.fd, buf, 0)
		if err != nil {
			k.t.Fatal(err)
		}
		if b := buf[:n]; binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR {
			return ackError(b)
		}
	}
}

func (k *kernel) send(typ, flags uint16, body []byte) {
	k.seq++
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, k.seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	if err := unix.Sendto(k.fd, append(b, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		k.t.Fatal(err)
	}
}

func ackError(b []byte) error {
	errno := -int32(binary.NativeEndian.Uint32(b[16:]))
	if errno == 0 {
		return nil
	}
	e := &nlattr.Error{Errno: unix.Errno(errno)}
	if binary.NativeEndian.Uint16(b[6:])&0x200 == 0 { // NLM_F_ACK_TLVS
		return e
	}
	for _, a := range parse(b[36:], 0) {
		switch a.Type {
		case 1:
			e.Msg = a.Text()
		case 2:
			e.Offset = int(a.U32())
		}
	}
	return e
}

// events returns what was notified since the last call.
func (k *kernel) events() (l []notify.Change) {
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.ev, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return l
		}
		for b := buf[:n]; len(b) >= 16; {
			m := binary.NativeEndian.Uint32(b)
			typ := binary.NativeEndian.Uint16(b[4:])
			l = append(l, notify.Change{Group: unix.RTNLGRP_NEIGH, Type: typ, Body: append([]byte(nil), b[16:m]...)})
			b = b[min(int(m+3)&^3, len(b)):]
		}
	}
}

// dump returns the bodies of the answers to a dump request.
func (k *kernel) dump(typ uint16, body []byte) (l [][]byte) {
	k.send(typ, unix.NLM_F_DUMP, body)
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(k.fd, buf, 0)
		if err != nil {
			k.t.Fatal(err)
		}
		for b := buf[:n]; len(b) >= 16; {
			m := binary.NativeEndian.Uint32(b)
			if typ := binary.NativeEndian.Uint16(b[4:]); typ == unix.NLMSG_DONE || typ == unix.NLMSG_ERROR {
				return l
			}
			l = append(l, append([]byte(nil), b[16:m]...))
			b = b[min(int(m+3)&^3, len(b)):]
		}
	}
}
