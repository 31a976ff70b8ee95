package temporal

import (
	"context"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// Decide implements store.Decider. The guard is as it was right before: one that is changed at
// the same moment may not count yet.
func (s *Store) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (core.Approval, error) {
	a, err := s.mustApproval(ctx, d.ApprovalID)
	if err != nil {
		return core.Approval{}, err
	}
	g, err := s.Guard(ctx)
	if err != nil {
		return core.Approval{}, err
	}
	in := decision{Decision: d, Presence: d.Presence, RunUntil: renew.RunUntil, Fresh: renew.Fresh, Until: renew.Until, At: s.opts.Clock.Now()}
	in.Guard, in.Proved = unnamed(g, d.Proved)
	if d.Answer != nil && d.Answer.Shape != nil { // bounds are about what was asked
		in.Context.Here = a.Context
	}
	return s.change(ctx, a, updateDecide, in)
}

// unnamed is a guard and what was proved of its PIN without what the PIN is kept as: that does
// not belong into the history of a run.
func unnamed(g core.Guard, proved string) (core.Guard, string) {
	const right, wrong = "right", "wrong"
	switch {
	case g.Pin == "":
		return g, ""
	case proved == g.Pin:
		proved = right
	case proved != "":
		proved = wrong
	}
	g.Pin = right
	return g, proved
}

// Extend implements store.Decider.
func (s *Store) Extend(ctx context.Context, id core.ID, until time.Time) (core.Approval, error) {
	a, err := s.mustApproval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	return s.change(ctx, a, updateExtend, extension{Approval: id, Until: until, At: s.opts.Clock.Now()})
}

// Renew implements store.Decider.
func (s *Store) Renew(ctx context.Context, id, fresh core.ID, now time.Time, until *time.Time, by core.Actor) (core.Approval, error) {
	if !store.ValidID(fresh) {
		return core.Approval{}, core.Errorf(core.CodeInvalidArguments, "%q cannot be an id", fresh)
	}
	a, err := s.mustApproval(ctx, id)
	if err != nil {
		return core.Approval{}, err
	}
	return s.change(ctx, a, updateRenew, renewal{Approval: id, Fresh: fresh, Until: until, By: by, Asked: now.UTC(), At: s.opts.Clock.Now()})
}

// mustApproval is one approval, core.CodeNotFound where there is none.
func (s *Store) mustApproval(ctx context.Context, id core.ID) (core.Approval, error) {
	a, err := s.approval(ctx, id)
	if err == nil && a == nil {
		err = approval.NotFound(id)
	}
	if err != nil {
		return core.Approval{}, err
	}
	return *a, nil
}

// change changes an approval, and returns it, or the one that asks the same now: both have the
// same context.
func (s *Store) change(ctx context.Context, was core.Approval, update string, arg any) (core.Approval, error) {
	var q question
	if err := s.update(ctx, s.workflowOf(was.RunID), update, was.RunID, arg, &q); err != nil {
		return core.Approval{}, err
	}
	s.recent.meetAsked(&q)
	s.watchers.tell(false)
	out := q.Approval
	out.Context = was.Context
	return out, nil
}

// RequestAbort implements store.RunChanger.
func (s *Store) RequestAbort(ctx context.Context, id core.ID, req core.AbortRequest) (core.Run, error) {
	return s.changeRun(ctx, id, updateAbort, abortion{Request: req, At: s.opts.Clock.Now()})
}

// Replan implements store.RunChanger. Whether the run's runner is dead is asked before; one that
// is never lives again.
func (s *Store) Replan(ctx context.Context, id core.ID, program core.Program, by core.Actor, event core.Event) (core.Run, error) {
	run, err := s.Run(ctx, id)
	if err != nil {
		return core.Run{}, err
	}
	in := replan{Version: program.Version, At: s.opts.Clock.Now()}
	if program.Plan != nil {
		in.Layers = new(len(program.Plan.Layers))
	}
	if run.State == core.RunRunning {
		alive, err := s.Alive(ctx, run.Runner)
		if err != nil {
			return core.Run{}, err
		}
		if !alive {
			in.Dead = run.Runner
		}
	}
	if in.Program, err = awayJSON(s.blobsOf(id), &program); err != nil {
		return core.Run{}, err
	}
	if in.Event, err = approval.ReplanEvent(event, program, by, in.At); err != nil {
		return core.Run{}, err
	}
	return s.changeRun(ctx, id, updateReplan, in)
}

// changeRun changes a run that somebody else may be running, and returns it.
func (s *Store) changeRun(ctx context.Context, id core.ID, update string, arg any) (core.Run, error) {
	if err := s.update(ctx, s.workflowOf(id), update, id, arg, nil); err != nil {
		return core.Run{}, err
	}
	s.watchers.tell(false)
	return s.Run(ctx, id)
}

// Expire implements store.Decider. There is nothing left to record: the workflow of each run records
// what expires when it does (awaitFull).
func (s *Store) Expire(context.Context, time.Time) (int, error) { return 0, nil }

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

// LetGo ends a halt and wakes all runners. One that has begun since it was looked at stays.
func (s *Store) LetGo(ctx context.Context, r core.Resumption) (*core.Halt, error) {
	g, err := s.Guard(ctx)
	if err != nil {
		return nil, err
	}
	is, err := s.Halted(ctx)
	if err != nil {
		return nil, err
	}
	in := resumption{Resumption: r, Presence: r.Presence}
	if is != nil {
		in.Of = is.At
	}
	in.Guard, in.Proved = unnamed(g, r.Proved)
	var was halted
	if err := s.update(ctx, s.name(haltID), updateLetGo, "", in, &was); err != nil {
		return nil, err
	}
	if was.Halt != nil {
		s.halt.set(nil)
	}
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
