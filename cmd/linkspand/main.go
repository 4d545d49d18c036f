// Command linkspand is the Linux bridge and VXLAN drivers as a daemon.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/linkspan/linkspan/compat/paths"
	"github.com/linkspan/linkspan/compat/server"
)

// version is set by the Makefile.
var version = "devel"

func main() {
	var socket, state, group, level, netns string
	cmd := &cobra.Command{
		Use:           "linkspand",
		Short:         "the Linux bridge and VXLAN drivers as a daemon",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			return run(socket, state, group, level, netns)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "path of the socket (default $LINKSPAN_SOCKET, /run/linkspan/rtnl.sock, or under $XDG_RUNTIME_DIR)")
	cmd.Flags().StringVar(&state, "state-dir", "", "folder for what outlives the daemon, or none (default /var/lib/linkspan, or under $XDG_STATE_HOME)")
	cmd.Flags().StringVar(&group, "group", "", "group whose members may change devices")
	cmd.Flags().StringVar(&netns, "netns", "all", "all: serve processes in every network namespace; own: in the daemon's only")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "linkspand:", err)
		os.Exit(1)
	}
}

func run(socket, state, group, level, netns string) error {
	if netns != "all" && netns != "own" {
		return fmt.Errorf("--netns: %q is neither all nor own", netns)
	}
	var lv slog.Level
	if err := lv.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: lv}))
	path, err := paths.Socket(socket)
	if err != nil {
		return err
	}
	if _, err := paths.State(state); err != nil {
		return err
	}
	gid, err := server.GroupID(group)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	d, err := server.Start(server.Config{Socket: path, Mode: 0o660, AdminGID: gid, OwnNetns: netns == "own", Log: log})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- d.Serve() }()
	log.Info("ready", "socket", path, "version", version)
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Warn("systemd was not told", "err", err)
	}
	select {
	case s := <-stop:
		log.Info("stopping", "signal", s.String())
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
		return d.Close()
	case err := <-done:
		return err
	}
}
