package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// An agent waits for the runs that it has started, and those for people. To people the
// agent is one run: what its runs ask is asked of the agent, and decided there.

// below are the runs that a run has started and that have no outcome, and those below
// them.
func (c *view) below(ctx context.Context, run core.Run) ([]core.ID, error) {
	if !run.Starts || run.State.Final() {
		return nil, nil
	}
	records, err := c.o.Store.Journal(ctx, run.ID, 0)
	if err != nil {
		return nil, err
	}
	open := map[string]core.ID{}
	for _, r := range records {
		switch r.Kind { //nolint:exhaustive // the others are not about the beginning or the end of a run
		case core.RecordStarted:
			if id := engine.ChildOf(run.ID, r); id != "" {
				open[r.CallID] = id
			}
		case core.RecordSettled:
			delete(open, r.CallID)
		}
	}
	var out []core.ID
	for _, id := range open {
		child, err := c.o.Store.Run(ctx, id)
		if core.CodeOf(err) == core.CodeNotFound {
			continue // it is about to be started
		}
		if err != nil {
			return nil, err
		}
		out = append(out, id)
		deeper, err := c.below(ctx, child)
		if err != nil {
			return nil, err
		}
		out = append(out, deeper...)
	}
	slices.Sort(out)
	return out, nil
}

// waitingBelow are the approvals of the runs of an agent that can be decided: open ones,
// then those that have expired.
func (c *view) waitingBelow(ctx context.Context, run core.Run) ([]core.Approval, error) {
	ids, err := c.below(ctx, run)
	if err != nil {
		return nil, err
	}
	var all []core.Approval
	for _, id := range ids {
		list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return approval.Decidable(all, c.now()), nil
}

// waitingIn are the approvals that can be decided of an agent itself and of its runs.
func (c *view) waitingIn(ctx context.Context, run core.Run) ([]core.Approval, error) {
	waits, err := c.waitingBelow(ctx, run)
	if err != nil || run.State != core.RunWaiting {
		return waits, err
	}
	own, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Now: c.now()})
	return append(approval.Decidable(own, c.now()), waits...), err
}

// decidedRun is the run that a decision about an agent is about: the one of its runs
// that asks. Of any other run it is the run itself.
func (c *view) decidedRun(ctx context.Context, run core.Run, d *api.Decision) (core.Run, error) {
	if !run.Starts && run.Kind != core.KindAgent || d == nil {
		return run, nil
	}
	waits, err := c.waitingBelow(ctx, run)
	if err != nil {
		return run, err
	}
	for _, ap := range waits {
		if d.Checkpoint == "" && (d.AllOfType == "" || d.AllOfType == ap.Type) || d.Checkpoint == ap.ID {
			return c.o.Store.Run(ctx, ap.RunID)
		}
	}
	if d.Checkpoint == "" {
		return run, nil
	}
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{ID: d.Checkpoint, Now: c.now()}) // one that was decided
	if err != nil || len(list) == 0 {
		return run, err
	}
	asked, err := c.o.Store.Run(ctx, list[0].RunID)
	if err != nil {
		return run, err
	}
	if root, err := c.root(ctx, asked); err != nil || root.ID != run.ID {
		return run, err
	}
	return asked, nil
}

// root is the run that a run belongs to, above all others; of one that no agent has
// started, and that is none below another, it is the run itself.
func (c *view) root(ctx context.Context, run core.Run) (core.Run, error) {
	for run.ParentID != "" {
		parent, err := c.o.Store.Run(ctx, run.ParentID)
		if core.CodeOf(err) == core.CodeNotFound || err == nil && !run.Below() {
			return run, nil
		}
		if err != nil {
			return run, err
		}
		run = parent
	}
	return run, nil
}

// followAgent goes on with an agent and waits for it, as follow does with any run.
func (c *waiting) followAgent(ctx context.Context, id core.ID, limit time.Duration, hold bool, ok api.Status) (api.Result, error) {
	bounded, cancel := c.within(ctx, limit)
	defer cancel()
	changes, err := c.o.Store.Watch(bounded)
	if err != nil && bounded.Err() == nil {
		return api.Result{}, err
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	for {
		h, err := eng.Resume(ctx, id)
		if code := core.CodeOf(err); err != nil && code != core.CodeFenced && code != core.CodeNotWaiting {
			return api.Result{}, err
		}
		run, err := c.o.Store.Run(ctx, id)
		if err != nil || run.State.Final() {
			return c.endOf(ctx, run, err, ok)
		}
		r, stands, err := c.agentStands(ctx, run, h, hold, ok)
		if err != nil || stands {
			return r, err
		}
		if err := c.agentNews(bounded, h, changes); err != nil {
			return c.waited(bounded, id)
		}
	}
}

func (c *waiting) endOf(ctx context.Context, run core.Run, err error, ok api.Status) (api.Result, error) {
	if err != nil {
		return api.Result{}, err
	}
	return c.stored(ctx, run, ok)
}

// agentStands reports whether an agent can go no further without a person, and what is
// told of it then.
func (c *waiting) agentStands(ctx context.Context, run core.Run, h *engine.Handle, hold bool, ok api.Status) (r api.Result, stands bool, err error) {
	if run.State == core.RunWaiting && run.Halted != nil && !hold {
		r, err = c.stored(ctx, run, ok)
		return r, true, err
	}
	if h != nil {
		if s, _ := h.Status(); s.Err != nil && s.Stopped && core.CodeOf(s.Err) != core.CodeFenced {
			return r, true, core.AsError(s.Err).WithRun(run.ID)
		} else if !s.Idle && !engine.Paused(s) {
			return r, false, nil
		}
	}
	waits, err := c.waitingIn(ctx, run)
	if err == nil && len(waits) == 0 && !hold {
		return c.haltedBelow(ctx, run)
	}
	if err != nil || len(waits) == 0 {
		return r, false, err
	}
	open := slices.ContainsFunc(waits, func(a core.Approval) bool { return a.StateAt(c.now()) == core.ApprovalOpen })
	switch {
	case !open:
		return expiredResult(api.Result{WorkflowID: run.ID}, run.ID), true, nil
	case hold:
		return r, false, nil
	}
	r, err = c.stored(ctx, run, ok)
	return r, true, err
}

// haltedBelow reports whether an agent whose runs wait for no decision waits for calls to
// go on.
func (c *waiting) haltedBelow(ctx context.Context, run core.Run) (r api.Result, stands bool, err error) {
	h, err := c.base.Store.Halted(ctx)
	if err != nil || h == nil {
		return r, false, err
	}
	return haltedResult(api.Result{Kind: run.Kind}, run.ID, *h), true, nil
}

// agentNews waits until something was committed or the agent stands elsewhere. It fails
// only when the context ends.
func (c *waiting) agentNews(ctx context.Context, h *engine.Handle, changes <-chan struct{}) error {
	var moved <-chan struct{}
	if h != nil {
		_, moved = h.Status()
	}
	tick := time.NewTimer(lookForRunner)
	defer tick.Stop()
	select {
	case _, ok := <-changes:
		if !ok {
			return errors.New("the store is not watched any more")
		}
	case <-moved:
	case <-tick.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
