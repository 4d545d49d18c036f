// Package nlattr parses, validates and builds netlink attributes the way the
// kernel's lib/nlattr.c does, and holds the one error type that carries an
// errno and its extended acknowledgement from where it is found to the wire.
package nlattr

import (
	"errors"
	"fmt"
	"syscall"
)

// Error is a refusal as netlink reports it: an errno and, for clients that set
// NETLINK_EXT_ACK, a text and a pointer at the attribute at fault (struct
// netlink_ext_ack in include/linux/netlink.h).
type Error struct {
	// Errno is positive; NLMSG_ERROR carries it negated.
	Errno syscall.Errno
	// Msg is the NLMSGERR_ATTR_MSG text, "" for none.
	Msg string
	// Offset is NLMSGERR_ATTR_OFFS: where the offending attribute's header
	// begins, in bytes from the start of the request's nlmsghdr. 0 is none.
	Offset int
	// MissType is NLMSGERR_ATTR_MISS_TYPE, 0 for none.
	MissType uint32
	// MissNest is NLMSGERR_ATTR_MISS_NEST, the offset of the nest that lacks
	// MissType, 0 for none.
	MissNest int
	// Policy is the content of NLMSGERR_ATTR_POLICY: what would have been valid.
	Policy []byte
}

// Error implements error.
func (e *Error) Error() string {
	if e.Msg == "" {
		return e.Errno.Error()
	}
	return e.Msg + ": " + e.Errno.Error()
}

// Unwrap lets errors.Is compare with a syscall.Errno.
func (e *Error) Unwrap() error { return e.Errno }

// Errf makes an Error with a text, formatted as by fmt.Sprintf.
func Errf(errno syscall.Errno, format string, args ...any) *Error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &Error{Errno: errno, Msg: msg}
}

// ErrAttr is Errf for an error that points at the attribute at fault.
func ErrAttr(errno syscall.Errno, at Attr, format string, args ...any) *Error {
	e := Errf(errno, format, args...)
	e.Offset = at.Off
	return e
}

// Errno makes an Error without text.
func Errno(errno syscall.Errno) *Error { return &Error{Errno: errno} }

// AsError finds the Error in err's chain. A bare errno becomes an Error without
// text; anything else, which no request should meet, becomes EIO with the
// error's words.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		return &Error{Errno: n}
	}
	return &Error{Errno: syscall.EIO, Msg: err.Error()}
}
