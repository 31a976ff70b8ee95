package temporal

import (
	"context"
	"errors"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

const (
	activityHold = "pml-hold"
	signalLeft   = "left"
)

// runnerWorkflow is the standing of a process as a runner: it is open for as long as the
// process gives signs of life, and never opens again. One heartbeat a process, however many
// runs it has.
func runnerWorkflow(ctx workflow.Context, id string, heartbeat time.Duration) error {
	held := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: runnerQueue(ctx, id), HeartbeatTimeout: heartbeat, ScheduleToStartTimeout: time.Minute, StartToCloseTimeout: standing,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	_ = workflow.ExecuteActivity(held, activityHold, id).Get(ctx, nil) // however it ended, it has
	at := workflow.GetInfo(ctx).TaskQueueName + "/" + haltID
	_ = workflow.SignalExternalWorkflow(ctx, at, "", signalLeft, id).Get(ctx, nil)
	return nil
}

// standing is how long a process is a runner at most; then it registers anew.
const standing = 365 * 24 * time.Hour

// runnerQueue is the task queue of one process, by which it gives signs of life and is woken.
func runnerQueue(ctx workflow.Context, runner string) string {
	return queueOf(workflow.GetInfo(ctx).TaskQueueName, runner)
}

func queueOf(name, runner string) string { return name + "/runner/" + runner }

// runner implements store.Runner.
type runner struct {
	id        string
	store     *Store
	worker    worker.Worker
	heartbeat time.Duration
	began     chan struct{} // closed by the first sign of life that was heard
	lost      chan struct{}
	gone      chan struct{} // receives when another one has died
	end       chan struct{} // closed by Close

	mu     sync.Mutex
	heard  time.Time     // when the last sign of life was sent that was heard
	change chan struct{} // closed with each
	ended  bool
}

// Register makes this process a runner, until Close.
func (s *Store) Register(ctx context.Context) (store.Runner, error) {
	if err := s.work.ended(); err != nil {
		return nil, err
	}
	r := newRunner(s)
	if err := r.worker.Start(); err != nil {
		return nil, failure(err, "")
	}
	if err := beginRunner(ctx, s, r); err != nil {
		r.worker.Stop()
		return nil, failure(err, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runners = append(s.runners, r)
	return r, nil
}

func newRunner(s *Store) *runner {
	r := &runner{
		id: string(s.opts.NewID()), store: s, heartbeat: s.opts.Heartbeat,
		began: make(chan struct{}), lost: make(chan struct{}), gone: make(chan struct{}, 1), end: make(chan struct{}), change: make(chan struct{}),
	}
	r.worker = worker.New(s.serving, queueOf(s.opts.Name, r.id), worker.Options{DisableWorkflowWorker: true, MaxConcurrentActivityTaskPollers: 2})
	r.worker.RegisterActivityWithOptions(r.hold, activity.RegisterOptions{Name: activityHold})
	r.worker.RegisterActivityWithOptions(r.woken, activity.RegisterOptions{Name: activityWake})
	r.worker.RegisterActivityWithOptions(r.died, activity.RegisterOptions{Name: activityGone})
	return r
}

// beginRunner begins the workflow of a runner, and waits for its first sign of life. That may never come: Temporal gives the
// activity which gives them away once, and may do so to a poll that nobody waits for any more. The workflow ends then.
func beginRunner(ctx context.Context, s *Store, r *runner) error {
	w, err := s.serving.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: s.runnerWorkflow(r.id), TaskQueue: s.opts.Name, WorkflowTaskTimeout: taskLimit, EnableEagerStart: true,
	}, runnerType, r.id, r.heartbeat)
	if err != nil {
		return err
	}
	watch, enough := context.WithCancel(ctx)
	defer enough()
	ended := make(chan struct{})
	go func() {
		_ = w.Get(watch, nil)
		close(ended)
	}()
	select {
	case <-r.began:
		// This process's end is what that workflow waits for: it is not to be looked for here.
		_ = s.forgetPlace(ctx, s.runnerWorkflow(r.id))
		return s.update(ctx, s.name(haltID), updateJoin, "", r.id, nil)
	case <-r.lost:
	case <-ended:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return core.Errorf(core.CodeStoreBusy, "Temporal does not take this process as a runner; try again")
}

func (s *service) runnerWorkflow(id string) string { return s.name("runner/" + id) }

// Alive reports whether a runner lives. One that is dead stays so.
func (s *Store) Alive(ctx context.Context, id string) (bool, error) {
	d, err := s.client.DescribeWorkflowExecution(ctx, s.runnerWorkflow(id), "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false, nil
	}
	if err != nil {
		return false, failure(err, "")
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// hold is the activity that gives signs of life, by requests of its own whose answer says
// whether they were heard.
func (r *runner) hold(ctx context.Context, _ string) error {
	token := activity.GetInfo(ctx).TaskToken
	tick := time.NewTicker(r.heartbeat / 4)
	defer tick.Stop()
	for {
		sent := time.Now() //nolint:forbidigo // an injected clock could stand still while others take the runs
		err := r.store.client.RecordActivityHeartbeat(ctx, token)
		var missing *serviceerror.NotFound
		switch {
		case err == nil:
			r.hears(sent)
		case errors.As(err, &missing):
			r.lose()
			return nil
		}
		select {
		case <-tick.C:
		case <-r.end:
			return nil
		case <-ctx.Done():
			r.lose()
			return context.Cause(ctx)
		}
	}
}

func (r *runner) hears(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard.IsZero() {
		close(r.began)
	}
	r.heard = sent
	close(r.change)
	r.change = make(chan struct{})
}

func (r *runner) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		close(r.lost)
	}
}

// woken is the activity by which a workflow says that somebody has changed it.
func (r *runner) woken(_ context.Context, run core.ID) error {
	r.store.feed.touch(run)
	r.store.watchers.tell(false)
	return nil
}

// died is the activity by which this process hears that another runner has died. Whoever
// watches the store looks for its runs then.
func (r *runner) died(context.Context, string) error {
	select {
	case r.gone <- struct{}{}:
	default:
	}
	r.store.watchers.tell(false)
	return nil
}

// ID implements store.Runner.
func (r *runner) ID() string { return r.id }

// Lost implements store.Runner.
func (r *runner) Lost() <-chan struct{} { return r.lost }

// Gone implements store.Runner: the workflow that knows all runners tells the others of one
// whose workflow has ended.
func (r *runner) Gone() <-chan struct{} { return r.gone }

// Holds implements store.Runner: a runner is not taken for dead within the heartbeat's time
// after a sign of life was sent that was heard. The clock stands still while the machine
// sleeps.
func (r *runner) Holds(ctx context.Context) error {
	for {
		r.mu.Lock()
		sure, change := time.Since(r.heard) < r.heartbeat*3/4, r.change //nolint:forbidigo // as in hold
		r.mu.Unlock()
		select {
		case <-r.lost:
			return core.Errorf(core.CodeFenced, "this process was taken for dead; others may take its runs")
		default:
		}
		if sure {
			return nil
		}
		select {
		case <-change:
		case <-r.lost:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close implements store.Runner: when it returns the runner is dead. Its worker stays until
// the store is closed, so that runs which others take hear of it at once.
func (r *runner) Close() error {
	r.mu.Lock()
	was := r.ended
	r.ended = true
	r.mu.Unlock()
	var err error
	if !was {
		close(r.end)
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		err = r.store.client.GetWorkflow(ctx, r.store.runnerWorkflow(r.id), "").Get(ctx, nil)
	}
	return failure(err, "")
}

// closeLimit is how long the end of a runner is waited for; then its heartbeat ends it.
const closeLimit = 10 * time.Second
