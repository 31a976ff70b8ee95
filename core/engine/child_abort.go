package engine

import (
	"context"

	"github.com/casys-ai/pml/core"
)

// openChildren are the runs that calls of the run have started and whose outcome it has
// not, also those that a run which ends before it begins anew has only in its journal.
func (t *callTable) openChildren() (ids []core.ID) {
	run := t.batch.run.ID
	for _, c := range t.order {
		if c.started && c.state < callSettled && startsRun(c.tool) {
			ids = append(ids, ChildOf(run, core.Record{CallID: c.id, Tool: c.tool, Args: c.args}))
		}
	}
	for id, r := range t.journal.begun {
		if r.Kind == core.RecordStarted && startsRun(r.Tool) && t.lacks(id) {
			ids = append(ids, ChildOf(run, r))
		}
	}
	return ids
}

// abortBelow asks for the end of the runs that the run leaves behind when it ends. That is
// kept before the end is: should pml die in between, whoever takes the run up asks again.
func (a *actor) abortBelow() error {
	by := a.run.RequestedBy
	if a.stop.abort != nil {
		by = a.stop.abort.By
	}
	for _, id := range a.calls.openChildren() {
		if err := a.eng.abortChild(a.eng.last, id, by); err != nil {
			return err
		}
	}
	return nil
}

// abortChild asks for the end of a run whose parent ends, and sees to it that somebody
// carries it out. One that was never begun, or has ended, is none.
func (e *Engine) abortChild(ctx context.Context, id core.ID, by core.Actor) error {
	_, err := e.opts.Store.RequestAbort(ctx, id, core.AbortRequest{By: by, At: e.opts.Clock.Now().UTC(), Reason: "the run that started it has ended", Follows: true})
	switch core.CodeOf(err) {
	case "":
	case core.CodeNotFound, core.CodeNotWaiting, core.CodeWorkflowExpired:
		return nil
	default:
		return err
	}
	if e.Handle(id) == nil {
		// Nobody here runs it: where nobody else does either it is ended here.
		if _, err := e.Resume(ctx, id); err != nil {
			e.opts.Logger.Debug("a run whose parent has ended is ended by whoever has it", "workflow_id", id, "error", err)
		}
	}
	e.Wake(id)
	return nil
}

// orphaned asks for the end of a run that was started by one which has ended or is gone:
// nothing would take its outcome.
func (e *Engine) orphaned(ctx context.Context, run core.Run) error {
	if !run.Below() || run.Abort != nil {
		return nil
	}
	parent, err := e.opts.Store.Run(ctx, run.ParentID)
	if core.CodeOf(err) != core.CodeNotFound && (err != nil || !parent.State.Final()) {
		return err
	}
	_, err = e.opts.Store.RequestAbort(ctx, run.ID, core.AbortRequest{By: run.RequestedBy, At: e.opts.Clock.Now().UTC(), Reason: "the run that started it has ended", Follows: true})
	return err
}
