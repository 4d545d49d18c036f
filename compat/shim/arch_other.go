//go:build !amd64 && !arm64

package shim

// auditArch zero: the shim does not know this architecture's system calls.
// [Exec] says so and installs nothing.
const auditArch = 0
