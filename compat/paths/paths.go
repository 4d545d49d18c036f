// Package paths knows where linkspand's socket and state are, so that linkspan
// and linkspand agree on it.
package paths

import (
	"errors"
	"os"
	"path/filepath"
)

// None as a state directory keeps nothing.
const None = "none"

// Socket returns the path of the daemon's socket: flag if it is not empty, else
// $LINKSPAN_SOCKET, else /run/linkspan/rtnl.sock for root and
// $XDG_RUNTIME_DIR/linkspan/rtnl.sock for everyone else.
func Socket(flag string) (string, error) { return socket(flag, os.Getenv, os.Geteuid() == 0) }

func socket(flag string, getenv func(string) string, root bool) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if env := getenv("LINKSPAN_SOCKET"); env != "" {
		return env, nil
	}
	if root {
		return "/run/linkspan/rtnl.sock", nil
	}
	// The XDG base directory specification: relative paths are to be ignored.
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "linkspan", "rtnl.sock"), nil
	}
	return "", errors.New("no place for the daemon's socket: XDG_RUNTIME_DIR is not set; name the socket with --socket or LINKSPAN_SOCKET")
}

// State returns the directory where the daemon keeps its state: flag if it is
// not empty, else /var/lib/linkspan for root and $XDG_STATE_HOME/linkspan, by
// default ~/.local/state/linkspan, for everyone else. If flag is [None] the
// directory is "": nothing is kept.
func State(flag string) (string, error) { return state(flag, os.Getenv, os.Geteuid() == 0) }

func state(flag string, getenv func(string) string, root bool) (string, error) {
	switch {
	case flag == None:
		return "", nil
	case flag != "":
		return flag, nil
	case root:
		return "/var/lib/linkspan", nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "linkspan"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "linkspan"), nil
	}
	return "", errors.New("no place for the daemon's state: neither XDG_STATE_HOME nor HOME is set; name a directory with --state-dir, or none")
}
