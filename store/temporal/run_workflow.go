package temporal

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
)

// The names that workflows, their updates, queries and activities have in a namespace. A
// worker of another version must know them: they change only with a new suffix.
const (
	runType    = "pml-run-1"
	haltType   = "pml-halt-1"
	runnerType = "pml-runner-1"

	updateCommit = "commit"
	updateClaim  = "claim"
	updateDecide = "decide"
	updateExtend = "extend"
	updateRenew  = "renew"
	updateReplan = "replan"
	updateAbort  = "abort"
	updateBelow  = "below"

	queryRun       = "run"
	queryHeader    = "header"
	queryProgram   = "program"
	queryMarks     = "checkpoints"
	queryJournal   = "journal"
	queryApprovals = "approvals"
	queryEvents    = "events"
	queryBelow     = "below"

	activitySeal = "pml-seal"
	activityWake = "pml-wake"
	activityGone = "pml-gone"
)

// claim makes a runner the one of a run that nobody runs.
type claim struct {
	From  string    `json:"from"`
	Epoch int64     `json:"epoch"`
	To    string    `json:"to"`
	At    time.Time `json:"at"`
}

// begin is what a run's workflow starts with: the step that creates it, or what an execution
// of it before this one had come to, or the copy of a run of another store.
type begin struct {
	Step  *step  `json:"step,omitempty"`
	State *state `json:"state,omitempty"`
}

// runWorkflow holds a run and serves those who change and read it. It makes no call and knows
// no program: what a step changes was decided by an engine, and is only admitted here.
func runWorkflow(ctx workflow.Context, b begin) error {
	r := &runHolder{state: b.State}
	if r.state == nil {
		r.state = newState(b.Step, b.Step.At)
		r.Behind = workflow.Now(ctx).Sub(r.At)
	}
	if err := r.show(ctx); err != nil {
		return err
	}
	if err := r.serve(ctx); err != nil {
		return err
	}
	workflow.Go(ctx, r.sendAudit)
	for {
		if err := r.awaitFull(ctx); err != nil {
			return err
		}
		if r.Removed {
			return r.end(ctx)
		}
		if err := r.seal(ctx); err != nil {
			return err
		}
		// sendAudit works only while this waits: what is full stays so, and would go round for ever.
		if err := workflow.Await(ctx, func() bool { return len(r.Audit) == 0 }); err != nil {
			return err
		}
		if r.full(ctx) && r.light() && len(r.Audit) == 0 {
			break
		}
	}
	return workflow.NewContinueAsNewError(ctx, runType, begin{State: r.state})
}

// runHolder is the workflow of a run.
type runHolder struct {
	*state
	telling int // runners that are being told
}

// full reports whether the history has grown so long that the run goes on in a new one.
func (r *runHolder) full(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx) && r.telling == 0
}

// awaitFull waits until the history is full or the run is removed, and records meanwhile what
// expires.
func (r *runHolder) awaitFull(ctx workflow.Context) error {
	for {
		due := r.due()
		moved := func() bool { return r.full(ctx) || r.Removed || !r.due().Equal(due) }
		if due.IsZero() {
			if err := workflow.Await(ctx, moved); err != nil {
				return err
			}
		} else if ok, err := workflow.AwaitWithTimeout(ctx, max(0, due.Add(r.Behind).Sub(workflow.Now(ctx))), moved); err != nil {
			return err
		} else if !ok {
			next := r.copied()
			next.expire(due)
			r.state = next
			if err := r.show(ctx); err != nil {
				return err
			}
			r.wake(ctx)
		}
		if r.full(ctx) || r.Removed {
			return nil
		}
	}
}

// sendAudit brings the rows of the run to the shared workflow, in their order and each once.
func (r *runHolder) sendAudit(ctx workflow.Context) {
	shared := workflow.GetInfo(ctx).TaskQueueName + "/" + sharedID
	for {
		if workflow.Await(ctx, func() bool { return len(r.Audit) > 0 }) != nil {
			return
		}
		rows := r.Audit
		if workflow.SignalExternalWorkflow(ctx, shared, "", signalAudit, rows).Get(ctx, nil) != nil {
			if workflow.Sleep(ctx, sharedPause) != nil { // somebody has ended the shared workflow: the rows wait here until it is there again
				return
			}
			continue
		}
		next := r.copied()
		next.Audit = next.Audit[len(rows):]
		r.state = next
	}
}

