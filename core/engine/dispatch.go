package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// dispatcher makes the calls that may run, as many at a time as the limits let it,
// and takes their outcomes. It keeps nothing: callTable has where each call stands.
type dispatcher struct {
	eng        *Engine
	run        *core.Run
	store      *patient
	limits     *Limits
	batch      *batch
	calls      *callTable
	gates      *gates
	stop       *stopper
	background *background
	// make makes a call: Host.Call, but for a run of one call.
	make func(ctx context.Context, call Call, progress func(string)) (json.RawMessage, error)
	// rehome makes the run one of the runner that this process is now.
	rehome func(ctx context.Context) error
}

// refill makes the calls that may take the places of those that have just ended.
func (d *dispatcher) refill() {
	for c := d.calls.refill(); c != nil; c = d.calls.refill() {
		d.start(c)
	}
}

// startPending makes the calls whose beginning has just been committed.
func (d *dispatcher) startPending() {
	for _, c := range d.calls.committed() {
		d.start(c)
	}
}

// start makes a call whose beginning is committed, or needs no record.
func (d *dispatcher) start(c *call) {
	switch c.tool {
	case core.ModelTool:
		d.startAsking(c)
		return
	case core.RunTool:
		d.startChild(c)
		return
	}
	if core.StartsAgent(c.tool) {
		d.startAgent(c)
		return
	}
	gc, spec := d.gates.call(c), c.spec
	gc.Attempt = c.attempt
	runner, until := d.run.Runner, c.until
	d.background.run(func(ctx context.Context) func(context.Context) error {
		var halt *core.Halt
		over := false
		ctx, limit := bounded(ctx, d.limits, spec)
		defer limit.stop()
		gc.Queued = limit.suspend
		gc.Before = func(ctx context.Context) error {
			err := d.maySend(ctx, runner, &halt)
			if over = err == nil && until != nil && !d.gates.batch.now().Before(*until); over {
				err = core.Errorf(core.CodePermissionDenied, "the time in which %s may be called without being asked about is over", gc.Tool).WithNotMade()
			}
			limit.begin() // what came before is not its server's time
			return err
		}
		var value json.RawMessage
		var err error
		if gc.Tool == core.CodeTool {
			value, err = d.eval(ctx, spec.Code, false, gc.Args)
		} else {
			value, err = d.make(ctx, gc, func(msg string) {
				limit.alive()
				if msg != "" {
					d.background.report(gc.ID, gc.Tool, msg)
				}
			})
		}
		var late *lateError
		_ = errors.As(context.Cause(ctx), &late)
		return func(context.Context) error {
			d.halts(halt)
			c.over = over
			d.ended(c, value, err, late)
			return nil
		}
	})
}

// maySend is asked right before a call is sent: nobody has halted calls, and nobody has
// taken this process for dead. It says who has halted them. While the store is away the
// call waits for it, as its run does, and it is not made when that stays unknown.
func (d *dispatcher) maySend(ctx context.Context, runner string, halt **core.Halt) error {
	halted := d.eng.opts.Halted
	if halted == nil {
		halted = d.eng.opts.Store.Halted
	}
	var h *core.Halt
	err := d.store.try(ctx, func() (err error) {
		h, err = halted(ctx)
		return err
	})
	if err != nil {
		return core.Errorf(core.CodeOf(err), "the call was not made, as it cannot be known whether calls are halted: %w", err).WithNotMade()
	}
	if h != nil {
		*halt = h
		return h.Error()
	}
	if d.eng.opts.Holds == nil {
		return nil
	}
	return d.eng.opts.Holds(ctx, runner)
}

// weigh evaluates a task's condition before anything else is asked about it.
func (d *dispatcher) weigh(c *call, scope json.RawMessage) {
	source := c.spec.When
	c.weighing = true
	d.background.run(func(ctx context.Context) func(context.Context) error {
		ctx, limit := bounded(ctx, d.limits, nil)
		defer limit.stop()
		v, err := d.eval(ctx, source, true, scope)
		return func(context.Context) error {
			c.weighing = false
			switch {
			case ctx.Err() != nil && d.stop.work.Err() != nil:
			case err != nil:
				d.calls.settleFailed(c, core.OutcomeError, core.AsError(err))
			case !truthy(v):
				d.calls.settle(c, core.OutcomeSkipped, nil, nil)
			default:
				d.gates.check(c)
			}
			return nil
		}
	})
}

