package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// HandoffType is the nlmsg_type of the message by which a launcher hands over
// its listener: NLMSG_MIN_TYPE-1. Netlink reserves the types below
// NLMSG_MIN_TYPE (0x10) for control messages and uses 1 to 4
// (uapi/linux/netlink.h), so no rtnetlink client sends it.
//
// The message is the first packet on a connection to the daemon's socket. It
// carries the listener by SCM_RIGHTS, and after the 16-byte nlmsghdr, in the
// host's byte order:
//
//	u32 magic    "LSPN"
//	u16 version  handoffVersion
//	u16 flags    bit 0: WAIT_KILLABLE_RECV is in force
//	u32 count    number of ranges
//	count times u32 lo, u32 hi
//
// The daemon answers with an NLMSG_ERROR (see [HandoffReply]): 0 means go.
const HandoffType = unix.NLMSG_MIN_TYPE - 1

const (
	handoffMagic   = 0x4e50534c
	handoffVersion = 1
	handoffHeader  = unix.NLMSG_HDRLEN + 12
	flagKillable   = 1

	// maxRanges bounds what a launcher may ask of the supervisor.
	maxRanges = 16
)

// A Handoff is what a launcher tells the daemon about the process tree that it
// is about to start.
type Handoff struct {
	// Listener is the seccomp notification descriptor. Whoever holds the
	// Handoff owns it; [Supervise] takes it over.
	Listener int
	// Ranges are the descriptor numbers that the filter watches.
	Ranges []Range
	// Killable says that a stopped call can only be killed, not interrupted,
	// once the daemon has received it.
	Killable bool
}

// marshal returns the message that carries h, without the descriptor.
func (h Handoff) marshal() []byte {
	ne := binary.NativeEndian
	n := handoffHeader + 8*len(h.Ranges)
	b := make([]byte, 0, n)
	b = ne.AppendUint32(b, uint32(n))
	b = ne.AppendUint16(b, HandoffType)
	b = ne.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = ne.AppendUint32(b, 1) // sequence number
	b = ne.AppendUint32(b, 0) // port id
	b = ne.AppendUint32(b, handoffMagic)
	b = ne.AppendUint16(b, handoffVersion)
	var flags uint16
	if h.Killable {
		flags |= flagKillable
	}
	b = ne.AppendUint16(b, flags)
	b = ne.AppendUint32(b, uint32(len(h.Ranges)))
	for _, r := range h.Ranges {
		b = ne.AppendUint32(b, r.Lo)
		b = ne.AppendUint32(b, r.Hi)
	}
	return b
}

// ParseHandoff looks at the first packet of a connection, b, and its control
// messages, oob, as recvmsg(2) returned them. ok says whether the packet is a
// hand-off at all; if it is not, it is an ordinary netlink request. With ok, err
// says why the hand-off cannot be accepted, in a form fit for [HandoffReply].
//
// Every descriptor in oob that is not returned in the Handoff is closed.
func ParseHandoff(b, oob []byte) (h Handoff, ok bool, err error) {
	fds := rights(oob)
	h, ok, err = decodeHandoff(b)
	if ok && err == nil {
		switch {
		case len(fds) != 1:
			err = fmt.Errorf("the hand-off carries %d descriptors instead of one", len(fds))
		case !isListener(fds[0]):
			// The daemon will do ioctls on it, maybe as root: nothing else may pass.
			err = errors.New("the descriptor in the hand-off is no seccomp listener")
		default:
			h.Listener = fds[0]
			return h, true, nil
		}
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return Handoff{Listener: -1}, ok, err
}

func decodeHandoff(b []byte) (h Handoff, ok bool, err error) {
	ne := binary.NativeEndian
	h.Listener = -1
	if len(b) < unix.NLMSG_HDRLEN || ne.Uint16(b[4:]) != HandoffType {
		return h, false, nil
	}
	if len(b) < handoffHeader || ne.Uint32(b[16:]) != handoffMagic {
		return h, true, errors.New("the hand-off is malformed")
	}
	if v := ne.Uint16(b[20:]); v != handoffVersion {
		return h, true, fmt.Errorf("linkspan speaks hand-off version %d and linkspand version %d: install both from the same release", v, handoffVersion)
	}
	h.Killable = ne.Uint16(b[22:])&flagKillable != 0
	count := ne.Uint32(b[24:])
	if count > maxRanges || len(b) != handoffHeader+8*int(count) || int(ne.Uint32(b)) != len(b) {
		return h, true, errors.New("the hand-off is malformed")
	}
	for p := b[handoffHeader:]; len(p) > 0; p = p[8:] {
		h.Ranges = append(h.Ranges, Range{Lo: ne.Uint32(p), Hi: ne.Uint32(p[4:])})
	}
	if !validRanges(h.Ranges) {
		return h, true, errors.New("the hand-off names impossible descriptor ranges")
	}
	return h, true, nil
}

// rights returns all descriptors in the control messages oob.
func rights(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func isListener(fd int) bool {
	link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && link == "anon_inode:seccomp notify"
}

// HandoffReply returns the daemon's answer to a hand-off: with errno 0 the
// command may start; otherwise it does not, and text tells its user why. The
// text travels as NLMSGERR_ATTR_MSG, as in the kernel's own errors.
func HandoffReply(errno syscall.Errno, text string) []byte {
	ne := binary.NativeEndian
	b := make([]byte, 36)
	ne.PutUint16(b[4:], unix.NLMSG_ERROR)
	ne.PutUint32(b[8:], 1)
	ne.PutUint32(b[16:], uint32(-int32(errno)))
	// The header of the message answered, as after NETLINK_CAP_ACK.
	ne.PutUint32(b[20:], 16)
	ne.PutUint16(b[24:], HandoffType)
	ne.PutUint32(b[28:], 1)
	flags := uint16(unix.NLM_F_CAPPED)
	if errno != 0 && text != "" {
		flags |= unix.NLM_F_ACK_TLVS
		b = ne.AppendUint16(b, uint16(4+len(text)+1))
		b = ne.AppendUint16(b, unix.NLMSGERR_ATTR_MSG)
		b = append(append(b, text...), 0)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	ne.PutUint16(b[6:], flags)
	ne.PutUint32(b, uint32(len(b)))
	return b
}

// parseHandoffReply returns nil if b lets the command start.
func parseHandoffReply(b []byte) error {
	ne := binary.NativeEndian
	if len(b) < 20 || ne.Uint16(b[4:]) != unix.NLMSG_ERROR {
		return errors.New("the answer to the hand-off is malformed: is this the socket of a linkspand?")
	}
	code := int32(ne.Uint32(b[16:]))
	if code == 0 {
		return nil
	}
	if len(b) > 40 && ne.Uint16(b[6:])&unix.NLM_F_ACK_TLVS != 0 && ne.Uint16(b[38:]) == unix.NLMSGERR_ATTR_MSG {
		if n := int(ne.Uint16(b[36:])); n > 5 && 36+n <= len(b) {
			return errors.New(string(b[40 : 36+n-1]))
		}
	}
	if code < 0 && code > -4096 {
		return syscall.Errno(-code)
	}
	return fmt.Errorf("error %d", code)
}
