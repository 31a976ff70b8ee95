package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) serversRmCmd() *cobra.Command {
	var purge bool
	var f changeFlags
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a server from the configuration",
		Long: `Removes a server from the file that names it; the change is shown first. With
--purge also what this machine keeps of it: its credentials, what is pinned of
it, and installed packages that no other server uses. --purge works for a server
that is no longer configured as well.`,
		Example:           "  pml servers rm files\n  pml servers rm files --purge --yes",
		Args:              exactArgs("NAME"),
		ValidArgsFunction: a.completeServers(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeServer(cmd.Context(), args[0], purge, f)
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove what this machine keeps of it")
	addChangeFlags(cmd, &f, true)
	return cmd
}

func (a *app) removeServer(ctx context.Context, name string, purge bool, f changeFlags) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	shown := shellQuote(core.Visible(name, 0, false))
	p := &proposal{ask: "remove " + shown + "?", again: a.withFlags("--yes")}
	p.ChangeSet, err = b.RemoveServer(ctx, name)
	// A kill between the two steps leaves a server that is purged only.
	gone := purge && core.CodeOf(err) == core.CodeNoSuchTool
	switch {
	case err != nil && !gone:
		return err
	case purge:
		p.ask = "remove " + shown + ", with its credentials and its packages on this machine?"
	}
	if gone {
		a.note("note: %s is not configured; --purge removes what this machine keeps of it", shown)
		if !f.yes {
			err = a.agreeToChange(ctx, p)
		} else {
			err = nil
		}
	} else {
		err = a.propose(ctx, b, p, f)
	}
	if err == nil && purge {
		err = a.purge(ctx, b, name, p)
	}
	return a.concluded(p, err)
}

// purge removes what this machine keeps of a server. That may rewrite pml.lock,
// which trust covers.
func (a *app) purge(ctx context.Context, b Backend, name string, p *proposal) error {
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

func writeRemoved(w *strings.Builder, r api.Removed) {
	for _, t := range r.Trees {
		fmt.Fprintf(w, "removed %s\n", core.Visible(t, 0, false))
	}
	if len(r.Trees) > 0 {
		fmt.Fprintf(w, "%s freed\n", size(r.Bytes))
	}
	for _, k := range r.Kept {
		fmt.Fprintf(w, "kept: %s\n", core.Visible(k, 0, false))
	}
	if len(r.Trees)+len(r.Kept) == 0 {
		fmt.Fprintf(w, "no package of %s is installed on this machine\n", core.Visible(r.Name, 0, false))
	}
}
