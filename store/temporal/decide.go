package temporal

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Decide settles an open approval, as store.Decider says. That something expired is asked
// again with the decision (Renewal.Fresh) is not there yet.
func (s *Store) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	if renew.Fresh != "" {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "an approval that has expired cannot be asked again in Temporal yet")
	}
	a, err := s.approval(ctx, d.ApprovalID)
	if err == nil && a == nil {
		err = approval.NotFound(d.ApprovalID)
	}
	if err != nil {
		return core.Approval{}, err
	}
	in := decision{Decision: d, Presence: d.Presence, RunUntil: renew.RunUntil}
	if len(a.Context) > inline {
		in.Context = a.Context
	}
	var q question
	err = s.update(ctx, s.workflowOf(a.RunID), updateDecide, a.RunID, in, &q)
	if err != nil {
		return core.Approval{}, err
	}
	out := q.Approval
	out.Context = a.Context
	s.watchers.tell(false)
	return out, nil
}

// RequestAbort implements engine.Others.
func (s *Store) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	var run core.Run
	if err := s.update(ctx, s.workflowOf(id), updateAbort, id, req, &run); err != nil {
		return core.Run{}, err
	}
	s.watchers.tell(false)
	return run, nil
}

// Halted implements engine.Others.
func (s *Store) Halted(ctx context.Context) (*core.Halt, error) {
	var h halted
	if err := s.query(ctx, s.name(haltID), queryHalted, "", &h); err != nil {
		return nil, err
	}
	s.halt.set(h.Halt)
	return h.Halt, nil
}

// Halt halts calls, as store.Halts says, save that the time of open approvals goes on.
func (s *Store) Halt(ctx context.Context, h core.Halt) (core.Halt, error) {
	h.At = h.At.UTC()
	var holds halted
	if err := s.update(ctx, s.name(haltID), updateHalt, "", h, &holds); err != nil {
		return core.Halt{}, err
	}
	s.halt.set(holds.Halt)
	return *holds.Halt, nil
}

// LetGo ends a halt and wakes all runners.
func (s *Store) LetGo(ctx context.Context, r core.Resumption) (*core.Halt, error) {
	var was halted
	if err := s.update(ctx, s.name(haltID), updateLetGo, "", resumption{Resumption: r, Presence: r.Presence}, &was); err != nil {
		return nil, err
	}
	s.halt.set(nil)
	s.watchers.tell(false)
	return was.Halt, nil
}

// recentHalt is what was read last of a halt. A step that begins a call goes by it for
// core.HaltLease: right before the call is sent the engine asks anew.
type recentHalt struct {
	clock core.Clock
	mu    sync.Mutex
	halt  *core.Halt
	at    time.Time
}

func (r *recentHalt) set(h *core.Halt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.halt, r.at = h, r.clock.Now()
}

func (r *recentHalt) last() *core.Halt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halt
}

func (r *recentHalt) get(ctx context.Context, read func(context.Context) (*core.Halt, error)) (*core.Halt, error) {
	r.mu.Lock()
	age, h := r.clock.Now().Sub(r.at), r.halt
	r.mu.Unlock()
	if age >= 0 && age < core.HaltLease {
		return h, nil
	}
	return read(ctx)
}
