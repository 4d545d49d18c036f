package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openTAP(t testing.TB, c TAPConfig) *TAP {
	t.Helper()
	tap, err := OpenTAP(c)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { tap.Close() })
	return tap
}

func TestTAPRoundTrip(t *testing.T) {
	checkFDs(t)
	ns := newTestNS(t)
	tap := openTAP(t, TAPConfig{Name: "br0", Ifindex: 77, NS: ns})
	if tap.Name() != "br0" || tap.Ifindex() != 77 || ifindex(t, ns, "br0") != 77 {
		t.Errorf("made %s with index %d", tap.Name(), tap.Ifindex())
	}
	if a := hwaddr(t, ns, "br0"); a[0]&3 != 2 {
		t.Errorf("address %s is no local one", a)
	}
	d := NewDomain(SystemClock())
	got := collect(d, tap.Reader(), 100)
	out := tap.Output(d)
	f := NewFrame(testFrame("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:02", 60))
	once(d, out, f) // down
	if n := tap.Counters().TxDropped.Load(); n != 1 {
		t.Errorf("TxDropped = %d", n)
	}
	ip(t, ns, "link set br0 up")
	host := openPort(t, ns, "br0")
	fromTAP := collect(d, host.Reader(), 100)
	once(d, out, f)
	if g := next(t, fromTAP); !bytes.Equal(g.Data, f.Data) {
		t.Errorf("the host got % x", g.Data)
	}
	for i := range 50 {
		h := NewFrame(testFrame("02:00:00:00:00:01", "02:00:00:00:00:02", 14+i))
		once(d, host.Output(d), h)
		if g := next(t, got); !bytes.Equal(g.Data, h.Data) {
			t.Fatalf("the TAP got % x", g.Data)
		}
	}
	for _, on := range []bool{false, true} {
		if err := tap.SetCarrier(on); err != nil {
			t.Fatal(err)
		}
		if up := !strings.Contains(ip(t, ns, "link show br0"), "NO-CARRIER"); up != on {
			t.Errorf("carrier is %v, want %v", up, on)
		}
	}
	tap.Close()
	tap.Close()
	host.Close()
	d.Wait()
	if err := tap.SetCarrier(true); !errors.Is(err, ErrClosed) {
		t.Errorf("SetCarrier after Close: %v", err)
	}
	do(t, ns, func() error {
		if _, err := ifindexOf("br0"); !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("the device is still there: %v", err)
		}
		return nil
	})
}

// TestTAPTCP connects a TAP and a veth, with superframes both ways.
func TestTAPTCP(t *testing.T) {
	ns, _, h2 := hosts(t)
	tap := openTAP(t, TAPConfig{Name: "br0", NS: ns})
	p := openPort(t, ns, "p2")
	c, err := AttachIngress(p.Ifindex(), ns)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	p.SetPromisc()
	d := NewDomain(SystemClock())
	d.Start(p.Reader(), forward(tap.Output(d)), nil)
	d.Start(tap.Reader(), forward(p.Output(d)), nil)
	ip(t, ns, "addr add 10.0.0.1/24 dev br0")
	ip(t, ns, "link set br0 up")
	transfer(t, ns, h2, "10.0.0.2:0", 16<<20)
	transfer(t, h2, ns, "10.0.0.1:0", 16<<20)
	s := tap.Counters()
	if in, out := s.RxBytes.Load()/s.RxPackets.Load(), s.TxBytes.Load()/s.TxPackets.Load(); in < 3000 || out < 3000 {
		t.Errorf("a frame had %d and %d bytes on average: superframes were not kept", in, out)
	}
	tap.Close()
	p.Close()
	d.Wait()
}

func TestTAPDeleted(t *testing.T) {
	ns := newTestNS(t)
	for _, up := range []bool{true, false} {
		tap := openTAP(t, TAPConfig{Name: "br0", NS: ns})
		if up {
			ip(t, ns, "link set br0 up")
		}
		d := NewDomain(SystemClock())
		ended := make(chan error, 1)
		d.Start(tap.Reader(), forward(nil), func(err error) { ended <- err })
		out := tap.Output(d)
		time.Sleep(10 * time.Millisecond)
		ip(t, ns, "link del br0")
		select {
		case err := <-ended:
			if !errors.Is(err, unix.ENODEV) {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the reader did not end with its device")
		}
		once(d, out, NewFrame(make([]byte, 60)))
		if n := tap.Counters().TxDropped.Load(); n != 1 {
			t.Errorf("TxDropped = %d", n)
		}
		tap.Close()
		d.Wait()
	}
}

func TestTAPErrors(t *testing.T) {
	checkFDs(t)
	ns := newTestNS(t)
	a := openTAP(t, TAPConfig{Name: "br0", Ifindex: 50, NS: ns})
	for _, c := range []struct {
		c    TAPConfig
		want error
	}{
		{TAPConfig{Name: "br0"}, unix.EBUSY},
		{TAPConfig{Name: "br0", Existing: true}, unix.EBUSY},
		{TAPConfig{Name: "br1", Ifindex: 50}, unix.EBUSY},
		{TAPConfig{Name: "a/b"}, unix.EINVAL},
		{TAPConfig{Name: "sixteen-letters-"}, unix.EINVAL},
		{TAPConfig{Name: "br1", Ifindex: -1}, unix.EINVAL},
	} {
		c.c.NS = ns
		if tap, err := OpenTAP(c.c); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.c, err, c.want)
			if err == nil {
				tap.Close()
			}
		} else {
			t.Log(err)
		}
	}
	if err := a.SetPersist(true); err != nil {
		t.Fatal(err)
	}
	a.Close()
	b := openTAP(t, TAPConfig{Name: "br0", NS: ns, Existing: true})
	if b.Ifindex() != 50 {
		t.Errorf("the persistent device has index %d", b.Ifindex())
	}
	for _, err := range []error{unix.ENOENT, unix.ENODEV, unix.EACCES, unix.EPERM, unix.EMFILE} {
		if e := tunOpenError(err); !errors.Is(e, err) {
			t.Error(e)
		}
	}
	for _, err := range []error{unix.EPERM, unix.EBUSY, unix.EINVAL, unix.ENOMEM} {
		if e := tunCreateError(TAPConfig{Name: "x"}, err); !errors.Is(e, err) {
			t.Error(e)
		}
	}
	b.Close()
}

// TestTAPPartial checks that the host completes what a frame leaves open.
func TestTAPPartial(t *testing.T) {
	ns := newTestNS(t)
	tap := openTAP(t, TAPConfig{NS: ns, Name: "tap%d"})
	if tap.Name() != "tap0" {
		t.Errorf("made %s", tap.Name())
	}
	ip(t, ns, "link set tap0 up")
	d := NewDomain(SystemClock())
	f := NewFrame(testFrame("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:02", 60))
	// A header hint longer than the frame is put right.
	f.Hdr = VnetHdr{HdrLen: 100}
	once(d, tap.Output(d), f)
	if n := tap.Counters().TxPackets.Load(); n != 1 {
		t.Errorf("TxPackets = %d", n)
	}
	bad := NewFrame(f.Data)
	bad.Hdr = VnetHdr{Flags: VnetNeedsCsum, CsumStart: 9999}
	once(d, tap.Output(d), bad)
	if n := tap.Counters().TxErrors.Load(); n != 1 {
		t.Errorf("TxErrors = %d", n)
	}
	tap.Close()
}
