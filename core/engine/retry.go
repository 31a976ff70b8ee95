package engine

import (
	"context"

	"github.com/casys-ai/pml/core"
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
	run, err := e.opts.Claims.Claim(ctx, id, e.Runner())
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
	again := retriable(run.Kind, a.journal.settled)
	if len(again) == 0 && (run.Error == nil || run.Error.Code != core.CodeInternal) {
		return nil, 0, core.Errorf(core.CodeNotWaiting, "no call of the run %s can be tried again: it failed by itself; mend it and execute it anew", id.Short()).WithRun(id)
	}
	for _, r := range again {
		a.record(core.Record{Kind: core.RecordVoid, CallID: r.CallID, Tool: r.Tool, Layer: r.Layer, Attempt: r.Attempt})
	}
	a.run.State, a.run.Error, a.run.EndedAt, a.run.ActiveMS = core.RunRunning, nil, nil, 0
	ev := a.event(core.EventWorkflowStart)
	ev.Message = "retry"
	a.emit(ev)
	if err := a.flush(); err != nil {
		return nil, 0, err
	}
	a.step = store.Step{}
	if err := a.load(ctx); err != nil {
		return nil, 0, err
	}
	a.handle.set(&Status{Run: a.run})
	h, err = e.launch(a)
	return h, len(again), err
}

// retriable are the outcomes that a retry takes back. In a script that is only
// the failures after which it did nothing more: what came later was decided by
// the script in view of the failure. Cancelled calls were cancelled by the end
// of the run; no script has seen that.
func retriable(kind core.Kind, settled []core.Record) []core.Record {
	last := -1
	for _, r := range settled {
		last = max(last, r.Layer)
	}
	var out []core.Record
	for _, r := range settled {
		switch r.Outcome {
		case core.OutcomeCancelled:
			out = append(out, r)
		case core.OutcomeError, core.OutcomeDenied:
			if kind == core.KindDAG || r.Layer == last {
				out = append(out, r)
			}
		case core.OutcomeSkipped:
			if kind == core.KindDAG && r.Error != nil {
				out = append(out, r)
			}
		case core.OutcomeSuccess, core.OutcomeFailedSafe:
		}
	}
	return out
}
