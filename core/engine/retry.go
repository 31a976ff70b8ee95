package engine

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// Retry takes a failed run up again: its failed calls, and the tasks of a DAG
// that were skipped because of them, run anew; nothing else does. It returns
// how many calls that are.
func (e *Engine) Retry(ctx context.Context, id core.ID) (*Handle, int, error) {
	h, done, err := e.begin(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if h != nil {
		return nil, 0, core.Errorf(core.CodeNotWaiting, "the run %s runs already; only a failed run can be retried", id.Short()).WithRun(id)
	}
	defer done()
	run, err := e.opts.Store.Claim(ctx, id, e.Runner())
	if err != nil {
		return nil, 0, err
	}
	if run.State != core.RunFailed {
		return nil, 0, core.Errorf(core.CodeNotWaiting, "the run %s is %s; only a failed run can be retried", id.Short(), run.State).WithRun(id)
	}
	defer e.recovered(run, &err)
	program, err := e.opts.Store.Program(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	a, err := e.newActor(run, program)
	if err != nil {
		return nil, 0, err
	}
	if err := a.load(ctx); err != nil {
		return nil, 0, err
	}
	retrial := &retrial{run: a.run, program: &a.program, journal: &a.journal, limits: &a.limits, pool: e.opts.Sandbox, barrier: a.layers.barrier}
	again, err := retrial.outcomes(ctx)
	if err != nil {
		return nil, 0, err
	}
	if len(again) == 0 && !interrupted(run.Error) && !retrial.notBegun() {
		return nil, 0, retrial.refusal()
	}
	n := 0
	for _, r := range again {
		if r.Tool != core.SleepTool {
			n++
		}
		a.batch.record(core.Record{Kind: core.RecordVoid, CallID: r.CallID, Tool: r.Tool, Layer: r.Layer, Attempt: r.Attempt})
	}
	a.run.State, a.run.Result, a.run.Error, a.run.Dropped, a.run.EndedAt, a.run.ActiveMS = core.RunRunning, nil, nil, nil, nil, 0
	ev := a.batch.event(core.EventWorkflowStart)
	ev.Message = "retry"
	a.batch.emit(ev)
	if err := a.flush(); err != nil {
		return nil, 0, err
	}
	a.batch.step = store.Step{}
	if err := a.load(ctx); err != nil {
		return nil, 0, err
	}
	a.handle.set(&Status{Run: *a.run})
	h, err = e.launch(a)
	return h, n, err
}

// interrupted reports whether a run failed although nothing of it did, or at a
// limit that can be raised behind its last call: it can go on where it was.
func interrupted(err *core.Error) bool {
	return err != nil && (err.Code == core.CodeInternal || err.Code == core.CodeTimeout || err.Code == core.CodeResultTooLarge)
}

// retriableTasks are the failures of a DAG, and the tasks skipped because of them.
func retriableTasks(settled []core.Record) []core.Record {
	var out []core.Record
	for _, r := range settled {
		if failed(r) || r.Outcome == core.OutcomeSkipped && r.Error != nil {
			out = append(out, r)
		}
	}
	return out
}

// retrial finds out which calls of a run that has failed can be made again.
type retrial struct {
	run     *core.Run
	program *core.Program
	journal *journal
	limits  *Limits
	pool    *sandbox.Pool
	barrier bool // outcomes are delivered by layers
}

// refusal says why nothing of a failed run can be tried again.
func (rt *retrial) refusal() error {
	why := "it failed in its own code, not in a call; mend it and execute it anew"
	if slices.ContainsFunc(rt.journal.settled, failed) {
		why = "after each call that failed the script went on with others because of it; mend it and execute it anew"
	}
	return core.Errorf(core.CodeNotWaiting, "no call of the run %s can be tried again: %s", rt.run.ID.Short(), why).WithRun(rt.run.ID)
}

// notBegun reports whether a run has failed before its program began, on what may be otherwise by
// now: its servers were not trusted, not there or not allowed. It begins then.
func (rt *retrial) notBegun() bool {
	if rt.run.Kind == core.KindAgent || rt.run.Error == nil || len(rt.journal.settled)+len(rt.journal.begun) > 0 {
		return false
	}
	switch rt.run.Error.Code {
	case core.CodeNotTrusted, core.CodeNoSuchTool, core.CodePermissionDenied, core.CodeServerUnreachable, core.CodeInstallFailed, core.CodeIntegrityFailed:
		return true
	default:
		return false
	}
}

// outcomes are the outcomes that a retry takes back.
func (rt *retrial) outcomes(ctx context.Context) ([]core.Record, error) {
	if rt.run.Kind == core.KindDAG {
		return retriableTasks(rt.journal.settled), nil
	}
	if rt.run.Kind == core.KindAgent { // its model has seen what became of its runs
		if n := len(rt.journal.settled); n > 0 && rt.journal.settled[n-1].Tool == core.ModelTool && failed(rt.journal.settled[n-1]) {
			return rt.journal.settled[n-1:], nil
		}
		return nil, nil
	}
	return rt.ofScript(ctx)
}
