package local

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

// Continue decides, if a decision is given, and goes on with the run: its own
// process does when it lives, otherwise this one takes it over.
func (c *Client) Continue(ctx context.Context, req api.ContinueRequest) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, req.ID)
	if err != nil {
		c.unknownRun(ctx, req, err)
		return api.Result{}, err
	}
	if err := c.continuable(run, req.Decision != nil); err != nil {
		return api.Result{}, err
	}
	if req.Decision == nil {
		if run.State.Final() {
			return c.follow(ctx, run.ID, nil, req.Wait, req.HoldApprovals)
		}
		if err := c.askAgain(ctx, run, req.By); err != nil {
			return api.Result{}, err
		}
		return c.follow(ctx, run.ID, nil, req.Wait, req.HoldApprovals)
	}
	show := c.shownOf(run.Workspace)
	decided, err := c.decide(ctx, run, req)
	if err != nil {
		c.refusedDecision(ctx, run, req, err)
		return api.Result{}, show.err(core.AsError(err))
	}
	ids := make([]core.ID, len(decided))
	for i, ap := range decided {
		ids[i] = ap.ID
	}
	r, err := c.follow(ctx, run.ID, ids, req.Wait, req.HoldApprovals)
	if err == nil && len(decided) == 1 {
		r.Decided = show.decided(decided[0].DecidedBy)
	}
	return r, err
}

