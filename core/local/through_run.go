package local

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// throughRunner is under what name journaled calls are run. It is not the
// engine's: whoever looks for runs that this process has lost must not find
// those that it is in the middle of.
func (c *Client) throughRunner(ctx context.Context) (string, error) {
	t := c.through
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runner != nil {
		select {
		case <-t.runner.Lost():
			if err := t.runner.Close(); err != nil {
				c.o.Logger.Debug("cannot close a runner that was lost", "error", core.AsError(err))
			}
			t.runner = nil
			t.reads = map[readsOf]*readsRun{} // they are of that runner
		default:
			return t.runner.ID(), nil
		}
	}
	r, err := c.base.Store.Register(ctx)
	if err != nil {
		return "", err
	}
	t.runner = r
	return r.ID(), nil
}

// closeThrough waits for the calls that are under way, keeps what was read, and
// gives up the standing as a runner.
func (c *Client) closeThrough(ctx context.Context) error {
	t := c.through
	t.calls.Wait()
	c.flushReads(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runner == nil {
		return nil
	}
	err := t.runner.Close()
	t.runner = nil
	return err
}

// journaled makes the call as a run of its own: it is there before the call is
// made, and its outcome before the result is given to anybody.
func (t *throughCall) journaled(ctx context.Context, repeatable bool) (api.OfferedResult, error) {
	var out api.OfferedResult
	run, err := t.newRun(ctx)
	if err != nil {
		return out, err
	}
	began := run.CreatedAt
	kept, err := t.begin(ctx, run, repeatable)
	if err != nil {
		return out, err
	}
	callCtx, over := t.abortable(ctx)
	raw, err := t.h.Through(callCtx, t.call)
	abort := over()
	if errors.Is(context.Cause(ctx), errClosing) && !isNotMade(err) {
		// Nobody knows how it ended: whoever goes on with the run asks.
		return out, core.Errorf(core.CodeCancelled, "pml stopped before %s had answered; it may have had its effect", t.call.Tool).WithRun(run.ID)
	}
	r := t.settled(began, raw, err)
	records := []core.Record{r}
	switch {
	case isNotMade(err):
		run.State, run.Error = core.RunAborted, core.Errorf(core.CodeAborted, "the call was not made: %s", r.Error.Message)
		records = notMade(r, kept)
	case r.Outcome == core.OutcomeCancelled && abort != nil:
		run.Abort = abort
		err = core.Errorf(core.CodeAborted, "aborted by %s; %s was told to stop, and may have had its effect", abort.By.Who, t.call.Tool).WithRun(run.ID)
	}
	for i := range records {
		records[i].Seq = int64(kept + i + 1)
	}
	if fault := t.end(context.WithoutCancel(ctx), run, records); fault != nil {
		return out, fault
	}
	return api.OfferedResult{Raw: raw.Result}, err
}

// begin keeps that the call is about to be made, in kept records.
func (t *throughCall) begin(ctx context.Context, run core.Run, repeatable bool) (kept int, err error) {
	began := run.CreatedAt
	step := store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindDAG, Version: 1, Tasks: t.tasks()}}
	if !repeatable {
		r := t.recordOf(core.RecordStarted)
		r.Seq, r.StartedAt, r.At = 1, began, began
		step.Records = []core.Record{r}
	}
	layer := 0
	step.Events = []core.Event{
		{Type: core.EventWorkflowStart, At: began, RunID: run.ID},
		{Type: core.EventTaskStart, At: began, RunID: run.ID, TaskID: t.call.ID, Tool: t.call.Tool, Layer: &layer},
	}
	if err := t.c.base.Store.Commit(ctx, step); err != nil {
		return 0, err
	}
	t.c.published(run.Kind, step.Events)
	return len(step.Records), nil
}

// notMade are the records of a call that goes back to its gates, as one of
// another run: what says that it has started is taken back.
func notMade(settled core.Record, kept int) []core.Record {
	settled.Outcome = core.OutcomeCancelled
	if kept == 0 {
		return []core.Record{settled}
	}
	void := settled
	void.Kind, void.Outcome, void.Args = core.RecordVoid, "", nil
	return []core.Record{void, settled}
}

// newRun is the header of the run of a call that is about to be made.
func (t *throughCall) newRun(ctx context.Context) (core.Run, error) {
	run, err := t.c.newRun(api.ExecuteRequest{ID: t.call.RunID, Intent: intentOf(t.call.Tool), By: t.by}, core.KindDAG)
	if err != nil {
		return run, err
	}
	if run.Runner, err = t.c.throughRunner(ctx); err != nil {
		return run, err
	}
	run.State, run.Epoch, run.DAGVersion, run.TotalLayers = core.RunRunning, 1, 1, 1
	return run, nil
}

// end keeps the outcome of the call, the last of the records, with which its run
// ends. One that has been aborted already stays so.
func (t *throughCall) end(ctx context.Context, run core.Run, records []core.Record) error {
	r := records[len(records)-1]
	run.UpdatedAt, run.EndedAt, run.CurrentLayer = r.At, &r.At, 1
	run.ActiveMS = r.DurationMS()
	layer := 0
	done := core.Event{Type: core.EventTaskComplete, At: r.At, RunID: run.ID, TaskID: r.CallID, Tool: r.Tool, Layer: &layer, DurationMS: r.DurationMS()}
	ended := core.Event{Type: core.EventWorkflowComplete, At: r.At, RunID: run.ID}
	switch {
	case r.Outcome == core.OutcomeSuccess:
		run.State = core.RunComplete
		result, err := json.Marshal(map[string]json.RawMessage{r.CallID: r.Result})
		if err != nil { // it is kept with the call all the same
			result = nil
		}
		run.Result = result
	case run.State == core.RunAborted:
		done.Type, done.Message, done.Error = core.EventTaskError, string(r.Outcome), r.Error
		ended.Type, ended.Message, ended.Error = core.EventWorkflowAbort, run.Error.Message, run.Error
	case run.Abort != nil:
		run.State, run.Error = core.RunAborted, core.Errorf(core.CodeAborted, "aborted by %s", run.Abort.By.Who)
		done.Type, done.Message, done.Error = core.EventTaskError, string(r.Outcome), r.Error
		ended.Type, ended.Message, ended.Error = core.EventWorkflowAbort, run.Abort.Reason, run.Error
	default:
		run.State, run.Error = core.RunFailed, r.Error
		done.Type, done.Message, done.Error = core.EventTaskError, string(r.Outcome), r.Error
		ended.Type, ended.Error = core.EventWorkflowFailed, r.Error
	}
	step := store.Step{Run: run, Records: records, Events: []core.Event{done, ended}}
	if err := t.c.base.Store.Commit(ctx, step); err != nil {
		e := *core.AsError(err)
		e.Message = "the outcome of the call could not be kept, and so is not given: " + e.Message
		return e.WithRun(run.ID)
	}
	t.c.published(run.Kind, step.Events)
	return nil
}