func (d *dispatcher) eval(ctx context.Context, source string, expression bool, scope json.RawMessage) (json.RawMessage, error) {
	out, err := d.eng.opts.Sandbox.Eval(ctx, sandbox.EvalRequest{
		Source: source, Expression: expression, Seed: string(d.run.ID), Now: d.run.CreatedAt,
		Globals: map[string]json.RawMessage{"deps": scope, "input": orNull(d.run.Options.Input)},
	})
	return out.Value, err
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
func (d *dispatcher) ended(c *call, value json.RawMessage, err error, late *lateError) {
	if core.TooDeep(value) {
		value = nil
		if err == nil {
			err = core.Errorf(core.CodeResultTooLarge, "the result of %s is nested more than %d levels deep", c.tool, core.MaxDepth)
		}
	}
	notMade := err != nil && core.AsError(err).NotMade
	switch {
	case err == nil:
		d.calls.settle(c, core.OutcomeSuccess, value, nil)
	case d.stop.abort != nil, d.stop.fault != nil && !d.stop.crashed:
		e := core.Errorf(core.CodeCancelled, "%s was cancelled", c.tool)
		e.NotMade = notMade
		d.calls.settle(c, core.OutcomeCancelled, nil, c.doubtful(e))
	case d.stop.stopping && errors.Is(context.Cause(d.stop.work), errStopped):
		// Mostly nobody knows how it ended; the next runner asks.
		d.calls.leave(c, notMade)
	case d.notMade(c, err):
	default:
		e := core.AsError(err)
		if late != nil {
			e = core.Errorf(core.CodeToolTimeout, "%s %s", c.tool, late)
			e.NotMade = notMade
		}
		c.value = value // what the tool has said of its failure
		d.failed(c, c.doubtful(e))
	}
}

// maxNotMade is how often a call that was not made goes back to its gates.
const maxNotMade = 3

// notMade takes a call that the host did not make to its gates again, as if it
// had not been started. It reports false for any other error. When it was not
// made because this process was taken for dead, it waits until the process is a
// runner again, however long that takes.
func (d *dispatcher) notMade(c *call, err error) bool {
	var e *NotMadeError
	fenced := core.CodeOf(err) == core.CodeFenced && d.eng.opts.Holds != nil
	halted := core.CodeOf(err) == core.CodeHalted && core.AsError(err).NotMade
	over := c.over && core.AsError(err).NotMade
	if !errors.As(err, &e) && !fenced && !halted && !over {
		return false
	}
	d.calls.unstart(c)
	if c.back == maxNotMade && !fenced && !halted && !over {
		return false
	}
	d.calls.retake(c)
	switch {
	case d.stop.stopping: // the next runner asks
	case fenced:
		d.checkUnderRunner(c)
	case halted: // it waits in the queue; its gates are asked right before it is made
		c.checked = true
		c.attempt--
		d.calls.admit(c)
	case over:
		c.attempt--
		d.gates.check(c)
	default:
		c.back++
		if c.tool == core.ModelTool {
			c.attempt-- // nothing was sent that could be lost
		}
		d.gates.check(c)
	}
	return true
}

// checkUnderRunner takes a call to its gates once this process is a runner that nobody
// takes for dead. Another one may have the run by then: core.CodeFenced.
func (d *dispatcher) checkUnderRunner(c *call) {
	was := d.run.Runner
	d.background.run(func(ctx context.Context) func(context.Context) error {
		d.eng.awaitRunner(ctx, was)
		return func(ctx context.Context) error {
			if d.stop.stopping || c.state != callIssued {
				return nil
			}
			if err := d.rehome(ctx); err != nil {
				return err
			}
			d.gates.check(c)
			return nil
		}
	})
}

// failed tries a call again if its task says so, and settles it otherwise.
func (d *dispatcher) failed(c *call, err *core.Error) {
	if d.triesAgain(c, err) {
		e := d.batch.event(core.EventTaskWarning)
		e.TaskID, e.Tool, e.Error = c.id, c.tool, err
		e.Message = "failed, will be tried again: " + err.Message
		d.batch.emit(e)
		d.calls.retry(c, err)
		times := c.attempt
		if c.tool == core.ModelTool {
			times = c.failures // what was lost with a process has not failed
		}
		wait := max(time.Duration(c.spec.Retry.BackoffMS)*time.Millisecond<<min(times-1, 16), min(time.Duration(err.RetryAfter)*time.Second, longestRetryAfter))
		if c.tool == core.ModelTool {
			wait = spread(wait, d.run.ID, c.id, times)
		}
		d.background.backoffs++
		d.background.after(wait, nil, func() {
			d.background.backoffs--
			d.gates.check(c)
		})
		return
	}
	d.calls.settleFailed(c, core.OutcomeError, err)
}

// spread makes a wait longer by up to a quarter, for each run another part of that: agents
// that a provider has refused together do not come back together.
func spread(wait time.Duration, run core.ID, call string, times int) time.Duration {
	h := fnv.New32a()
	fmt.Fprint(h, run, call, times)
	return wait + wait/4*time.Duration(h.Sum32()%1000)/1000
}

// triesAgain reports whether another attempt of a call is made without asking
// anybody: not of one that may have run, which its task wants no more than
// anybody else, and not of one that was denied.
func (d *dispatcher) triesAgain(c *call, err *core.Error) bool {
	if c.tool == core.ModelTool {
		return c.failures+1 < c.spec.Retry.MaxAttempts && !d.stop.stopping && passes(err)
	}
	switch {
	case c.spec == nil || c.spec.Retry == nil || c.attempt >= c.spec.Retry.MaxAttempts || d.stop.stopping:
		return false
	case err.Made, c.started && mayHaveRun(err):
		return false
	}
	return err.Code != core.CodeDenied && err.Code != core.CodePermissionDenied
}

// sleep settles a script's sleep when it is due.
func (d *dispatcher) sleep(c *call) {
	d.calls.sleep(c)
	d.background.after(c.due.Sub(c.startAt), c.dropped, func() {
		if c.state == callSleeping { // otherwise it was woken with an earlier one
			d.wakeSleeps(c.due)
		}
	})
}

// wakeSleeps settles all sleeps that are due at a time, in the order in which
// they are due: those of one moment in the order in which they were made.
func (d *dispatcher) wakeSleeps(due time.Time) {
	var list []*call
	for _, c := range d.calls.order {
		if c.state == callSleeping && !c.due.After(due) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y *call) int { return x.due.Compare(y.due) })
	for _, c := range list {
		d.calls.settle(c, core.OutcomeSuccess, core.Null, nil)
	}
}
