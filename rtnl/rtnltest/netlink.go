package rtnltest

import (
	"fmt"
	"iter"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Netlink returns a connection of github.com/mdlayher/netlink over the client's
// socket. Options, groups and Close work; deadlines are the Client's Timeout.
// The connection and the Client's own Send and Receive must not be mixed.
func (c *Client) Netlink() *netlink.Conn {
	var pid uint32
	if c.Session != nil {
		c.Session.Autobind(0)
		pid, _ = c.Session.Name()
	}
	return netlink.NewConn(&socket{c: c}, pid)
}

// socket implements netlink.Socket and the optional interfaces that a
// netlink.Conn looks for.
type socket struct{ c *Client }

func (s *socket) Close() error { return s.c.Close() }

func (s *socket) Send(m netlink.Message) error { return s.SendMessages([]netlink.Message{m}) }

func (s *socket) SendMessages(ms []netlink.Message) error {
	var packet []byte
	for _, m := range ms {
		b, err := m.MarshalBinary()
		if err != nil {
			return err
		}
		packet = append(packet, b...)
	}
	return s.c.Send(packet)
}

func (s *socket) Receive() ([]netlink.Message, error) {
	b, err := s.c.Receive()
	if err != nil {
		return nil, err
	}
	var out []netlink.Message
	for _, m := range Messages(b) {
		out = append(out, netlink.Message{
			Header: netlink.Header{
				Length: uint32(headerLen + len(m.Body)), Type: netlink.HeaderType(m.Type),
				Flags: netlink.HeaderFlags(m.Flags), Sequence: m.Seq, PID: m.PortID,
			},
			Data: m.Body,
		})
	}
	return out, nil
}

// ReceiveIter gives the messages of one datagram.
func (s *socket) ReceiveIter() iter.Seq2[netlink.Message, error] {
	return func(yield func(netlink.Message, error) bool) {
		ms, err := s.Receive()
		if err != nil {
			yield(netlink.Message{}, err)
			return
		}
		for _, m := range ms {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (s *socket) JoinGroup(group uint32) error {
	return s.c.SetOption(unix.NETLINK_ADD_MEMBERSHIP, group)
}

func (s *socket) LeaveGroup(group uint32) error {
	return s.c.SetOption(unix.NETLINK_DROP_MEMBERSHIP, group)
}

// connOptions are the socket options behind netlink.ConnOption.
var connOptions = map[netlink.ConnOption]int{
	netlink.PacketInfo:          unix.NETLINK_PKTINFO,
	netlink.BroadcastError:      unix.NETLINK_BROADCAST_ERROR,
	netlink.NoENOBUFS:           unix.NETLINK_NO_ENOBUFS,
	netlink.ListenAllNSID:       unix.NETLINK_LISTEN_ALL_NSID,
	netlink.CapAcknowledge:      unix.NETLINK_CAP_ACK,
	netlink.ExtendedAcknowledge: unix.NETLINK_EXT_ACK,
	netlink.GetStrictCheck:      unix.NETLINK_GET_STRICT_CHK,
}

func (s *socket) SetOption(option netlink.ConnOption, enable bool) error {
	opt, ok := connOptions[option]
	if !ok {
		return fmt.Errorf("rtnltest: unknown option %d: %w", option, unix.ENOPROTOOPT)
	}
	v := uint32(0)
	if enable {
		v = 1
	}
	return s.c.SetOption(opt, v)
}
