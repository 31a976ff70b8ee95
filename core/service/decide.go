package service

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// passPause lets a run go on that pauses between two layers, and returns the
// pause, nil where it is at none. Whoever continues a run passes it, an agent as well where people decide:
// it is no approval unless the run's hil option has made it one.
func (c *decisions) passPause(ctx context.Context, run core.Run, by core.Actor) (*core.Approval, error) {
	if !run.Options.PerLayer {
		return nil, nil
	}
	now := c.now()
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: now})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(ap core.Approval) bool { return approval.IsPause(run.Options, ap) })
	if i < 0 {
		return nil, nil
	}
	ap := list[i]
	until, err := c.resumeUntil(run.Workspace)
	if err != nil {
		return nil, err
	}
	_, err = c.o.Store.Decide(ctx, core.Decision{
		ApprovalID: ap.ID, Approved: true, By: by, At: now, Reason: "continued", ExpectDigest: ap.Digest,
	}, store.Renewal{RunUntil: until})
	if code := core.CodeOf(err); err != nil && code != core.CodeAlreadyDecided && code != core.CodeNotWaiting { // somebody else was faster
		return nil, err
	}
	return &ap, nil
}

// approvePause is a yes to a run that only pauses, by whoever may decide nothing: it passes the
// pause as to continue the run does.
func (c *decisions) approvePause(ctx context.Context, run core.Run, req api.ContinueRequest) (*core.Approval, error) {
	d := req.Decision
	open, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: c.now()})
	if err != nil || len(open) != 1 || !d.Approve || d.Answer != nil {
		return nil, err
	}
	if d.Checkpoint != "" && d.Checkpoint != open[0].ID || d.ExpectDigest != "" && d.ExpectDigest != open[0].Digest || d.AllOfType != "" && d.AllOfType != open[0].Type {
		return nil, nil
	}
	return c.passPause(ctx, run, req.By)
}

// decide carries a decision to the approvals that it is about.
func (c *decisions) decide(ctx context.Context, run core.Run, req api.ContinueRequest) ([]core.Approval, error) {
	d := req.Decision
	if _, _, err := c.mayDecide(ctx, run, nil, req); err != nil {
		if pause, perr := c.approvePause(ctx, run, req); perr == nil && pause != nil {
			return []core.Approval{*pause}, nil
		}
		return nil, c.alreadyOver(ctx, run, req, err) // before anything is said of what waits
	}
	targets, repeats, err := c.targets(ctx, run, req)
	if err != nil {
		return nil, err
	}
	if d.Answer != nil && d.Answer.InDoubt != "" {
		if err := onlyInDoubt(run, targets); err != nil {
			return nil, err
		}
	}
	for _, ap := range targets {
		if err := c.mayApprove(run, ap, req.By, d); err != nil {
			return nil, err
		}
		if err := c.mayGrant(run, ap, d); err != nil {
			return nil, err
		}
	}
	until, err := c.resumeUntil(run.Workspace)
	if err != nil {
		return nil, err
	}
	shown, byPin, err := c.mayDecide(ctx, run, targets, req)
	if err != nil {
		return nil, c.alreadyOver(ctx, run, req, err)
	}
	shown, proved, err := c.prove(ctx, run, d, shown, byPin)
	if err != nil {
		return nil, err
	}
	// A reason stays in the audit log for good, so no key may get there.
	reason := c.shownOf(run.Workspace).Text(d.Reason)
	out := make([]core.Approval, 0, len(targets))
	for _, ap := range targets {
		answer, expect, err := c.takeEdit(ctx, run, ap, req)
		if err != nil {
			return nil, err
		}
		at := c.now()
		again, err := c.askedUntil(run.Workspace, at)
		if err != nil {
			return nil, err
		}
		decision := core.Decision{
			ApprovalID: ap.ID, Approved: d.Approve, By: req.By, At: at, Reason: reason,
			ExpectDigest: expect, Answer: answer, Abort: d.Abort && !d.Approve,
			Presence: shown, Proved: proved,
		}
		renewal := store.Renewal{RunUntil: until, Fresh: c.o.NewID(), Until: again}
		got, err := c.o.Store.Decide(ctx, decision, renewal)
		if err != nil {
			return nil, err
		}
		// Who names no approval means what waits; somebody else was faster.
		if !repeats && d.Checkpoint == "" && got.DecidedBy != nil && !got.DecidedBy.At.Equal(at) {
			return nil, alreadyDecided(run, got)
		}
		c.decideEquals(ctx, run, got, decision, renewal)
		c.decideRuled(ctx, run, got, decision, renewal)
		out = append(out, got)
	}
	return out, nil
}

// accepted carries what a person has accepted of a server outside of any run to the runs that ask the
// same. proved is what has proved the PIN, which stores ask for.
func (c *decisions) accepted(ctx context.Context, ap core.Approval, req api.AcceptRequest, proved string) {
	ap.Workspace, ap.Risk, ap.Human = c.o.Workspace.Dir, core.RiskHigh, true
	until, err := c.resumeUntil(ap.Workspace)
	if err != nil {
		c.o.Logger.Warn("the same question of runs stays open", "server", ap.Tool, "error", err)
		return
	}
	d := core.Decision{Approved: true, By: req.By, At: c.now(), Reason: "accepted for the workspace", Presence: req.Presence, Proved: proved}
	c.decideEquals(ctx, core.Run{}, ap, d, store.Renewal{RunUntil: until})
}

