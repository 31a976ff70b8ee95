package servers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

func serversRmCmd(a *app.App) *cobra.Command {
	var purge bool
	var f changes.Flags
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a server from the configuration",
		Long: `Removes a server from the file that names it; the change is shown first. With
--purge also what this machine keeps of it: its credentials, what is pinned of
it, and installed packages that no other server uses. --purge works for a server
that is no longer configured as well.`,
		Example:           "  pml servers rm files\n  pml servers rm files --purge --yes",
		Args:              app.ExactArgs("NAME"),
		ValidArgsFunction: completeServers(a, false),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			return removeServer(ctx, a, b, args[0], purge, f)
		}),
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove what this machine keeps of it")
	changes.AddFlags(cmd, &f, true)
	return cmd
}

func removeServer(ctx context.Context, a *app.App, b app.Backend, name string, purge bool, f changes.Flags) error {
	shown := layout.ShellQuote(core.Visible(name, 0, false))
	p := &changes.Proposal{Ask: "remove " + shown + "?", Again: a.WithFlags("--yes")}
	var err error
	p.ChangeSet, err = b.RemoveServer(ctx, name)
	// A kill between the two steps leaves a server that is purged only.
	gone := purge && core.CodeOf(err) == core.CodeNoSuchTool
	switch {
	case err != nil && !gone:
		return err
	case purge:
		p.Ask = "remove " + shown + ", with its credentials and its packages on this machine?"
	}
	if gone {
		a.Note("note: %s is not configured; --purge removes what this machine keeps of it", shown)
		if !f.Yes {
			err = changes.AgreeToChange(ctx, a, p)
		} else {
			err = nil
		}
	} else {
		err = changes.Propose(ctx, a, b, p, f)
	}
	if err == nil && purge {
		err = forget(ctx, b, name, p)
	}
	return changes.Conclude(a, p, err)
}

// forget removes what this machine keeps of a server. That may rewrite pml.lock,
// which trust covers.
func forget(ctx context.Context, b app.Backend, name string, p *changes.Proposal) error {
	removed, err := b.Purge(ctx, name)
	if err != nil {
		return err
	}
	p.Removed = &removed
	t, err := b.Trust(ctx)
	if err == nil && !t.Trusted && !t.Empty {
		p.Trusted = &t.Trusted
	}
	return err
}
