package gate

import (
	"context"

	"github.com/casys-ai/pml/core/oauth"
)

// Running is the flow of a server that runs, and how to wait for just that one.
func (h *Host) Running(s oauth.Server) (ended <-chan struct{}, await func(ctx context.Context, show func(url string)) error) {
	a := h.connections.running(s)
	if a == nil {
		return nil, nil
	}
	return a.done, func(ctx context.Context, show func(string)) error { return h.connections.connect(ctx, s, a, show) }
}
