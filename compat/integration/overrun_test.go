package integration_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// subscriberClient joins the neighbours' group and, for each line that it reads
// from its input, reads events until the one for the address that the line
// names. It prints how many came in order and whether some were lost.
func subscriberClient() {
	fd := get(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE))
	must(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_NEIGH - 1)}))
	tv := unix.NsecToTimeval(patience.Nanoseconds())
	must(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	fmt.Println("joined")
	buf := make([]byte, 1<<16)
	next := uint32(0) // the event that is due
	gap := false      // unless some were lost
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var target uint32
		get(fmt.Sscan(lines.Text(), &target))
		for lost := false; next <= target && !lost; {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err == unix.ENOBUFS { // the kernel's way to say it
				lost = true
			} else {
				must(err)
			}
			for _, m := range get(syscall.ParseNetlinkMessage(buf[:max(n, 0)])) {
				if m.Header.Type == unix.NLMSG_ERROR {
					e := unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
					check(e == unix.ENOBUFS, "an error among the events: %v", e)
					lost = true
					continue
				}
				check(m.Header.Type == unix.RTM_NEWNEIGH, "message type %d", m.Header.Type)
				i := eventNumber(m.Data)
				check(i == next || i > next && gap, "event %d instead of %d", i, next)
				next, gap = i+1, false
			}
			if lost {
				gap = true
				fmt.Printf("lost after %d\n", next)
			}
		}
		fmt.Printf("got %d\n", next)
	}
	must(lines.Err())
}

// eventNumber finds the number in the address of an entry, see entryNumber.
func eventNumber(ndm []byte) uint32 {
	ad := get(netlink.NewAttributeDecoder(ndm[unix.SizeofNdMsg:]))
	for ad.Next() {
		if ad.Type() == unix.NDA_LLADDR {
			return binary.BigEndian.Uint32(ad.Bytes()[2:])
		}
	}
	panic(fmt.Sprintf("no address in % x", ndm))
}

func entryNumber(i uint32) string {
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", i>>24, i>>16&255, i>>8&255, i&255)
}

// TestSlowSubscriber: a subscriber that does not read loses events and is told
// so; one that reads gets all of them, and nobody waits for the other.
func TestSlowSubscriber(t *testing.T) {
	n := newNS(t)
	d := daemon(t, n)
	d.setup(t, "ip link add vx0 type vxlan id 1 dstport 4789")
	vx := ifindex(t, n, "vx0")
	subscribe := func() (*process, io.Writer) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := n.spawn(t, d.shimArgs(get(os.Executable())), func(c *exec.Cmd) {
			c.Env = append(os.Environ(), clientEnv+"=subscriber")
			c.Stdin = r
		})
		r.Close()
		t.Cleanup(func() { w.Close() })
		p.expectText(t, "joined")
		return p, w
	}
	slow, slowIn := subscribe()
	quick, quickIn := subscribe()

	// More than the socket and the queue of the daemon hold for one client. The
	// quick one gets time after each batch, as anything may be slow here.
	const batch, batches = 1000, 60
	c := newDialer(t, d).dial()
	for b := range uint32(batches) {
		var packet []byte
		for i := b * batch; i < (b+1)*batch; i++ {
			flags := netlink.Create | netlink.Excl
			if i%batch == batch-1 {
				flags |= ack
			}
			packet = append(packet, message(unix.RTM_NEWNEIGH, flags, i, fdbEntry(vx, entryNumber(i), net.IPv4(192, 0, 2, 1)))...)
		}
		c.send(packet)
		last := (b+1)*batch - 1
		if _, e := c.answer(last); e != 0 {
			t.Fatalf("entry %d: %v", last, e)
		}
		fmt.Fprintln(quickIn, last)
		quick.expectText(t, fmt.Sprintf("got %d\n", last+1))
	}
	if out := quick.out.String(); strings.Contains(out, "lost") {
		t.Errorf("the quick subscriber lost events:\n%s", out)
	}
	fmt.Fprintln(slowIn, batches*batch-1)
	out := slow.expectText(t, "got ")
	var kept uint32
	if _, err := fmt.Sscanf(out, "joined\nlost after %d\n", &kept); err != nil {
		t.Fatalf("the slow subscriber was not told of a loss:\n%s%s", out, slow.errout)
	}
	t.Logf("the slow subscriber kept %d events", kept)

	// Told once, it is served again.
	c.send(message(unix.RTM_NEWNEIGH, ack|netlink.Create, 1, fdbEntry(vx, entryNumber(batches*batch), net.IPv4(192, 0, 2, 1))))
	if _, e := c.answer(1); e != 0 {
		t.Fatal(e)
	}
	fmt.Fprintln(slowIn, batches*batch)
	slow.expectText(t, fmt.Sprintf("got %d\n", batches*batch+1))
}
