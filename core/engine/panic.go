package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A panic is a defect of pml, or of what it is built with. It ends the run in
// which it happens, as failed, and nothing else: the process has others, and who
// takes the same run up next would fall in the same way. What is known to have
// happened is kept. A call that was under way and has not answered keeps its
// started record and gets no outcome: a retry asks what became of it.

// panicked logs a panic and returns the error that stands for it. What was thrown may hold
// anything, and so goes to the log only.
func (e *Engine) panicked(run core.ID, host Host, doing string, v any) *core.Error {
	err := core.Panicked(e.opts.Logger, doing, thrown(host, v), "workflow_id", run).WithRun(run).WithNext("pml", "workflows", "show", string(run))
	err.Message += "; what is known to have happened is kept, and a call that had not answered is in doubt"
	return err
}

// maxThrown bounds how much is logged of what was thrown.
const maxThrown = 1000

// thrown is the text of what was thrown without the values that must not be kept;
// only its type, when it cannot be had.
func thrown(host Host, v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", v)
		}
	}()
	return core.Visible(viewOf(host).Text(fmt.Sprint(v)), maxThrown, true)
}

func (a *actor) panicked(doing string, v any) *core.Error {
	return a.eng.panicked(a.run.ID, a.host, doing, v)
}

// attempt runs f, whatever comes of it.
func (a *actor) attempt(doing string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			_ = a.panicked(doing, v)
		}
	}()
	f()
}

// survive is loop. After a panic in it what the actor knows may be half of the
// truth: the run is ended from what the store says, and from the outcomes.
func (a *actor) survive(ctx context.Context) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		cause := a.panicked("the run was driven on", v)
		a.attempt("its calls were waited for", func() { a.stop.crash(cause); a.awaitRest() })
		a.stop.cancel(errStopped)
		a.background.drain()
		var run core.Run
		if run, err = a.eng.bury(a.store, *a.run, a.redacted(cause), a.batch.certain()); err == nil {
			*a.run = run
		}
	}()
	return a.loop(ctx)
}

func (a *actor) redacted(err *core.Error) (out *core.Error) {
	out = err // has nothing of the run's in it
	a.attempt("an error was redacted", func() { out = a.batch.redact.Error(err) })
	return out
}

// awaitRest takes the outcomes of what is under way, for as long as a stop waits.
func (a *actor) awaitRest() {
	due := time.NewTimer(max(0, a.stopDue().Sub(a.now())))
	defer due.Stop()
	for a.background.busy > 0 {
		select {
		case done := <-a.background.inbox:
			a.background.busy--
			if done != nil {
				a.attempt("an outcome was taken", func() { _ = done(a.eng.last) })
			}
		case <-due.C:
			a.stop.cancel(errStopped)
		}
	}
}

// buryTries is how often the end of a run is written; what is known of its last
// turn is left out of the last, should it stand in the way.
const buryTries = 3

// bury ends a run of this engine as failed, from what the store says of it.
func (e *Engine) bury(st patient, mine core.Run, cause *core.Error, known store.Step) (run core.Run, err error) {
	for try := range buryTries {
		if try == buryTries-1 {
			known = store.Step{}
		}
		run, err = e.buryOnce(st, mine, cause, known)
		if err == nil || core.CodeOf(err) == core.CodeFenced || e.last.Err() != nil {
			return run, err
		}
	}
	return run, err
}

func (e *Engine) buryOnce(st patient, mine core.Run, cause *core.Error, known store.Step) (run core.Run, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = e.panicked(mine.ID, nil, "the end of the run was written", v)
		}
	}()
	run, err = st.Run(e.last, mine.ID)
	if err != nil || run.State.Final() {
		return run, err
	}
	if run.Runner != mine.Runner || run.Epoch != mine.Epoch {
		return run, core.Errorf(core.CodeFenced, "another process has taken over the run %s", mine.ID.Short()).WithRun(mine.ID)
	}
	now := e.opts.Clock.Now().UTC()
	step := store.Step{Records: slices.Clone(known.Records), Used: known.Used, Audit: known.Audit, Events: slices.Clone(known.Events)}
	for i := range step.Records {
		step.Records[i].Seq = run.JournalSeq + int64(i) + 1
	}
	step.Events = append(step.Events, core.Event{Type: core.EventWorkflowFailed, At: now, RunID: run.ID, Message: cause.Message, Error: cause})
	run.State, run.Error, run.EndedAt, run.ExpiresAt, run.UpdatedAt = core.RunFailed, cause, &now, nil, now
	step.Run = run
	if err := st.commit(e.last, step); err != nil {
		return run, err
	}
	run.JournalSeq += int64(len(step.Records))
	e.publish(run.Kind, step.Events)
	return run, nil
}

// recovered ends a run that could not be taken up because that panicked: whoever
// tried next would fare the same. It is deferred.
func (e *Engine) recovered(run core.Run, err *error) {
	if v := recover(); v != nil {
		cause := e.panicked(run.ID, nil, "the run was taken up", v)
		*err = cause
		if _, failed := e.bury(newPatient(e, Limits{}, run.ID), run, cause, store.Step{}); failed != nil {
			e.opts.Logger.Warn("a run that cannot be taken up could not be ended", "workflow_id", run.ID, "error", failed)
		}
	}
}

// foretell is what the gates say of a planned call. They fail closed.
func (e *Engine) foretell(ctx context.Context, host Host, call Call) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = Verdict{Deny: e.panicked(call.RunID, host, "a planned call was checked", p)}
		}
	}()
	v, ok := host.Try(call)
	if !ok && ctx.Err() == nil {
		v = host.Check(ctx, call)
	}
	return v
}
