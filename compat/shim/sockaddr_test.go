package shim

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// flatMemory is a client whose memory begins at address 0.
type flatMemory []byte

func (m flatMemory) read(p []byte, addr uint64) syscall.Errno {
	if addr > uint64(len(m)) || uint64(len(p)) > uint64(len(m))-addr {
		return unix.EFAULT
	}
	copy(p, m[addr:])
	return 0
}

func (m flatMemory) readv(p []byte, vecs []iovec) syscall.Errno {
	for _, v := range vecs {
		if v.size > uint64(len(p)) {
			return unix.EFAULT
		}
		if errno := m.read(p[:v.size], v.base); errno != 0 {
			return errno
		}
		p = p[v.size:]
	}
	return 0
}

func TestReadAddress(t *testing.T) {
	m := flatMemory(address{unix.AF_NETLINK, 7, 9}.append(nil))
	m = append(m, make([]byte, 12)...) // AF_UNSPEC
	m = append(m, address{unix.AF_INET, 0, 0}.append(nil)...)
	for _, tc := range []struct {
		addr  uint64
		size  int32
		want  address
		errno syscall.Errno
	}{
		{0, 12, address{unix.AF_NETLINK, 7, 9}, 0},
		{0, 24, address{unix.AF_NETLINK, 7, 9}, 0},
		{0, 11, address{}, unix.EINVAL},
		{0, 129, address{}, unix.EINVAL},
		{0, -1, address{}, unix.EINVAL},
		{0, 0, address{}, unix.EINVAL},
		{12, 2, address{}, 0},
		{12, 12, address{}, 0},
		{24, 12, address{}, unix.EINVAL},
		{30, 12, address{}, unix.EFAULT},
		{1 << 63, 12, address{}, unix.EFAULT},
	} {
		if got, errno := readAddress(m, tc.addr, tc.size); got != tc.want || errno != tc.errno {
			t.Errorf("readAddress(%d, %d) = %+v, %v; want %+v, %v", tc.addr, tc.size, got, errno, tc.want, tc.errno)
		}
	}
}

// header makes memory with a struct msghdr at 0 and iovecs behind it.
func header(name uint64, nameLen int32, count uint64, vecs ...iovec) flatMemory {
	ne := binary.NativeEndian
	m := make(flatMemory, msghdrLen)
	ne.PutUint64(m[0:], name)
	ne.PutUint32(m[8:], uint32(nameLen))
	ne.PutUint64(m[16:], msghdrLen)
	ne.PutUint64(m[24:], count)
	for _, v := range vecs {
		m = ne.AppendUint64(m, v.base)
		m = ne.AppendUint64(m, v.size)
	}
	return m
}

func TestReadMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		m     flatMemory
		size  int
		errno syscall.Errno
	}{
		"empty":            {m: header(0, 0, 0)},
		"two":              {m: header(0, 0, 2, iovec{1, 10}, iovec{5, 20}), size: 30},
		"hollow":           {m: header(0, 0, 3, iovec{1, 10}, iovec{9, 0}, iovec{5, 20}), size: 30},
		"too many":         {m: header(0, 0, 1025), errno: unix.EMSGSIZE},
		"very many":        {m: header(0, 0, 1<<63), errno: unix.EMSGSIZE},
		"no iovecs there":  {m: header(0, 0, 1), errno: unix.EFAULT},
		"negative":         {m: header(0, 0, 1, iovec{0, 1 << 63}), errno: unix.EINVAL},
		"long":             {m: header(0, 0, 1, iovec{0, maxRequest + 1}), errno: unix.EMSGSIZE},
		"long together":    {m: header(0, 0, 3, iovec{0, 1<<63 - 1}, iovec{0, 1<<63 - 1}, iovec{0, 2}), errno: unix.EMSGSIZE},
		"negative name":    {m: header(8, -1, 0), errno: unix.EINVAL},
		"no name, length":  {m: header(0, -1, 0)},
		"no header at all": {m: make(flatMemory, 20), errno: unix.EFAULT},
	} {
		got, errno := readMessage(tc.m, 0, nil)
		if errno != tc.errno || got.size != tc.size {
			t.Errorf("%s: %+v, %v", name, got, errno)
		}
	}
}

// FuzzMessage reads client memory with arbitrary contents.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(header(56, 12, 2, iovec{1, 10}, iovec{5, 20})), uint64(0), int32(12))
	f.Add([]byte(address{unix.AF_NETLINK, 7, 9}.append(nil)), uint64(0), int32(12))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64, size int32) {
		mem := flatMemory(b)
		if a, errno := readAddress(mem, addr, size); errno == 0 {
			if again, _ := parseAddress(a.append(nil)); again != a {
				t.Errorf("%+v became %+v", a, again)
			}
		}
		m, errno := readMessage(mem, addr, nil)
		if errno != 0 {
			return
		}
		total := uint64(0)
		for _, v := range m.vecs {
			total += v.size
		}
		if total != uint64(m.size) || m.size > maxRequest || m.nameLen < 0 || m.nameLen > storageLen {
			t.Errorf("%+v", m)
		}
		mem.readv(make([]byte, m.size), m.vecs)
		if m.named {
			_, _ = readAddress(mem, m.name, m.nameLen)
		}
	})
}

func TestStatusWithoutIDs(t *testing.T) {
	for _, text := range []string{"", "Tgid:\t5\n", "Tgid:\nGid:\nGid", "Tgid:\t5\nGid:\t1\t1\nGid:\t1\t1\n",
		"Tgid:\t5\nUid:\t0\nGid:\t0\t0\n", "Uid:\t0\t0\nGid:\t0\t0\n", "Tgid:\nUid:\t0\t0\nGid:\t0\t0\n"} {
		if s, err := parseStatus([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("Tgid:\t5\nNStgid:\t5\t1\nUid:\t0\t1\t2\t3\nGid:\t4\t5\t6\t7\nGroups:\t1 2 \nCapEff:\t0000000000001000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseStatus(b)
		if err == nil && !bytes.Contains(b, []byte("Uid:")) && s.uid == 0 {
			t.Error("uid 0 from nothing")
		}
	})
}
