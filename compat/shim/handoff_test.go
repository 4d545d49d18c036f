package shim

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestHandoff(t *testing.T) {
	want := Handoff{Listener: -1, Ranges: DefaultRanges(1024), Killable: true}
	b := want.marshal()
	got, ok, err := decodeHandoff(b)
	if !ok || err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	if _, ok, err := decodeHandoff(append([]byte(nil), b[:len(b)-1]...)); !ok || err == nil {
		t.Errorf("cut off: %v, %v", ok, err)
	}
	if _, ok, _ := decodeHandoff([]byte{20, 0, 0, 0, unix.RTM_GETLINK, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}); ok {
		t.Error("an ordinary request counts as a hand-off")
	}
	newer := append([]byte(nil), b...)
	newer[20]++
	if _, ok, err := decodeHandoff(newer); !ok || err == nil {
		t.Errorf("another version: %v, %v", ok, err)
	}
}

// TestHandoffDescriptors: what is no seccomp listener is closed, never used.
func TestHandoffDescriptors(t *testing.T) {
	request := []byte{16, 0, 0, 0, unix.RTM_GETLINK, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0}
	handoff := Handoff{Ranges: DefaultRanges(1024)}.marshal()
	for name, tc := range map[string]struct {
		b   []byte
		fds int
		ok  bool
	}{
		"request": {request, 2, false}, "none": {handoff, 0, true}, "a file": {handoff, 1, true}, "files": {handoff, 3, true},
	} {
		var fds []int
		for range tc.fds {
			fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		h, ok, err := ParseHandoff(tc.b, unix.UnixRights(fds...))
		if ok != tc.ok || ok && err == nil || h.Listener != -1 {
			t.Errorf("%s: %+v, %v, %v", name, h, ok, err)
		}
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
				t.Errorf("%s: descriptor is still open", name)
			}
		}
	}
}

func TestHandoffReply(t *testing.T) {
	if err := parseHandoffReply(HandoffReply(0, "")); err != nil {
		t.Error(err)
	}
	if err := parseHandoffReply(HandoffReply(unix.EPERM, "")); !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
	for _, text := range []string{"a", "ab", "abc", "the socket is only for members of the group netdev"} {
		if err := parseHandoffReply(HandoffReply(unix.EPERM, text)); err == nil || err.Error() != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzHandoff(f *testing.F) {
	f.Add(Handoff{Ranges: DefaultRanges(1024)}.marshal())
	f.Add(HandoffReply(unix.EPERM, "text"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := decodeHandoff(b)
		if ok && err == nil {
			again, ok, err := decodeHandoff(h.marshal())
			if !ok || err != nil || !cmp.Equal(again, h) {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
			if _, err := buildFilter(h.Ranges); err != nil {
				t.Error(err)
			}
		}
		_ = parseHandoffReply(b)
	})
}
