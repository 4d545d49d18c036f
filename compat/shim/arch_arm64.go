package shim

import "golang.org/x/sys/unix"

// auditArch is the AUDIT_ARCH_* value of native system calls
// (uapi/linux/audit.h). Calls of any other ABI, 32-bit ones among them, have
// other numbers and are let through.
const auditArch = unix.AUDIT_ARCH_AARCH64
