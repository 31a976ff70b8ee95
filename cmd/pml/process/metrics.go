package process

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/trace"
	"github.com/casys-ai/pml/store"
)

// observer measures what a server does. Metrics and spans are made beside the
// runs: what they look up must not hold a run up.
type observer struct {
	metrics *trace.Metrics
	tracer  *trace.Tracer // nil without a collector
	events  chan toldOf
	done    chan struct{}

	mu      sync.Mutex
	closed  bool
	readers int // as last counted
}

// toldOf are events of one commit. The kind of their runs is empty where it is not
// known.
type toldOf struct {
	kind   core.Kind
	events []core.Event
}

// observed is how many commits may wait to be counted before runs wait for them.
const observed = 4096

func newObserver(ctx context.Context, s *serving) (*observer, error) {
	o := &observer{events: make(chan toldOf, observed), done: make(chan struct{})}
	var err error
	if o.tracer, err = trace.NewTracer(ctx, trace.Options{
		Environ: s.environ, Version: buildVersion().Version, Logger: s.log, Look: s.look,
	}); err != nil {
		return nil, err
	}
	o.metrics = trace.NewMetrics(trace.Sources{
		Standing: s.standing,
		Kind:     func(id core.ID) core.Kind { return s.look(id).Kind },
		Approval: s.approval,
	})
	go func() {
		defer close(o.done)
		for p := range o.events {
			o.metrics.Observe(p.kind, p.events)
			o.tracer.Observe(p.events)
		}
	}()
	return o, nil
}

// publish takes committed events of this process's runs.
func (o *observer) publish(kind core.Kind, events []core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.events <- toldOf{kind, events}
	}
}

// stored counts the events that a store writes by itself, whoever caused them.
func (o *observer) stored(e core.Event) error {
	switch e.Type {
	case core.EventApprovalResolved, core.EventWorkflowExpired:
		o.publish("", []core.Event{e})
	default:
	}
	return nil
}

// handler serves the metrics; readers is asked how many readers there are.
func (o *observer) handler(readers func() int) http.Handler {
	next := o.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		n := readers()
		o.metrics.AddReaders(n - o.readers)
		o.readers = n
		o.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// spanTime is how long the last spans may take to be sent.
const spanTime = time.Second

// Close counts what is left and sends the last spans. Nothing may be published
// after it.
func (o *observer) Close() error {
	o.mu.Lock()
	again := o.closed
	o.closed = true
	o.mu.Unlock()
	if again {
		return nil
	}
	close(o.events)
	<-o.done
	ctx, cancel := context.WithTimeout(context.Background(), spanTime)
	defer cancel()
	return o.tracer.Close(ctx)
}

// lookTime bounds what is looked up for a metric.
const lookTime = time.Second

// look is a run as it is kept; a zero one when it cannot be read.
func (s *serving) look(id core.ID) core.Run {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	run, err := s.store.Run(ctx, id)
	if err != nil {
		return core.Run{}
	}
	return run
}

func (s *serving) approval(id core.ID) (core.Approval, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	list, err := s.store.Approvals(ctx, store.ApprovalFilter{ID: id, Limit: 1})
	if err != nil || len(list) == 0 {
		return core.Approval{}, false
	}
	return list[0], true
}

// standing is what runs and waits now.
func (s *serving) standing(ctx context.Context) (trace.Standing, error) {
	runs, err := s.store.Runs(ctx, store.RunFilter{States: []core.RunState{core.RunRunning, core.RunWaiting, core.RunInterrupted}})
	open, aerr := s.store.Approvals(ctx, store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	return trace.Stand(runs, open), errors.Join(err, aerr)
}

// storedEvery is how often it is looked at most what the store has written by
// itself. Nearly all events are those of runs, which are known already.
const storedEvery = 250 * time.Millisecond

// followStored counts what the store writes by itself, from now on.
func (s *serving) followStored(ctx context.Context) error {
	changes, err := s.store.Watch(ctx)
	var snap api.Snapshot
	if err == nil {
		snap, err = s.half.Snapshot(ctx)
	}
	for err == nil {
		if err = s.half.Events(ctx, "", api.Since{Any: snap.Seq}, false, func(e core.Event) error {
			snap.Seq = e.Seq
			return s.observer.stored(e)
		}); err == nil {
			err = rest(ctx, changes, storedEvery)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	// Metrics are no reason to stop a server.
	s.log.Warn("decisions are not counted any more", "error", core.AsError(err))
	return nil
}

// rest waits for a change, and some time more for what comes with it.
func rest(ctx context.Context, changes <-chan struct{}, more time.Duration) error {
	select {
	case <-changes:
	case <-ctx.Done():
	}
	select {
	case <-time.After(more):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// timed measures the operations of a store by which callers and runs wait.
type timed struct {
	store.Store
	observe func(op string, d time.Duration, failed bool)
}

// took measures an operation. That a run is not there, or is another's, is an
// answer and no failure of the store.
func (t timed) took(op string, began time.Time, err error) {
	code := core.CodeOf(err)
	failed := code == core.CodeStoreFailed || code == core.CodeStoreBusy || code == core.CodeStoreNewer || code == core.CodeStoreKey || code == core.CodeInternal
	t.observe(op, time.Since(began), failed)
}

// Commit implements store.Writer.
func (t timed) Commit(ctx context.Context, step store.Step) (err error) {
	defer func(began time.Time) { t.took("commit", began, err) }(time.Now())
	return t.Store.Commit(ctx, step)
}

// Run implements store.Reader.
func (t timed) Run(ctx context.Context, id core.ID) (run core.Run, err error) {
	defer func(began time.Time) { t.took("run", began, err) }(time.Now())
	return t.Store.Run(ctx, id)
}

// Runs implements store.Reader.
func (t timed) Runs(ctx context.Context, f store.RunFilter) (list []core.Run, err error) {
	defer func(began time.Time) { t.took("runs", began, err) }(time.Now())
	return t.Store.Runs(ctx, f)
}

// Journal implements store.Reader.
func (t timed) Journal(ctx context.Context, id core.ID, after int64) (list []core.Record, err error) {
	defer func(began time.Time) { t.took("journal", began, err) }(time.Now())
	return t.Store.Journal(ctx, id, after)
}

// Events implements store.Reader.
func (t timed) Events(ctx context.Context, f store.EventFilter) (list []core.Event, err error) {
	defer func(began time.Time) { t.took("events", began, err) }(time.Now())
	return t.Store.Events(ctx, f)
}

// Approvals implements store.Reader.
func (t timed) Approvals(ctx context.Context, f store.ApprovalFilter) (list []core.Approval, err error) {
	defer func(began time.Time) { t.took("approvals", began, err) }(time.Now())
	return t.Store.Approvals(ctx, f)
}

// Decide implements store.Decider.
func (t timed) Decide(ctx context.Context, d core.Decision, renew store.Renewal) (a core.Approval, err error) {
	defer func(began time.Time) { t.took("decide", began, err) }(time.Now())
	return t.Store.Decide(ctx, d, renew)
}

// Claim implements store.Runners.
func (t timed) Claim(ctx context.Context, id core.ID, runner string) (run core.Run, err error) {
	defer func(began time.Time) { t.took("claim", began, err) }(time.Now())
	return t.Store.Claim(ctx, id, runner)
}
