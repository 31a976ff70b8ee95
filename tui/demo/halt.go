package demo

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Halts implements api.Halting.
func (b *Backend) Halts(context.Context) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]core.Halt{}, b.halts...), nil
}

// HaltCalls implements api.Halting: nothing moves any more, and nothing expires.
func (b *Backend) HaltCalls(_ context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.halts) == 0 {
		now := b.script.now()
		b.halts = []core.Halt{{Side: core.SideClient, By: by, At: now, Reason: reason}}
		for _, a := range b.script.approvals {
			if a.StateAt(now) == core.ApprovalOpen && a.ExpiresAt != nil {
				a.HeldMS, a.ExpiresAt = max(1, a.ExpiresAt.Sub(now).Milliseconds()), nil
			}
		}
	}
	return append([]core.Halt{}, b.halts...), nil
}

// ResumeCalls implements api.Halting.
func (b *Backend) ResumeCalls(context.Context, api.ResumeRequest) ([]core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.halts
	b.halts = nil
	for _, a := range b.script.approvals {
		if a.HeldMS > 0 {
			expires := b.script.now().Add(time.Duration(a.HeldMS) * time.Millisecond)
			a.HeldMS, a.ExpiresAt = 0, &expires
		}
	}
	return was, nil
}
