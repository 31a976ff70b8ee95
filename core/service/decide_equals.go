package service

import (
	"context"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
)

// decideEquals carries a decision about what holds for the workspace ([approval.ForWorkspace])
// to the other runs that ask the same: a yes answers them all; a no answers those of its
// tree. A run that nobody runs keeps its question about an installation: who answers it goes
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
		if other.ID == ap.ID || other.Type != ap.Type || other.Tool != ap.Tool || other.Owner != ap.Owner {
			continue
		}
		if same, err := c.hears(ctx, other, top); err != nil || !d.Approved && !same {
			continue
		}
		d.ApprovalID, d.ExpectDigest = other.ID, other.Digest
		if _, err := c.o.Store.Decide(ctx, d, store.Renewal{RunUntil: until.RunUntil}); err != nil {
			c.o.Logger.Debug("the same question of another run stays open", "workflow_id", other.RunID, "error", err)
		}
	}
}

// hears reports whether the run of an approval is in the tree of another run; an error where
// it would not go on with an answer.
func (c *decisions) hears(ctx context.Context, ap core.Approval, top core.Run) (within bool, err error) {
	run, err := c.o.Store.Run(ctx, ap.RunID)
	if err != nil {
		return false, err
	}
	if ap.Type == core.ApproveDependency {
		if alive, err := c.alive(ctx, run); err != nil || !alive {
			return false, core.Errorf(core.CodeNotWaiting, "nobody runs %s", run.ID.Short())
		}
	}
	run, err = c.root(ctx, run)
	return run.ID == top.ID, err
}
