package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core/api"
)

func (a *app) abortCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "abort ID",
		Short: "Abort a run",
		Long: `Aborts a run. Calls that are under way are cancelled; what is done stays
done, and its results stay readable.`,
		Example:           `  pml abort 7f3a91c2 --reason "wrong input"`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.abort(cmd.Context(), args[0], reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the audit log")
	return cmd
}

func (a *app) abort(ctx context.Context, text, reason string) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, err := a.resolveRun(ctx, b, text)
	if err != nil {
		return err
	}
	r, err := b.Abort(ctx, id, a.actor(), reason)
	if err != nil {
		return err
	}
	if r.Status != api.StatusAborted {
		return a.report(r)
	}
	// Aborted is what was asked for: here it is a success.
	return a.print(r, line("aborted %s", id.Short()))
}
