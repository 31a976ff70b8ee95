package route

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// knowsHosts is a half that knows whether the answer to a question of an agent's
// host can decide what a run of it waits for.
type knowsHosts interface {
	HostMayDecide(ctx context.Context, a core.Approval) bool
}

// HostMayDecide reports whether the answer of a person to a question of an agent's
// host can decide an approval, as the half says that has its run. One that does
// not know it says it with its refusal.
func (b *Backend) HostMayDecide(ctx context.Context, a core.Approval) bool {
	h, _, err := b.half(ctx, a.RunID)
	if err != nil {
		return false
	}
	if knows, ok := h.(knowsHosts); ok {
		return knows.HostMayDecide(ctx, a)
	}
	return true
}