// sharedPause is how long a run waits before it tries again to reach a shared workflow that is not there.
const sharedPause = 10 * time.Second

// pageBytes is how much of a journal lies in one page.
const pageBytes = 512 << 10

// seal takes the journal and the events out of the workflow, page by page, until what is left is light. A
// step that comes meanwhile is kept behind them.
func (r *runHolder) seal(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for some := len(r.Records)+len(r.Events) > 0; some; some = !r.light() {
		body := r.firstPage()
		var blob string
		if err := workflow.ExecuteActivity(ctx, activitySeal, r.Run.ID, body).Get(ctx, &blob); err != nil {
			return err
		}
		r.sealed(body, blob)
	}
	return nil
}

// light reports whether the journal and the events are no more than a page, and so can go along into the next history: a
// run that commits all the time would otherwise stay in its history until Temporal takes no more updates there.
func (st *state) light() bool {
	body := st.firstPage()
	return len(body.Records) == len(st.Records) && len(body.Events) == len(st.Events)
}

// sealed has a page, which is what the journal and the events begin with, in the blobs.
func (st *state) sealed(body pageBody, blob string) {
	p := page{Blob: blob}
	if len(st.Sealed) > 0 {
		last := st.Sealed[len(st.Sealed)-1]
		p.Record, p.Event = last.Record, last.Event
	}
	if n := len(body.Records); n > 0 {
		p.Record = body.Records[n-1].Seq
	}
	if n := len(body.Events); n > 0 {
		p.Event = body.Events[n-1].Seq
	}
	st.Sealed = append(st.Sealed, p)
	st.Records, st.Events = st.Records[len(body.Records):], st.Events[len(body.Events):]
}

// firstPage is as much as fits into a page, and something in any case.
func (st *state) firstPage() pageBody {
	var body pageBody
	size := 0
	room := func(n int) bool { size += n; return size == n || size <= pageBytes }
	for _, rec := range st.Records {
		if !room(len(rec.Record.Here) + 200) {
			return body
		}
		body.Records = append(body.Records, rec)
	}
	for _, e := range st.Events {
		if !room(len(e.Message) + len(e.Data) + 300) {
			return body
		}
		body.Events = append(body.Events, e)
	}
	return body
}

// serve sets what may be asked of the run.
func (r *runHolder) serve(ctx workflow.Context) error {
	for _, set := range []func(workflow.Context) error{
		r.serveCommit, r.serveClaim, r.serveDecisions, r.serveBelow, r.serveRemove, r.serveReads,
	} {
		if err := set(ctx); err != nil {
			return err
		}
	}
	return nil
}

// abortion is a request to abort the run.
type abortion struct {
	Request core.AbortRequest `json:"request"`
	At      time.Time         `json:"at"`
}

func (r *runHolder) serveCommit(ctx workflow.Context) error {
	return serveUpdate(ctx, r, updateCommit, func(_ workflow.Context, st *state, s *step) (none, error) {
		settled, err := st.admit(s, s.At)
		if err == nil {
			st.write(s, settled, s.At)
		}
		return none{}, err
	})
}

func (r *runHolder) serveClaim(ctx workflow.Context) error {
	return serveUpdate(ctx, r, updateClaim, func(ctx workflow.Context, st *state, c claim) (core.Run, error) {
		run, err := st.claimed(c.From, c.Epoch, c.To, c.At)
		if err != nil {
			return run, err
		}
		st.Run = run
		if ctx != nil && c.From != "" && c.From != c.To { // it may live after all
			tell(ctx, &r.telling, c.From, run.ID)
		}
		return run, nil
	})
}

