package service

import (
	"context"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// SetParkAfter sets how long a waiting run of a server stays in memory.
func SetParkAfter(c *Service, d time.Duration) { c.parkAfter = d }

// Reregister makes the process a runner again, for somebody who has seen that one was lost.
func Reregister(ctx context.Context, c *Service, lost store.Runner) (store.Runner, error) {
	return c.reregister(ctx, lost)
}

// Held counts the runs in memory.
func Held(c *Service) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine == nil {
		return 0
	}
	return c.engine.Running()
}

// AsksAs labels a server's question.
func AsksAs(server string, question json.RawMessage) (json.RawMessage, error) {
	return asksAs(server, question)
}

// VisibleJSON shows what texts hide.
func VisibleJSON(raw json.RawMessage) json.RawMessage { return visible(raw) }

// Present is how a run that was read from the store stands.
func Present(ctx context.Context, c *Service, run core.Run) core.Run { return c.present(ctx, run) }
