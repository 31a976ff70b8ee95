package service

import (
	"context"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Continue decides, if a decision is given, and goes on with the run: its own
// process does when it lives, otherwise this one takes it over.
func (c *execution) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, req.ID)
	if err != nil {
		c.trail.UnknownRun(ctx, req, err)
		return api.Result{}, err
	}
	r, err := c.goOn(ctx, run, req)
	return c.noticed(ctx, run.Workspace, r, err)
}

// goOn is Continue of a run that is there.
func (c *execution) goOn(ctx context.Context, run core.Run, req api.ContinueRequest) (api.Result, error) {
	if err := c.continuable(run); err != nil {
		return api.Result{}, err
	}
	if req.Decision == nil {
		if run.State.Final() {
			return c.waiting.follow(ctx, run.ID, nil, req.Wait, req.HoldApprovals, api.StatusComplete)
		}
		if err := c.askBelow(ctx, run, req.By); err != nil {
			return api.Result{}, err
		}
		var passed []core.ID
		if !req.Follow {
			pause, err := c.decisions.passPause(ctx, run, req.By)
			if err != nil {
				return api.Result{}, err
			}
			if pause != nil {
				passed = []core.ID{pause.ID}
			}
		}
		return c.waiting.follow(ctx, run.ID, passed, req.Wait, req.HoldApprovals, api.StatusComplete)
	}
	if req.Decision.More != nil {
		return c.extend(ctx, run, req)
	}
	run, err := c.decidedRun(ctx, run, req.Decision)
	if err != nil {
		return api.Result{}, err
	}
	show := c.shownOf(run.Workspace)
	decided, err := c.decisions.decide(ctx, run, req)
	if err != nil {
		c.trail.RefusedDecision(ctx, run, req, err)
		return api.Result{}, show.Error(core.AsError(err))
	}
	ids := make([]core.ID, len(decided))
	for i, ap := range decided {
		ids[i] = ap.ID
	}
	if run, err = c.root(ctx, run); err != nil {
		return api.Result{}, err
	}
	r, err := c.waiting.follow(ctx, run.ID, ids, req.Wait, req.HoldApprovals, api.StatusComplete)
	if err == nil && r.ErrorCode == core.CodeApprovalExpired {
		r = c.askRest(ctx, r, ids, req)
	}
	if err == nil && len(decided) == 1 {
		r.Decided = show.Decided(decided[0].DecidedBy)
	}
	return r, err
}

// askRest asks again what else a run waits for, once the run has done what was decided: those questions have expired
// meanwhile, as while a server was installed, and whoever decided is there. The decision stands whatever happens here:
// where the run cannot ask, r, which names the command that asks, is the result.
func (c *execution) askRest(ctx context.Context, r api.Result, decided []core.ID, req api.ContinueRequest) api.Result {
	run, err := c.o.Store.Run(ctx, r.WorkflowID)
	if err == nil {
		err = c.askBelow(ctx, run, req.By)
	}
	if err == nil {
		var asked api.Result
		if asked, err = c.waiting.follow(ctx, run.ID, decided, req.Wait, req.HoldApprovals, api.StatusComplete); err == nil {
			return asked
		}
	}
	c.o.Logger.Warn("what has expired is not asked again", "workflow_id", r.WorkflowID, "error", err)
	return r
}

// askBelow asks again what has expired of a run and, of an agent, of its runs.
func (c *execution) askBelow(ctx context.Context, run core.Run, by core.Actor) error {
	ids, err := c.below(ctx, run)
	if err != nil {
		return err
	}
	for _, id := range ids {
		child, err := c.o.Store.Run(ctx, id)
		if err != nil {
			return err
		}
		if err := c.decisions.askAgain(ctx, child, by); err != nil {
			return err
		}
	}
	return c.decisions.askAgain(ctx, run, by)
}

// continuable refuses a run that has expired.
func (c *execution) continuable(run core.Run) error {
	now := c.now()
	expired := run.State == core.RunExpired || !run.State.Final() && run.State != core.RunRunning && run.ExpiresAt != nil && !now.Before(*run.ExpiresAt)
	if expired {
		return core.Errorf(core.CodeWorkflowExpired, "the run %s expired at %s, for good; execute it again", run.ID.Short(), stamp(run.ExpiresAt, run.UpdatedAt)).
			WithRun(run.ID).WithNext("pml", "workflows", "show", run.ID.Short())
	}
	return nil
}

func stamp(t *time.Time, otherwise time.Time) string {
	if t == nil {
		t = &otherwise
	}
	return t.UTC().Format(time.RFC3339)
}
