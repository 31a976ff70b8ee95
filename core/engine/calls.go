package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// pass queues a call that may run.
func (a *actor) pass(c *call) {
	a.move(c, callQueued)
	c.asks = nil
	a.queue = append(a.queue, c)
}

// dequeue prepares queued calls to start with the next commit, as many as may
// run at the same time. One whose repetition could hurt is journaled first.
func (a *actor) dequeue() {
	if a.idle() {
		return
	}
	n := 0
	for _, c := range a.queue {
		if a.in[callRunning] >= a.limits.Concurrency {
			break
		}
		n++
		if c.state != callQueued {
			continue
		}
		a.begin(c)
		a.pending = append(a.pending, c)
	}
	a.queue = a.queue[n:]
}

// begin makes a queued call a running one.
func (a *actor) begin(c *call) {
	a.move(c, callRunning)
	c.attempt++
	c.startAt = a.now()
	if !a.repeatable(c) {
		c.started = true
		a.record(callRecord(core.RecordStarted, c))
	}
	layer := c.layer
	e := a.event(core.EventTaskStart)
	e.TaskID, e.Tool, e.Layer = c.id, c.tool, &layer
	a.emit(e)
}

// refill starts queued calls in the places of those that have just ended. It
// does not wait for the commit of their outcomes: what led to these calls is
// committed, and they need no record. So they run while the program is given
// the outcomes. It reports whether it has started any.
func (a *actor) refill() (started bool) {
	for a.cleared > 0 && len(a.queue) > 0 && a.in[callRunning] < a.limits.Concurrency && !a.idle() {
		c := a.queue[0]
		if c.state == callQueued && !a.repeatable(c) {
			return started
		}
		a.queue = a.queue[1:]
		a.cleared--
		if c.state == callQueued {
			a.begin(c)
			a.start(c)
			a.fresh, started = true, true
		}
	}
	return started
}

// startPending starts the calls whose records are committed.
func (a *actor) startPending() {
	list := a.pending
	a.pending = nil
	a.fresh = a.fresh || len(list) > 1
	for _, c := range list {
		a.start(c)
	}
}

func (a *actor) start(c *call) {
	gc, spec := a.gateCall(c), c.spec
	gc.Attempt = c.attempt
	a.beside(func(ctx context.Context) func(context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, a.callTimeout(spec), errCallTimeout)
		defer cancel()
		var value json.RawMessage
		var err error
		if gc.Tool == core.CodeTool {
			value, err = a.eval(ctx, spec.Code, false, gc.Args)
		} else {
			value, err = a.host.Call(ctx, gc, func(msg string) { a.report(gc.ID, gc.Tool, msg) })
		}
		timedOut := errors.Is(context.Cause(ctx), errCallTimeout)
		return func(context.Context) error {
			a.ended(c, value, err, timedOut)
			return nil
		}
	})
}

var errCallTimeout = errors.New("the call took too long")

func (a *actor) callTimeout(spec *core.TaskSpec) time.Duration {
	if spec != nil && spec.TimeoutMS > 0 {
		return time.Duration(spec.TimeoutMS) * time.Millisecond
	}
	return a.limits.CallTimeout
}

// when evaluates a task's condition before anything else is asked about it.
func (a *actor) when(c *call) {
	d, ok := a.prog.(*dagProgram)
	if !ok {
		return
	}
	scope, source := d.scope(c.id), c.spec.When
	c.weighing = true
	a.beside(func(ctx context.Context) func(context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, a.limits.CallTimeout, errCallTimeout)
		defer cancel()
		v, err := a.eval(ctx, source, true, scope)
		return func(context.Context) error {
			c.weighing = false
			switch {
			case ctx.Err() != nil && a.work.Err() != nil:
			case err != nil:
				a.settleFailed(c, core.OutcomeError, core.AsError(err))
			case !truthy(v):
				a.settle(c, core.OutcomeSkipped, nil, nil)
			default:
				a.ask(c)
			}
			return nil
		}
	})
}

func (a *actor) eval(ctx context.Context, source string, expression bool, scope json.RawMessage) (json.RawMessage, error) {
	return a.o.Sandbox.Eval(ctx, sandbox.EvalRequest{
		Source: source, Expression: expression, Seed: string(a.run.ID), Now: a.run.CreatedAt,
		Globals: map[string]json.RawMessage{"deps": scope, "input": orNull(a.run.Options.Input)},
	})
}

// truthy is JavaScript's truth of a JSON value.
func truthy(v json.RawMessage) bool {
	switch string(v) {
	case "", "null", "false", "0", "-0", `""`:
		return false
	}
	return true
}

// ended takes the outcome of a call.
func (a *actor) ended(c *call, value json.RawMessage, err error, timedOut bool) {
	if err == nil && core.TooDeep(value) {
		err = core.Errorf(core.CodeResultTooLarge, "the result of %s is nested more than %d levels deep", c.tool, core.MaxDepth)
	}
	notMade := err != nil && core.AsError(err).NotMade
	switch {
	case err == nil:
		a.settle(c, core.OutcomeSuccess, value, nil)
	case a.abort != nil, a.fault != nil && !a.crashed:
		e := core.Errorf(core.CodeCancelled, "%s was cancelled", c.tool)
		e.NotMade = notMade
		a.settle(c, core.OutcomeCancelled, nil, a.doubtful(c, e))
	case a.stopping && errors.Is(context.Cause(a.work), errStopped):
		// Mostly nobody knows how it ended; the next runner asks.
		if notMade {
			a.unstart(c)
		}
		a.move(c, callIssued)
	case a.notMade(c, err):
	default:
		e := core.AsError(err)
		if timedOut {
			e = core.Errorf(core.CodeToolTimeout, "%s did not answer within %s", c.tool, a.callTimeout(c.spec))
			e.NotMade = notMade
		}
		a.failed(c, a.doubtful(c, e))
	}
}

