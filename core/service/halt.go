package service

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// halting stops all calls of this half, and lets them go on.
type halting struct{ *view }

// Halts implements api.Halting.
func (c *halting) Halts(ctx context.Context) ([]core.Halt, error) {
	h, err := c.base.Store.Halted(ctx)
	if err != nil || h == nil {
		return nil, err
	}
	return c.sided(*h), nil
}

// HaltCalls implements api.Halting. Whoever may use this half may halt it: no call that is
// not made does harm. It waits until every process has forgotten that calls were allowed.
func (c *halting) HaltCalls(ctx context.Context, by core.Actor, reason string) ([]core.Halt, error) {
	if by == (core.Actor{}) {
		by = c.scope.By
	}
	h, err := c.base.Store.Halt(ctx, core.Halt{By: by, At: c.now(), Reason: c.reason(reason)})
	if err != nil {
		return nil, err
	}
	c.brake.forget()
	forgotten := time.NewTimer(core.HaltLease + core.HaltLease/4) // a call is sent right after it was admitted
	defer forgotten.Stop()
	select {
	case <-forgotten.C:
		return c.sided(h), nil
	case <-ctx.Done():
		return c.sided(h), core.Errorf(core.CodeCancelled, "calls are halted; stopped waiting for the last ones to have begun: %w", context.Cause(ctx))
	}
}

const maxHaltReason = 300

// reason is what somebody gives as a reason as it is kept: it stays in the audit log for
// good, so no key may get there.
func (c *halting) reason(text string) string {
	return core.OneLine(c.shownOf(c.o.Workspace.Dir).Text(text), maxHaltReason)
}

// ResumeCalls implements api.Halting. Runs that the halt has stopped in processes that are
// gone are interrupted then, and whoever takes them up goes on with them.
func (c *halting) ResumeCalls(ctx context.Context, req api.ResumeRequest) ([]core.Halt, error) {
	by := req.By
	if by == (core.Actor{}) {
		by = c.scope.By
	}
	r := core.Resumption{By: by, At: c.now(), Reason: c.reason(req.Reason), Presence: req.Presence}
	if h, err := c.base.Store.Halted(ctx); err != nil || h == nil {
		return nil, err
	}
	if by.Via == core.ViaMCP || by.Via == core.ViaElicitation {
		r.Presence = "" // an agent is no person, whatever it says
	} else if g, err := c.Setup.Pin.Guard(ctx); err != nil {
		return nil, err
	} else if g.Pin != "" && (r.Presence != "" || req.Pin != "") {
		if r.Proved, err = c.Setup.Pin.Check(ctx, req.Pin, "pml", "resume"); err != nil {
			return nil, err
		}
		if r.Presence == "" {
			r.Presence = core.PresencePin
		}
	}
	was, err := c.base.Store.LetGo(ctx, r)
	if err != nil || was == nil {
		return nil, err
	}
	return c.sided(*was), nil
}

func (c *halting) sided(h core.Halt) []core.Halt {
	h.Side = c.o.Side
	return []core.Halt{h}
}

// brake says whether calls are halted, from what the store has said at most
// core.HaltLease ago: a read for each call would cost more than many calls do.
type brake struct {
	read func(ctx context.Context) (*core.Halt, error)
	now  func() time.Time

	mu sync.Mutex
	// free is when the look began that has found calls not to be halted; zero: none has.
	free time.Time
}

// halted returns who has halted calls. It fails where that cannot be known.
func (b *brake) halted(ctx context.Context) (*core.Halt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if age := now.Sub(b.free); !b.free.IsZero() && age >= 0 && age < core.HaltLease {
		return nil, nil
	}
	b.free = time.Time{}
	h, err := b.read(ctx)
	if err == nil && h == nil {
		b.free = now
	}
	return h, err
}

// forget makes the next call look.
func (b *brake) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = time.Time{}
}

// maySend refuses a call while calls are halted.
func (b *brake) maySend(ctx context.Context) error {
	h, err := b.halted(ctx)
	if err == nil && h != nil {
		return h.Error()
	}
	return err
}

// haltedResult tells of a run that waits because calls are halted.
func haltedResult(r api.Result, id core.ID, h core.Halt) api.Result {
	r.Status, r.ErrorCode = api.StatusHalted, core.CodeHalted
	r.Reason = h.Text()
	r.Description = "all calls are " + h.Text() + "; the run waits, and nothing of it is lost: once a person lets calls go on (pml resume), continue it; do not execute it again"
	r.Next = []string{"pml", "resume"}
	if r.WorkflowID == "" {
		r.WorkflowID = id
	}
	return r
}