// prove checks the PIN of a decision, where one is given or wanted, and says what shows that a person decides.
func (c *decisions) prove(ctx context.Context, run core.Run, d *api.Decision, shown core.Presence, byPin bool) (_ core.Presence, proved string, err error) {
	if d.Approve || byPin {
		if proved, err = c.Setup.Pin.Check(ctx, d.Pin, "pml", "continue", run.ID.Short(), "--approve", "--pin"); err != nil {
			return "", "", core.AsError(err).WithRun(run.ID)
		}
	}
	switch {
	case proved != "" && byPin:
		shown = core.PresencePin
	case proved != "" && shown == core.PresenceTerminal:
		if err := c.Setup.Pin.Typed(ctx, proved); err != nil {
			return "", "", core.AsError(err).WithRun(run.ID)
		}
	}
	return shown, proved, nil
}

// targets are the approvals that a decision is about: the named one, all of a
// type, or the first that waits. One that has expired waits as well, after those
// that are open: the decision asks again (store.Renewal). repeats is set when none
// waits, and the decision is one that was made before and not carried out.
func (c *decisions) targets(ctx context.Context, run core.Run, req api.ContinueRequest) (targets []core.Approval, repeats bool, err error) {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Now: c.now()})
	if err != nil {
		return nil, false, err
	}
	d := req.Decision
	if d.Checkpoint != "" {
		for _, ap := range list {
			if ap.ID == d.Checkpoint {
				return []core.Approval{newestOf(list, ap)}, false, nil
			}
		}
		return nil, false, core.Errorf(core.CodeNotFound, "the run %s has no approval %s", run.ID.Short(), d.Checkpoint.Short()).
			WithRun(run.ID).WithNext("pml", "approvals", "ls")
	}
	var open []core.Approval
	if !run.State.Final() {
		open = approval.Decidable(list, c.now())
	}
	if d.AllOfType != "" {
		if approval.TypeOf(d.AllOfType).Single && d.Approve {
			return nil, false, core.Errorf(core.CodeInvalidArguments, "%s approvals are decided one by one; name one with --approval", d.AllOfType)
		}
		open = slices.DeleteFunc(open, func(a core.Approval) bool { return a.Type != d.AllOfType })
		if len(open) == 0 {
			return nil, false, core.Errorf(core.CodeNotWaiting, "the run %s waits for no approval of type %s", run.ID.Short(), d.AllOfType).WithRun(run.ID)
		}
		return open, false, nil
	}
	if len(open) == 0 {
		last, err := c.nothingOpen(run, list)
		if err == nil {
			err = c.repeated(ctx, run, last, req)
		}
		return []core.Approval{last}, err == nil, err
	}
	if d.Answer != nil && d.Answer.InDoubt != "" {
		// The first that such an answer can be about.
		slices.SortStableFunc(open, func(a, b core.Approval) int { return inDoubtFirst(a) - inDoubtFirst(b) })
	}
	return open[:1], false, nil
}

func inDoubtFirst(a core.Approval) int {
	if a.Type == core.ApproveInDoubt {
		return 0
	}
	return 1
}

// onlyInDoubt refuses to take an answer about a call in doubt for a yes to another
// question.
func onlyInDoubt(run core.Run, targets []core.Approval) error {
	for _, ap := range targets {
		if ap.Type != core.ApproveInDoubt {
			return core.Errorf(core.CodeInvalidArguments, "%s asks for %s, not about a call in doubt: approve or deny it", ap.ID.Short(), ap.Type).
				WithRun(run.ID).WithNext("pml", "approvals", "show", ap.ID.Short())
		}
	}
	return nil
}

// newestOf is the approval of a list under which one was asked again last.
func newestOf(list []core.Approval, ap core.Approval) core.Approval {
	for ap.RenewedBy != "" {
		i := slices.IndexFunc(list, func(a core.Approval) bool { return a.ID == ap.RenewedBy })
		if i < 0 {
			break
		}
		ap = list[i]
	}
	return ap
}

// nothingOpen says why a run has nothing to decide: it was decided, which gives
// the last approval, or a replan took it back, or it never asked.
func (c *decisions) nothingOpen(run core.Run, list []core.Approval) (core.Approval, error) {
	var last, newest *core.Approval
	for i := range list {
		ap := &list[i]
		if newest == nil || !ap.CreatedAt.Before(newest.CreatedAt) {
			newest = ap
		}
		if ap.DecidedBy != nil && (last == nil || ap.DecidedBy.At.After(last.DecidedBy.At)) {
			last = ap
		}
	}
	switch {
	case newest != nil && newest.State == core.ApprovalSuperseded && !run.State.Final():
		return core.Approval{}, core.Errorf(core.CodeNotWaiting, "what the run %s asked last is not asked any more: its plan has changed; continue it to be asked anew", run.ID.Short()).
			WithRun(run.ID).WithNext("pml", "continue", run.ID.Short())
	case last != nil:
		return *last, nil
	}
	return core.Approval{}, core.Errorf(core.CodeNotWaiting, "the run %s is %s and asked for nothing", run.ID.Short(), run.State).
		WithRun(run.ID).WithNext("pml", "workflows", "show", run.ID.Short())
}

// askAgain renews the expired questions of a run.
func (c *decisions) askAgain(ctx context.Context, run core.Run, by core.Actor) error {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{
		RunID: run.ID, States: []core.ApprovalState{core.ApprovalExpired}, Now: c.now(),
	})
	if err != nil {
		return err
	}
	for _, ap := range list {
		if ap.RenewedBy != "" {
			continue
		}
		if _, err := c.renew(ctx, ap, by); err != nil {
			return err
		}
	}
	return nil
}
