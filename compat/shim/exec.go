package shim

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handoffTimeout bounds the wait for the daemon's go-ahead.
const handoffTimeout = 10 * time.Second

// ExecOptions says what [Exec] runs.
type ExecOptions struct {
	// Socket is the path of the daemon's listening socket.
	Socket string
	// Argv is the command and its arguments.
	Argv []string
	// Env is the command's environment; nil means that of this process.
	Env []string
	// Path is the file to execute. If empty, Argv[0] is looked up in $PATH.
	Path string
}

// An ExitError is a failure to run a command, with the status to exit with, as
// env(1) and the shells have it: 127 if the command does not exist, 126 if it
// cannot be executed, 1 for what is wrong with the shim itself.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Exec replaces this process by a command whose rtnetlink traffic, and that of
// everything it starts, goes to the daemon. Exec returns only if it fails, with
// an [ExitError]; the process should then exit, since a filter may be in force.
//
// Call it from the main goroutine, locked to the main thread by an init
// function: where Yama restricts ptrace(2), the permission to read the
// command's memory that is given to the daemon belongs to the main thread.
func Exec(o ExecOptions) error {
	if len(o.Argv) == 0 || o.Argv[0] == "" {
		return &ExitError{127, errors.New("no command given")}
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	path := o.Path
	if path == "" {
		var err error
		if path, err = LookPath(o.Argv[0], os.Getenv("PATH"), nil); err != nil {
			return err
		}
	}
	if err := attach(o.Socket); err != nil {
		return &ExitError{1, err}
	}
	err := syscall.Exec(path, o.Argv, o.Env)
	if errors.Is(err, unix.ENOEXEC) {
		// A script without a #! line, which execvp(3) gives to the shell.
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, o.Argv[1:]...), o.Env)
	}
	code := 126
	if errors.Is(err, unix.ENOENT) {
		code = 127 // its interpreter
	}
	return &ExitError{code, fmt.Errorf("cannot execute %s: %w", path, err)}
}

// attach puts the calling thread under the daemon's supervision.
func attach(socket string) error {
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer unix.Close(conn)

	// The limit that matters is the soft one of the command; the Go runtime has
	// raised ours to the hard one. The ranges suit all below that.
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("getrlimit: %w", err)
	}
	h := Handoff{Ranges: DefaultRanges(lim.Max)}
	filter, err := buildFilter(h.Ranges)
	if err != nil {
		return err
	}

	// The filter is the thread's, and execve(2) keeps that thread. Talking to
	// the daemon is left to another: on this one the filter could stop the very
	// call that brings the daemon the listener, with nobody there to answer it.
	runtime.LockOSThread()
	ready := make(chan Handoff)
	answered := make(chan error)
	go func() {
		h, ok := <-ready
		if ok {
			answered <- handOver(conn, h)
		}
	}()
	h.Listener, h.Killable, err = install(filter)
	if err != nil {
		close(ready)
		return err
	}
	ready <- h
	err = <-answered
	unix.Close(h.Listener)
	if err != nil {
		return fmt.Errorf("linkspand at %s did not take the command over: %w", socket, err)
	}
	return nil
}

// dial connects to the daemon.
func dial(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		unix.Close(fd)
		return -1, dialError(socket, err)
	}
	tv := unix.NsecToTimeval(int64(handoffTimeout))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid > 0 {
		// Fails where there is no Yama, and then is not needed.
		_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(peer.Pid), 0, 0, 0)
	}
	return fd, nil
}

func dialError(socket string, err error) error {
	what := fmt.Sprintf("cannot reach linkspand at %s: %v. ", socket, err)
	switch {
	case errors.Is(err, unix.EACCES):
		return errors.New(what + "Run this as a user who may open the socket, or name another one with --socket")
	case errors.Is(err, unix.EPROTOTYPE):
		return errors.New(what + "Name the socket of a linkspand with --socket")
	}
	return fmt.Errorf("%sStart it with: linkspand --socket %s", what, quote(socket))
}

// quote returns s as one word of a shell command.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// handOver sends the listener and waits for the go-ahead.
func handOver(conn int, h Handoff) error {
	if err := unix.Sendmsg(conn, h.marshal(), unix.UnixRights(h.Listener), nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(conn, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("no answer within %s", handoffTimeout)
		case err != nil:
			return err
		case n == 0:
			return errors.New("it closed the connection")
		default:
			return parseHandoffReply(buf[:n])
		}
	}
}
