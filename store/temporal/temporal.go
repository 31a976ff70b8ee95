// Package temporal keeps runs in Temporal: each run is a workflow that holds the run's state,
// and a commit, a claim and a decision are updates of it, which Temporal answers when they are
// kept. The engine that makes the calls is the one that all of pml has; docs/temporal.md says
// why, what is atomic and what is not, and what is missing.
//
// It implements what the engine needs of its surroundings (core/engine.Store) and passes
// core/engine/enginetest. It has all of store.Store; the events of all runs have an order that is
// each process's own (feed).
package temporal

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Options say where the runs are.
type Options struct {
	Address   string // HOST:PORT
	Namespace string
	// TLS is how the connection is encrypted; nil: not at all.
	TLS *tls.Config
	// APIKey is asked for with each request to Temporal; it may change. Nil: none is sent. It needs TLS.
	APIKey func(context.Context) (string, error)
	// Name tells several installations in one namespace apart: it begins the ids of their
	// workflows, and is the name of their task queue.
	Name  string
	Blobs Blobs
	// Keys encrypt what the installation keeps in Temporal and in the blobs; none: it is in clear. An
	// installation has keys from its first process on, or never.
	Keys   Keys
	Clock  core.Clock
	NewID  func() core.ID
	Logger *slog.Logger
	// Metrics receives the figures of Temporal's client; nil: nobody does.
	Metrics client.MetricsHandler
	// Heartbeat is after how long without a sign of life a runner is dead; 0: 2 s.
	Heartbeat time.Duration

	format int // 0: formatNow
}

// service is Temporal, with the workflows of one installation.
type service struct {
	opts   Options
	client client.Client
	// serving is the client of what is served here; it also begins workflows, which Temporal may give to this process at once.
	serving client.Client
	page    int32 // how much the index is asked for at once
	conv    converters
	ring    *ring // nil: everything is in clear
	work    *work
	feed    *feed // nil where no store is open
}

// Store is one process's hold on the runs.
type Store struct {
	service
	flowKeeper

	worker   worker.Worker
	watchers watchers
	recent   recent

	mu     sync.Mutex
	closed bool
	halt   recentHalt
	// runners are those that this process has been.
	runners []*runner
	looks   int // how often orphans were looked for
	// stray are the orphans that were found last.
	stray map[core.ID]bool
}

// Open connects to Temporal and serves the workflows of runs beside all other processes. The
// namespace has been prepared (Prepare).
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.Heartbeat == 0 {
		opts.Heartbeat = 2 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := s.openShared(ctx); err != nil {
		s.hangUp()
		return nil, err
	}
	s.worker = worker.New(s.serving, opts.Name, worker.Options{StickyScheduleToStartTimeout: time.Second})
	registerWorkflows(s.worker)
	s.worker.RegisterActivityWithOptions(s.sealPage, activity.RegisterOptions{Name: activitySeal})
	s.worker.RegisterActivityWithOptions(s.forgetRun, activity.RegisterOptions{Name: activityForget})
	s.worker.RegisterActivityWithOptions(s.dropBlobs, activity.RegisterOptions{Name: activityDrop})
	s.worker.RegisterActivityWithOptions(s.sealAudit, activity.RegisterOptions{Name: activitySealAudit})
	if err := s.worker.Start(); err != nil {
		s.hangUp()
		return nil, failure(err, "")
	}
	return s, nil
}

// registerWorkflows says which function is which workflow.
func registerWorkflows(to worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		runType: runWorkflow, haltType: haltWorkflow, sharedType: sharedWorkflow, flowType: flowWorkflow, runnerType: runnerWorkflow, keyType: keyWorkflow, voidType: voidWorkflow,
	} {
		to.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}

// newService is a service without its clients.
func newService(opts Options) (service, error) {
	s := service{page: indexPage, work: &work{}}
	opts.format = cmp.Or(opts.format, formatNow)
	if len(opts.Keys) > 0 {
		var err error
		if s.ring, err = newRing(opts.Keys); err != nil {
			return s, err
		}
		opts.Blobs = encryptedBlobs{opts.Blobs, s.ring}
	}
	s.opts, s.conv = opts, newConverters(s.ring, opts.format, nil)
	return s, nil
}

// connect is a store that does not serve yet.
func connect(ctx context.Context, opts Options) (*Store, error) {
	of, err := newService(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{service: of, stray: map[core.ID]bool{}, halt: recentHalt{clock: opts.Clock}}
	s.work.end = s.retire
	s.feed = newFeed(s)
	if s.client, err = dial(ctx, opts, s.conv); err != nil {
		return nil, err
	}
	if err = mustBeIndexed(ctx, s.client, opts.Namespace); err == nil {
		s.serving, err = client.NewClientFromExistingWithContext(ctx, s.client, clientOptions(opts, newConverters(s.ring, s.opts.format, s.work)))
	}
	if err != nil {
		s.client.Close()
		return nil, failure(err, "")
	}
	s.flowKeeper = flowKeeper{service: &s.service, tell: s.watchers.tell, open: map[core.FlowKey]bool{}}
	return s, nil
}

// Close ends this process's hold; the runs go on in others. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	runners, closed := s.runners, s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.feed.stop()
	s.watchers.close()
	s.stop(runners)
	s.hangUp()
	return nil
}

func (s *service) hangUp() {
	s.serving.Close()
	s.client.Close()
}

// stop ends what this process does for all.
func (s *Store) stop(runners []*runner) {
	for _, r := range runners {
		r.worker.Stop()
	}
	s.worker.Stop()
}

// retire ends what this process does for all because it cannot read what others have written. They go on with it, and every call
// here fails with that.
func (s *Store) retire(why *core.Error) {
	s.opts.Logger.Error("this process serves no runs any more", "error", why)
	s.mu.Lock()
	runners := s.runners
	s.mu.Unlock()
	s.stop(runners)
	for _, r := range runners {
		r.lose()
	}
}

// name is the id of a workflow of this installation.
func (s *service) name(id string) string { return s.opts.Name + "/" + id }

func (s *service) workflowOf(run core.ID) string { return s.name("run/" + string(run)) }

// update changes a workflow, and returns when the change is kept.
func (s *service) update(ctx context.Context, id, name string, run core.ID, arg, result any) error {
	if err := s.work.ended(); err != nil {
		return err
	}
	h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, result)
	}
	s.feed.touch(run) // also after an error: an answer may be lost
	return failure(stopped(ctx, err), run)
}

// taskLimit is how long Temporal waits for the process that has just taken up a workflow, before
// it gives it to another one: a process that is killed then keeps a run busy for as long.
const taskLimit = 3 * time.Second

// sealPage is the activity that keeps a page of a run's journal outside of its history.
func (s *service) sealPage(_ context.Context, run core.ID, body pageBody) (string, error) {
	raw, err := store.Encode(body)
	if err != nil {
		return "", err
	}
	return s.opts.Blobs.Put(string(run), raw)
}
