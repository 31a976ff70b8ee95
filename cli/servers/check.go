package servers

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/core/api"
)

func serversCheckCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check [NAME…]",
		Short: "Start servers and compare them with what was approved",
		Long: `Starts the servers that may be started, all or those that are named, and
compares what they run and the tools they offer with what was approved. One
that needs a decision is not started. The exit code is 0 when all are ready, 1
when one failed, and else 8 when one needs a decision.`,
		Example:           "  pml servers check\n  pml servers check files web\n  pml servers check --json",
		ValidArgsFunction: completeServers(a, true),
		RunE:              a.With(func(ctx context.Context, b app.Backend, args []string) error { return checkServers(ctx, a, b, args) }),
	}
}

func checkServers(ctx context.Context, a *app.App, b app.Backend, names []string) error {
	list, err := startServers(ctx, a, b, names)
	if err != nil {
		return err
	}
	return sayChecked(a, list)
}

func startServers(ctx context.Context, a *app.App, b app.Backend, names []string) ([]api.ServerInfo, error) {
	busy := a.Busy("checking servers")
	defer busy.End()
	return b.CheckServers(ctx, names...)
}

// sayChecked prints how servers stand that were started.
func sayChecked(a *app.App, list []api.ServerInfo) error {
	if err := printServers(a, list); err != nil {
		return err
	}
	if a.Human() {
		var w strings.Builder
		for _, s := range list {
			writeServer(a, &w, s)
		}
		if err := a.Write(w.String()); err != nil {
			return err
		}
	}
	return exitOfServers(list)
}

// exitOfServers is what a check ends with: a failure weighs more than a
// decision that is missing.
func exitOfServers(list []api.ServerInfo) error {
	code := app.ExitOK
	for _, s := range list {
		switch s.State {
		case api.ServerReady:
		case api.ServerNeeds, api.ServerNotTrusted:
			if code == app.ExitOK {
				code = app.ExitPending
			}
		case api.ServerFailed:
			code = app.ExitFailed
		default: // a state that this build does not know is not ready
			code = app.ExitFailed
		}
	}
	if code == app.ExitOK {
		return nil
	}
	return app.ExitStatus(code)
}
