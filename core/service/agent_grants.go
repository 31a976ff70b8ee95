package service

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// extend gives an agent that has used up what it had more of it, and goes on with it. Only
// people do that, by the rules of every decision.
func (c *execution) extend(ctx context.Context, run core.Run, req api.ContinueRequest) (api.Result, error) {
	if run.Remote || run.Imported != nil {
		return api.Result{}, approval.Ended(run)
	}
	by, err := c.decisions.mayExtend(ctx, run, req)
	if err != nil {
		c.trail.RefusedDecision(ctx, run, req, err)
		return api.Result{}, err
	}
	program, err := c.o.Store.Program(ctx, run.ID)
	if err != nil {
		return api.Result{}, err
	}
	more := *req.Decision.More
	if err := engine.Extendable(run, program, more); err != nil {
		return api.Result{}, err
	}
	if more.Iterations > maxIterations {
		return api.Result{}, core.Errorf(core.CodeInvalidArguments, "at most %d more iterations are given at a time, not %d", maxIterations, more.Iterations).WithRun(run.ID)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	h, err := eng.Extend(ctx, run.ID, more, by)
	if err != nil {
		return api.Result{}, err
	}
	r, err := c.waiting.wait(ctx, h, nil, 0, req.Wait, req.HoldApprovals, api.StatusComplete)
	return *r, err
}

// mayExtend refuses to have an agent given more by whoever may not decide that, and returns
// the decision, which the store looks at again when it is kept. An agent never may.
func (c *decisions) mayExtend(ctx context.Context, run core.Run, req api.ContinueRequest) (core.Decision, error) {
	by := core.Decision{Approved: true, By: req.By, At: c.now(), Reason: req.Decision.Reason}
	if !req.Decision.Approve {
		return by, core.Errorf(core.CodeInvalidArguments, "more is given with approved: true; to end an agent, abort it").WithRun(run.ID)
	}
	if req.By.Via == core.ViaMCP {
		return by, core.Errorf(core.CodeAwaitingHuman, "only a person gives an agent more than it was given. Tell the user: in any terminal, pml continue %s --more 5", run.ID.Short()).
			WithRun(run.ID).WithNext("pml", "continue", run.ID.Short(), "--more", "5")
	}
	shown, byPin, err := c.mayDecide(ctx, run, nil, req)
	if err != nil {
		return by, err
	}
	proved, err := c.Setup.Pin.Check(ctx, req.Decision.Pin, "pml", "continue", run.ID.Short(), "--more", "5", "--pin")
	if err != nil {
		return by, core.AsError(err).WithRun(run.ID)
	}
	if by.Presence, by.Proved = shown, proved; proved != "" && byPin {
		by.Presence = core.PresencePin
	}
	return by, nil
}

// mayPrompt says where a request of a run to a model would go, and whether it may: by the
// rules, or because somebody has said yes once to this URL for this workspace and owner.
// Otherwise a person is asked, and so is one for a key that is not set. Where nobody can
// say, the request is not made.
func (c *process) mayPrompt(ctx context.Context, run core.Run, name string) (string, engine.Verdict) {
	deny := func(err error) (string, engine.Verdict) {
		return "", engine.Verdict{Deny: core.AsError(err).WithNotMade()}
	}
	m, err := c.base.Models.Describe(run.Workspace, name)
	if err != nil {
		return deny(err)
	}
	if m.Base == "" {
		return "", engine.Verdict{}
	}
	h, err := c.host(run.Workspace)
	if err != nil {
		return deny(err)
	}
	v := h.Provider(run, m.Name, m.Base)
	if len(v.Ask) > 0 {
		given, err := c.given(ctx, run, v.Ask[0])
		if err != nil {
			return deny(err)
		}
		if given {
			v.Ask = nil
		}
	}
	if len(m.Missing) > 0 && v.Deny == nil {
		v.Ask = append(v.Ask, h.ModelKeys(m.Name, m.Base, m.Missing))
	}
	return m.Base, v
}

// given reports whether somebody has said yes to a question about a provider, for the
// workspace and the owner of a run.
func (c *process) given(ctx context.Context, run core.Run, ask engine.Ask) (bool, error) {
	grant := providerGrant{run.Workspace, run.Owner, ask.Digest}
	if _, ok := c.granted.Load(grant); ok || ask.Digest == "" {
		return ok, nil
	}
	list, err := c.base.Store.Approvals(ctx, store.ApprovalFilter{
		Workspace: run.Workspace, Owner: run.Owner, Digest: ask.Digest, States: []core.ApprovalState{core.ApprovalApproved}, Now: c.base.Clock.Now(),
	})
	if err != nil {
		return false, err
	}
	ok := slices.ContainsFunc(list, func(a core.Approval) bool {
		return a.Type == ask.Type && a.Tool == ask.Tool && a.Owner == run.Owner
	})
	if ok {
		c.granted.Store(grant, nil)
	}
	return ok, nil
}

// providerGrant is that conversations of a workspace and an owner may go to a provider.
type providerGrant struct{ workspace, owner, digest string }
