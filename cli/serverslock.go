package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) serversLockCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "lock [NAME…]",
		Short: "Pin the servers' packages in pml.lock",
		Long: `Finds out what each server would run, all or those that are named, and writes
it into pml.lock, so that whoever clones the workspace gets the same. It
approves and installs nothing. With --check nothing is written, and the exit
code is 1 when pml.lock is not up to date.`,
		Example:           "  pml servers lock\n  pml servers lock files\n  pml servers lock --check   # in CI",
		ValidArgsFunction: a.completeServers(true),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.lockServers(cmd.Context(), check, args) },
	}
	cmd.Flags().BoolVar(&check, "check", false, "only compare; write nothing")
	return cmd
}

func (a *app) lockServers(ctx context.Context, check bool, names []string) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	busy := a.busy("resolving packages")
	r, err := b.LockServers(ctx, check, names...)
	busy.end()
	if err != nil {
		return err
	}
	if r.Changed == nil {
		r.Changed = []string{}
	}
	if r.Servers == nil {
		r.Servers = []api.ServerInfo{}
	}
	if err := a.print(r, func(w *strings.Builder) { writeLock(w, r) }); err != nil {
		return err
	}
	failed := slices.ContainsFunc(r.Servers, func(s api.ServerInfo) bool { return s.State == api.ServerFailed })
	stale := len(r.Changed) > 0 && !r.Written
	if stale {
		a.note("next: %s", shellJoin(append([]string{"pml", "servers", "lock"}, names...)))
	}
	if r.Written {
		if t, err := b.Trust(ctx); err == nil && !t.Trusted && !t.Empty {
			a.note("next: pml trust")
		}
	}
	if failed || stale {
		return exitStatus(exitFailed)
	}
	return nil
}

func writeLock(w *strings.Builder, r api.LockReport) {
	file, names := core.Visible(r.File, 0, false), core.Visible(strings.Join(r.Changed, ", "), 0, false)
	switch {
	case r.Written:
		fmt.Fprintf(w, "wrote %s: %s\n", file, names)
	case len(r.Changed) > 0:
		fmt.Fprintf(w, "%s is not up to date: %s\n", file, names)
	default:
		fmt.Fprintf(w, "%s is up to date\n", file)
	}
	for _, s := range r.Servers {
		if s.State == api.ServerFailed {
			writeServer(w, s)
		}
	}
}
