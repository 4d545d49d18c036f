// Package cli is the command line of linkspan, the launcher of the shim.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/linkspan/linkspan/compat/paths"
	"github.com/linkspan/linkspan/compat/shim"
)

// tools are the programs that linkspan runs under itself when it is called by
// their name.
func tools() []string { return []string{"bridge", "ip"} }

// Run carries out the command line args, args[0] being the name that linkspan
// was called by, and returns the exit status. It does not return if it becomes
// another command.
func Run(args []string, stdout, stderr io.Writer) int {
	if name := filepath.Base(args[0]); slices.Contains(tools(), name) {
		return report(stderr, runTool(name, args[1:]))
	}
	root := newRoot()
	root.SetArgs(args[1:])
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.Execute())
}

// report prints err, if any, and returns the exit status for it.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "linkspan: %v\n", err)
	var exit *shim.ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return 2 // usage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "linkspan",
		Short: "Run programs against linkspand instead of the kernel's bridge and VXLAN drivers",
		Long: `linkspan runs a command so that it, and everything it starts, speaks rtnetlink
with linkspand. The command needs no change.

A link named bridge or ip that points to linkspan works like the tool itself:
it runs the real one, found later in PATH, under linkspan.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(newExec(), newVersion())
	for _, name := range tools() {
		root.AddCommand(newTool(name))
	}
	return root
}

func newExec() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "exec [--socket PATH] [--] COMMAND [ARG...]",
		Short: "Run a command under linkspand",
		Long: `exec runs COMMAND with its rtnetlink traffic led to linkspand. Flags of linkspan
end at the first other argument. The exit status is COMMAND's; 127 if it does not
exist, 126 if it cannot be executed, 1 if linkspand cannot be reached.`,
		Example:               "  linkspan exec ip -d link\n  linkspan exec bash",
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no command given; usage: %s", c.UseLine())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return run(socket, shim.ExecOptions{Argv: args})
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "`path` of linkspand's socket (default $LINKSPAN_SOCKET, else /run/linkspan/rtnl.sock, without root $XDG_RUNTIME_DIR/linkspan/rtnl.sock)")
	c.Flags().SetInterspersed(false)
	return c
}

func newTool(name string) *cobra.Command {
	return &cobra.Command{
		Use:                   name + " [ARG...]",
		Short:                 "Run " + name + " of iproute2 under linkspand",
		DisableFlagParsing:    true, // they are the tool's
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return runTool(name, args)
		},
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintln(c.OutOrStdout(), "linkspan", version())
		},
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// runTool runs the real tool of a name that may be a link to this program.
func runTool(name string, args []string) error {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return &shim.ExitError{Code: 1, Err: err}
	}
	// The tools are in sbin on some systems, which users do not have in PATH.
	path := os.Getenv("PATH") + ":/usr/sbin:/sbin"
	file, err := shim.LookPath(name, path, self)
	if err != nil {
		return err
	}
	return run("", shim.ExecOptions{Argv: append([]string{name}, args...), Path: file})
}

func run(socketFlag string, o shim.ExecOptions) error {
	socket, err := paths.Socket(socketFlag)
	if err != nil {
		return &shim.ExitError{Code: 1, Err: err}
	}
	o.Socket = socket
	return shim.Exec(o)
}
