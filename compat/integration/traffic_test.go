package integration_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// ping sees that an address answers three times. The first packet may wait for
// address resolution.
func ping(t testing.TB, n *netns, addr string) {
	t.Helper()
	needTool(t, "ping", "iputils-ping")
	n.run(t, "ping -n -c 3 -i 0.05 -W 5 "+addr)
}

// reaches tells whether an address answers at all, soon.
func reaches(t testing.TB, n *netns, addr string) bool {
	t.Helper()
	needTool(t, "ping", "iputils-ping")
	return n.try(t, "ping -n -c 1 -W 1 "+addr).code == 0
}

// transfer sends random bytes over TCP to addr, which is to's, and compares
// their hash at both ends: a checksum that nobody verified shows here.
func transfer(t testing.TB, from, to *netns, addr string, size int64) {
	t.Helper()
	if err := tryTransfer(from, to, addr, size); err != nil {
		t.Fatalf("TCP to %s: %v", addr, err)
	}
}

func tryTransfer(from, to *netns, addr string, size int64) error {
	var lis *net.TCPListener
	err := to.do(func() (err error) {
		lis, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(addr)})
		return err
	})
	if err != nil {
		return err
	}
	defer lis.Close()
	end := time.Now().Add(patience)
	lis.SetDeadline(end)
	type received struct {
		sum []byte
		n   int64
		err error
	}
	got := make(chan received, 1)
	go func() {
		c, err := lis.Accept()
		if err != nil {
			got <- received{err: err}
			return
		}
		defer c.Close()
		c.SetDeadline(end)
		h := sha256.New()
		n, err := io.Copy(h, c)
		got <- received{h.Sum(nil), n, err}
	}()
	var c net.Conn
	err = from.do(func() (err error) {
		d := net.Dialer{Deadline: end}
		c, err = d.Dial("tcp", lis.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(end)
	var seed [32]byte
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(c, h), io.LimitReader(rand.NewChaCha8(seed), size))
	if err != nil {
		return err
	}
	c.Close()
	r := <-got
	if r.err != nil || r.n != size {
		return fmt.Errorf("%d of %d bytes arrived: %w", r.n, size, r.err)
	}
	if !bytes.Equal(r.sum, h.Sum(nil)) {
		return errors.New("what arrived is not what was sent")
	}
	return nil
}

// udpEcho sends datagrams of many sizes, one after the other, and compares what
// comes back.
func udpEcho(t testing.TB, from, to *netns, addr string, sizes ...int) {
	t.Helper()
	var srv *net.UDPConn
	err := to.do(func() (err error) {
		srv, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, peer, err := srv.ReadFromUDP(buf)
			if err != nil {
				return // closed
			}
			_, _ = srv.WriteToUDP(buf[:n], peer)
		}
	}()
	var c *net.UDPConn
	err = from.do(func() (err error) {
		c, err = net.DialUDP("udp", nil, srv.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var seed [32]byte
	src := rand.NewChaCha8(seed)
	buf := make([]byte, 1<<16)
	for _, size := range sizes {
		b := make([]byte, size)
		_, _ = src.Read(b)
		if _, err := c.Write(b); err != nil {
			t.Fatalf("UDP to %s, %d bytes: %v", addr, size, err)
		}
		n, err := c.Read(buf)
		if err != nil || !bytes.Equal(buf[:n], b) {
			t.Fatalf("UDP to %s: %d bytes came back for %d, or others: %v", addr, n, size, err)
		}
	}
}

// iperf runs iperf3 over TCP for a number of bytes.
func iperf(t testing.TB, from, to *netns, addr, bytes string) {
	t.Helper()
	needTool(t, "iperf3", "iperf3")
	srv := to.spawn(t, strings.Fields("iperf3 -s -1 --forceflush -B "+addr), nil)
	srv.expectText(t, "Server listening")
	out := from.run(t, "iperf3 -J -c "+addr+" -n "+bytes)
	var r struct {
		End struct {
			Sent     struct{ Bytes int64 } `json:"sum_sent"`
			Received struct {
				Bytes int64
				Rate  float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("iperf3: %v\n%s", err, out)
	}
	// The receiver stops counting when the sender is done, with bytes on the way.
	if r.End.Received.Bytes == 0 || r.End.Received.Bytes > r.End.Sent.Bytes {
		t.Errorf("iperf3: %d bytes sent, %d received", r.End.Sent.Bytes, r.End.Received.Bytes)
	}
	t.Logf("iperf3 to %s: %.2f Gbit/s", addr, r.End.Received.Rate/1e9)
	if !srv.ended() {
		t.Error("iperf3 -s -1 did not end")
	}
}

// flow is a TCP connection that never stops sending, until it is closed or its
// way is cut.
type flow struct {
	bytes  chan int64
	cancel context.CancelFunc
	done   chan struct{}
}

// startFlow opens a flow and returns once bytes arrive.
func startFlow(t testing.TB, from, to *netns, addr string) *flow {
	t.Helper()
	var lis *net.TCPListener
	err := to.do(func() (err error) {
		lis, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(addr)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lis.SetDeadline(time.Now().Add(patience))
	var c net.Conn
	err = from.do(func() (err error) {
		c, err = net.DialTimeout("tcp", lis.Addr().String(), patience)
		return err
	})
	if err != nil {
		lis.Close()
		t.Fatal(err)
	}
	in, err := lis.Accept()
	lis.Close()
	if err != nil {
		c.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flow{bytes: make(chan int64, 1), cancel: cancel, done: make(chan struct{})}
	context.AfterFunc(ctx, func() { c.Close(); in.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(f.done)
		var sum int64
		buf := make([]byte, 1<<16)
		for {
			n, err := in.Read(buf)
			if err != nil {
				return
			}
			sum += int64(n)
			select {
			case f.bytes <- sum:
			default:
			}
		}
	}()
	t.Cleanup(f.stop)
	f.progress(t)
	return f
}

// progress waits until more bytes arrive.
func (f *flow) progress(t testing.TB) {
	t.Helper()
	select {
	case <-f.bytes: // may be an old one
	default:
	}
	select {
	case <-f.bytes:
	case <-time.After(patience):
		t.Fatal("the TCP flow has stopped")
	}
}

func (f *flow) stop() {
	f.cancel()
	<-f.done
}

// writeFile writes a file that other users may run or read.
func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
