package netdev

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vxlanHeader is that of VNI 42.
var vxlanHeader = [8]byte{8, 0, 0, 0, 0, 0, 42, 0}

// tunnel is the least of a VXLAN device between a TAP and the UDP sockets.
type tunnel struct {
	mtu    int
	host   *Output
	out    *Output
	remote netip.AddrPort
	stats  Counters
	super  atomic.Uint64 // superframes that came out of the tunnel
	trains atomic.Uint64 // and went in
	failed atomic.Uint64
}

// fromTAP sends a batch into the tunnel.
func (v *tunnel) fromTAP(t *Thread, frames []Frame) {
	w := t.Writer(v.out).(UDPWriter)
	for i := range frames {
		n, ok := SegmentSpace(len(vxlanHeader), &frames[i])
		if !ok {
			v.failed.Add(1)
			continue
		}
		train, size, segs, ok := SegmentInto(w.Scratch(n), vxlanHeader[:], &frames[i])
		if !ok {
			v.failed.Add(1)
			continue
		}
		d := Datagram{Data: train, Dst: v.remote, Hash: FlowHash(frames[i].Data), Stats: &v.stats, Frames: uint32(segs)}
		if segs > 1 {
			v.trains.Add(1)
			d.SegSize = size
		}
		w.QueueDatagram(&d)
	}
}

// fromUDP takes a batch out of the tunnel.
func (v *tunnel) fromUDP(t *Thread, frames []Frame) {
	for i := range frames {
		f := &frames[i]
		if !bytes.HasPrefix(f.Data, vxlanHeader[:]) {
			v.failed.Add(1)
			continue
		}
		f.Trim(len(vxlanHeader))
		FixPartial(f, v.mtu)
		if f.Hdr.GSOType != GSONone {
			v.super.Add(1)
		}
		t.Queue(v.host, f)
	}
}

func startTunnel(t testing.TB, ns *NS, c SendConfig, remote string) *tunnel {
	t.Helper()
	d := NewDomain(SystemClock())
	tap := openTAP(t, TAPConfig{Name: "vx0", NS: ns})
	s := NewSockets(d, ns)
	r, err := s.Listen(ListenConfig{Port: 4789, IPv6: c.IPv6, ZeroCsum6RX: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Output(c)
	if err != nil {
		t.Fatal(err)
	}
	v := &tunnel{mtu: 1430, host: tap.Output(d), out: out, remote: netip.MustParseAddrPort(remote)}
	d.Start(r, handlerFunc(v.fromUDP), nil)
	d.Start(tap.Reader(), handlerFunc(v.fromTAP), nil)
	t.Cleanup(func() {
		r.Close()
		tap.Close()
		d.Wait()
		out.Release()
	})
	return v
}

// TestTunnelKernel has a VXLAN device of the kernel at the other end, over veth:
// so its superframes come whole and with partial checksums.
func TestTunnelKernel(t *testing.T) {
	for _, c := range []SendConfig{{}, {NoCsum: true}, {IPv6: true}, {IPv6: true, NoCsum: true, DF: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			checkFDs(t)
			a, b := pair(t, 1500)
			remote, local := "10.0.0.2", "10.0.0.1:4789"
			if c.IPv6 {
				remote, local = "fd00::2", "[fd00::1]:4789"
			}
			err := a.Do(func() error {
				return runIP("link add vx0 mtu 1430 type vxlan id 42 dstport 4789 udpcsum udp6zerocsumrx remote " + remote)
			})
			if err != nil {
				t.Skip(err)
			}
			v := startTunnel(t, b, c, local)
			ip(t, b, "link set vx0 mtu 1430")
			for i, ns := range []*NS{a, b} {
				ip(t, ns, fmt.Sprintf("addr add 10.1.0.%d/24 dev vx0", i+1))
				ip(t, ns, "link set vx0 up")
			}
			transfer(t, a, b, "10.1.0.2:0", 16<<20)
			transfer(t, b, a, "10.1.0.1:0", 16<<20)
			if v.super.Load() < 50 || v.trains.Load() < 50 {
				t.Errorf("%d superframes and %d trains", v.super.Load(), v.trains.Load())
			}
			if n := v.failed.Load() + v.stats.TxErrors.Load() + v.stats.TxDropped.Load(); n != 0 {
				t.Errorf("%d failures", n)
			}
			datagrams(t, a, b, "10.1.0.2")
			datagrams(t, b, a, "10.1.0.1")
		})
	}
}

// TestTunnelOwn has the same tunnel at both ends.
func TestTunnelOwn(t *testing.T) {
	checkFDs(t)
	a, b := pair(t, 1500)
	va := startTunnel(t, a, SendConfig{NoCsum: true}, "10.0.0.2:4789")
	vb := startTunnel(t, b, SendConfig{NoCsum: true}, "10.0.0.1:4789")
	for i, ns := range []*NS{a, b} {
		ip(t, ns, fmt.Sprintf("addr add 10.1.0.%d/24 dev vx0", i+1))
		ip(t, ns, "link set vx0 mtu 1430")
		ip(t, ns, "link set vx0 up")
	}
	transfer(t, a, b, "10.1.0.2:0", 16<<20)
	datagrams(t, a, b, "10.1.0.2")
	if va.trains.Load() < 50 || va.failed.Load()+vb.failed.Load() != 0 {
		t.Errorf("%d trains, %d and %d failures", va.trains.Load(), va.failed.Load(), vb.failed.Load())
	}
}

// datagrams sends UDP datagrams with UDP_SEGMENT, which are superframes too.
func datagrams(t testing.TB, from, to *NS, addr string) {
	t.Helper()
	var rx, tx *net.UDPConn
	do(t, to, func() (err error) {
		rx, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addr)})
		return err
	})
	defer rx.Close()
	do(t, from, func() (err error) {
		tx, err = net.DialUDP("udp4", nil, rx.LocalAddr().(*net.UDPAddr))
		return err
	})
	defer tx.Close()
	raw, _ := tx.SyscallConn()
	raw.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 1000); err != nil {
			t.Skip(err)
		}
	})
	want := pattern(9500, 1)
	for range 5 {
		if _, err := tx.Write(want); err != nil {
			t.Fatal(err)
		}
		var got []byte
		rx.SetReadDeadline(time.Now().Add(3 * time.Second))
		for len(got) < len(want) {
			var b [4000]byte
			n, err := rx.Read(b[:])
			if err != nil {
				t.Fatalf("after %d of %d bytes: %v", len(got), len(want), err)
			}
			if n > 1000 {
				t.Errorf("a datagram of %d bytes", n)
			}
			got = append(got, b[:n]...)
		}
		if !bytes.Equal(got, want) {
			t.Error("the data arrived damaged")
		}
	}
}
