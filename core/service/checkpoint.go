package service

import (
	"context"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// Checkpoints lists the newest checkpoints of a run.
func (c *history) Checkpoints(ctx context.Context, id core.ID) ([]core.Checkpoint, error) {
	if _, err := c.o.Store.Run(ctx, id); err != nil {
		return nil, err
	}
	list, err := c.o.Store.Checkpoints(ctx, id)
	if list == nil {
		list = []core.Checkpoint{}
	}
	return list, err
}

// Checkpoint is a run as it stood at one of its newest checkpoints. text is the
// id of the checkpoint, or of an approval of the run: then it is the checkpoint
// before the question. A prefix of 4 or more is enough.
func (c *history) Checkpoint(ctx context.Context, id core.ID, text string) (core.CheckpointView, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return core.CheckpointView{}, err
	}
	approvals, err := c.o.Store.Approvals(ctx, store.ApprovalFilter{RunID: id, Now: c.now()})
	if err != nil {
		return core.CheckpointView{}, err
	}
	cp, err := c.checkpoint(ctx, id, text, approvals)
	if err != nil {
		return core.CheckpointView{}, err
	}
	program, err := c.o.Store.Program(ctx, id)
	if err != nil {
		return core.CheckpointView{}, err
	}
	records, err := c.o.Store.Journal(ctx, id, 0)
	if err != nil {
		return core.CheckpointView{}, err
	}
	events, err := c.o.Store.Events(ctx, store.EventFilter{RunID: id, Types: engine.MessageEvents})
	if err != nil {
		return core.CheckpointView{}, err
	}
	return c.shownOf(run.Workspace).Checkpoint(engine.ViewAt(cp, run, program, records, approvals, events)), nil
}

// checkpoint finds the one that a text names among those that are kept of a run.
func (c *history) checkpoint(ctx context.Context, id core.ID, text string, approvals []core.Approval) (core.Checkpoint, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	names := func(id core.ID) bool {
		return string(id) == text || len(text) >= minPrefix && strings.HasPrefix(string(id), text)
	}
	list, err := c.o.Store.Checkpoints(ctx, id)
	if err != nil {
		return core.Checkpoint{}, err
	}
	var found []core.Checkpoint
	for _, cp := range list {
		if names(cp.ID) {
			found = append(found, cp)
		}
	}
	for _, ap := range approvals {
		if !names(ap.ID) {
			continue
		}
		cp, ok := engine.Before(ap, list)
		if !ok {
			return cp, core.Errorf(core.CodeNotFound, "no checkpoint of the run %s that is kept is older than the approval %s; the newest 5 are kept", id.Short(), ap.ID.Short()).WithRun(id)
		}
		found = append(found, cp)
	}
	if len(found) != 1 {
		return core.Checkpoint{}, core.Errorf(core.CodeNotFound, "%d checkpoints and approvals of the run %s are %q; the newest 5 checkpoints are kept", len(found), id.Short(), core.Visible(text, 40, false)).WithRun(id)
	}
	return found[0], nil
}
