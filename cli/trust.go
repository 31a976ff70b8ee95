package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/changes"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

func trustCmd(a *app.App) *cobra.Command {
	var show, yes, full bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "See and trust what this workspace's files grant",
		Long: `Shows what the files of a workspace grant (servers to start, tools to allow) and
asks you to trust exactly that content on this machine. Nothing that they grant
counts before. What they forbid counts at once, and removing it (deny, ask,
readonly, decider, a limit) needs your trust, too: until then the old and the new
restrictions both hold.

After a change pml asks again and shows what changed. It shows the digests of
pml.lock and of flows, and counts what is in them; --full shows every line. If a
PIN is set ("pml config pin"), pml asks for it, also with --yes. If only people may
decide (approvals.decider is human), --yes needs the PIN.`,
		Example: "  pml trust --show\n  pml trust --show --full\n  pml trust\n  pml trust --yes   # in scripts",
		Args:    app.MaxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show && yes {
				return app.Usagef("--show only looks; it does not go with --yes")
			}
			return trust(cmd.Context(), a, show, yes, full)
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "show what is granted; change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "trust without asking")
	a.AddPinFD(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "show every line of it")
	return cmd
}

func trust(ctx context.Context, a *app.App, show, yes, full bool) error {
	b, err := a.Backend(ctx)
	if err != nil {
		return err
	}
	t, err := b.Trust(ctx)
	if err != nil {
		return err
	}
	if show || t.Trusted || t.Empty && len(t.TakenOut) == 0 {
		if err := a.Print(t, func(w *strings.Builder) {
			var text strings.Builder
			_ = changes.WriteTrust(&text, t, full)
			w.WriteString(layout.Diff(text.String(), a.Colour()))
		}); err != nil || show || !t.Trusted || !a.Human() {
			return err
		}
		a.Note("this is trusted already: there is nothing to decide")
		return nil
	}
	if err := changes.Trust(ctx, a, b, t, yes, full); err != nil {
		return err
	}
	t.Trusted = true
	return a.Print(t, app.Line("trusted %s", core.Visible(t.Workspace, 0, false)))
}
