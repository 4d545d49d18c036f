package integration_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// rawConn is a connection of a program that dials the daemon's socket itself.
type rawConn struct {
	t  testing.TB
	fd int
}

// dialer makes such connections. The daemon serves a program in the network
// namespace that it is in, and the test binary is in the machine's own, where it
// has no business: so another process dials, and hands the connection over.
type dialer struct {
	t    testing.TB
	conn *net.UnixConn
}

const dialEnv = "LINKSPAN_INTEGRATION_DIAL"

// dialerClient is that process. For each byte on descriptor 3 it dials.
func dialerClient() {
	b := make([]byte, 1)
	for {
		if n := get(unix.Read(3, b)); n == 0 {
			return
		}
		fd := get(unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
		must(unix.Connect(fd, &unix.SockaddrUnix{Name: os.Getenv(dialEnv)}))
		must(unix.Sendmsg(3, b, unix.UnixRights(fd), nil, 0))
		unix.Close(fd)
	}
}

func newDialer(t testing.TB, d *linkspand) *dialer {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, its := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "its")
	defer mine.Close()
	defer its.Close()
	d.ns.spawn(t, []string{get(os.Executable())}, func(c *exec.Cmd) {
		c.Env = append(os.Environ(), clientEnv+"=dialer", dialEnv+"="+d.socket)
		c.ExtraFiles = []*os.File{its}
	})
	c, err := net.FileConn(mine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &dialer{t, c.(*net.UnixConn)}
}

// dial makes a connection, which is closed at the end of the test.
func (d *dialer) dial() *rawConn {
	d.t.Helper()
	d.conn.SetDeadline(time.Now().Add(patience))
	if _, err := d.conn.Write([]byte{0}); err != nil {
		d.t.Fatal(err)
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := d.conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		d.t.Fatal("the dialer:", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		d.t.Fatal("the dialer sent no descriptor:", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { unix.Close(fds[0]) })
	tv := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		d.t.Fatal(err)
	}
	return &rawConn{d.t, fds[0]}
}

// send sends messages in one packet.
func (c *rawConn) send(msgs ...[]byte) {
	c.t.Helper()
	if err := unix.Send(c.fd, bytes.Join(msgs, nil), unix.MSG_NOSIGNAL); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the messages of the next packet.
func (c *rawConn) receive() []syscall.NetlinkMessage {
	c.t.Helper()
	buf := make([]byte, 1<<18)
	n, err := unix.Read(c.fd, buf)
	if err != nil || n == 0 {
		c.t.Fatalf("no answer: %d bytes, %v", n, err)
	}
	msgs, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || len(msgs) == 0 {
		c.t.Fatalf("malformed answer % x: %v", buf[:n], err)
	}
	return msgs
}

// answer collects messages up to the acknowledgement of seq, or the end of a
// dump, and returns the errno.
func (c *rawConn) answer(seq uint32) (rows []syscall.NetlinkMessage, errno unix.Errno) {
	c.t.Helper()
	for {
		for _, m := range c.receive() {
			if m.Header.Seq != seq {
				c.t.Fatalf("an answer to %d while waiting for %d: %+v", m.Header.Seq, seq, m)
			}
			switch m.Header.Type {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				return rows, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			}
			rows = append(rows, m)
		}
	}
}

const ack = netlink.Acknowledge

// TestRawSocket is the contract of the socket: a packet holds messages as an
// AF_NETLINK socket would carry them.
func TestRawSocket(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	dialer := newDialer(t, d)
	c := dialer.dial()

	c.send(message(unix.RTM_NEWLINK, ack|netlink.Create|netlink.Excl, 1, newLink("br0", "bridge", nil)))
	if _, e := c.answer(1); e != 0 {
		t.Fatal("new bridge:", e)
	}
	c.send(message(unix.RTM_NEWLINK, ack|netlink.Create|netlink.Excl, 2, newLink("br0", "bridge", nil)))
	if _, e := c.answer(2); e != unix.EEXIST {
		t.Error("the second one:", e)
	}
	c.send(message(unix.RTM_NEWLINK, ack|netlink.Create|netlink.Excl, 3, newLink("vx0", "vxlan", func(ae *netlink.AttributeEncoder) {
		ae.Uint32(unix.IFLA_VXLAN_ID, 5)
	})))
	if _, e := c.answer(3); e != 0 {
		t.Fatal("new vxlan:", e)
	}
	c.send(message(unix.RTM_GETLINK, 0, 4, newLink("vx0", "", nil)))
	got := c.receive()
	if len(got) != 1 || got[0].Header.Type != unix.RTM_NEWLINK || got[0].Header.Seq != 4 || !bytes.Contains(got[0].Data, []byte("vxlan\x00")) {
		t.Fatalf("get: %+v", got)
	}
	vx := binary.NativeEndian.Uint32(got[0].Data[4:])

	// Several messages in a packet: each has its answer, in order.
	{
		entry := func(i byte) []byte {
			return fdbEntry(vx, fmt.Sprintf("02:00:00:00:00:%02x", i), net.IPv4(192, 0, 2, i))
		}
		const create = netlink.Create | netlink.Excl
		c.send(
			message(unix.RTM_NEWNEIGH, ack|create, 10, entry(1)),
			message(unix.RTM_NEWNEIGH, ack|create, 11, entry(1)), // exists
			message(unix.RTM_NEWNEIGH, create, 12, entry(2)),     // no acknowledgement
			message(unix.RTM_NEWNEIGH, create, 13, entry(2)),     // but for an error
			message(unix.RTM_NEWNEIGH, ack|create, 14, entry(3)),
		)
		for _, want := range []struct {
			seq   uint32
			errno unix.Errno
		}{{10, 0}, {11, unix.EEXIST}, {13, unix.EEXIST}, {14, 0}} {
			if _, e := c.answer(want.seq); e != want.errno {
				t.Errorf("message %d: %v, want %v", want.seq, e, want.errno)
			}
		}
	}
	{
		req := make([]byte, unix.SizeofNdMsg)
		req[0] = unix.AF_BRIDGE
		c.send(message(unix.RTM_GETNEIGH, netlink.Dump, 20, req))
		rows, e := c.answer(20)
		if e != 0 {
			t.Fatal(e)
		}
		var seen []byte
		for _, r := range rows {
			if r.Header.Type != unix.RTM_NEWNEIGH || r.Header.Flags&unix.NLM_F_MULTI == 0 {
				t.Errorf("a row: %+v", r.Header)
			}
			if binary.NativeEndian.Uint32(r.Data[4:]) == vx {
				if i := bytes.Index(r.Data, []byte{2, 0, 0, 0, 0}); i >= 0 {
					seen = append(seen, r.Data[i+5])
				}
			}
		}
		slices.Sort(seen)
		if !bytes.Equal(seen, []byte{1, 2, 3}) {
			t.Errorf("entries % x", seen)
		}
	}
	// What has a lying length is dropped silently.
	{
		bad := message(unix.RTM_DELLINK, ack, 30, newLink("br0", "", nil))
		binary.NativeEndian.PutUint32(bad, uint32(len(bad)+4))
		c.send(bad)
		c.send(message(unix.RTM_GETLINK, 0, 31, newLink("br0", "", nil)))
		if got := c.receive(); got[0].Header.Seq != 31 || got[0].Header.Type != unix.RTM_NEWLINK {
			t.Errorf("%+v", got)
		}
	}
	for seq, dev := range map[uint32]string{40: "br0", 41: "vx0"} {
		c.send(message(unix.RTM_DELLINK, ack, seq, newLink(dev, "", nil)))
		if _, e := c.answer(seq); e != 0 {
			t.Error("del", dev, e)
		}
	}
	if err := leftDevices(n); err != nil {
		t.Error(err)
	}
}

// TestRawLargePacket: the first packet is as large as a netlink socket takes.
func TestRawLargePacket(t *testing.T) {
	dialer := newDialer(t, daemon(t, newNS(t)))
	var msgs [][]byte
	const count = 2000
	for i := range uint32(count) {
		msgs = append(msgs, message(unix.RTM_GETLINK, 0, i+1, newLink("none", "", nil)))
	}
	big := dialer.dial()
	big.send(msgs...)
	for i := range uint32(count) {
		if _, e := big.answer(i + 1); e != unix.ENODEV {
			t.Fatalf("message %d: %v", i, e)
		}
	}
}

// TestRawClients come and go, some without waiting for their answer.
func TestRawClients(t *testing.T) {
	d := daemon(t, newNS(t))
	d.run(t, "ip link add br0 type bridge")
	dialer := newDialer(t, d)
	start := time.Now()
	for i := range uint32(200) {
		one := dialer.dial()
		one.send(message(unix.RTM_GETLINK, 0, i+1, newLink("br0", "", nil)))
		if i%2 == 0 { // the others hang up before the answer
			one.receive()
		}
		unix.Shutdown(one.fd, unix.SHUT_RDWR)
	}
	t.Logf("200 connections in %s", time.Since(start).Round(time.Millisecond))
}

// TestRawStop: the daemon ends while clients' first packets are being carried
// out, and does not use what it has closed.
func TestRawStop(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	d.run(t, "ip link add vx0 type vxlan id 1 dstport 4789")
	vx := ifindex(t, n, "vx0")
	dialer := newDialer(t, d)
	const clients, count = 4, 1200
	for i := range uint32(clients) {
		var msgs [][]byte
		for j := range uint32(count) {
			msgs = append(msgs, message(unix.RTM_NEWNEIGH, netlink.Create, j, fdbEntry(vx, entryNumber(i*count+j), net.IPv4(192, 0, 2, 1))))
		}
		dialer.dial().send(msgs...)
	}
	d.stop(t)
	if log := d.errout.String(); strings.Contains(log, "bad file descriptor") {
		t.Errorf("linkspand used a closed descriptor:\n%.500s", log)
	}
}

func ifindex(t testing.TB, n *netns, dev string) (i uint32) {
	t.Helper()
	if _, err := fmt.Sscanf(n.run(t, "ip -o link show dev "+dev), "%d:", &i); err != nil {
		t.Fatal(err)
	}
	return i
}
