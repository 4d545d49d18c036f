package integration_test

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output collects what a process prints and lets tests wait for it.
type output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// next returns a channel that is closed at the next write.
func (o *output) next() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.changed
}

// process runs in the background until the test ends.
type process struct {
	cmd    *exec.Cmd
	what   string
	out    *output
	errout *output
	done   chan struct{} // closed after the end
}

// spawn starts a command in the namespace.
func (n *netns) spawn(t testing.TB, argv []string, edit func(*exec.Cmd)) *process {
	t.Helper()
	p := &process{
		cmd: exec.Command(argv[0], argv[1:]...), what: strings.Join(argv, " "),
		out: newOutput(), errout: newOutput(), done: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errout
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if edit != nil {
		edit(p.cmd)
	}
	if err := n.do(p.cmd.Start); err != nil {
		t.Fatalf("%s: %v", p.what, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says it
		close(p.done)
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

// end asks the process to end and sees that it does.
func (p *process) end(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if !p.ended() {
		_ = p.cmd.Process.Kill()
		<-p.done
		t.Errorf("%s: did not end within %s of SIGTERM", p.what, patience)
	}
}

// ended waits for the end of the process.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
		return false
	}
}

// expect waits until the process has printed what ok likes, and returns all of
// its output.
func (p *process) expect(t testing.TB, what string, ok func(out string) bool) string {
	t.Helper()
	limit := time.After(patience)
	for {
		out, changed := p.out.next()
		if ok(out) {
			return out
		}
		select {
		case <-changed:
		case <-p.done:
			if out := p.out.String(); ok(out) {
				return out
			}
			t.Fatalf("%s: ended without %s\n%s%s", p.what, what, p.out, p.errout)
		case <-limit:
			t.Fatalf("%s: in vain for %s: %s\n%s%s", p.what, patience, what, p.out, p.errout)
		}
	}
}

// expectText is expect for a piece of text.
func (p *process) expectText(t testing.TB, text string) string {
	t.Helper()
	return p.expect(t, text, func(out string) bool { return strings.Contains(out, text) })
}
