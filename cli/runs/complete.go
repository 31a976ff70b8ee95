package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core"
)

// completeRuns completes the first argument with recent runs.
func completeRuns(a *app.App) app.Completer {
	return app.CompleteFirst(func(ctx context.Context) ([]string, error) {
		b, err := a.PassiveBackend(ctx)
		if err != nil {
			return nil, err
		}
		page, err := b.Workflows(ctx, nil, 50, "")
		out := []string{"@latest"}
		for _, r := range page.Items {
			out = append(out, r.ID.Short()+"\t"+string(r.State)+" "+core.OneLine(r.Title(), 40))
		}
		return out, err
	})
}

// completeRun completes the value of a flag with recent runs.
func completeRun(a *app.App) app.Completer {
	return func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return completeRuns(a)(cmd, nil, text)
	}
}

// completeApprovals completes the first argument with what waits.
func completeApprovals(a *app.App) app.Completer {
	return app.CompleteFirst(func(ctx context.Context) ([]string, error) {
		b, err := a.PassiveBackend(ctx)
		if err != nil {
			return nil, err
		}
		list, err := b.Approvals(ctx, false)
		var out []string
		for _, p := range list {
			out = append(out, p.ID.Short()+"\t"+string(p.Type)+" "+core.Visible(p.Tool, 60, false))
		}
		return out, err
	})
}
