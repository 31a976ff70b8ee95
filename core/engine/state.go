package engine

import (
	"context"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// settleState works out the run's state after a turn and reports whether the
// run has ended.
func (a *actor) settleState() bool {
	if a.stop.ending() {
		if a.background.busy > 0 {
			return false
		}
		return a.end()
	}
	if a.stop.stopping {
		return false
	}
	if a.driver.lost {
		a.budget.resume()
		return false
	}
	a.run.Halted = nil
	halted := a.calls.stopped()
	running := a.background.busy > a.calls.away || !halted && len(a.calls.queue) > 0 || len(a.calls.pending) > 0
	if !running && a.calls.away == 0 && a.over() {
		return a.end()
	}
	switch {
	case running:
		a.budget.resume()
	case halted:
		a.run.Halted = a.calls.halted
		a.budget.wait()
	case a.calls.away > 0:
		a.budget.pause()
	case a.waiting() || !a.driver.started && a.preflight.open():
		a.budget.wait()
	case a.driver.started && a.calls.undelivered() == 0 && !a.driver.last.done:
		a.stop.fault = core.Errorf(core.CodeScript, "the script waits for something that never happens: every call has been answered and nothing else can wake it")
		return a.end()
	}
	return false
}

// over reports whether the program is done and nothing of it is left to wait
// for. Calls that nobody awaits are waited for as well, parked ones included, as
// node waits for what is open; only a program that has failed leaves those
// behind that were never sent.
func (a *actor) over() bool {
	switch {
	case !a.driver.started || !a.driver.last.done:
		return false
	case a.driver.last.err != nil || a.driver.last.unhandled != nil:
		return a.calls.undelivered() == 0
	}
	return a.calls.in[callDelivered] == len(a.calls.order)
}

// end writes the run's last state. An abort or a failure drops the calls that
// have no outcome, and every end the approvals that nothing waits for any more.
func (a *actor) end() bool {
	a.budget.end()
	now := a.now()
	a.run.ExpiresAt, a.run.EndedAt = nil, &now
	e := a.batch.event(core.EventWorkflowComplete)
	a.run.State = core.RunComplete
	err := a.stop.fault
	if err == nil && a.driver.last.done {
		if err = a.driver.last.err; err == nil {
			err = a.driver.last.unhandled
		}
	}
	switch {
	case a.stop.abort != nil:
		a.run.State = core.RunAborted
		a.run.Error = a.batch.redact.Error(core.Errorf(core.CodeAborted, "%s", a.stop.abort.Text()))
		e.Type, e.Message, e.Error = core.EventWorkflowAbort, a.stop.abort.Reason, a.run.Error
	case err != nil:
		a.run.State = core.RunFailed
		a.run.Error = a.batch.redact.Error(a.calls.located(err))
		e.Type, e.Message, e.Error = core.EventWorkflowFailed, err.Message, a.run.Error
	default:
		a.run.Result, a.run.Error = a.batch.redact.JSON(a.driver.last.result), nil
	}
	a.keepPartial()
	a.run.Dropped = a.calls.dropped()
	a.calls.abandoned()
	a.questions.dropAll()
	a.batch.emit(e)
	// Its child gets ready for the next script while the end is committed.
	a.attempt("the program was closed", a.driver.program.close)
	return true
}

// keepPartial keeps what an agent had come to when its run ends without an end of its own.
func (a *actor) keepPartial() {
	p, ok := a.driver.program.(*agentProgram)
	if !ok || a.run.State == core.RunComplete {
		return
	}
	why := core.AgentFailed
	switch {
	case a.run.State == core.RunAborted:
		why = core.AgentAborted
	case a.run.Error != nil && a.run.Error.Code == core.CodeTimeout:
		why = core.AgentTimeout
	}
	a.run.Result = a.batch.redact.JSON(p.partial(why))
}

// finish commits a turn. When the turn ends the run and somebody has planned it
// anew since the last look at the store, the outcomes are kept and the run goes
// on with the new plan; one that failed by itself ends all the same.
func (a *actor) finish(ctx context.Context, ends bool) (ended bool, err error) {
	if ends {
		if err := a.abortBelow(); err != nil {
			return false, err
		}
	}
	step := a.batch.step
	err = a.commit()
	if core.CodeOf(err) == core.CodeHalted {
		a.batch.step = step
		if err := a.takeBackHalted(ctx); err != nil {
			return false, err
		}
		return a.finish(ctx, a.settleState())
	}
	if core.CodeOf(err) == core.CodeAborted {
		a.batch.step = step
		if err := a.takeBack(); err != nil {
			return false, err
		}
		return a.finish(ctx, a.settleState())
	}
	if !ends || core.CodeOf(err) != core.CodeNotWaiting {
		return ends && err == nil, err
	}
	a.batch.step = step
	if a.stop.ending() {
		stored, err := a.store.Run(ctx, a.run.ID)
		if err != nil {
			return false, err
		}
		a.run.DAGVersion, a.run.TotalLayers = stored.DAGVersion, stored.TotalLayers
		return true, a.flush()
	}
	a.batch.step.Events = slices.DeleteFunc(slices.Clone(step.Events), func(e core.Event) bool {
		return e.Type == core.EventWorkflowComplete || e.Type == core.EventWorkflowFailed
	})
	a.run.Result, a.run.Error, a.run.Dropped, a.run.EndedAt = nil, nil, nil, nil
	a.budget.resume()
	a.behind = true
	return false, a.flush()
}

// takeBack settles the calls of a step that the store has refused because somebody
// has asked to abort the run: they were begun and are not made.
func (a *actor) takeBack() error {
	if err := a.look(a.eng.last); err != nil {
		return err
	}
	if a.stop.abort == nil {
		return core.Errorf(core.CodeInternal, "the store refuses the calls of the run %s as aborted, and has no request to abort it", a.run.ID.Short()).WithRun(a.run.ID)
	}
	for _, c := range a.calls.pending {
		err := core.Errorf(core.CodeCancelled, "%s was cancelled", c.tool)
		err.NotMade = true
		a.calls.unstart(c)
		a.calls.settle(c, core.OutcomeCancelled, nil, err)
	}
	a.calls.pending = nil
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// look reads what others may have written: decisions, a request to abort, a
// new version of the DAG.
func (a *actor) look(ctx context.Context) error {
	asked := a.handle.asked.Load()
	if err := a.readStored(ctx); err != nil {
		return err
	}
	if !a.behind {
		a.seen = asked
	}
	return nil
}

func (a *actor) readStored(ctx context.Context) error {
	if err := a.rehome(ctx); err != nil {
		return err
	}
	var stored core.Run
	list, err := a.store.Approvals(ctx, store.ApprovalFilter{RunID: a.run.ID, Into: &stored})
	if err != nil {
		return err
	}
	if stored.Runner != a.run.Runner || stored.Epoch != a.run.Epoch {
		return core.Errorf(core.CodeFenced, "another process has taken over the run %s", a.run.ID.Short()).WithRun(a.run.ID)
	}
	if stored.Abort != nil && a.stop.abort == nil {
		a.stop.abort = stored.Abort
		a.run.Abort = stored.Abort
		a.stop.cancel(errAborted)
		return nil
	}
	if stored.DAGVersion > a.run.DAGVersion {
		if a.behind = a.background.busy > 0; !a.behind {
			return a.replanned(ctx, stored)
		}
	}
	if stored.State == core.RunWaiting && a.run.State == core.RunWaiting { // deciders move it
		a.run.ExpiresAt, a.run.HeldMS = stored.ExpiresAt, stored.HeldMS
	}
	if a.calls.halted != nil {
		if a.calls.halted, err = a.store.Halted(ctx); err != nil {
			return err
		}
	}
	a.takeApprovals(list)
	a.gates.permittedElsewhere(ctx)
	a.gates.promptedElsewhere(ctx)
	return nil
}

// replanned takes up a new version of the DAG.
func (a *actor) replanned(ctx context.Context, stored core.Run) error {
	p, err := a.store.Program(ctx, a.run.ID)
	if err != nil {
		return err
	}
	a.program, a.run.DAGVersion, a.run.TotalLayers = p, stored.DAGVersion, stored.TotalLayers
	if err := a.makeProgram(); err != nil {
		return err
	}
	if err := a.restart(ctx); err != nil {
		return err
	}
	return a.readApprovals(ctx)
}

// readApprovals takes in what was decided since it last looked.
func (a *actor) readApprovals(ctx context.Context) error {
	list, err := a.store.Approvals(ctx, store.ApprovalFilter{RunID: a.run.ID})
	if err != nil {
		return err
	}
	a.takeApprovals(list)
	return nil
}

// takeApprovals is readApprovals of a list that was just read.
func (a *actor) takeApprovals(list []core.Approval) {
	for _, ap := range a.questions.take(list, a.now()) {
		a.gates.decided(ap, a.driver.started)
	}
}

// status is what the handle shows.
func (a *actor) status() *Status {
	s := &Status{Run: *a.run, Layer: a.layers.pause, Asleep: a.driver.asleep, Idle: a.calls.away > 0 && a.budget.activeSince.IsZero(), Replayed: a.calls.replayed, Turned: true, Seen: a.seen}
	if a.run.State.Final() {
		for _, c := range a.calls.order {
			state := core.TaskSkipped
			switch {
			case c.state >= callSettled:
				state = c.outcome.State()
			case c.started: // it may have run
				state = core.TaskError
			}
			s.Summary.add(c.tool, state)
		}
		a.calls.addUnseen(&s.Summary)
		slices.Sort(s.Summary.Tools)
	}
	if a.run.State == core.RunWaiting {
		s.Pending = a.questions.pending(a.now())
	}
	return s
}
