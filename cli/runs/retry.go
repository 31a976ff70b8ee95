package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// RetryCmd is pml retry.
func RetryCmd(a *app.App) *cobra.Command {
	var wait WaitFlags
	cmd := runCmd(a, &cobra.Command{
		Use:   "retry ID",
		Short: "Run the failed tasks of a run again, and what depends on them",
		Long: `Runs the failed tasks of a failed run again, and the tasks that depend on them;
everything else keeps its result. What a person denied is asked again. It takes
the ID of the run, not its name, which a newer run may have by now.

Retry runs the program as it was started, also where you have corrected its file
since: "pml run FILE" runs the file as it is now, as a new run. At a terminal you are
asked first where the file is another one by now.`,
		Example: "  pml retry 7f3a91c2\n  pml retry @latest --wait 30s",
		PreRunE: func(cmd *cobra.Command, _ []string) error { return wait.Check(a, cmd, false) },
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		file := noteChanged(ctx, a, b, id)
		if err := asItWas(ctx, a, file); err != nil {
			return err
		}
		startCounting(ctx, a, b, id)
		r, err := b.Retry(ctx, id, a.Actor(), wait.Limit(a))
		r, err = Held(ctx, a, b, r, err, wait)
		return runsFile(Settle(ctx, a, b, r, err, wait), file)
	})
	AddWaitFlags(cmd, &wait, true)
	return cmd
}
