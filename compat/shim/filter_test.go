package shim

import (
	"encoding/binary"
	"math"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// evaluate runs the filter on one system call. The machine of x/net/bpf reads
// packets in network order; struct seccomp_data is given to it that way, halves
// of the arguments in the order of a little-endian machine.
func evaluate(t *testing.T, filter []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var code []bpf.Instruction
	for _, f := range filter {
		code = append(code, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble())
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	data := binary.BigEndian.AppendUint32(nil, nr)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...)
	for i := range 6 {
		var v uint64
		if i < len(args) {
			v = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(v))
		data = binary.BigEndian.AppendUint32(data, uint32(v>>32))
	}
	r, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(r)
}

func TestFilter(t *testing.T) {
	filter, err := buildFilter(DefaultRanges(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	const (
		ours  = 700
		other = 12
		stop  = true
		pass  = false
	)
	for _, tc := range []struct {
		name string
		nr   uint32
		args []uint64
		want bool
	}{
		{"socket route", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, stop},
		{"socket route, any type", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, stop},
		{"socket, rubbish in the high halves", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_NETLINK, 3, 1 << 40}, stop},
		{"socket generic", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}, pass},
		{"socket inet", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, pass},
		{"sendto", unix.SYS_SENDTO, []uint64{ours}, stop},
		{"sendto other", unix.SYS_SENDTO, []uint64{other}, pass},
		{"sendto -1", unix.SYS_SENDTO, []uint64{math.MaxUint64}, pass},
		{"sendto 2^31", unix.SYS_SENDTO, []uint64{1 << 31}, pass},
		{"sendto 2^31-1", unix.SYS_SENDTO, []uint64{1<<31 - 1}, stop},
		{"sendto 699", unix.SYS_SENDTO, []uint64{699}, pass},
		{"sendto 512", unix.SYS_SENDTO, []uint64{512}, pass},
		{"sendto 511", unix.SYS_SENDTO, []uint64{511}, stop},
		{"sendto 448", unix.SYS_SENDTO, []uint64{448}, stop},
		{"sendto 447", unix.SYS_SENDTO, []uint64{447}, pass},
		{"sendto 63", unix.SYS_SENDTO, []uint64{63}, stop},
		{"sendto 55", unix.SYS_SENDTO, []uint64{55}, pass},
		{"sendmsg", unix.SYS_SENDMSG, []uint64{ours}, stop},
		{"sendmsg other", unix.SYS_SENDMSG, []uint64{other}, pass},
		{"sendmmsg", unix.SYS_SENDMMSG, []uint64{ours}, stop},
		{"recvfrom without address", unix.SYS_RECVFROM, []uint64{ours, 1, 1, 0, 0, 0}, pass},
		{"recvfrom with address", unix.SYS_RECVFROM, []uint64{ours, 1, 1, 0, 4096, 0}, stop},
		{"recvfrom with a high address", unix.SYS_RECVFROM, []uint64{ours, 1, 1, 0, 1 << 32, 0}, stop},
		{"recvfrom other", unix.SYS_RECVFROM, []uint64{other, 1, 1, 0, 4096, 0}, pass},
		{"recvmsg", unix.SYS_RECVMSG, []uint64{ours}, pass},
		{"read", unix.SYS_READ, []uint64{ours}, pass},
		{"write", unix.SYS_WRITE, []uint64{ours}, pass},
		{"close", unix.SYS_CLOSE, []uint64{ours}, pass},
		{"dup3", unix.SYS_DUP3, []uint64{ours, 5}, pass},
		{"bind", unix.SYS_BIND, []uint64{ours, 1, 2}, stop},
		{"bind other, sockaddr_nl", unix.SYS_BIND, []uint64{other, 1, 12}, stop},
		{"bind other", unix.SYS_BIND, []uint64{other, 1, 16}, pass},
		{"connect", unix.SYS_CONNECT, []uint64{ours, 1, 2}, stop},
		{"connect other", unix.SYS_CONNECT, []uint64{other, 1, 28}, pass},
		{"getsockname", unix.SYS_GETSOCKNAME, []uint64{ours}, stop},
		{"getsockname other", unix.SYS_GETSOCKNAME, []uint64{other}, pass},
		{"getpeername", unix.SYS_GETPEERNAME, []uint64{ours}, stop},
		{"setsockopt netlink", unix.SYS_SETSOCKOPT, []uint64{other, 270, 1}, stop},
		{"setsockopt socket", unix.SYS_SETSOCKOPT, []uint64{ours, 1, unix.SO_RCVBUF}, pass},
		{"getsockopt netlink", unix.SYS_GETSOCKOPT, []uint64{other, 270, 1}, stop},
		{"getsockopt domain", unix.SYS_GETSOCKOPT, []uint64{ours, 1, unix.SO_DOMAIN}, stop},
		{"getsockopt type", unix.SYS_GETSOCKOPT, []uint64{ours, 1, unix.SO_TYPE}, stop},
		{"getsockopt protocol", unix.SYS_GETSOCKOPT, []uint64{ours, 1, unix.SO_PROTOCOL}, stop},
		{"getsockopt error", unix.SYS_GETSOCKOPT, []uint64{ours, 1, unix.SO_ERROR}, pass},
		{"getsockopt type other", unix.SYS_GETSOCKOPT, []uint64{other, 1, unix.SO_TYPE}, pass},
		{"getsockopt tcp", unix.SYS_GETSOCKOPT, []uint64{ours, 6, unix.SO_TYPE}, pass},
		{"dup", unix.SYS_DUP, []uint64{ours}, stop},
		{"dup other", unix.SYS_DUP, []uint64{other}, pass},
		{"fcntl dupfd", unix.SYS_FCNTL, []uint64{ours, unix.F_DUPFD, 3}, stop},
		{"fcntl dupfd cloexec", unix.SYS_FCNTL, []uint64{ours, unix.F_DUPFD_CLOEXEC, 3}, stop},
		{"fcntl getfl", unix.SYS_FCNTL, []uint64{ours, unix.F_GETFL}, pass},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if tc.want == stop {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		if got := evaluate(t, filter, auditArch, tc.nr, tc.args...); got != want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, want)
		}
		// Other ABIs use other numbers.
		for _, arch := range []uint32{unix.AUDIT_ARCH_I386, 0} {
			if got := evaluate(t, filter, arch, tc.nr, tc.args...); got != unix.SECCOMP_RET_ALLOW {
				t.Errorf("%s on architecture %#x: %#x", tc.name, arch, got)
			}
		}
		if got := evaluate(t, filter, auditArch, tc.nr|1<<30, tc.args...); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("%s on x32: %#x", tc.name, got)
		}
	}
}

