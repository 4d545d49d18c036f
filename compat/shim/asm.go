package shim

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (uapi/linux/seccomp.h), which is what a
// seccomp filter reads instead of a packet, in native byte order.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// An assembler builds a classic BPF program whose jumps name labels. Jumps only
// go forward, as classic BPF demands.
type assembler struct {
	code   []insn
	labels map[string]int
}

// An insn is one instruction; an empty label in jt or jf means the next one.
type insn struct {
	op     uint16
	k      uint32
	jt, jf string
}

func newAssembler() *assembler { return &assembler{labels: make(map[string]int)} }

// label names the instruction that is added next.
func (a *assembler) label(name string) { a.labels[name] = len(a.code) }

func (a *assembler) load(off uint32) {
	a.code = append(a.code, insn{op: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, k: off})
}

// loadArg loads the low half of a system call's argument: descriptors, lengths
// and option numbers are ints, of which the kernel ignores the rest too.
func (a *assembler) loadArg(i uint32) { a.load(dataArgs + 8*i) }

// loadArgHigh loads the high half of an argument (little-endian machines).
func (a *assembler) loadArgHigh(i uint32) { a.load(dataArgs + 8*i + 4) }

func (a *assembler) jumpEqual(k uint32, jt, jf string) {
	a.code = append(a.code, insn{op: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, k: k, jt: jt, jf: jf})
}

// jumpAtLeast compares as unsigned numbers.
func (a *assembler) jumpAtLeast(k uint32, jt, jf string) {
	a.code = append(a.code, insn{op: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, k: k, jt: jt, jf: jf})
}

func (a *assembler) ret(k uint32) {
	a.code = append(a.code, insn{op: unix.BPF_RET | unix.BPF_K, k: k})
}

// assemble resolves the labels. An error is a mistake in the program's text.
func (a *assembler) assemble() ([]unix.SockFilter, error) {
	out := make([]unix.SockFilter, len(a.code))
	for i, in := range a.code {
		jt, err := a.offset(i, in.jt)
		if err != nil {
			return nil, err
		}
		jf, err := a.offset(i, in.jf)
		if err != nil {
			return nil, err
		}
		out[i] = unix.SockFilter{Code: in.op, Jt: jt, Jf: jf, K: in.k}
	}
	return out, nil
}

func (a *assembler) offset(from int, label string) (uint8, error) {
	if label == "" {
		return 0, nil
	}
	to, ok := a.labels[label]
	if !ok {
		return 0, fmt.Errorf("shim: filter jumps to the unknown label %q", label)
	}
	d := to - from - 1
	if d < 0 || d > 255 {
		return 0, fmt.Errorf("shim: filter cannot jump from %d to %q at %d", from, label, to)
	}
	return uint8(d), nil
}
