package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// settleState works out the run's state after a turn and reports whether the
// run has ended.
func (a *actor) settleState() bool {
	if a.ending() {
		if a.busy > 0 {
			return false
		}
		return a.end()
	}
	if a.stopping {
		return false
	}
	if a.lost {
		a.setRunning()
		return false
	}
	running := a.busy > 0 || len(a.queue) > 0 || len(a.pending) > 0
	if a.started && a.last.done && !running && a.undelivered() == 0 {
		return a.end()
	}
	switch {
	case running:
		a.setRunning()
	case a.waiting() || a.preflightOpen():
		a.setWaiting()
	case a.started && a.undelivered() == 0 && !a.last.done:
		a.fault = core.Errorf(core.CodeScript, "the script waits for something that never happens: every call has been answered and nothing else can wake it")
		return a.end()
	}
	return false
}

// undelivered counts calls that are under way: neither known to the program
// nor parked for good. A parked call that may have run counts: what became of
// it must be asked, whether the script awaits it or not.
func (a *actor) undelivered() int {
	n := len(a.order) - a.in[callDelivered] - a.in[callParked]
	if a.in[callParked] == 0 {
		return n
	}
	for _, c := range a.order {
		if c.state == callParked && c.started {
			n++
		}
	}
	return n
}

func (a *actor) setRunning() {
	if a.activeSince.IsZero() {
		a.activeSince = a.now()
	}
	a.parkedSince = zeroTime
	if a.run.State != core.RunRunning {
		a.run.State, a.run.ExpiresAt = core.RunRunning, nil
	}
}

func (a *actor) setWaiting() {
	// A run that was taken over while it waited is in this state already.
	if a.run.State == core.RunWaiting && a.activeSince.IsZero() {
		return
	}
	a.account()
	a.activeSince = zeroTime
	a.parkedSince = a.now()
	if a.run.State != core.RunWaiting {
		a.run.State = core.RunWaiting
		a.run.ExpiresAt = a.resumeUntil()
	}
}

// end writes the run's last state. Calls that nobody awaits are dropped, with
// their approvals.
func (a *actor) end() bool {
	a.account()
	a.activeSince = zeroTime
	now := a.now()
	a.run.ExpiresAt, a.run.EndedAt = nil, &now
	e := a.event(core.EventWorkflowComplete)
	a.run.State = core.RunComplete
	err := a.fault
	if err == nil && a.last.done {
		if err = a.last.err; err == nil {
			err = a.last.unhandled
		}
	}
	switch {
	case a.abort != nil:
		a.run.State = core.RunAborted
		a.run.Error = core.Errorf(core.CodeAborted, "aborted by %s%s", a.abort.By.Who, because(a.abort.Reason))
		e.Type, e.Message, e.Error = core.EventWorkflowAbort, a.abort.Reason, a.run.Error
	case err != nil:
		a.run.State = core.RunFailed
		a.run.Error = a.redactError(a.located(err))
		e.Type, e.Message, e.Error = core.EventWorkflowFailed, err.Message, a.run.Error
	default:
		a.run.Result, a.run.Error = a.redactJSON(a.last.result), nil
	}
	a.dropParked()
	a.emit(e)
	// Its child gets ready for the next script while the end is committed.
	a.attempt("the program was closed", a.prog.close)
	return true
}

// finish commits a turn. When the turn ends the run and somebody has planned it
// anew since the last look at the store, the outcomes are kept and the run goes
// on with the new plan; one that failed by itself ends all the same.
func (a *actor) finish(ctx context.Context, ends bool) (ended bool, err error) {
	step := a.step
	err = a.commit()
	if !ends || core.CodeOf(err) != core.CodeNotWaiting {
		return ends && err == nil, err
	}
	a.step = step
	if a.ending() {
		stored, err := a.store.Run(ctx, a.run.ID)
		if err != nil {
			return false, err
		}
		a.run.DAGVersion, a.run.TotalLayers = stored.DAGVersion, stored.TotalLayers
		return true, a.flush()
	}
	a.step.Events = slices.DeleteFunc(slices.Clone(step.Events), func(e core.Event) bool {
		return e.Type == core.EventWorkflowComplete || e.Type == core.EventWorkflowFailed
	})
	a.run.Result, a.run.Error, a.run.EndedAt = nil, nil, nil
	a.setRunning()
	a.behind = true
	return false, a.flush()
}

