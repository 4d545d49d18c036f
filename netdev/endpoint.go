package netdev

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// endpoint is the descriptor of a device's frame I/O and what must be gone before
// it can be closed.
type endpoint struct {
	fd int

	mu      sync.Mutex
	outputs []*Output
	closed  bool
	// sendFD is fd until close, then -1: who sends out of turn must not hit a
	// descriptor that got the number.
	sendFD atomic.Int64
}

// output makes a way out of the device for the threads of d.
func (e *endpoint) output(d *Domain, open func() Writer) *Output {
	o := d.NewOutput(open)
	e.mu.Lock()
	e.outputs = append(e.outputs, o)
	e.mu.Unlock()
	return o
}

// close ends the reader, releases the outputs and closes the descriptor. Further
// calls do nothing.
func (e *endpoint) close(r Reader) error {
	r.Close()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	outputs := e.outputs
	e.outputs = nil
	e.mu.Unlock()
	e.sendFD.Store(-1)
	for _, o := range outputs {
		o.Release()
	}
	return unix.Close(e.fd)
}
