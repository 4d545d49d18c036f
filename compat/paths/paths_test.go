package paths

import "testing"

func TestSocket(t *testing.T) {
	for _, tc := range []struct {
		flag string
		env  map[string]string
		root bool
		want string // empty: an error
	}{
		{flag: "/a", env: map[string]string{"LINKSPAN_SOCKET": "/b"}, root: true, want: "/a"},
		{env: map[string]string{"LINKSPAN_SOCKET": "/b", "XDG_RUNTIME_DIR": "/r"}, want: "/b"},
		{root: true, env: map[string]string{"XDG_RUNTIME_DIR": "/r"}, want: "/run/linkspan/rtnl.sock"},
		{env: map[string]string{"XDG_RUNTIME_DIR": "/r"}, want: "/r/linkspan/rtnl.sock"},
		{env: map[string]string{"XDG_RUNTIME_DIR": "r"}},
		{},
	} {
		got, err := socket(tc.flag, func(k string) string { return tc.env[k] }, tc.root)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("socket(%q, %v, %v) = %q, %v; want %q", tc.flag, tc.env, tc.root, got, err, tc.want)
		}
	}
}

func TestState(t *testing.T) {
	for _, tc := range []struct {
		flag string
		env  map[string]string
		root bool
		want string
		fail bool
	}{
		{flag: "none", root: true},
		{flag: "/a", want: "/a"},
		{root: true, env: map[string]string{"HOME": "/root"}, want: "/var/lib/linkspan"},
		{env: map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, want: "/s/linkspan"},
		{env: map[string]string{"XDG_STATE_HOME": "s", "HOME": "/h"}, want: "/h/.local/state/linkspan"},
		{fail: true},
	} {
		got, err := state(tc.flag, func(k string) string { return tc.env[k] }, tc.root)
		if got != tc.want || (err != nil) != tc.fail {
			t.Errorf("state(%q, %v, %v) = %q, %v; want %q", tc.flag, tc.env, tc.root, got, err, tc.want)
		}
	}
}