// maxNotMade is how often a call that was not made goes back to its gates.
const maxNotMade = 3

// notMade takes a call that the host did not make to its gates again, as if it
// had not been started. It reports false for any other error.
func (a *actor) notMade(c *call, err error) bool {
	var e *NotMadeError
	if !errors.As(err, &e) {
		return false
	}
	a.unstart(c)
	if c.back == maxNotMade {
		return false
	}
	c.back++
	a.move(c, callIssued)
	c.checked, c.parkedAt = false, zeroTime
	if !a.stopping { // otherwise the next runner asks
		a.check(c)
	}
	return true
}

// unstart takes back that a call was started, which was not made.
func (a *actor) unstart(c *call) {
	if c.started {
		c.started = false
		a.record(callRecord(core.RecordVoid, c))
	}
}

// failed tries a call again if its task says so, and settles it otherwise. That
// an attempt has failed is journaled: whoever goes on knows that it answered,
// and how many are left.
func (a *actor) failed(c *call, err *core.Error) {
	if a.triesAgain(c, err) {
		e := a.event(core.EventTaskWarning)
		e.TaskID, e.Tool, e.Error = c.id, c.tool, err
		e.Message = "failed, will be tried again: " + err.Message
		a.emit(e)
		c.started = false
		r := callRecord(core.RecordVoid, c)
		r.Error = err
		a.record(r)
		wait := time.Duration(c.spec.Retry.BackoffMS) * time.Millisecond << min(c.attempt-1, 16)
		a.move(c, callIssued)
		c.checked = false // nothing lets it on before the wait is over
		a.backoffs++
		a.after(wait, nil, func() {
			a.backoffs--
			a.ask(c)
		})
		return
	}
	a.settleFailed(c, core.OutcomeError, err)
}

// triesAgain reports whether another attempt of a call is made without asking
// anybody: not of one that may have run, which its task wants no more than
// anybody else, and not of one that was denied.
func (a *actor) triesAgain(c *call, err *core.Error) bool {
	switch {
	case c.spec == nil || c.spec.Retry == nil || c.attempt >= c.spec.Retry.MaxAttempts || a.stopping:
		return false
	case c.started && mayHaveRun(err):
		return false
	}
	return err.Code != core.CodeDenied && err.Code != core.CodePermissionDenied
}

// ask takes a call to its gates; a code task has none.
func (a *actor) ask(c *call) {
	if c.tool == core.CodeTool {
		a.checked(c, Verdict{Known: true, ReadOnly: true, Repeatable: true})
		return
	}
	a.check(c)
}

func (a *actor) settleFailed(c *call, outcome core.Outcome, err *core.Error) {
	if c.spec != nil && c.spec.SafeToFail {
		outcome = core.OutcomeFailedSafe
	}
	a.settle(c, outcome, nil, err)
}

// sleep settles a script's sleep when it is due; one that was due before a
// restart is due at once.
func (a *actor) sleep(c *call) {
	a.move(c, callSleeping)
	c.startAt = a.now()
	c.dropped = make(chan struct{})
	a.after(c.due.Sub(c.startAt), c.dropped, func() {
		if c.state == callSleeping { // otherwise it was woken with an earlier one
			a.wakeSleeps(c.due)
		}
	})
}

// wakeSleeps settles all sleeps that are due at a time, in the order in which
// they are due: those of one moment in the order in which they were made.
func (a *actor) wakeSleeps(due time.Time) {
	var list []*call
	for _, c := range a.order {
		if c.state == callSleeping && !c.due.After(due) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y *call) int { return x.due.Compare(y.due) })
	for _, c := range list {
		a.settle(c, core.OutcomeSuccess, core.Null, nil)
	}
}

// dropSleep forgets a sleep that the script took back: nothing waits for it
// any more. A replay takes it back at the same place.
func (a *actor) dropSleep(c *call) {
	if c == nil || c.state != callSleeping {
		return
	}
	close(c.dropped)
	a.move(c, callDelivered)
	c.outcome = core.OutcomeSkipped
	a.layers.deliver(c)
}

// after runs f in the actor after a while, unless it is dropped or the run's
// work is cancelled.
func (a *actor) after(d time.Duration, dropped <-chan struct{}, f func()) {
	a.beside(func(ctx context.Context) func(context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return func(context.Context) error {
				select {
				case <-dropped:
				default:
					f()
				}
				return nil
			}
		case <-dropped:
			return nil
		case <-ctx.Done():
			return nil
		}
	})
}

// hear takes up the progress of what runs beside the actor.
//
//go:noinline // the event would be in the frame of await, also while it waits
func (a *actor) hear(e *core.Event) { a.emit(*e) }

// report turns the progress of something that runs beside the actor into an
// event.
func (a *actor) report(callID, tool, msg string) {
	e := a.event(core.EventTaskLog)
	e.TaskID, e.Tool, e.Message = callID, tool, msg
	select {
	case a.notes <- &e:
	default: // progress is told when there is room
	}
}