// serveDecisions serves those who decide about the run beside its runner, and wakes that.
func (r *runHolder) serveDecisions(ctx workflow.Context) error {
	if err := serveUpdate(ctx, r, updateDecide, waking(r, func(st *state, d decision) (*question, error) { return st.decide(d) })); err != nil {
		return err
	}
	if err := serveUpdate(ctx, r, updateExtend, waking(r, func(st *state, e extension) (*question, error) { return st.extend(e) })); err != nil {
		return err
	}
	if err := serveUpdate(ctx, r, updateRenew, waking(r, func(st *state, n renewal) (*question, error) { return st.renew(n, false) })); err != nil {
		return err
	}
	if err := serveUpdate(ctx, r, updateReplan, waking(r, func(st *state, p replan) (none, error) { return none{}, st.replan(p) })); err != nil {
		return err
	}
	return serveUpdate(ctx, r, updateAbort, waking(r, func(st *state, a abortion) (none, error) { return none{}, st.abort(a.Request, a.At) }))
}

// serveBelow keeps which runs were begun in the tree of an agent.
func (r *runHolder) serveBelow(ctx workflow.Context) error {
	return workflow.SetUpdateHandler(ctx, updateBelow, func(_ workflow.Context, id core.ID) error {
		r.Below = append(r.Below, id)
		return nil
	})
}

// none is the answer of an update that says no more than that it is kept.
type none struct{}

// serveUpdate serves an update that changes the run, or refuses it and changes nothing: change
// works on a copy. A validator refuses without a trace in the history; the handler checks once
// more, because a step may have come between the two. change has no context where it only tries.
func serveUpdate[Arg, Out any](ctx workflow.Context, r *runHolder, name string, change func(workflow.Context, *state, Arg) (Out, error)) error {
	try := func(ctx workflow.Context, st *state, arg Arg) (out Out, err error) {
		if err := r.there(); err != nil {
			return out, err
		}
		out, err = change(ctx, st, arg)
		return out, refusal(err)
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, name,
		func(ctx workflow.Context, arg Arg) (Out, error) {
			next := r.copied()
			out, err := try(ctx, next, arg)
			if err == nil {
				if !next.At.Equal(r.At) {
					next.Behind = workflow.Now(ctx).Sub(next.At)
				}
				r.state = next
				if err := r.show(ctx); err != nil {
					return out, err
				}
				r.awaitAudit(ctx)
			}
			return out, err
		}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, arg Arg) error {
			_, err := try(nil, r.copied(), arg)
			return err
		}})
}

// awaitAudit waits until the shared workflow has the rows of a change, so that who has made it reads them.
func (r *runHolder) awaitAudit(ctx workflow.Context) {
	if len(r.Audit) > 0 {
		_, _ = workflow.AwaitWithTimeout(ctx, auditLimit, func() bool { return len(r.Audit) == 0 })
	}
}

// auditLimit is how long a change is not answered whose rows the shared workflow does not take. It is kept.
const auditLimit = 5 * time.Second

// waking is a change that the run's runner has to hear of.
func waking[Arg, Out any](r *runHolder, change func(*state, Arg) (Out, error)) func(workflow.Context, *state, Arg) (Out, error) {
	return func(ctx workflow.Context, st *state, arg Arg) (Out, error) {
		out, err := change(st, arg)
		if err == nil && ctx != nil {
			r.wake(ctx)
		}
		return out, err
	}
}

// wake tells the run's runner that somebody has changed what it acts upon. It is tried until
// the runner has heard it; a runner that is dead never does, and whoever takes the run over
// looks by itself.
func (r *runHolder) wake(ctx workflow.Context) {
	if r.Run.Runner == "" || r.Run.State.Final() {
		return
	}
	tell(ctx, &r.telling, r.Run.Runner, r.Run.ID)
}

// tell wakes a runner.
func tell(ctx workflow.Context, telling *int, runner string, run core.ID) {
	tellOf(ctx, telling, runner, activityWake, run)
}

// tellOf tells a runner something, and waits for nothing; telling counts those that are being
// told.
func tellOf(ctx workflow.Context, telling *int, runner, what string, about any) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: runnerQueue(ctx, runner), ScheduleToCloseTimeout: wakeLimit, StartToCloseTimeout: wakeLimit / 4,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, MaximumInterval: time.Second},
	})
	*telling++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { *telling-- }()
		_ = workflow.ExecuteActivity(ctx, what, about).Get(ctx, nil) // nobody is there to be woken
	})
}

// wakeLimit is how long a runner that does not answer is told that it should look.
const wakeLimit = time.Minute
