package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/casys-ai/pml/core"
)

// lateError is the cause with which a call ends that takes too long: what it has
// not done.
type lateError struct{ text string }

// Error implements error.
func (e *lateError) Error() string { return e.text }

// limit ends a call that takes too long: a task by its own limit, others when
// no sign of life came for a while, or because of their time in all.
type limit struct {
	silence, total time.Duration
	quiet, whole   *time.Timer // nil for none
	cancel         context.CancelCauseFunc
}

// bounded is a context for a call with its limit, which has begun.
func bounded(ctx context.Context, limits *Limits, spec *core.TaskSpec) (context.Context, *limit) {
	l, late := &limit{silence: limits.CallTimeout, total: limits.CallTotal}, "took longer than %s in all (limits.call_total)"
	if spec != nil && spec.TimeoutMS > 0 {
		l.silence, l.total, late = 0, time.Duration(spec.TimeoutMS)*time.Millisecond, "did not answer within %s (timeout_ms of the task)"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	after := func(d time.Duration, text string) *time.Timer {
		if d <= 0 {
			return nil
		}
		return time.AfterFunc(d, func() { cancel(&lateError{text}) })
	}
	l.whole = after(l.total, fmt.Sprintf(late, l.total))
	l.quiet = after(l.silence, fmt.Sprintf("did not answer within %s, nor tell of progress (limits.call_timeout)", l.silence))
	return ctx, l
}

// begin begins the limit anew.
func (l *limit) begin() {
	if l.whole != nil {
		l.whole.Reset(l.total)
	}
	l.alive()
}

// alive notes a sign of life of the call.
func (l *limit) alive() {
	if l.quiet != nil {
		l.quiet.Reset(l.silence)
	}
}

// suspend stops the limit until it begins anew: the call waits for others.
func (l *limit) suspend() {
	for _, t := range []*time.Timer{l.quiet, l.whole} {
		if t != nil {
			t.Stop()
		}
	}
}

// stop ends the limit and its context.
func (l *limit) stop() {
	l.suspend()
	l.cancel(nil)
}

// spent is what some of the run's calls take of its budget, with what the agents that they
// have started were given, or have used once these have ended.
func (t *callTable) spent(counts func(*call) bool) (tokens int, usd float64, calls int) {
	for _, c := range t.order {
		if c.tool == core.SleepTool || refusedByBudget(c.err) || !counts(c) {
			continue
		}
		calls++
		switch s := c.share; {
		case s == nil:
		case c.state < callSettled:
			tokens, usd, calls = tokens+s.Granted.Tokens, usd+s.Granted.USD, calls+s.Granted.Calls
		default:
			tokens, calls = tokens+s.Usage.Tokens(), calls+s.Calls
			if s.Usage.USD != nil {
				usd += *s.Usage.USD
			}
		}
	}
	return tokens, usd, calls
}

// overBudget refuses a call that would pass what the run, a script of an agent's, may call
// together with the agents that it starts itself. Calls that have begun already are counted.
func (t *callTable) overBudget(c *call) *core.Error {
	most := t.batch.run.Options.Budget.Calls
	if most == 0 || c.attempt > 0 || c.tool == core.SleepTool {
		return nil
	}
	let := func(k *call) bool { return k == c || k.attempt > 0 || k.state >= callQueued }
	_, _, calls := t.spent(let)
	for _, k := range t.order {
		if k.tool == core.DelegateTool && k.share == nil && k.state < callSettled && let(k) {
			calls++ // the agent that it is about to start may make one at least
		}
	}
	if calls <= most {
		return nil
	}
	return core.Errorf(core.CodeCallLimit, "%s is not called: the agent's budget of tool calls is spent; this script may make %d, with those of the agents that it starts", c.tool, most).WithNotMade()
}

// refusedByBudget reports whether a call was refused because the budget of its run is
// spent: it counts for nothing.
func refusedByBudget(err *core.Error) bool {
	return err != nil && err.Code == core.CodeCallLimit && err.NotMade
}

// grant is the part of the run's budget that the agent of a call may spend which begins now:
// what is left, shared with those that are about to start. An agent without tools needs no
// calls.
func (t *callTable) grant(c *call) core.AgentBudget {
	b := t.batch.run.Options.Budget
	if b == (core.AgentBudget{}) {
		return b
	}
	waiting := 0
	for _, k := range t.order {
		if core.StartsAgent(k.tool) && k.share == nil && k.state < callSettled {
			waiting++
		}
	}
	b = b.Rest(t.spent(func(*call) bool { return true })).Share(max(1, waiting))
	if c.tool != core.DelegateTool {
		b.Calls = 0
	}
	return b
}
