package temporal

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
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
	updateAbort  = "abort"
	updateBelow  = "below"

	queryRun       = "run"
	queryProgram   = "program"
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
	From  string `json:"from"`
	Epoch int64  `json:"epoch"`
	To    string `json:"to"`
}

// decision is a core.Decision with what its own JSON leaves out, and the run's new expiry.
type decision struct {
	Decision core.Decision `json:"decision"`
	Presence core.Presence `json:"presence,omitempty"`
	RunUntil *time.Time    `json:"run_until,omitempty"`
	// Context is that of the question, where it lies in the blobs.
	Context json.RawMessage `json:"context,omitempty"`
}

func (d decision) whole() core.Decision {
	d.Decision.Presence = d.Presence
	return d.Decision
}

// begin is what a run's workflow starts with: the step that creates it, or what an execution
// of it before this one had come to.
type begin struct {
	Step  *step  `json:"step,omitempty"`
	State *state `json:"state,omitempty"`
}

// runWorkflow holds a run and serves those who change and read it. It makes no call and knows
// no program: what a step changes was decided by an engine, and is only admitted here.
func runWorkflow(ctx workflow.Context, b begin) error {
	r := &runHolder{state: b.State}
	if r.state == nil {
		r.state = newState(b.Step, workflow.Now(ctx))
	}
	if err := r.show(ctx); err != nil {
		return err
	}
	if err := r.serve(ctx); err != nil {
		return err
	}
	for {
		if err := workflow.Await(ctx, func() bool { return r.full(ctx) }); err != nil {
			return err
		}
		if err := r.seal(ctx); err != nil {
			return err
		}
		if r.full(ctx) && len(r.Records)+len(r.Events)+len(r.Audit) == 0 {
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

// pageBytes is how much of a journal lies in one page.
const pageBytes = 512 << 10

// seal takes the journal, the events and the audit rows out of the workflow, page by page. A
// step that comes meanwhile is kept behind them.
func (r *runHolder) seal(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for len(r.Records)+len(r.Events)+len(r.Audit) > 0 {
		body := r.firstPage()
		var blob string
		if err := workflow.ExecuteActivity(ctx, activitySeal, r.Run.ID, body).Get(ctx, &blob); err != nil {
			return err
		}
		p := page{Blob: blob}
		if len(r.Sealed) > 0 {
			last := r.Sealed[len(r.Sealed)-1]
			p.Record, p.Event = last.Record, last.Event
		}
		if n := len(body.Records); n > 0 {
			p.Record = body.Records[n-1].Seq
		}
		if n := len(body.Events); n > 0 {
			p.Event = body.Events[n-1].Seq
		}
		r.Sealed = append(r.Sealed, p)
		r.Records, r.Events, r.Audit = r.Records[len(body.Records):], r.Events[len(body.Events):], r.Audit[len(body.Audit):]
	}
	return nil
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
	for _, row := range st.Audit {
		if !room(len(row.Reason) + 500) {
			return body
		}
		body.Audit = append(body.Audit, row)
	}
	return body
}

// serve sets what may be asked of the run.
func (r *runHolder) serve(ctx workflow.Context) error {
	for _, set := range []func(workflow.Context) error{
		r.serveCommit, r.serveClaim, r.serveDecide, r.serveOthers, r.serveReads,
	} {
		if err := set(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A validator refuses without a trace in the history; the handler checks once more, because a
// step may have come between the two.

func (r *runHolder) serveCommit(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, updateCommit,
		func(ctx workflow.Context, s *step) error {
			now := workflow.Now(ctx)
			settled, err := r.admit(s, now)
			if err != nil {
				return refusal(err)
			}
			r.write(s, settled, now)
			return r.show(ctx)
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, s *step) error {
			_, err := r.admit(s, workflow.Now(ctx))
			return refusal(err)
		}})
}

func (r *runHolder) serveClaim(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, updateClaim,
		func(ctx workflow.Context, c claim) (core.Run, error) {
			run, err := r.claimed(c.From, c.Epoch, c.To, workflow.Now(ctx))
			if err != nil {
				return core.Run{}, refusal(err)
			}
			r.Run = run
			if c.From != "" && c.From != c.To { // it may live after all
				tell(ctx, &r.telling, c.From, run.ID)
			}
			return run, r.show(ctx)
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, c claim) error {
			_, err := r.claimed(c.From, c.Epoch, c.To, workflow.Now(ctx))
			return refusal(err)
		}})
}

func (r *runHolder) serveDecide(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, updateDecide,
		func(ctx workflow.Context, d decision) (*question, error) {
			now := workflow.Now(ctx)
			run, q, res, err := r.decided(d, now)
			if err != nil {
				return nil, refusal(err)
			}
			r.settle(run, q, res, now)
			r.wake(ctx)
			return q, r.show(ctx)
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, d decision) error {
			_, _, _, err := r.decided(d, workflow.Now(ctx))
			return refusal(err)
		}})
}

// serveOthers serves requests to abort, and what is begun in the tree of an agent.
func (r *runHolder) serveOthers(ctx workflow.Context) error {
	err := workflow.SetUpdateHandlerWithOptions(ctx, updateAbort,
		func(ctx workflow.Context, req core.AbortRequest) (core.Run, error) {
			if r.Run.Abort == nil {
				r.Run.Abort, r.Run.UpdatedAt = &req, workflow.Now(ctx)
				r.wake(ctx)
			}
			return r.Run, r.show(ctx)
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, _ core.AbortRequest) error {
			return refusal(approval.NotEnded(r.Run, workflow.Now(ctx)))
		}})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandler(ctx, updateBelow, func(_ workflow.Context, id core.ID) error {
		r.Below = append(r.Below, id)
		return nil
	})
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
