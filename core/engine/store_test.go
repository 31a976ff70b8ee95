package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// flaky is a store that can be away: then whatever is asked of it fails. With
// kept it writes commits all the same, as a database whose answer is lost.
type flaky struct {
	store.Store

	mu     sync.Mutex
	away   bool
	kept   bool
	failed chan struct{} // gets one for each commit, or look at a run, that failed
}

func newFlaky(s store.Store) *flaky { return &flaky{Store: s, failed: make(chan struct{}, 1000)} }

func (f *flaky) set(away, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away, f.kept = away, kept
}

func (f *flaky) state() (away, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away, f.kept
}

func isAway() error { return core.Errorf(core.CodeStoreFailed, "the store is away") }

func (f *flaky) Commit(ctx context.Context, step store.Step) error {
	away, kept := f.state()
	if !away {
		return f.Store.Commit(ctx, step)
	}
	var err error
	if kept {
		err = f.Store.Commit(ctx, step)
	}
	f.failed <- struct{}{}
	if err != nil {
		return err
	}
	return isAway()
}

func (f *flaky) Run(ctx context.Context, id core.ID) (core.Run, error) {
	if away, kept := f.state(); away && !kept {
		f.failed <- struct{}{}
		return core.Run{}, isAway()
	}
	return f.Store.Run(ctx, id)
}

func (f *flaky) Approvals(ctx context.Context, filter store.ApprovalFilter) ([]core.Approval, error) {
	if away, kept := f.state(); away && !kept {
		return nil, isAway()
	}
	return f.Store.Approvals(ctx, filter)
}

func (b *bench) flaky(retry time.Duration) (*process, *flaky) {
	b.T.Helper()
	b.Limits.StoreRetry = retry
	var f *flaky
	b.wrap = func(s store.Store) store.Store { f = newFlaky(s); return f }
	p := b.process()
	return p, f
}

// A store that is away for a while loses nothing, and nothing runs twice.
func TestStore_ComesBack(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"NothingKept": false, "AnswerLost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p, f := b.flaky(hung)
			b.Host.OnCall = func(call engine.Call) {
				if call.ID == "c1" {
					f.set(true, kept)
				}
			}
			h := b.code(p, `await mcp.a.write({n: 1}); await mcp.a.write({n: 2}); return await mcp.a.read({n: 3});`, core.RunOptions{})
			<-f.failed
			f.set(false, false)
			if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 3 {
				t.Errorf("%s %v", s.Run.State, b.Host.Called())
			}
			records, err := p.st.Journal(t.Context(), h.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range records {
				if r.Seq != int64(i+1) {
					t.Errorf("record %d has the number %d", i, r.Seq)
				}
			}
		})
	}
}

// A store that stays away until the engine stops stops the run; whoever takes it
// up again asks about the call whose outcome nobody has kept.
func TestStore_StaysAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.CommitGrace = time.Millisecond
	p, f := b.flaky(50 * time.Millisecond)
	b.Host.OnCall = func(engine.Call) { f.set(true, false) }
	h := b.code(p, `return await mcp.a.write({n: 1});`, core.RunOptions{})
	<-f.failed
	if err := p.Engine.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	s, err := h.Wait(ctx, engine.Ended)
	if err != nil || core.CodeOf(s.Err) != core.CodeStoreFailed {
		t.Fatalf("%v %v", err, s.Err)
	}
	f.set(false, false)
	b.Host.OnCall = nil
	p.close()
	p = b.process()
	h, err = p.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	s = b.Wait(h, enginetest.Pending(1))
	if s.Pending[0].Type != core.ApproveInDoubt || len(b.Host.Called()) != 1 {
		t.Errorf("%+v %v", s.Pending, b.Host.Called())
	}
	b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.SkipResult, Result: []byte(`{"n":1}`)})
	p.Wake(h.ID)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 1 {
		t.Errorf("%s %v", s.Run.State, b.Host.Called())
	}
}

// What a run holds is kept however long the store is away: longer than whoever
// takes a run up would wait for it.
func TestStore_AwayForLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, f := b.flaky(time.Nanosecond)
	b.Host.OnCall = func(engine.Call) { f.set(true, false) }
	h := b.code(p, `return await mcp.a.write({n: 1});`, core.RunOptions{})
	for range 3 {
		<-f.failed
	}
	f.set(false, false)
	b.Complete(h, `{"n":1}`)
	if got := b.Host.Called(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A store that comes back while the engine stops still gets what it holds.
func TestStore_BackWhileItStops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.CommitGrace = hung
	p, f := b.flaky(time.Hour)
	b.Host.OnCall = func(engine.Call) { f.set(true, false) }
	h := b.code(p, `return await mcp.a.write({n: 1});`, core.RunOptions{})
	<-f.failed
	closed := make(chan error, 1)
	go func() { closed <- p.Engine.Close() }()
	for { // until it has begun to stop
		if _, err := p.Resume(t.Context(), newID()); core.CodeOf(err) == core.CodeCancelled {
			break
		}
	}
	<-f.failed
	f.set(false, false)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if s, _ := h.Status(); s.Err != nil {
		t.Error(s.Err)
	}
	records, err := p.st.Journal(t.Context(), h.ID, 0)
	if err != nil || len(records) != 2 || records[1].Kind != core.RecordSettled {
		t.Errorf("%v %+v", err, records)
	}
}

// An engine stops in time although its store is away.
func TestStore_AwayWhileItStops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.CommitGrace = time.Millisecond
	p, f := b.flaky(time.Hour)
	b.Host.OnCall = func(engine.Call) { f.set(true, false) }
	h := b.code(p, `return await mcp.a.write({n: 1});`, core.RunOptions{})
	<-f.failed
	if err := p.Engine.Close(); err != nil {
		t.Fatal(err)
	}
	if s, _ := h.Status(); core.CodeOf(s.Err) != core.CodeStoreFailed {
		t.Errorf("%v", s.Err)
	}
}
