package service

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/gate"
	"github.com/casys-ai/pml/store"
)

// takenUpWithin is how long whoever has decided may take to go on with a run
// that nobody runs. A decision on such a run that is older was left behind by a
// process that ended.
const takenUpWithin = 5 * time.Second

// repeated reports whether a decision is the one that was made last, by the same
// kind of decider, about a run that nobody has gone on with, or whose process
// has ended meanwhile: then it stands, and the run goes on. Anything else is
// core.CodeAlreadyDecided: somebody decided otherwise, or was faster.
func (c *decisions) repeated(ctx context.Context, run core.Run, last core.Approval, req api.ContinueRequest) error {
	by := last.DecidedBy
	if run.State.Final() {
		return ended(run, last)
	}
	if req.By.Via != by.Via || req.Decision.Approve != (last.State == core.ApprovalApproved) {
		return alreadyDecided(run, last)
	}
	left := min(max(takenUpWithin-c.now().Sub(by.At), 0), takenUpWithin)
	over := time.NewTimer(left)
	defer over.Stop()
	tick := time.NewTicker(lookForRunner)
	defer tick.Stop()
	for {
		alive, err := c.alive(ctx, run)
		switch {
		case err != nil:
			return err
		case alive || run.State.Final():
			return alreadyDecided(run, last)
		case run.UpdatedAt.After(by.At): // somebody went on with it, and ended
			return nil
		}
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return core.Errorf(core.CodeCancelled, "stopped waiting for whoever decided %s: %w", last.ID.Short(), context.Cause(ctx)).WithRun(run.ID)
		case <-tick.C:
		}
		if run, err = c.o.Store.Run(ctx, run.ID); err != nil {
			return err
		}
	}
}

// alreadyOver is why a decision is not made that nobody has shown to be a person's: where nothing
// waits, that it was decided, or that the run has ended, in place of what a person would
// have to do.
func (c *decisions) alreadyOver(ctx context.Context, run core.Run, req api.ContinueRequest, refused error) error {
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Now: c.now()})
	if err != nil {
		return refused
	}
	over := run.State.Final()
	if i := slices.IndexFunc(list, func(a core.Approval) bool { return a.ID == req.Decision.Checkpoint }); i >= 0 {
		state := newestOf(list, list[i]).StateAt(c.now())
		over = over || state != core.ApprovalOpen && state != core.ApprovalExpired
		list = []core.Approval{newestOf(list, list[i])}
	} else {
		over = over || len(approval.Decidable(list, c.now())) == 0
	}
	if !over {
		return refused
	}
	last, err := c.nothingOpen(run, list)
	switch {
	case err != nil:
		return err
	case run.State.Final():
		return ended(run, last)
	}
	return alreadyDecided(run, last)
}

// ended says that a run has ended, and who decided what it asked last.
func ended(run core.Run, last core.Approval) *core.Error {
	e := alreadyDecided(run, last)
	e.Message = "the run " + run.ID.Short() + " is " + string(run.State) + ": nothing in it waits; " + e.Message
	return e
}

// alreadyDecided says who was faster, or decided otherwise.
func alreadyDecided(run core.Run, ap core.Approval) *core.Error {
	e := approval.AlreadyDecided(ap)
	if run.State.Final() {
		return e.WithNext("pml", "workflows", "show", ap.RunID.Short())
	}
	return e.WithNext("pml", "continue", ap.RunID.Short())
}

