package netdev

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// currentInode is that of the thread's namespace.
func currentInode(t testing.TB) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(threadNS, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestNS(t *testing.T) {
	checkFDs(t)
	home := currentInode(t)
	own, err := OwnNS()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if own.Inode() != home {
		t.Errorf("own namespace %d, want %d", own.Inode(), home)
	}
	ns := newTestNS(t)
	if ns.Inode() == home {
		t.Fatal("the new namespace is the old one")
	}
	seen := func(n *NS) (i uint64) {
		do(t, n, func() error {
			i = currentInode(t)
			return nil
		})
		return i
	}
	for range 20 {
		if i := seen(ns); i != ns.Inode() {
			t.Errorf("Do ran in %d", i)
		}
		if i := seen(own); i != home {
			t.Errorf("Do ran in %d", i)
		}
		if i := seen(nil); i != home {
			t.Errorf("Do ran in %d", i)
		}
	}
	// All threads are home again.
	runtime.LockOSThread()
	if currentInode(t) != home {
		t.Error("the caller's thread was moved")
	}
	runtime.UnlockOSThread()
	if err := ns.Do(func() error { return unix.EXDEV }); !errors.Is(err, unix.EXDEV) {
		t.Errorf("Do returns %v", err)
	}
	var none *NS
	if none.Inode() != 0 || none.Close() != nil {
		t.Error("nil")
	}
}

func TestOpenNSErrors(t *testing.T) {
	checkFDs(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNS(file); err == nil {
		t.Error("a plain file was taken for a namespace")
	}
	if _, err := OpenNS("/proc/self/ns/mnt"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a mount namespace: %v", err)
	}
	if _, err := OpenNS(file + "-not"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no file: %v", err)
	}
}
