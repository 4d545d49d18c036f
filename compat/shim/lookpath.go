package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LookPath finds the file that a shell would execute for the command name, path
// being the value of $PATH. Files that are the same as skip, after following
// links, are passed over; skip may be nil. The error is an [ExitError].
func LookPath(name, path string, skip os.FileInfo) (string, error) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range filepath.SplitList(path) {
			if dir == "" {
				dir = "."
			}
			candidates = append(candidates, dir+"/"+name)
		}
	}
	denied := ""
	for _, file := range candidates {
		st, err := os.Stat(file)
		if err != nil || skip != nil && os.SameFile(st, skip) {
			continue
		}
		if st.IsDir() || unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) != nil {
			if denied == "" {
				denied = file
			}
			continue
		}
		return file, nil
	}
	if denied != "" {
		return "", &ExitError{126, fmt.Errorf("cannot execute %s: permission denied", denied)}
	}
	return "", &ExitError{127, fmt.Errorf("%s: command not found", name)}
}
