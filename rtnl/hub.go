package rtnl

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linkspan/linkspan/notify"
)

// hub is the notification groups of one network namespace. It implements
// notify.Publisher.
type hub struct {
	// joined is called, with the lock released, when a group gets its first
	// member: the kernel's own events of that group are wanted from then on.
	joined func(group uint32) error

	wanted [maxGroup + 1]atomic.Bool

	mu      sync.Mutex
	members [maxGroup + 1][]*Session
	buf     []byte
}

// Wanted implements notify.Publisher.
func (h *hub) Wanted(group uint32) bool { return group <= maxGroup && h.wanted[group].Load() }

// Publish implements notify.Publisher: one message to every member of the
// group, in the order of the calls.
func (h *hub) Publish(c notify.Change) {
	if !h.Wanted(c.Group) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = appendMessage(h.buf[:0], c.Type, 0, 0, 0, c.Body)
	h.deliver(c.Group)
}

// publishRaw passes on a whole message of the kernel's.
func (h *hub) publishRaw(group uint32, msg []byte) {
	if !h.Wanted(group) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf[:0], msg...)
	h.deliver(group)
}

func (h *hub) deliver(group uint32) {
	for _, s := range h.members[group] {
		s.notify(h.buf)
	}
}

func (h *hub) join(s *Session, group uint32) syscall.Errno {
	if group == 0 || group > maxGroup {
		return unix.EINVAL
	}
	h.mu.Lock()
	h.members[group] = append(h.members[group], s)
	h.wanted[group].Store(true)
	h.mu.Unlock()
	if h.joined != nil {
		if err := h.joined(group); err != nil {
			if e, ok := err.(syscall.Errno); ok {
				return e
			}
			return unix.EINVAL
		}
	}
	return 0
}

func (h *hub) leave(s *Session, group uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.members[group]
	for i, m := range list {
		if m == s {
			h.members[group] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	h.wanted[group].Store(len(h.members[group]) > 0)
}

func (h *hub) leaveAll(s *Session) {
	s.mu.Lock()
	groups := make([]uint32, 0, len(s.groups))
	for g := range s.groups {
		groups = append(groups, g)
	}
	clear(s.groups)
	s.mu.Unlock()
	for _, g := range groups {
		h.leave(s, g)
	}
}
