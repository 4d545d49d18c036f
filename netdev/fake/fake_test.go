package fake

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/netdev"
)

// opener is what tunnels want of either kind of sockets.
type opener interface {
	Listen(netdev.ListenConfig) (netdev.Reader, error)
	Output(netdev.SendConfig) (*netdev.Output, error)
}

var (
	_ opener = (*Sockets)(nil)
	_ opener = (*netdev.Sockets)(nil)
)

func TestClock(t *testing.T) {
	var c Clock
	log := ""
	note := func(s string) func() {
		return func() { log += fmt.Sprint(s, "@", c.Now(), " ") }
	}
	c.AfterFunc(3*time.Second, note("c"))
	c.AfterFunc(time.Second, func() {
		note("a")()
		c.AfterFunc(time.Second, note("b"))
		c.AfterFunc(time.Minute, note("late"))
	})
	stop := c.AfterFunc(2*time.Second, note("stopped"))
	c.AfterFunc(3*time.Second, note("d"))
	if n, ok := c.Next(); n != time.Second || !ok || c.Timers() != 4 {
		t.Errorf("next in %v of %d", n, c.Timers())
	}
	if !stop() || stop() {
		t.Error("stop")
	}
	c.Advance(10 * time.Second)
	if want := "a@1s b@2s c@3s d@3s "; log != want {
		t.Errorf("got %s, want %s", log, want)
	}
	if c.Now() != 10*time.Second || c.Timers() != 1 {
		t.Errorf("at %v with %d timers", c.Now(), c.Timers())
	}
	log = ""
	c.AfterFunc(0, note("now"))
	c.Advance(0)
	if log != "now@10s " {
		t.Errorf("got %s", log)
	}
}

func TestSockets(t *testing.T) {
	d := netdev.NewDomain(&Clock{})
	s := NewSockets(d)
	s.SetTaken(4789, false, true)
	if _, err := s.Listen(netdev.ListenConfig{Port: 4789}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("taken: %v", err)
	}
	s.SetTaken(4789, false, false)
	r, err := s.Listen(netdev.ListenConfig{Port: 4789})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(netdev.ListenConfig{Port: 4789}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("twice: %v", err)
	}
	meta := netdev.UDPMeta{Src: netip.MustParseAddr("192.0.2.1"), SrcPort: 5}
	if !s.Inject(4789, false, []byte("hello"), meta) || s.Inject(4789, true, nil, meta) {
		t.Error("Inject")
	}
	b := r.NewBatch()
	if err := r.Read(b); err != nil || len(b.Frames) != 1 || string(b.Frames[0].Data) != "hello" || b.Frames[0].Meta != meta {
		t.Errorf("read %+v, %v", b.Frames, err)
	}
	group := netip.MustParseAddr("239.1.1.1")
	g := r.(netdev.GroupReader)
	if g.Join(group, 3) != nil || g.Join(group, 3) == nil || !s.Socket(4789, false).Joined(group, 3) {
		t.Error("Join")
	}
	if g.Leave(group, 3) != nil || g.Leave(group, 3) == nil {
		t.Error("Leave")
	}
	r.Close()
	if err := r.Read(b); err != netdev.ErrClosed || s.Socket(4789, false) != nil {
		t.Errorf("after Close: %v", err)
	}
	c := netdev.SendConfig{DF: true}
	o, err := s.Output(c)
	if err != nil {
		t.Fatal(err)
	}
	th := d.NewThread()
	th.Begin()
	w := th.Writer(o).(netdev.UDPWriter)
	head := w.Scratch(2)
	copy(head, "ab")
	w.QueueDatagram(&netdev.Datagram{Head: head, Data: []byte("cdefg"), SegSize: 3})
	th.End()
	l := s.Take()
	if len(l) != 1 || l[0].Config != c || fmt.Sprintf("%s", l[0].Payloads()) != "[abc def g]" {
		t.Errorf("sent %+v", l)
	}
	if s.Outputs(c) != 1 {
		t.Error("Outputs")
	}
	o.Release()
	if s.Outputs(c) != 0 {
		t.Error("Outputs after Release")
	}
}
