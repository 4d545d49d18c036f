// Command linkspan runs programs with their rtnetlink traffic led to linkspand.
package main

import (
	"os"
	"runtime"

	"github.com/linkspan/linkspan/compat/cli"
)

// The main thread is the one that has to become the command, see shim.Exec.
func init() { runtime.LockOSThread() }

func main() { os.Exit(cli.Run(os.Args, os.Stdout, os.Stderr)) }
