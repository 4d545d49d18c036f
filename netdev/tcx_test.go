package netdev

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// hostSocket opens a packet socket for one protocol, behind tcx: it stands for
// the host's stack. (Sockets for all protocols come before.)
func hostSocket(t testing.TB, ns *NS, ifindex int) int {
	t.Helper()
	fd := -1
	do(t, ns, func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(0x88b5), Ifindex: ifindex}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// received counts what a socket received.
func received(t testing.TB, fd int) (n int) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	var b [2048]byte
	for {
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
		if err != nil {
			return n
		}
		n++
	}
}

func TestAttachIngress(t *testing.T) {
	for _, c := range []struct {
		name     string
		probe    func(ns *NS) error
		attach   func(ifindex int, ns *NS) (io.Closer, error)
		programs int
	}{
		{"tcx", ProbeIngress, attachTCX, 1},
		{"netfilter", func(ns *NS) error {
			c, err := attachNetfilter(1, "lo", ns)
			if err == nil {
				err = c.Close()
			}
			return err
		}, func(ifindex int, ns *NS) (io.Closer, error) { return attachNetfilter(ifindex, "v1", ns) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkFDs(t)
			ns := newTestNS(t)
			if err := c.probe(ns); err != nil {
				t.Skip(err)
			}
			testIngress(t, ns, c.attach, c.programs)
		})
	}
}

// testIngress checks which frames the host's stack sees once attach has run;
// programs is how many tcx programs that puts on the device.
func testIngress(t *testing.T, ns *NS, attach func(int, *NS) (io.Closer, error), programs int) {
	ip(t, ns, "link add v0 type veth peer name v1")
	up(t, ns, "v0", "v1")
	p0, p1 := openPort(t, ns, "v0"), openPort(t, ns, "v1")
	d := NewDomain(SystemClock())
	got := collect(d, p1.Reader(), 100)
	host := hostSocket(t, ns, p1.Ifindex())
	mac := hwaddr(t, ns, "v1").String()
	out := p0.Output(d)
	send := func(dst string) int {
		t.Helper()
		f := testFrame(dst, "02:00:00:00:00:02", 60)
		once(d, out, NewFrame(f))
		next(t, got)
		return received(t, host)
	}
	if send(mac) != 1 {
		t.Fatal("without the program the host sees no frame")
	}
	c, err := attach(p1.Ifindex(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{mac, "ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:10", "01:80:c2:00:01:00",
		"01:80:c2:01:00:00", "01:80:c3:00:00:00", "01:81:c2:00:00:00", "00:80:c2:00:00:00"} {
		if send(m) != 0 {
			t.Errorf("the host saw a frame to %s", m)
		}
	}
	for _, m := range []string{"01:80:c2:00:00:00", "01:80:c2:00:00:03", "01:80:c2:00:00:0e", "01:80:c2:00:00:0f"} {
		if send(m) != 1 {
			t.Errorf("the host did not see a frame to %s", m)
		}
	}
	if n := tcxPrograms(t, ns, p1.Ifindex()); n != programs {
		t.Errorf("%d programs on the device", n)
	}
	c.Close()
	if n := tcxPrograms(t, ns, p1.Ifindex()); n != 0 {
		t.Errorf("%d programs on the device after Close", n)
	}
	if send(mac) != 1 {
		t.Error("after Close the host sees no frame")
	}
	p0.Close()
	p1.Close()
	d.Wait()
}

func tcxPrograms(t testing.TB, ns *NS, ifindex int) int {
	t.Helper()
	n := 0
	do(t, ns, func() error {
		r, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			n = len(r.Programs)
		}
		return err
	})
	return n
}

func TestAttachIngressErrors(t *testing.T) {
	ns := newTestNS(t)
	if err := ProbeIngress(ns); err != nil {
		t.Skip(err)
	}
	for _, i := range []int{-1, 0, 4711} {
		if _, err := AttachIngress(i, ns); !errors.Is(err, unix.ENODEV) {
			t.Errorf("ifindex %d: %v", i, err)
		}
	}
	for _, err := range []error{unix.EPERM, ebpf.ErrNotSupported, unix.EINVAL} {
		if e := tcxError("cannot", err); !errors.Is(e, err) {
			t.Error(e)
		}
	}
}
