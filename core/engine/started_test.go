package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// created tells of the commit that makes a run.
type created struct {
	store.Store
	then func()
}

func (c *created) Commit(ctx context.Context, s store.Step) error {
	err := c.Store.Commit(ctx, s)
	if s.Create && err == nil {
		c.then()
	}
	return err
}

// TestStart_StopsAfterTheCommit: a run that was committed is not refused because
// the engine stops: whoever started it would start it once more.
func TestStart_StopsAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := &created{}
	b.wrap = func(st store.Store) store.Store {
		c.Store = st
		return c
	}
	p := b.process()
	c.then = func() {
		if err := p.Engine.Close(); err != nil {
			t.Error(err)
		}
	}
	h := b.dag(p, []core.TaskSpec{task("w", "a:write")}, core.RunOptions{})
	s := b.Wait(h, engine.Ended)
	if !s.Stopped || s.Run.ID != h.ID || s.Run.State != core.RunRunning {
		t.Fatalf("%+v", s)
	}
	if called := b.Host.Called(); len(called) != 0 || p.Handle(h.ID) != nil {
		t.Fatalf("the engine that stops runs it: %v", called)
	}
	p.close()
	b.wrap = nil
	next := b.process()
	h2, err := next.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s := b.Wait(h2, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 1 {
		t.Errorf("%s, called %v", s.Run.State, b.Host.Called())
	}
}

// announced is a store whose changes by others are told by hand.
type announced struct {
	created
	changes chan struct{}
	looks   atomic.Int32
}

func (a *announced) WatchOthers(context.Context) (<-chan struct{}, error) { return a.changes, nil }

func (a *announced) Approvals(ctx context.Context, f store.ApprovalFilter) ([]core.Approval, error) {
	if f.Into != nil {
		a.looks.Add(1)
	}
	return a.Store.Approvals(ctx, f)
}

// TestStart_Unseen: a run that nobody can have touched does not look for what
// others have written, and one that somebody aborts before it has begun does.
func TestStart_Unseen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st := &announced{changes: make(chan struct{})}
	b.wrap = func(s store.Store) store.Store {
		st.Store = s
		return st
	}
	p := b.process()
	t.Cleanup(func() { close(st.changes) })
	st.then = func() {}
	run := func() (engine.Status, int) {
		before := st.looks.Load()
		s := b.Wait(b.dag(p, []core.TaskSpec{task("r", "a:read")}, core.RunOptions{}), engine.Ended)
		return s, int(st.looks.Load() - before)
	}
	if s, looks := run(); s.Run.State != core.RunComplete || looks != 1 {
		t.Errorf("before anybody watches: %s after %d looks", s.Run.State, looks)
	}
	if s, looks := run(); s.Run.State != core.RunComplete || looks != 0 {
		t.Errorf("nobody has touched it: %s after %d looks", s.Run.State, looks)
	}
	st.then = func() {
		runs, err := st.Runs(t.Context(), store.RunFilter{States: []core.RunState{core.RunRunning}})
		if err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
			return
		}
		if _, err := st.RequestAbort(t.Context(), runs[0].ID, core.AbortRequest{At: time.Now()}); err != nil {
			t.Error(err)
		}
		st.changes <- struct{}{}
		st.changes <- struct{}{} // by now all runs have been told of the first
	}
	before := len(b.Host.Called())
	if s, _ := run(); s.Run.State != core.RunAborted || len(b.Host.Called()) != before {
		t.Errorf("aborted before it began: %s", s.Run.State)
	}
}

// TestStart_AbortedUntold: a run whose abort is in the store makes no call, also
// when nobody has told this process of it yet, as with an abort by another one.
func TestStart_AbortedUntold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st := &announced{changes: make(chan struct{})}
	b.wrap = func(s store.Store) store.Store {
		st.Store = s
		return st
	}
	p := b.process()
	t.Cleanup(func() { close(st.changes) })
	st.then = func() {}
	b.Wait(b.dag(p, []core.TaskSpec{task("r", "a:read")}, core.RunOptions{}), engine.Ended) // from here on it listens
	before := len(b.Host.Called())
	st.then = func() {
		runs, err := st.Runs(t.Context(), store.RunFilter{States: []core.RunState{core.RunRunning}})
		if err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
			return
		}
		if _, err := st.RequestAbort(t.Context(), runs[0].ID, core.AbortRequest{At: time.Now()}); err != nil {
			t.Error(err)
		}
	}
	h := b.dag(p, []core.TaskSpec{task("w", "a:write"), task("next", "a:write", "w")}, core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted || len(b.Host.Called()) != before {
		t.Errorf("aborted before it began, it is %s and has made %v", s.Run.State, b.Host.Called()[before:])
	}
	records, err := p.st.Journal(t.Context(), h.ID, 0)
	if err != nil || len(records) == 0 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if last := records[len(records)-1]; last.Kind != core.RecordSettled || last.Outcome != core.OutcomeCancelled || !last.Error.NotMade {
		t.Errorf("it ends with %+v", last)
	}
}

// TestStart_AbortedWhileWakesAreHeldBack: a run that is aborted before it begins
// makes no call, also while an engine with many runs holds wake-ups back.
func TestStart_AbortedWhileWakesAreHeldBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st := &created{then: func() {}}
	b.wrap = func(s store.Store) store.Store {
		st.Store = s
		return st
	}
	p := b.process()
	var many []*engine.Handle
	for range 220 {
		many = append(many, b.dag(p, []core.TaskSpec{task("w", "a:ask")}, core.RunOptions{}))
	}
	for _, h := range many {
		b.Wait(h, engine.Paused)
	}
	before := len(b.Host.Called())
	b.decide(p, many[0], core.ApproveTool, true, nil) // all are woken, and then there is rest
	b.Wait(many[0], engine.Ended)
	id := newID()
	st.then = func() {
		if _, err := st.RequestAbort(t.Context(), id, core.AbortRequest{At: time.Now()}); err != nil {
			t.Error(err)
		}
	}
	now := time.Now().UTC()
	h, err := p.Start(t.Context(), core.Run{
		ID: id, Side: core.SideClient, Workspace: "/w", Kind: core.KindDAG, CreatedAt: now, UpdatedAt: now, RequestedBy: core.Actor{Who: "test", Via: core.ViaCLI},
	}, core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "a:write"), task("two", "a:write", "one"), task("three", "a:write", "two")}})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted || len(b.Host.Called()) != before+1 {
		t.Errorf("aborted before it began, it is %s and has made %v", s.Run.State, b.Host.Called()[before+1:])
	}
}