func TestAssemblerRefuses(t *testing.T) {
	a := newAssembler()
	a.jumpEqual(1, "nowhere", "")
	if _, err := a.assemble(); err == nil {
		t.Error("a jump to nowhere")
	}
	a = newAssembler()
	a.label("back")
	a.ret(0)
	a.jumpEqual(1, "back", "")
	if _, err := a.assemble(); err == nil {
		t.Error("a jump back")
	}
}

func TestRanges(t *testing.T) {
	for _, limit := range []uint64{2, 3, 10, 20, 56, 57, 64, 256, 700, 701, 1024, 1 << 20, math.MaxUint64} {
		rs := DefaultRanges(limit)
		if !validRanges(rs) || uint64(rs[0].Lo) >= limit {
			t.Errorf("limit %d: %v", limit, rs)
		}
	}
	for _, bad := range [][]Range{
		nil, {{5, 5}}, {{6, 5}}, {{5, maxFD + 1}}, {{1, 5}, {7, 9}}, {{7, 9}, {8, 10}}, make([]Range, maxRanges+1),
	} {
		if validRanges(bad) {
			t.Errorf("%v", bad)
		}
	}
	var got []uint32
	candidates([]Range{{1020, maxFD}, {5, 8}}, 6, 1027, func(fd uint32) bool {
		got = append(got, fd)
		return false
	})
	want := []uint32{1023, 1022, 1021, 1020, 1024, 1025, 1026, 7, 6}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
