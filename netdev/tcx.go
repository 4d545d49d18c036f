package netdev

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Return values of a tcx program (enum tcx_action_base, uapi/linux/bpf.h).
const (
	tcxNext = -1
	tcxDrop = 2
)

// Offsets in struct __sk_buff (uapi/linux/bpf.h).
const (
	skbData    = 76
	skbDataEnd = 80
)

// noIfindex is an interface index that no device has.
const noIfindex = 1<<31 - 1

// AttachIngress keeps the frames that a device receives from the host's stack,
// as the rx_handler of a bridge port does. Frames for 01:80:c2:00:00:0X still go
// there, for they are also meant for the device itself; packet sockets see all
// frames, because they come before tcx. It ends with Close, with the process or
// with the device. The error wraps EPERM or EACCES without CAP_BPF and
// CAP_NET_ADMIN, ENODEV if there is no such device, and ebpf.ErrNotSupported
// where the kernel has no tcx (before Linux 6.6). Without tcx or the right to load
// programs it is done by netfilter.
func AttachIngress(ifindex int, ns *NS) (io.Closer, error) {
	if ifindex <= 0 {
		return nil, fmt.Errorf("interface index %d is not valid: %w", ifindex, unix.ENODEV)
	}
	c, err := attachTCX(ifindex, ns)
	if err == nil || errors.Is(err, unix.ENODEV) {
		return c, err
	}
	var name string
	nerr := ns.Do(func() error {
		i, err := net.InterfaceByIndex(ifindex)
		if err == nil {
			name = i.Name
		}
		return err
	})
	if nerr == nil {
		c, nerr = attachNetfilter(ifindex, name, ns)
	}
	if nerr != nil {
		return nil, fmt.Errorf("%w (and %w)", err, nerr)
	}
	return c, nil
}

func attachTCX(ifindex int, ns *NS) (io.Closer, error) {
	prog, err := newIngressProgram()
	if err != nil {
		return nil, err
	}
	// The link keeps the program.
	defer prog.Close()
	var l link.Link
	err = ns.Do(func() (err error) {
		l, err = attach(ifindex, prog)
		return err
	})
	if err != nil {
		return nil, tcxError(fmt.Sprintf("cannot attach a tcx program to interface %d", ifindex), err)
	}
	return l, nil
}

// ProbeIngress tells why AttachIngress cannot work in ns, or nil.
func ProbeIngress(ns *NS) error {
	prog, err := newIngressProgram()
	if err != nil {
		return err
	}
	defer prog.Close()
	err = ns.Do(func() error {
		l, err := attach(noIfindex, prog)
		if err == nil {
			l.Close()
		}
		return err
	})
	if err == nil || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return tcxError("cannot attach tcx programs", err)
}

func attach(ifindex int, prog *ebpf.Program) (link.Link, error) {
	return link.AttachTCX(link.TCXOptions{
		Interface: ifindex,
		Program:   prog,
		Attach:    ebpf.AttachTCXIngress,
		// A program before it could give frames to the stack.
		Anchor: link.Head(),
	})
}

// newIngressProgram loads the program. There is no memory limit to raise: a
// kernel that has tcx accounts to the cgroup.
func newIngressProgram() (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "linkspan_port",
		Type:         ebpf.SchedCLS,
		AttachType:   ebpf.AttachTCXIngress,
		License:      "Apache-2.0",
		Instructions: ingressProgram(),
	})
	if err != nil {
		return nil, tcxError("cannot load a tcx program", err)
	}
	return prog, nil
}

// ingressProgram drops every frame but those to 01:80:c2:00:00:0X.
func ingressProgram() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, skbDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 6),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		// Byte by byte: no thought about alignment or byte order.
		asm.LoadMem(asm.R5, asm.R2, 0, asm.Byte),
		asm.JNE.Imm(asm.R5, 0x01, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 1, asm.Byte),
		asm.JNE.Imm(asm.R5, 0x80, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 2, asm.Byte),
		asm.JNE.Imm(asm.R5, 0xc2, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 3, asm.Byte),
		asm.JNE.Imm(asm.R5, 0, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 4, asm.Byte),
		asm.JNE.Imm(asm.R5, 0, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 5, asm.Byte),
		asm.JGT.Imm(asm.R5, 0x0f, "drop"),
		asm.Mov.Imm(asm.R0, tcxNext),
		asm.Return(),
		asm.Mov.Imm(asm.R0, tcxDrop).WithSymbol("drop"),
		asm.Return(),
	}
}

// tcxError makes one sentence of what went wrong.
func tcxError(what string, err error) error {
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%s because this kernel has no tcx, which came with Linux 6.6: %w", what, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s without CAP_BPF and CAP_NET_ADMIN: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
