package integration_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cable is a packet socket on a device, to send and see frames as they are.
type cable struct {
	t       testing.TB
	fd      int
	ifindex int
}

// plug opens a device of a namespace. Frames that the device sends itself are not
// seen.
func plug(t testing.TB, n *netns, dev string) *cable {
	t.Helper()
	c := &cable{t: t, fd: -1}
	err := n.do(func() error {
		i, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		c.ifindex = i.Index
		proto := int(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)))
		// Protocol 0 at first: nothing of other devices is queued.
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		for _, o := range []int{unix.PACKET_IGNORE_OUTGOING, unix.PACKET_AUXDATA} {
			if err := unix.SetsockoptInt(c.fd, unix.SOL_PACKET, o, 1); err != nil {
				return err
			}
		}
		return unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: uint16(proto), Ifindex: i.Index})
	})
	if c.fd >= 0 {
		t.Cleanup(func() { unix.Close(c.fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cable) send(frame []byte) {
	c.t.Helper()
	if err := unix.Sendto(c.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: c.ifindex}); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next frame, tag included, or nil if none comes within the time.
func (c *cable) next(wait time.Duration) []byte {
	c.t.Helper()
	buf, oob := make([]byte, 1<<16), make([]byte, 256)
	for end := time.Now().Add(wait); time.Now().Before(end); {
		tv := unix.NsecToTimeval(max(time.Until(end), time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			c.t.Fatal(err)
		}
		n, oobn, _, _, err := unix.Recvmsg(c.fd, buf, oob, 0)
		switch err {
		case nil:
			return retag(buf[:n], oob[:oobn])
		case unix.EAGAIN, unix.EINTR:
		default:
			c.t.Fatal(err)
		}
	}
	return nil
}

// receive returns the next frame that has marker in it.
func (c *cable) receive(marker string) []byte {
	c.t.Helper()
	got := c.until(marker)
	return got[len(got)-1]
}

// until returns all frames up to the first that has marker in it.
func (c *cable) until(marker string) (got [][]byte) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; {
		f := c.next(time.Until(end))
		if f == nil {
			c.t.Fatalf("a frame with %q did not arrive", marker)
		}
		got = append(got, f)
		if bytes.Contains(f, []byte(marker)) {
			return got
		}
	}
}

// count tells how many of the frames have marker in them.
func count(frames [][]byte, marker string) (n int) {
	for _, f := range frames {
		if bytes.Contains(f, []byte(marker)) {
			n++
		}
	}
	return n
}

// retag puts the outer tag back, which the kernel keeps beside the frame (struct
// tpacket_auxdata, uapi/linux/if_packet.h).
func retag(frame, oob []byte) []byte {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return frame
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		ne := binary.NativeEndian
		if ne.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID == 0 {
			break
		}
		tag := binary.BigEndian.AppendUint16(nil, ne.Uint16(m.Data[18:]))
		tag = binary.BigEndian.AppendUint16(tag, ne.Uint16(m.Data[16:]))
		return append(append(append([]byte(nil), frame[:12]...), tag...), frame[12:]...)
	}
	return frame
}

const broadcast = "ff:ff:ff:ff:ff:ff"

// etherFrame is a frame with a local experimental EtherType; vid 0 is no tag.
func etherFrame(t testing.TB, dst, src string, vid uint16, payload string) []byte {
	t.Helper()
	d, err := net.ParseMAC(dst)
	if err != nil {
		t.Fatal(err)
	}
	s, err := net.ParseMAC(src)
	if err != nil {
		t.Fatal(err)
	}
	b := append(append([]byte(nil), d...), s...)
	if vid != 0 {
		b = binary.BigEndian.AppendUint16(b, 0x8100)
		b = binary.BigEndian.AppendUint16(b, vid)
	}
	b = binary.BigEndian.AppendUint16(b, 0x88b5)
	b = append(b, payload...)
	for len(b) < 60 {
		b = append(b, 0)
	}
	return b
}
