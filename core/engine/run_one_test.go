package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// stepper notes the steps of a store. refuse, when set, is the error of commits.
type stepper struct {
	store.Store
	mu     sync.Mutex
	steps  []store.Step
	refuse func(store.Step) error
}

func (s *stepper) noted() []store.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

func (s *stepper) Commit(ctx context.Context, step store.Step) error {
	s.mu.Lock()
	s.steps = append(s.steps, step)
	s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(step); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, step)
}

// one is a run of one call of a tool.
func one(tool string, call func(ctx context.Context) (json.RawMessage, error)) engine.One {
	now := time.Now().UTC()
	return engine.One{
		Run: core.Run{
			ID: newID(), Side: core.SideClient, Workspace: "/w", Kind: core.KindDAG, CreatedAt: now, UpdatedAt: now,
			RequestedBy: core.Actor{Who: "test", Via: core.ViaMCP},
		},
		Task: task("x", tool), Verdict: engine.Verdict{Known: true},
		Call: func(ctx context.Context, _ engine.Call, _ func(string)) (json.RawMessage, error) { return call(ctx) },
	}
}

// stepping is a process whose steps are noted.
func stepping(t *testing.T) (*bench, *process, *stepper) {
	t.Helper()
	b, s := newBench(t), &stepper{}
	b.wrap = func(st store.Store) store.Store { s.Store = st; return s }
	return b, b.process(), s
}

// A run of one call is there, with the record that it was begun, before the call is
// made, and has ended when RunOne returns: in two commits.
func TestRunOne(t *testing.T) {
	t.Parallel()
	for name, repeatable := range map[string]bool{"started": false, "repeatable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p, s := stepping(t)
			o := one("a:write", func(context.Context) (json.RawMessage, error) {
				if steps := s.noted(); len(steps) != 1 || !steps[0].Create || len(steps[0].Records) == 0 != repeatable {
					t.Errorf("when the call is made %+v is committed", steps)
				}
				return json.RawMessage(`"done"`), nil
			})
			o.Verdict.Repeatable = repeatable
			got, err := p.RunOne(t.Context(), o)
			if err != nil || got.Run.State != core.RunComplete || string(got.Run.Result) != `{"x":"done"}` {
				t.Fatalf("%+v, %v", got.Run, err)
			}
			if steps := s.noted(); len(steps) != 2 || steps[1].Run.State != core.RunComplete || steps[1].Checkpoint != nil {
				t.Errorf("%d commits: %+v", len(steps), steps)
			}
			if n := len(b.Host.Called()); n != 0 {
				t.Errorf("the host has made %d calls besides", n)
			}
		})
	}
}

// What a tool says of its failure is kept with its outcome.
func TestRunOne_Failed(t *testing.T) {
	t.Parallel()
	_, p, s := stepping(t)
	got, err := p.RunOne(t.Context(), one("a:write", func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`{"isError":true}`), core.Errorf(core.CodeToolFailed, "it failed")
	}))
	if err != nil || got.Run.State != core.RunFailed {
		t.Fatalf("%+v, %v", got.Run, err)
	}
	steps := s.noted()
	r := steps[len(steps)-1].Records[0]
	if r.Outcome != core.OutcomeError || string(r.Result) != `{"isError":true}` || r.Error.Code != core.CodeToolFailed {
		t.Errorf("%+v", r)
	}
}

// A call is cancelled with its caller, and its outcome is kept.
func TestRunOne_CallerLeaves(t *testing.T) {
	t.Parallel()
	_, p, _ := stepping(t)
	ctx, cancel := context.WithCancel(t.Context())
	got, err := p.RunOne(ctx, one("a:write", func(ctx context.Context) (json.RawMessage, error) {
		cancel()
		<-ctx.Done()
		return nil, core.Errorf(core.CodeCancelled, "cancelled: %w", context.Cause(ctx))
	}))
	if err != nil || got.Run.State != core.RunFailed || got.Run.Error.Code != core.CodeCancelled {
		t.Fatalf("%+v, %v", got.Run, err)
	}
}

// A call that was not made goes back to its gates; what they ask is waited for, and
// after that the host makes it.
func TestRunOne_NotMade(t *testing.T) {
	t.Parallel()
	b, p, s := stepping(t)
	got, err := p.RunOne(t.Context(), one("a:ask", func(context.Context) (json.RawMessage, error) {
		return nil, &engine.NotMadeError{Reason: core.Errorf(core.CodePermissionDenied, "ask first")}
	}))
	if err != nil || got.Run.State != core.RunWaiting || len(got.Pending) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	var kinds []core.RecordKind
	for _, step := range s.noted() {
		for _, r := range step.Records {
			kinds = append(kinds, r.Kind)
		}
	}
	if want := []core.RecordKind{core.RecordStarted, core.RecordVoid, core.RecordParked}; !slices.Equal(kinds, want) {
		t.Errorf("%v", kinds)
	}
	h := p.Handle(got.Run.ID)
	b.decide(p, h, core.ApproveTool, true, nil)
	p.Wake(h.ID)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 1 {
		t.Errorf("%+v, %v", s.Run, b.Host.Called())
	}
}

// A run that cannot be created is not there, and nothing is called. One whose
// outcome cannot be kept gives none.
func TestRunOne_NotKept(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]bool{"created": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p, s := stepping(t)
			full := core.Errorf(core.CodeStoreFailed, "the disk is full")
			s.refuse = func(step store.Step) error {
				if step.Create == create {
					return full
				}
				return nil
			}
			called := false
			o := one("a:write", func(context.Context) (json.RawMessage, error) { called = true; return core.Null, nil })
			_, err := p.RunOne(t.Context(), o)
			if !errors.Is(err, full) || called == create {
				t.Errorf("%v, called %v", err, called)
			}
			run, err := p.st.Run(t.Context(), o.Run.ID)
			if create && core.CodeOf(err) != core.CodeNotFound || !create && run.State.Final() {
				t.Errorf("%+v, %v", run, err)
			}
		})
	}
}

// An engine that stops leaves a call that does not end to whoever asks what became
// of it.
func TestRunOne_EngineStops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.StopGrace = 10 * time.Millisecond
	p := b.process()
	closed := make(chan struct{})
	got, err := p.RunOne(t.Context(), one("a:write", func(ctx context.Context) (json.RawMessage, error) {
		go func() {
			defer close(closed)
			p.close()
		}()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	if err != nil || got.Run.State != core.RunInterrupted {
		t.Fatalf("%+v, %v", got.Run, err)
	}
	<-closed // until then it is the other one's
	h, err := b.process().Resume(t.Context(), got.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s := b.Wait(h, engine.Paused); len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveInDoubt {
		t.Errorf("%+v", s.Pending)
	}
}