// dropParked drops what still waits for people when a run ends, and says so of
// the calls of a script that had returned: it forgot to await them.
func (a *actor) dropParked() {
	for _, c := range a.order {
		if c.state == callParked && !a.ending() {
			w := a.event(core.EventTaskWarning)
			w.TaskID, w.Tool = c.id, c.tool
			w.Message = c.tool + " was not called: it needed a decision, and the script returned without awaiting it"
			a.emit(w)
		}
	}
	for _, ap := range a.approvals {
		if ap.State == core.ApprovalOpen {
			a.drop(ap)
		}
	}
}

// drop takes a question back: nothing waits for its answer any more. One that
// nobody can have seen yet was never asked.
func (a *actor) drop(ap *core.Approval) {
	ap.State = core.ApprovalSuperseded
	unseen := func(o core.Approval) bool { return o.ID == ap.ID }
	if slices.ContainsFunc(a.step.Open, unseen) {
		a.step.Open = slices.DeleteFunc(a.step.Open, unseen)
		a.step.Events = slices.DeleteFunc(a.step.Events, func(e core.Event) bool { return e.ApprovalID == ap.ID })
		return
	}
	a.step.Supersede = append(a.step.Supersede, ap.ID)
	r := a.event(core.EventApprovalResolved)
	r.ApprovalID, r.Tool, r.Message = ap.ID, ap.Tool, string(core.ApprovalSuperseded)
	a.emit(r)
}

// located adds the failed calls of a script to its error.
func (a *actor) located(err *core.Error) *core.Error {
	if len(err.Failures) > 0 {
		return err
	}
	c := *err
	for _, k := range a.order {
		switch k.outcome {
		case core.OutcomeError, core.OutcomeDenied, core.OutcomeCancelled:
			c.Failures = append(c.Failures, failure(k.id, k.tool, k.err))
		case core.OutcomeSuccess, core.OutcomeFailedSafe, core.OutcomeSkipped:
		}
	}
	return &c
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
	seen := a.looked
	a.looked = false
	list, err := a.store.Approvals(ctx, store.ApprovalFilter{RunID: a.run.ID, Into: &stored, Seen: seen})
	if err != nil {
		return err
	}
	if stored.Runner != a.run.Runner || stored.Epoch != a.run.Epoch {
		return core.Errorf(core.CodeFenced, "another process has taken over the run %s", a.run.ID.Short()).WithRun(a.run.ID)
	}
	if stored.Abort != nil && a.abort == nil {
		a.abort = stored.Abort
		a.run.Abort = stored.Abort
		a.cancelWork(errAborted)
		return nil
	}
	if stored.DAGVersion > a.run.DAGVersion {
		if a.behind = a.busy > 0; !a.behind {
			return a.replanned(ctx, stored)
		}
	}
	if stored.State == core.RunWaiting && a.run.State == core.RunWaiting { // deciders move it
		a.run.ExpiresAt = stored.ExpiresAt
	}
	a.looked = true
	return a.takeApprovals(ctx, list, seen)
}

var errAborted = errors.New("the run was aborted")

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
	return a.takeApprovals(ctx, list, false)
}

