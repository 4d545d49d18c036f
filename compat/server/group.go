package server

import (
	"fmt"
	"os/user"
	"strconv"
)

// GroupID finds a group by name or number; "" is -1, none.
func GroupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("--group: %w", err)
	}
	return strconv.Atoi(g.Gid)
}
