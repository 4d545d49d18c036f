package rtnl

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// outboxLimit is how many bytes of notifications may wait in the daemon for a
// client whose socket is full before it has lost some (ENOBUFS), beside what
// the socket itself holds.
const outboxLimit = 1 << 20

// outbox is what a client has yet to read. Datagrams go straight into the socket
// while it has room; then they wait here, replies without limit and
// notifications up to outboxLimit, so that nobody else waits for this client.
type outbox struct {
	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	lost    bool // notifications were dropped since the last ENOBUFS
	pumping bool
	closed  bool
	pump    func() // waits until the socket takes data again
}

// send passes b on, or queues it if the client is slow. Replies (must) always
// get through; a notification without room is lost and makes the client see
// ENOBUFS once it reads again.
func (o *outbox) send(fd int, b []byte, must bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if len(o.queue) == 0 && !o.lost {
		err := unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != unix.EAGAIN && err != unix.ENOBUFS {
			return
		}
	}
	if !must && (o.lost || o.bytes+len(b) > outboxLimit) {
		o.lost = true
		o.start()
		return
	}
	o.queue = append(o.queue, append([]byte(nil), b...))
	o.bytes += len(b)
	o.start()
}

func (o *outbox) start() {
	if !o.pumping {
		o.pumping = true
		go o.pump()
	}
}

// drain moves what it can from the queue to the socket and reports whether
// nothing is left. It is the body of the pump's loop.
func (o *outbox) drain(fd int, overrun func() []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) > 0 {
		err := unix.Send(fd, o.queue[0], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == unix.EAGAIN || err == unix.ENOBUFS {
			return false
		}
		o.bytes -= len(o.queue[0])
		o.queue[0] = nil
		o.queue = o.queue[1:]
	}
	if o.lost && !o.closed {
		err := unix.Send(fd, overrun(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == unix.EAGAIN || err == unix.ENOBUFS {
			return false
		}
		o.lost = false
	}
	o.queue = nil
	o.pumping = false
	return true
}

func (o *outbox) close(f *os.File) {
	o.mu.Lock()
	o.closed = true
	o.queue, o.bytes = nil, 0
	o.mu.Unlock()
	f.Close()
}

// startPump gives the session's outbox its pump: the runtime's poller tells when
// the socket takes data again, and closing the file ends the wait.
func (s *Session) startPump() {
	s.out.pump = func() {
		rc, err := s.file.SyscallConn()
		if err != nil {
			return
		}
		_ = rc.Write(func(fd uintptr) bool { return s.out.drain(int(fd), s.overrun) })
	}
}

// overrun is the message that stands for the ENOBUFS of a kernel socket: a
// seqpacket cannot be given an error of one's choice, but clients take an
// NLMSG_ERROR for the same.
func (s *Session) overrun() []byte {
	m := message{raw: make([]byte, headerLen)}
	mark := 0
	b := beginMessage(nil, unix.NLMSG_ERROR, unix.NLM_F_CAPPED, 0, s.pid.Load())
	e := unix.ENOBUFS
	b = ne.AppendUint32(b, uint32(-int32(e)))
	b = append(b, m.raw...)
	return endMessage(b, mark)
}
