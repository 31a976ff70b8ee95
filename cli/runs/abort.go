package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// AbortCmd is pml abort.
func AbortCmd(a *app.App) *cobra.Command {
	var reason string
	cmd := runCmd(a, &cobra.Command{
		Use:   "abort ID",
		Short: "Abort a run",
		Long: `Aborts a run. ID is the beginning of its ID, not its name, which a newer run may
have by now ("pml workflows ls" shows both). Calls that are under way are cancelled; what is done stays
done. An aborted run has no result of its own; pml workflows show ID --json has
what its calls returned. The audit log keeps who has aborted it, and why.`,
		Example: "  pml abort 7f3a91c2 --reason \"wrong input\"\n  pml abort @latest",
	}, func(ctx context.Context, b app.Backend, id core.ID) error {
		r, err := b.Abort(ctx, id, a.Actor(), reason)
		if err != nil {
			return err
		}
		if r.Status != api.StatusAborted {
			return report(a, r, "")
		}
		// Aborted is what was asked for: here it is a success.
		return a.Print(r, app.Line("aborted %s", id.Short()))
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why; shown with the run, and kept in the audit log")
	return cmd
}
