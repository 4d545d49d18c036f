package shim

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// BenchmarkRequest is one request and its reply by a client in C, under the
// shim and against the kernel (which has more to tell about lo).
func BenchmarkRequest(b *testing.B) {
	client := compile(b, "gcc")
	b.Run("shim", func(b *testing.B) {
		d := startDaemon(b)
		benchmark(b, d.command(client, "speed"))
	})
	b.Run("kernel", func(b *testing.B) {
		benchmark(b, exec.Command(client, "speed"))
	})
}

// BenchmarkStart is a command that does nothing.
func BenchmarkStart(b *testing.B) {
	d := startDaemon(b)
	for b.Loop() {
		if err := d.command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmark(b *testing.B, c *exec.Cmd) {
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "N="+strconv.Itoa(b.N))
	b.ResetTimer()
	if out, err := c.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}
