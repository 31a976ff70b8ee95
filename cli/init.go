package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a first .pml.json in this workspace",
		Long: `Writes a first .pml.json that grants nothing yet, with remarks on what can be
set. An existing one is left alone. Where agent hosts know MCP servers already,
it offers on a terminal to take them over, as "pml servers import" does.`,
		Example: "  pml init && $EDITOR .pml.json && pml trust",
		Args:    maxArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			path, err := b.Init(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.print(map[string]string{"path": path}, line("wrote %s", core.Visible(path, 0, false))); err != nil {
				return err
			}
			return a.offerImport(cmd.Context(), b)
		},
	}
}

// offerImport offers to take over what agent hosts know. The file is written by
// now: nothing that goes wrong here makes init fail, except what was agreed to.
func (a *app) offerImport(ctx context.Context, b Backend) error {
	imp, err := b.ImportServers(ctx, api.ImportRequest{})
	if err != nil {
		a.note("note: what agent hosts know cannot be read: %s", core.Visible(err.Error(), 2000, false))
	}
	if err != nil || imp.Empty() {
		a.note("next: pml trust --show")
		return nil
	}
	if !a.asks() {
		a.note("agent hosts know MCP servers that can be taken over")
		a.note("next: pml servers import")
		return nil
	}
	p := &proposal{Sources: imp.Sources, ChangeSet: imp.ChangeSet, ask: "take these servers over?"}
	if err := a.propose(ctx, b, p, changeFlags{}); err != nil {
		if c := core.CodeOf(err); c != core.CodeDenied && c != core.CodeAwaitingHuman {
			return err
		}
		a.note("no server was taken over")
		a.note("next: pml servers import")
		return nil
	}
	return a.concluded(p, nil, "pml", "servers", "check")
}
