package route

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// hearer is a half that knows whether the answer to a question of an agent's
// host can decide what a run of it waits for.
type hearer interface {
	HearsHosts(ctx context.Context, a core.Approval) bool
}

// HearsHosts reports whether the answer of a person to a question of an agent's
// host can decide an approval, as the half says that has its run. One that does
// not know it says it with its refusal.
func (b *Backend) HearsHosts(ctx context.Context, a core.Approval) bool {
	h, _, err := b.half(ctx, a.RunID)
	if err != nil {
		return false
	}
	if knows, ok := h.(hearer); ok {
		return knows.HearsHosts(ctx, a)
	}
	return true
}
