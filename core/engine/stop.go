package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// stopper is why and how a run stops: for good, with an end of its own, or in this
// process only.
type stopper struct {
	now func() time.Time

	// abort is somebody's request, and fault a failure. Either ends the run: no call
	// is started any more, the program gets no turn, and once nothing is under way
	// the run has its last state.
	abort *core.AbortRequest
	fault *core.Error
	// crashed is set when the fault is a panic: what is under way may end, as in a
	// stop, because its outcomes are true all the same.
	crashed bool

	// stopping is set once the run is to leave this process without having ended,
	// at since; gaveUp is why, where that is neither the engine's end nor a crash.
	stopping bool
	since    time.Time
	gaveUp   *core.Error

	// work is the context of all that runs beside the actor. Its cause says why it
	// was cancelled: errAborted, errStopped or the fault.
	work   context.Context
	cancel context.CancelCauseFunc
}

var errAborted = errors.New("the run was aborted")

// ending reports whether the run is on its way out.
func (s *stopper) ending() bool { return s.fault != nil || s.abort != nil }

// begin starts nothing more and gives what runs a moment to end.
func (s *stopper) begin() {
	if s.stopping {
		return
	}
	s.stopping, s.since = true, s.now()
}

// reject ends a run whose next layer was denied.
func (s *stopper) reject(ap *core.Approval) {
	by, reason := core.Actor{}, core.RejectedApproval
	if d := ap.DecidedBy; d != nil {
		by = d.Actor
		if d.Reason != "" {
			reason = d.Reason
		}
	}
	s.abort = &core.AbortRequest{By: by, At: s.now(), Reason: reason}
	s.cancel(errAborted)
}

// fail ends a run as failed, unless it fails already: what is under way is cancelled.
func (s *stopper) fail(fault *core.Error) {
	if s.fault == nil {
		s.fault = fault
		s.cancel(fault)
	}
}

// crash ends the run: nothing more starts, and what is under way gets the moment
// that a stop would give it.
func (s *stopper) crash(err *core.Error) {
	s.crashed = true
	if s.fault == nil {
		s.fault = err
	}
	s.begin()
}

// graceForRest is how long a stop waits when nothing is under way that could not
// be done again.
const graceForRest = time.Second

// stopDue is until when a run that stops lets go on what is under way: sleeps and
// waits between attempts have no outcome that could be lost, and what can be
// done again costs only its time.
func (a *actor) stopDue() time.Time {
	grace := a.limits.StopGrace
	switch {
	case a.run.State != core.RunRunning || a.background.busy == a.calls.in[callSleeping]+a.background.backoffs+a.calls.away:
		grace = 0
	case !a.holdsOutcomes():
		grace = min(grace, graceForRest)
	}
	return a.stop.since.Add(grace)
}

// holdsOutcomes reports whether a call is under way that cannot simply be made
// again, or an approval is being carried out.
func (a *actor) holdsOutcomes() bool {
	if len(a.gates.applying) > 0 {
		return true
	}
	return a.calls.in[callRunning] > 0 && slices.ContainsFunc(a.calls.order, func(c *call) bool { return c.state == callRunning && !c.repeatable() })
}

// leave ends the actor of a run that has not ended.
func (a *actor) leave() error {
	if a.run.State != core.RunRunning && len(a.batch.step.Events) == 0 && a.stop.gaveUp == nil {
		return nil
	}
	if a.run.State == core.RunRunning || a.stop.gaveUp != nil {
		// It waits for nobody: whoever runs next goes on with it, however late.
		a.run.State, a.run.ExpiresAt = core.RunInterrupted, nil
	}
	a.budget.account()
	return a.flush()
}
