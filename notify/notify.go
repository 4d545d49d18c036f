// Package notify carries what devices report to whoever subscribed: a change is
// a netlink message without its header, addressed to an RTNLGRP_* group.
package notify

// Change is one notification.
type Change struct {
	// Group is an RTNLGRP_* number (uapi/linux/rtnetlink.h).
	Group uint32
	// Type is the RTM_* message type.
	Type uint16
	// Body is the message after its nlmsghdr. The receiver must not keep it
	// after Publish returned.
	Body []byte
}

// Publisher takes changes in the order in which they happened. Its methods may
// be called from any goroutine, the frame path included; they never block on a
// subscriber.
type Publisher interface {
	// Wanted tells whether anybody listens to group, so that a device need not
	// encode what nobody reads.
	Wanted(group uint32) bool
	Publish(c Change)
}
