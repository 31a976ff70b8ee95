package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/sandbox"
)

// advance drives the program as far as it gets with what is known: it starts
// it, hands over outcomes, takes its calls, and lets calls that may pass go on.
func (a *actor) advance(ctx context.Context) error {
	if a.idle() {
		return nil
	}
	if !a.driver.started {
		if !a.preflight.passed() {
			return nil
		}
		a.driver.started = true
		t, err := a.driver.program.start(ctx)
		if err := a.absorb(t, err); err != nil {
			return err
		}
	}
	for {
		if err := a.feed(ctx); err != nil {
			return err
		}
		if a.idle() {
			return nil
		}
		if err := a.checkReplay(); err != nil {
			return a.fail(err)
		}
		// A call that a layer admits may have its outcome at once: it was
		// denied, or what it may have done before is assumed.
		settled := a.calls.in[callSettled]
		for _, c := range a.layers.open() {
			a.gates.admit(c)
		}
		if a.calls.in[callSettled] == settled || a.stop.ending() {
			return nil
		}
	}
}

// feed hands outcomes to the program for as long as there are any.
func (a *actor) feed(ctx context.Context) error {
	for !a.idle() {
		list := a.deliverable()
		if len(list) == 0 {
			return nil
		}
		a.driver.asleep = false
		t, err := a.driver.program.deliver(ctx, list)
		if err := a.absorb(t, err); err != nil {
			return err
		}
	}
	return nil
}

// absorb takes what a turn of the program brought.
func (a *actor) absorb(t turn, err error) error {
	if errors.Is(err, sandbox.ErrLost) {
		a.driver.lose(core.AsError(err))
		return nil
	}
	if err != nil {
		return a.fail(err)
	}
	a.driver.last = t
	for _, l := range t.logs {
		a.batch.console(l)
	}
	for _, is := range t.calls {
		if err := a.issue(is); err != nil {
			return a.fail(err)
		}
	}
	for _, id := range t.cancelled {
		a.calls.drop(a.calls.byID[id])
	}
	return nil
}

// fail ends the run with a failure of its program. Failures of pml's own
// machinery and cancellations are passed on instead: the run stays.
func (a *actor) fail(err error) error {
	if ownFailure(err) {
		return err
	}
	a.stop.fail(core.AsError(err))
	return nil
}

// ownFailure reports whether an error is one of pml's own machinery, or the end of what
// it was to do. It says nothing about a program.
func ownFailure(err error) bool {
	return slices.Contains([]core.Code{
		core.CodeInternal, core.CodeCancelled, core.CodeFenced, core.CodeStoreBusy, core.CodeStoreFailed, core.CodeStoreNewer, core.CodeStoreKey,
	}, core.CodeOf(err))
}

// issue takes up a call that the program makes.
func (a *actor) issue(is issued) error {
	if len(a.calls.order) >= a.limits.Calls {
		return core.Errorf(core.CodeCallLimit, "the run made more than %d calls (limits.calls)", a.limits.Calls)
	}
	// A call that was parked when the program was put away is the same call.
	digest, err := core.Digest(is.args)
	if err != nil {
		return err
	}
	if err := core.CheckDepth("the argument of "+is.tool, is.args); err != nil && is.tool != core.CodeTool && is.reason == nil {
		is.reason = core.AsError(err)
	}
	if core.TooDeep(is.args) && is.tool != core.CodeTool { // it is not journaled
		is.args = core.Null
	}
	c := newCall(is, digest)
	replayed, err := a.calls.add(c)
	if err != nil {
		return err
	}
	switch {
	case replayed:
	case is.skip:
		a.calls.settle(c, core.OutcomeSkipped, nil, is.reason)
	case is.reason != nil:
		a.calls.settle(c, core.OutcomeError, nil, is.reason)
	case c.tool == core.SleepTool:
		a.dispatch.sleep(c)
	case is.spec != nil && is.spec.When != "":
		if d, ok := a.driver.program.(*dagProgram); ok {
			a.dispatch.weigh(c, d.scope(c.id))
		}
	default:
		a.gates.check(c)
	}
	return nil
}

// checkReplay refuses a program that no longer makes a call whose outcome is
// journaled, once it has had everything else.
func (a *actor) checkReplay() error {
	if a.stop.ending() || a.journal.next >= len(a.journal.settled) || a.layers.barrier || a.driver.last.err != nil {
		return nil
	}
	r := a.journal.settled[a.journal.next]
	if c := a.calls.byID[r.CallID]; c != nil || a.background.busy > 0 || a.waiting() {
		return nil
	}
	return core.Errorf(core.CodeReplay, "replay went another way: call %s to %s with arguments %s is journaled, and the program no longer makes it; the journal is kept, nothing was called",
		r.CallID, r.Tool, shown(r.Args))
}

// idle reports whether the program gets no more turns: the run is on its way
// out, or what ran the program is gone.
func (a *actor) idle() bool { return a.stop.ending() || a.stop.stopping || a.driver.lost }

// waiting reports whether a person's decision is outstanding.
func (a *actor) waiting() bool {
	return a.layers.pause != nil || a.calls.in[callParked] > 0
}
