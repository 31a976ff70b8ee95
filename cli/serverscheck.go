package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/casys-ai/pml/core/api"
)

func (a *app) serversCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check [NAME…]",
		Short: "Start servers and compare them with what was approved",
		Long: `Starts the servers that may be started, all or those that are named, and
compares what they run and the tools they offer with what was approved. One
that needs a decision is not started. The exit code is 0 when all are ready, 1
when one failed, and else 8 when one needs a decision.`,
		Example:           "  pml servers check\n  pml servers check files web\n  pml servers check --json",
		ValidArgsFunction: a.completeServers(true),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.checkServers(cmd.Context(), args) },
	}
}

func (a *app) checkServers(ctx context.Context, names []string) error {
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	busy := a.busy("checking servers")
	list, err := b.CheckServers(ctx, names...)
	busy.end()
	if err != nil {
		return err
	}
	if err := a.printServers(list); err != nil {
		return err
	}
	if a.human() {
		var w strings.Builder
		for _, s := range list {
			writeServer(&w, s)
		}
		if err := a.write(w.String()); err != nil {
			return err
		}
	}
	return exitOfServers(list)
}

// exitOfServers is what a check ends with: a failure weighs more than a
// decision that is missing.
func exitOfServers(list []api.ServerInfo) error {
	code := exitOK
	for _, s := range list {
		switch s.State {
		case api.ServerReady:
		case api.ServerNeeds, api.ServerNotTrusted:
			if code == exitOK {
				code = exitPending
			}
		case api.ServerFailed:
			code = exitFailed
		default: // a state that this build does not know is not ready
			code = exitFailed
		}
	}
	if code == exitOK {
		return nil
	}
	return exitStatus(code)
}
