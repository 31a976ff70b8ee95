package servers

import (
	"context"
	"slices"
	"strings"

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
		Use:     "rm NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove servers from the configuration",
		Long: `Removes servers, each from the file that names it; the change is shown first. If
one of several is not configured, pml removes none of them. With --purge pml also
removes what this machine keeps of them: credentials, what is pinned of them, and
installed packages that no other server uses. --purge works for a server that is
no longer configured as well.`,
		Example:           "  pml servers rm files\n  pml servers rm files memory\n  pml servers rm files --purge --yes",
		Args:              app.AtLeastOne("NAME"),
		ValidArgsFunction: completeServers(a, true),
		RunE: a.With(func(ctx context.Context, b app.Backend, args []string) error {
			return removeServers(ctx, a, b, slices.Compact(slices.Sorted(slices.Values(args))), purge, f)
		}),
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove what this machine keeps of them")
	changes.AddFlags(cmd, &f, true)
	return cmd
}

func removeServers(ctx context.Context, a *app.App, b app.Backend, names []string, purge bool, f changes.Flags) error {
	p := &changes.Proposal{Ask: "remove " + shownNames(names) + "?", Again: a.WithFlags("--yes")}
	configured, gone := names, []string(nil)
	var err error
	if purge {
		kept := "its credentials and its packages"
		if len(names) > 1 {
			kept = "their credentials and their packages"
		}
		p.Ask = "remove " + shownNames(names) + ", with " + kept + " on this machine?"
		if configured, gone, err = stillConfigured(ctx, b, names); err != nil {
			return err
		}
	}
	for _, name := range gone {
		a.Note("note: %s is not configured; --purge removes what this machine keeps of it", shownNames([]string{name}))
	}
	switch {
	case len(configured) > 0:
		if p.ChangeSet, err = b.RemoveServers(ctx, configured...); err != nil {
			return err
		}
		err = changes.Propose(ctx, a, b, p, f)
	case !f.Yes:
		err = changes.AgreeToChange(ctx, a, p)
	}
	if err == nil && purge {
		err = forget(ctx, b, names, p)
	}
	return changes.Conclude(a, p, err)
}

// stillConfigured splits names into those that the configuration has and the others: a kill
// between the two steps of a removal leaves servers that are purged only.
func stillConfigured(ctx context.Context, b app.Backend, names []string) (configured, gone []string, err error) {
	for _, name := range names {
		_, err := b.RemoveServers(ctx, name)
		switch {
		case err == nil:
			configured = append(configured, name)
		case core.CodeOf(err) == core.CodeNoSuchTool:
			gone = append(gone, name)
		default:
			return nil, nil, err
		}
	}
	return configured, gone, nil
}

func shownNames(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = layout.ShellQuote(core.Visible(name, 0, false))
	}
	return strings.Join(out, ", ")
}

// forget removes what this machine keeps of servers. That may rewrite pml.lock,
// which trust covers.
func forget(ctx context.Context, b app.Backend, names []string, p *changes.Proposal) error {
	for _, name := range names {
		removed, err := b.Purge(ctx, name)
		if err != nil {
			return err
		}
		p.Removed = append(p.Removed, removed)
	}
	t, err := b.Trust(ctx)
	if err == nil && !t.Trusted && !t.Empty {
		p.Trusted = &t.Trusted
	}
	return err
}
