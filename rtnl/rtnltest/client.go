package rtnltest

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/nlattr"
	"github.com/linkspan/linkspan/rtnl"
)

// DefaultTimeout is how long a Client waits for an answer.
const DefaultTimeout = 10 * time.Second

// Client is a program's end of a socket to a Server. Its methods are for one
// goroutine at a time.
type Client struct {
	// Session is the server's end: bind(2), getsockname(2), setsockopt(2) and
	// getsockopt(2) go there. It is nil for a Client from NewClient.
	Session *rtnl.Session
	// Timeout is how long Receive waits.
	Timeout time.Duration

	fd     int
	seq    uint32
	ended  chan struct{}
	closed sync.Once
	buf    []byte
}

// NewClient makes a Client of a connected socket that it owns from then on: one
// of type SOCK_SEQPACKET to a daemon, or an AF_NETLINK socket, for those who want
// to see what the kernel says to the same.
func NewClient(fd int) (*Client, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("client socket: %w", err)
	}
	return &Client{fd: fd, Timeout: DefaultTimeout}, nil
}

// SetOption is setsockopt(2) at SOL_NETLINK.
func (c *Client) SetOption(opt int, v uint32) error {
	if c.Session == nil {
		return unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, opt, int(v))
	}
	if e := c.Session.SetOption(opt, v); e != 0 {
		return e
	}
	return nil
}

// Message is one netlink message.
type Message struct {
	Type, Flags uint16
	Seq, PortID uint32
	// Body is what follows the header.
	Body []byte
}

// Bytes returns the message as it is sent, padded.
func (m Message) Bytes() []byte {
	return appendMessage(nil, m.Type, m.Flags, m.Seq, m.PortID, m.Body)
}

// Messages takes a datagram apart.
func Messages(datagram []byte) (ms []Message) {
	rtnl.EachMessage(datagram, func(b []byte) {
		ms = append(ms, Message{
			Type: ne.Uint16(b[4:]), Flags: ne.Uint16(b[6:]), Seq: ne.Uint32(b[8:]), PortID: ne.Uint32(b[12:]),
			Body: bytes.Clone(b[headerLen:]),
		})
	})
	return ms
}

// Error reads an NLMSG_ERROR, or an NLMSG_DONE that tells of a failure; nil is
// success, and what every other message gives.
func (m Message) Error() error {
	if m.Type != unix.NLMSG_ERROR && m.Type != unix.NLMSG_DONE || len(m.Body) < 4 {
		return nil
	}
	errno := -int32(ne.Uint32(m.Body))
	if errno == 0 {
		return nil
	}
	e := nlattr.Errno(unix.Errno(errno))
	skip := 4
	if m.Type == unix.NLMSG_ERROR {
		skip += headerLen
		if m.Flags&unix.NLM_F_CAPPED == 0 && len(m.Body) >= 8 {
			skip = 4 + nlattr.Align(int(ne.Uint32(m.Body[4:])))
		}
	}
	if m.Flags&unix.NLM_F_ACK_TLVS == 0 || skip > len(m.Body) {
		return e
	}
	as, _ := nlattr.Parse(m.Body[skip:], 0)
	msg, _ := as.Get(unix.NLMSGERR_ATTR_MSG)
	off, _ := as.Get(unix.NLMSGERR_ATTR_OFFS)
	policy, _ := as.Get(attrPolicy)
	e.Msg, e.Offset, e.Policy = msg.Text(), int(off.U32()), policy.Data
	return e
}

// Send sends a packet of requests. It waits where the server has not read the
// ones before yet.
func (c *Client) Send(packet []byte) error {
	for {
		err := unix.Send(c.fd, packet, unix.MSG_NOSIGNAL)
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, int(c.Timeout/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
		if n == 0 && err == nil {
			return fmt.Errorf("rtnltest: no room for a packet within %v: %w", c.Timeout, os.ErrDeadlineExceeded)
		}
	}
}

// Receive waits for a datagram. Without one in time the error wraps
// os.ErrDeadlineExceeded.
func (c *Client) Receive() ([]byte, error) {
	b, err := c.receive(c.Timeout)
	if err == nil && b == nil {
		return nil, fmt.Errorf("rtnltest: no datagram within %v: %w", c.Timeout, os.ErrDeadlineExceeded)
	}
	return b, err
}

// Pending returns the messages that can be read without waiting. What a request
// causes is there before the answer to the request is, for every client.
func (c *Client) Pending() (ms []Message) {
	for {
		b, err := c.receive(0)
		if err != nil || b == nil {
			return ms
		}
		ms = append(ms, Messages(b)...)
	}
}

// receive returns nil if there is nothing in time.
func (c *Client) receive(timeout time.Duration) ([]byte, error) {
	if c.buf == nil {
		c.buf = make([]byte, 1<<18)
	}
	deadline := time.Now().Add(timeout)
	for {
		n, err := unix.Read(c.fd, c.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			left := time.Until(deadline)
			if timeout == 0 || left <= 0 {
				return nil, nil
			}
			fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, int(left/time.Millisecond)+1); err != nil && err != unix.EINTR {
				return nil, fmt.Errorf("poll: %w", err)
			}
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		case n == 0:
			return nil, fmt.Errorf("rtnltest: the server hung up: %w", unix.EPIPE)
		default:
			return bytes.Clone(c.buf[:n]), nil
		}
	}
}

// Do sends a request with the next sequence number and returns the messages that
// answer it, without what ends them. The server's refusal is an *nlattr.Error.
// Notifications that come meanwhile are lost to the caller: those who care use
// Exchange, or another Client.
func (c *Client) Do(typ, flags uint16, body []byte) (answer []Message, err error) {
	all, err := c.Exchange(typ, flags, body)
	seq := c.seq
	for _, m := range all {
		if m.Seq == seq && m.Type >= unix.NLMSG_MIN_TYPE {
			answer = append(answer, m)
		}
	}
	return answer, err
}

// Exchange is Do, but returns all messages until the answer's end: notifications
// that were read on the way, and what ends the answer.
func (c *Client) Exchange(typ, flags uint16, body []byte) (all []Message, err error) {
	c.seq++
	flags |= unix.NLM_F_REQUEST | unix.NLM_F_ACK
	if err := c.Send(Message{Type: typ, Flags: flags, Seq: c.seq, Body: body}.Bytes()); err != nil {
		return nil, err
	}
	for {
		b, err := c.Receive()
		if err != nil {
			return all, err
		}
		done, failure := false, error(nil)
		for _, m := range Messages(b) {
			all = append(all, m)
			if m.Seq == c.seq && (m.Type == unix.NLMSG_ERROR || m.Type == unix.NLMSG_DONE) {
				done, failure = true, m.Error()
			}
		}
		if done {
			return all, failure
		}
	}
}

// Close hangs up and waits until the server has forgotten the session.
func (c *Client) Close() error {
	var err error
	c.closed.Do(func() {
		err = unix.Close(c.fd)
		if c.ended != nil {
			<-c.ended
		}
	})
	return err
}
