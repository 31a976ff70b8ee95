package demo

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Halts implements api.Halting.
func (b *Backend) Halts(context.Context) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]core.Halt{}, b.halts...), nil
}

// HaltCalls implements api.Halting. The demonstration goes on: it calls nothing.
func (b *Backend) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.halts) == 0 {
		b.halts = []core.Halt{{Side: core.SideClient, By: by, At: b.script.now(), Reason: reason}}
	}
	return append([]core.Halt{}, b.halts...), nil
}

// ResumeCalls implements api.Halting.
func (b *Backend) ResumeCalls(context.Context, api.ResumeRequest) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.halts
	b.halts = nil
	return was, nil
}
