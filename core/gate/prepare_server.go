package gate

import (
	"context"

	"github.com/casys-ai/pml/core/engine"
)

// PrepareServer starts the server of a tool and lists its tools, if the configuration
// and the approvals allow that now. Its next call then need not wait for it. What stands
// against it, that call will find out.
func (h *Host) PrepareServer(ctx context.Context, tool string) {
	call := engine.Call{Tool: tool}
	if e, err := h.enter(call); err == nil && !e.remote {
		_, _ = h.serverFor(e.server, call).prepare(ctx, e.set)
	}
}
