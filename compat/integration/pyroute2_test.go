package integration_test

import (
	"strings"
	"testing"
)

// TestPyroute2 runs a script of pyroute2's, which polls and reads on threads of
// its own. It has to get along with the kernel too.
func TestPyroute2(t *testing.T) {
	py := python(t, "pyroute2", "python3-pyroute2")
	for _, kind := range []string{"linkspan", "kernel"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "kernel" {
				needKernelVXLAN(t)
				needKernelBridge(t)
			}
			v := newVTEP(t, kind)
			veth(t, v.netns, "p1", v.netns, "p2")
			argv := []string{py, "testdata/pyroute2_walk.py"}
			if v.d != nil {
				argv = v.d.shimArgs(argv...)
			}
			r := v.exec(t, argv, nil)
			if r.code != 0 || !strings.HasSuffix(r.out, "ok\n") {
				t.Fatalf("exit status %d\n%s%s", r.code, r.out, r.err)
			}
			if err := leftDevices(v.netns); err != nil {
				t.Error(err)
			}
		})
	}
}
