// Package compat_test checks what holds for the tree as a whole.
package compat_test

import (
	"os/exec"
	"strings"
	"testing"
)

// layers are the packages from the bottom up; a package imports only lower ones.
// Packages of one layer do not import each other.
var layers = [][]string{
	{"nlattr", "uapi"},
	{"fdb"},
	{"notify", "netdev"},
	{"netdev/fake"},
	{"bridge", "vxlan"},
	{"rtnl"},
	{"rtnl/rtnltest"},
	{"compat/paths", "compat/kernel"},
	{"compat/shim"},
	{"compat/server", "compat/cli"},
	{"cmd/linkspand", "cmd/linkspan"},
}

const module = "github.com/linkspan/linkspan/"

func TestImportsGoDownwards(t *testing.T) {
	level := map[string]int{}
	for i, l := range layers {
		for _, p := range l {
			level[p] = i
		}
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Fields(line)
		from := strings.TrimPrefix(f[0], module)
		at, known := level[from]
		if !known {
			if len(f) > 1 {
				t.Errorf("package %s is in no layer", from)
			}
			continue
		}
		seen++
		for _, imp := range f[1:] {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if l, ok := level[to]; !ok || l >= at {
				t.Errorf("%s imports %s, which is not below it", from, to)
			}
		}
	}
	if seen < len(level) {
		t.Errorf("only %d of %d packages exist", seen, len(level))
	}
}