// takeApprovals is readApprovals of a list that was just read: of all of them, or
// of those that others have changed.
func (a *actor) takeApprovals(ctx context.Context, list []core.Approval, changed bool) error {
	now := a.now()
	known := map[core.ID]*core.Approval{}
	for _, ap := range a.approvals {
		known[ap.ID] = ap
	}
	fresh := make([]*core.Approval, 0, max(len(list), len(a.approvals)))
	if changed {
		read := make(map[core.ID]bool, len(list))
		for i := range list {
			read[list[i].ID] = true
		}
		for _, ap := range a.approvals {
			if !read[ap.ID] {
				fresh = append(fresh, ap)
			}
		}
	}
	for i := range list {
		ap := &list[i]
		if ap.RenewedBy != "" || a.outdated(ap) {
			continue
		}
		ap.State = ap.StateAt(now)
		old := known[ap.ID]
		if old != nil && len(ap.CallIDs) == 0 {
			ap.CallIDs = old.CallIDs
		}
		ap.Used = ap.Used || old != nil && old.Used
		fresh = append(fresh, ap)
	}
	sortApprovals(fresh)
	a.approvals = fresh
	for _, ap := range fresh {
		old := known[ap.ID]
		if ap.State == core.ApprovalOpen || old != nil && old.State == ap.State {
			continue
		}
		if a.asleep && (ap.State == core.ApprovalApproved || ap.State == core.ApprovalDenied) {
			return a.restart(ctx)
		}
		a.decided(ap)
	}
	return nil
}

// outdated reports whether a denial belongs to calls that a retry runs again:
// who retries wants to be asked again.
func (a *actor) outdated(ap *core.Approval) bool {
	return ap.State == core.ApprovalDenied && ap.DecidedBy != nil && !ap.DecidedBy.At.After(a.journal.retried)
}

// decided acts on a decision that has just become known.
func (a *actor) decided(ap *core.Approval) {
	if a.ending() || ap.State != core.ApprovalApproved && ap.State != core.ApprovalDenied {
		return
	}
	for _, c := range a.order {
		if a.started && c.state == callParked && slices.ContainsFunc(c.asks, answeredBy(ap)) {
			a.admit(c)
		}
	}
	a.takeIn(ap)
}

// takeIn marks a decision that nothing can act upon yet, or at all: the run has
// seen it, and waits for others. Otherwise a waiting run would be one that has
// something to do for as long as they are open. A call that is made later takes
// the decision for its own all the same. What was asked ahead is carried out.
func (a *actor) takeIn(ap *core.Approval) {
	switch {
	case ap.Used || ap.Type == core.ApproveLayer: // a layer looks by itself
	case ap.State == core.ApprovalDenied, perCall(ap.Type) && !remembersLonger(ap):
		a.use(ap, "")
	case !a.started:
		a.apply(ap)
	}
}

// rejectRun ends a run whose next layer was denied.
func (a *actor) rejectRun(ap *core.Approval) {
	by, reason := core.Actor{}, "User rejected approval"
	if d := ap.DecidedBy; d != nil {
		by = d.Actor
		if d.Reason != "" {
			reason = d.Reason
		}
	}
	a.abort = &core.AbortRequest{By: by, At: a.now(), Reason: reason}
	a.cancelWork(errAborted)
}

// status is what the handle shows.
func (a *actor) status() *Status {
	s := &Status{Run: a.run, Layer: a.pause, Asleep: a.asleep, Replayed: a.replayed, Turned: true, Seen: a.seen}
	if a.run.State.Final() {
		for _, c := range a.order {
			state := core.TaskSkipped
			switch {
			case c.state >= callSettled:
				state = c.outcome.State()
			case c.started: // it may have run
				state = core.TaskError
			}
			s.Summary.add(c.tool, state)
		}
		a.sumUp(&s.Summary)
		slices.Sort(s.Summary.Tools)
	}
	if a.run.State == core.RunWaiting {
		now := a.now()
		for _, ap := range a.approvals {
			if ap.StateAt(now) == core.ApprovalOpen {
				s.Pending = append(s.Pending, *ap)
			}
		}
	}
	return s
}

// sumUp counts what is journaled of calls that the program has not made again:
// the run ended before it got there.
func (a *actor) sumUp(s *Summary) {
	for _, r := range a.journal.settled {
		if a.calls[r.CallID] == nil {
			s.add(r.Tool, r.Outcome.State())
		}
	}
	for id, r := range a.journal.begun {
		if r.Kind == core.RecordStarted && a.calls[id] == nil {
			s.add(r.Tool, core.TaskError)
		}
	}
}