// decideEquals carries a decision about what holds for the workspace ([approval.ForWorkspace])
// to the other runs that ask the same: a yes answers them all; a no answers those of its
// tree. A run that nobody runs keeps its question about a server: who answers it goes
// on with that run. What cannot be decided stays open: the decision that is carried is kept
// already.
func (c *decisions) decideEquals(ctx context.Context, run core.Run, ap core.Approval, d core.Decision, until store.Renewal) {
	if !approval.ForWorkspace(ap) {
		return
	}
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{Workspace: ap.Workspace, Digest: ap.Digest, States: []core.ApprovalState{core.ApprovalOpen}, Now: c.now()})
	top := run
	if err == nil {
		top, err = c.root(ctx, run)
	}
	if err != nil {
		c.o.Logger.Warn("the same question of other runs stays open", "workflow_id", run.ID, "error", err)
		return
	}
	if ap.Type != core.ApproveDependency { // how a server is installed is the same for all
		d.Answer = nil
	}
	d.Abort = false
	for _, other := range list {
		if other.ID == ap.ID || other.Type != ap.Type || other.Tool != ap.Tool || other.Owner != ap.Owner || other.Human && !ap.Human || ap.Risk.Below(other.Risk) {
			continue // or it asks for more than the decision has shown
		}
		if same, err := c.reaches(ctx, other, top); err != nil || !d.Approved && !same {
			continue
		}
		d.ApprovalID, d.ExpectDigest = other.ID, other.Digest
		if _, err := c.o.Store.Decide(ctx, d, store.Renewal{RunUntil: until.RunUntil}); err != nil {
			c.o.Logger.Debug("the same question of another run stays open", "workflow_id", other.RunID, "error", err)
		}
	}
}

// reaches reports whether the run of an approval is in the tree of another run; an error where
// it would not go on with an answer.
func (c *decisions) reaches(ctx context.Context, ap core.Approval, top core.Run) (within bool, err error) {
	run, err := c.o.Store.Run(ctx, ap.RunID)
	if err != nil {
		return false, err
	}
	if ap.Type == core.ApproveDependency || ap.Type == core.ApproveIntegrity {
		if alive, err := c.alive(ctx, run); err != nil || !alive {
			return false, core.Errorf(core.CodeNotWaiting, "nobody runs %s", run.ID.Short())
		}
	}
	run, err = c.root(ctx, run)
	return run.ID == top.ID, err
}

// decideRuled carries a yes that a rule remembers to the other calls of its tool that wait: to
// those about which the gates, which have the rule by now, would ask nobody. None of another run
// is of high risk or a person's where theirs was not ([approval.RuleLeaves]), and none is of a run
// that nobody runs.
func (c *decisions) decideRuled(ctx context.Context, run core.Run, ap core.Approval, d core.Decision, until store.Renewal) {
	if !d.Approved || d.Answer == nil || d.Answer.Remember != core.RememberRule || ap.Type != core.ApproveTool || ap.Owner != "" || !approval.PersonsVia(d.By.Via) {
		return
	}
	list, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{Workspace: ap.Workspace, States: []core.ApprovalState{core.ApprovalOpen}, Now: c.now()})
	if err != nil {
		c.o.Logger.Warn("what a rule answers stays open", "workflow_id", run.ID, "error", err)
		return
	}
	d.Answer, d.Reason = nil, "the rule that allows "+core.Visible(ap.Tool, 120, false)
	for _, other := range list {
		if !approval.AskedAlike(ap, other) || approval.RuleLeaves(ap, other) != "" || !c.permitted(ctx, run, other) {
			continue
		}
		d.ApprovalID, d.ExpectDigest = other.ID, other.Digest
		if _, err := c.o.Store.Decide(ctx, d, store.Renewal{RunUntil: until.RunUntil}); err != nil {
			c.o.Logger.Debug("what a rule answers stays open", "workflow_id", other.RunID, "error", err)
		}
	}
}

// permitted reports whether the gates ask nobody about the call of a question any more, in a
// run that goes on with the answer: decided, or one that somebody runs. A call whose arguments
// the question does not show as they are is not judged.
func (c *decisions) permitted(ctx context.Context, decided core.Run, ap core.Approval) bool {
	run, err := c.o.Store.Run(ctx, ap.RunID)
	if err != nil {
		return false
	}
	if alive, err := c.alive(ctx, run); run.ID != decided.ID && (err != nil || !alive) {
		return false
	}
	var shown struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(ap.Context, &shown) != nil {
		return false
	}
	digest, err := core.Digest(shown.Arguments)
	if err != nil {
		return false
	}
	if whole, err := core.DigestOf([]string{ap.Tool, digest}); err != nil || whole != ap.Digest {
		return false
	}
	h, err := c.host(ap.Workspace)
	if err != nil {
		return false
	}
	call := engine.Call{Tool: ap.Tool, Args: shown.Arguments, Digest: digest, ArgsKnown: true}.Of(&run)
	if len(ap.CallIDs) > 0 {
		call.ID = ap.CallIDs[0]
	}
	return gate.Permitted(ctx, h, call, ap.Context)
}
