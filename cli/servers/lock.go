package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func serversLockCmd(a *app.App) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "lock [NAME…]",
		Short: "Pin the servers' packages in pml.lock",
		Long: `Finds out what each server would run, all or those that are named, and writes
it into pml.lock, so that whoever clones the workspace gets the same. Without
names it also takes out servers that the configuration no longer has. It
approves and installs nothing. With --check nothing is written, and the exit
code is 1 when pml.lock is not up to date.`,
		Example:           "  pml servers lock\n  pml servers lock files\n  pml servers lock --check   # in CI",
		ValidArgsFunction: completeServers(a, true),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			return lockServers(ctx, a, b, check, args)
		}),
	}
	cmd.Flags().BoolVar(&check, "check", false, "only compare; write nothing")
	return cmd
}

func lockServers(ctx context.Context, a *app.App, b app.Backend, check bool, names []string) error {
	busy := a.Busy("resolving packages")
	r, err := b.LockServers(ctx, check, names...)
	busy.End()
	if err != nil {
		return err
	}
	if r.Changed == nil {
		r.Changed = []string{}
	}
	if r.Servers == nil {
		r.Servers = []api.ServerInfo{}
	}
	if err := a.Print(r, func(w *strings.Builder) { writeLock(a, w, r) }); err != nil {
		return err
	}
	failed := slices.ContainsFunc(r.Servers, func(s api.ServerInfo) bool { return s.State == api.ServerFailed })
	stale := len(r.Changed) > 0 && !r.Written
	if stale {
		a.Note("next: %s", layout.ShellJoin(append([]string{"pml", "servers", "lock"}, names...)))
	}
	if r.Written {
		if t, err := b.Trust(ctx); err == nil && !t.Trusted && !t.Empty {
			a.Note("next: pml trust")
		}
	}
	if failed || stale {
		return app.ExitStatus(app.ExitFailed)
	}
	return nil
}

func writeLock(a *app.App, w *strings.Builder, r api.LockReport) {
	file, said := core.Visible(r.File, 0, false), []string{}
	if there := slices.DeleteFunc(slices.Clone(r.Changed), func(name string) bool { return slices.Contains(r.Gone, name) }); len(there) > 0 {
		said = append(said, strings.Join(there, ", "))
	}
	if len(r.Gone) > 0 && r.Written {
		said = append(said, "taken out "+strings.Join(r.Gone, ", "))
	} else if len(r.Gone) > 0 {
		said = append(said, "the configuration no longer has "+strings.Join(r.Gone, ", "))
	}
	names := core.Visible(strings.Join(said, "; "), 0, false)
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
			writeServer(a, w, s)
		}
	}
}
