package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) retryCmd() *cobra.Command {
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run the failed tasks of a run again, and what depends on them",
		Long: `Takes up a failed run: its failed tasks and those that depend on them run
again, nothing else does. What a person denied is asked again.`,
		Example:           "  pml retry 7f3a91c2\n  pml retry @latest --wait 30s",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wait.check(a, cmd, false); err != nil {
				return err
			}
			return a.retry(cmd.Context(), args[0], wait)
		},
	}
	a.addWaitFlags(cmd, &wait, true)
	return cmd
}

func (a *app) retry(ctx context.Context, text string, wait waitFlags) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	id, err := a.resolveRun(ctx, b, text)
	if err != nil {
		return err
	}
	a.progress.start()
	r, err := b.Retry(ctx, id, a.actor(), wait.limit(a))
	r, err = a.held(ctx, b, r, err, wait)
	return a.settle(ctx, b, r, err, wait)
}