// continuable refuses a run that has expired.
func (c *Client) continuable(run core.Run, deciding bool) error {
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

// decide carries a decision to the approvals that it is about.
func (c *Client) decide(ctx context.Context, run core.Run, req api.ContinueRequest) ([]core.Approval, error) {
	if err := c.mayDecide(run, req.By); err != nil {
		return nil, err
	}
	d := req.Decision
	targets, again, err := c.targets(ctx, run, req)
	if err != nil {
		return nil, err
	}
	if d.Answer != nil && d.Answer.InDoubt != "" {
		if err := onlyInDoubt(run, targets); err != nil {
			return nil, err
		}
	}
	for _, ap := range targets {
		if err := c.mayGrant(run, ap, d); err != nil {
			return nil, err
		}
	}
	until, err := c.resumeUntil(run.Workspace)
	if err != nil {
		return nil, err
	}
	if d.Approve {
		if err := c.checkPin(d.Pin, "pml", "continue", run.ID.Short(), "--approve", "--pin"); err != nil {
			return nil, core.AsError(err).WithRun(run.ID)
		}
	}
	// A reason stays in the audit log for good, so no key may get there.
	reason := c.shownOf(run.Workspace).text(d.Reason)
	out := make([]core.Approval, 0, len(targets))
	for _, ap := range targets {
		at := c.now()
		got, err := c.o.Store.Decide(ctx, core.Decision{
			ApprovalID: ap.ID, Approved: d.Approve, By: req.By, At: at, Reason: reason,
			ExpectDigest: d.ExpectDigest, Answer: d.Answer, Abort: d.Abort && !d.Approve,
		}, store.Renewal{RunUntil: until})
		if err != nil {
			return nil, err
		}
		// Who names no approval means what waits; somebody else was faster.
		if !again && d.Checkpoint == "" && got.DecidedBy != nil && !got.DecidedBy.At.Equal(at) {
			return nil, alreadyDecided(run, got)
		}
		out = append(out, got)
	}
	return out, nil
}

// targets are the approvals that a decision is about: the named one, all of a
// type, or the first that waits. again is set when none does, and the decision
// is one that was made before and not carried out.
func (c *Client) targets(ctx context.Context, run core.Run, req api.ContinueRequest) (targets []core.Approval, again bool, err error) {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Now: c.now()})
	if err != nil {
		return nil, false, err
	}
	d := req.Decision
	if d.Checkpoint != "" {
		for _, ap := range list {
			if ap.ID == d.Checkpoint {
				return []core.Approval{ap}, false, nil
			}
		}
		return nil, false, core.Errorf(core.CodeNotFound, "the run %s has no approval %s", run.ID.Short(), d.Checkpoint.Short()).
			WithRun(run.ID).WithNext("pml", "approvals", "ls")
	}
	now := c.now()
	open := slices.DeleteFunc(slices.Clone(list), func(a core.Approval) bool { return a.StateAt(now) != core.ApprovalOpen })
	slices.SortFunc(open, core.BySoonest)
	if d.AllOfType != "" {
		if d.AllOfType == core.ApproveIntegrity && d.Approve {
			return nil, false, core.Errorf(core.CodeInvalidArguments, "integrity approvals are decided one by one; name one with --checkpoint")
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

// nothingOpen says why a run has nothing to decide: it was decided, which gives
// the last approval, or it has expired, a replan took it back, or it never asked.
func (c *Client) nothingOpen(run core.Run, list []core.Approval) (core.Approval, error) {
	now := c.now()
	var last, expired, newest *core.Approval
	for i := range list {
		ap := &list[i]
		if newest == nil || !ap.CreatedAt.Before(newest.CreatedAt) {
			newest = ap
		}
		if ap.DecidedBy != nil && (last == nil || ap.DecidedBy.At.After(last.DecidedBy.At)) {
			last = ap
		}
		if ap.StateAt(now) == core.ApprovalExpired && ap.RenewedBy == "" {
			expired = ap
		}
	}
	switch {
	case expired != nil && !run.State.Final():
		return core.Approval{}, core.Errorf(core.CodeApprovalExpired, "%s expired at %s without a decision; continue the run to be asked again, do not execute it anew",
			expired.ID.Short(), stamp(expired.ExpiresAt, expired.CreatedAt)).WithRun(run.ID).WithNext("pml", "continue", run.ID.Short())
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
func (c *Client) askAgain(ctx context.Context, run core.Run, by core.Actor) error {
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

// takenWithin bounds how long a run of this process may take to see what was
// committed, whatever the caller's patience.
const takenWithin = 2 * time.Second

// taken waits until a run of this process has seen what was committed before it
// was woken: until then its status tells of what was asked before that.
func taken(ctx context.Context, h *engine.Handle, woken uint64) {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	_, _ = h.Wait(ctx, func(s engine.Status) bool { return s.Seen >= woken })
}

func (c *Client) renew(ctx context.Context, ap core.Approval, by core.Actor) (core.Approval, error) {
	cfg, err := c.configOf(ap.Workspace)
	if err != nil {
		return core.Approval{}, err
	}
	now := c.now()
	var until *time.Time
	if cfg.Approvals.TTL > 0 {
		t := approval.Bounded(now.Add(cfg.Approvals.TTL))
		until = &t
	}
	return c.o.Store.Renew(ctx, ap.ID, c.o.NewID(), now, until, by)
}

// follow goes on with a run and waits for it: here when its process is gone,
// by watching the store when it lives elsewhere.
func (c *Client) follow(ctx context.Context, id core.ID, decided []core.ID, limit time.Duration, hold bool) (api.Result, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return api.Result{}, err
	}
	if run.State.Final() {
		return c.stored(ctx, run, api.StatusComplete)
	}
	if run.Remote {
		return c.watch(ctx, id, decided, limit, hold)
	}
	eng, err := c.engineFor(ctx)
	if err != nil {
		return api.Result{}, err
	}
	h, err := eng.Resume(ctx, id)
	switch core.CodeOf(err) {
	case "":
		woken := eng.Wake(id)
		taken(ctx, h, woken)
		r, err := c.wait(ctx, h, decided, woken, limit, hold, api.StatusComplete)
		return *r, err
	case core.CodeFenced:
		return c.watch(ctx, id, decided, limit, hold)
	case core.CodeNotWaiting:
		// It ended between the two looks at it.
		if run, rerr := c.o.Store.Run(ctx, id); rerr == nil && run.State.Final() {
			return c.stored(ctx, run, api.StatusComplete)
		}
		return api.Result{}, err
	default:
		return api.Result{}, err
	}
}

// lookForRunner is how often a follower looks whether the run's process lives:
// one that is killed tells nobody. It costs one attempt at a file lock.
const lookForRunner = 100 * time.Millisecond

// watch waits for a run that another process runs. However short the wait, it
// says how the run stands.
func (c *Client) watch(ctx context.Context, id core.ID, decided []core.ID, limit time.Duration, hold bool) (api.Result, error) {
	called := c.o.Clock.Now()
	bounded, cancel := c.within(ctx, limit)
	defer cancel()
	changes, err := c.o.Store.Watch(bounded)
	if err != nil && bounded.Err() == nil {
		return api.Result{}, err
	}
	for {
		run, pending, err := c.standing(ctx, id)
		if err != nil {
			return api.Result{}, err
		}
		if run.State.Final() {
			return c.stored(ctx, run, api.StatusComplete)
		}
		if run.State == core.RunWaiting && len(pending) > 0 && !hold && !stillOpen(pending, decided) {
			// It may have gone on since.
			if r, err := c.stored(ctx, run, api.StatusComplete); err != nil || r.Status != api.StatusRunning {
				return r, err
			}
		}
		if run.State == core.RunWaiting && len(pending) == 0 {
			if over, err := c.expiredUnanswered(ctx, id); err != nil || over {
				return expiredResult(api.Result{WorkflowID: id, TotalLayers: run.TotalLayers}, id), err
			}
		}
		gone, err := c.news(bounded, run, pending, changes)
		switch {
		case err != nil:
			return c.waited(bounded, id)
		case gone:
			if limit >= 0 {
				limit = max(0, limit-c.o.Clock.Now().Sub(called))
			}
			return c.follow(ctx, id, decided, limit, hold)
		}
	}
}

// expiredUnanswered reports whether a run waits for nothing but questions that
// have expired, with no decision that it has yet to take in.
func (c *Client) expiredUnanswered(ctx context.Context, id core.ID) (bool, error) {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()})
	expired := false
	for _, ap := range list {
		switch ap.StateAt(c.now()) {
		case core.ApprovalExpired:
			expired = expired || ap.RenewedBy == ""
		case core.ApprovalOpen:
			return false, err
		case core.ApprovalApproved, core.ApprovalDenied:
			if !ap.Used {
				return false, err
			}
		case core.ApprovalSuperseded:
		}
	}
	return expired, err
}

// news waits until something was committed, a question has expired or a run's
// runner is gone. It fails only when the context ends.
func (c *Client) news(ctx context.Context, run core.Run, pending []core.Approval, changes <-chan struct{}) (gone bool, err error) {
	tick := time.NewTicker(lookForRunner)
	defer tick.Stop()
	for {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if alive, err := c.alive(ctx, run); err == nil && !alive {
			return true, nil
		}
		now := c.now()
		if slices.ContainsFunc(pending, func(a core.Approval) bool { return a.StateAt(now) != core.ApprovalOpen }) {
			return false, nil
		}
		select {
		case _, ok := <-changes:
			if !ok {
				return false, errors.New("the store is not watched any more")
			}
			return false, nil
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// alive reports whether somebody runs a run: its runner, or the client that was
// given it.
func (c *Client) alive(ctx context.Context, run core.Run) (bool, error) {
	if run.Remote || run.Runner != "" && run.Runner == c.runnerID() {
		return true, nil
	}
	return c.o.Store.Alive(ctx, run.Runner)
}

func (c *Client) waited(ctx context.Context, id core.ID) (api.Result, error) {
	r := api.Result{Status: api.StatusRunning, WorkflowID: id}
	if errors.Is(context.Cause(ctx), errWaited) {
		return r, nil
	}
	return r, ctx.Err()
}

func (c *Client) standing(ctx context.Context, id core.ID) (core.Run, []core.Approval, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return core.Run{}, nil, err
	}
	pending, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{
		RunID: id, States: []core.ApprovalState{core.ApprovalOpen}, Now: c.now(),
	})
	return run, pending, err
}

// stored is the result of a run as the store has it.
func (c *Client) stored(ctx context.Context, run core.Run, ok api.Status) (api.Result, error) {
	w, err := c.Workflow(ctx, run.ID)
	if err != nil {
		return api.Result{}, err
	}
	now := c.now()
	s := engine.Status{Run: w.Run, Summary: engine.Summarize(w)}
	for _, ap := range w.Approvals {
		if ap.StateAt(now) == core.ApprovalOpen {
			s.Pending = append(s.Pending, ap)
			if ap.Type == core.ApproveLayer {
				s.Layer = &engine.LayerPause{Done: w.CurrentLayer - 1, Total: w.TotalLayers}
			}
		}
	}
	return c.result(ctx, s, ok)
}
