package service

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// HearsHosts reports whether the answer of a person to a question of an agent's
// host can decide an approval. It cannot where a PIN is needed, which
// is not typed into a host's form, nor where people decide and the host is not
// trusted with it. What cannot be read hears nobody: the decision would be
// refused.
func (c *decisions) HearsHosts(ctx context.Context, a core.Approval) bool {
	if pin, err := c.Setup.Pin.NeedsPin(ctx); err != nil || pin {
		return false
	}
	run, err := c.o.Store.Run(ctx, a.RunID)
	if err != nil {
		return false
	}
	cfg, err := c.configOf(run.Workspace)
	return err == nil && (cfg.Approvals.Decider != env.DeciderHuman || cfg.Approvals.TrustHost)
}
