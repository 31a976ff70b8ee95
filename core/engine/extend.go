package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Extend takes an agent up again that has stopped because it had used up what it was given,
// and gives it more, by a decision that the store permits (store.Step.Given). The program with
// it, the state of the run and the row of the audit log are one transaction with that.
func (e *Engine) Extend(ctx context.Context, id core.ID, more core.AgentMore, by core.Decision) (_ *Handle, err error) {
	h, done, err := e.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	if h != nil {
		return nil, core.Errorf(core.CodeNotWaiting, "the agent %s runs already; it can be given more once it has used up what it has", id.Short()).WithRun(id)
	}
	defer done()
	run, err := e.opts.Store.Claim(ctx, id, e.Runner())
	if err != nil {
		return nil, err
	}
	defer e.recovered(run, &err)
	program, err := e.opts.Store.Program(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := Extendable(run, program, more); err != nil {
		return nil, err
	}
	spec := *program.Agent
	spec.More = append(slices.Clone(spec.More), more)
	program.Agent = &spec
	a, err := e.newActor(run, program)
	if err != nil {
		return nil, err
	}
	if err := a.load(ctx); err != nil {
		return nil, err
	}
	a.run.State, a.run.Result, a.run.Error, a.run.Dropped, a.run.EndedAt = core.RunRunning, nil, nil, nil, nil
	a.batch.step.Program = &program
	a.batch.step.Given = &store.Given{Decision: by, Human: a.limits.Human}
	a.batch.audit(core.AuditRow{
		Type: core.ApproveBudget, Tool: core.ModelTool, Outcome: core.ApprovalApproved, By: by.By, Asked: by.Presence,
		Reason: a.batch.redact.Text(more.Text() + because(by.Reason)),
	})
	ev := a.batch.event(core.EventWorkflowStart)
	ev.Message = more.Text()
	a.batch.emit(ev)
	if err := a.flush(); err != nil {
		return nil, err
	}
	a.handle.set(&Status{Run: *a.run})
	return e.launch(a)
}

// Extendable refuses to give an agent more that has not used up what it had, or to give
// what does not help it.
func Extendable(run core.Run, p core.Program, more core.AgentMore) error {
	refuse := func(code core.Code, format string, args ...any) error {
		return core.Errorf(code, format, args...).WithRun(run.ID).WithNext("pml", "workflows", "show", run.ID.Short())
	}
	var r core.AgentResult
	switch {
	case run.Kind != core.KindAgent || p.Agent == nil:
		return refuse(core.CodeInvalidArguments, "the run %s is no agent; only an agent can be given more", run.ID.Short())
	case run.Below():
		return refuse(core.CodeNotWaiting, "the agent %s was part of another run, which has gone on without it; give more to that one", run.ID.Short())
	case run.State != core.RunComplete || json.Unmarshal(run.Result, &r) != nil || !r.Stop.Exhausted():
		return refuse(core.CodeNotWaiting, "the agent %s has not used up what it was given; only then it can be given more", run.ID.Short())
	case more.Iterations < 0 || more.Tokens < 0 || more.USD < 0 || more.Calls < 0:
		return refuse(core.CodeInvalidArguments, "what is given to an agent cannot be negative")
	case r.Stop == core.AgentMaxIterations && more.Iterations == 0:
		return refuse(core.CodeInvalidArguments, "the agent %s has used up its iterations; give it more of them", run.ID.Short())
	case r.Stop == core.AgentBudgetSpent && more.Tokens == 0 && more.USD == 0 && more.Calls == 0:
		return refuse(core.CodeInvalidArguments, "the agent %s has used up its budget; give it more of that", run.ID.Short())
	}
	for _, b := range []struct {
		more, bound bool
		what        string
	}{
		{more.Tokens > 0, p.Agent.Budget.Tokens > 0, "tokens"}, {more.USD > 0, p.Agent.Budget.USD > 0, "dollars"}, {more.Calls > 0, p.Agent.Budget.Calls > 0, "calls"},
	} {
		if b.more && !b.bound {
			return refuse(core.CodeInvalidArguments, "the agent %s has no budget of %s, so it needs no more of them", run.ID.Short(), b.what)
		}
	}
	return nil
}
