package engine_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// asking is a host that asks before it makes a call, as the real one does.
type asking struct{ *host }

func (h asking) Call(ctx context.Context, call engine.Call, p func(string)) (json.RawMessage, error) {
	if err := call.Before(ctx); err != nil {
		return nil, core.AsError(err).WithNotMade()
	}
	return h.host.Call(ctx, call, p)
}

// TestHolds: a process that was taken for dead between the commit of a started
// record and the call does not make it. When nobody has taken the run meanwhile,
// it goes on here and makes the call once.
func TestHolds(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"GoesOn": false, "Taken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.As = asking{b.Host}
			asked := make(chan string, 4)
			answer := make(chan error, 1)
			var once atomic.Bool
			b.Holds = func(ctx context.Context, runner string) error {
				if once.Swap(true) {
					return nil
				}
				asked <- runner
				select {
				case err := <-answer:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			p := b.process()
			h := b.code(p, `return await mcp.a.write({n: 1})`, core.RunOptions{})
			if got := <-asked; got != p.Runner.ID() {
				t.Errorf("asked about the runner %s", got)
			}
			if !taken {
				answer <- core.Errorf(core.CodeFenced, "taken for dead")
				b.Complete(h, `{"n":1}`)
				return
			}
			if err := p.Runner.Close(); err != nil {
				t.Fatal(err)
			}
			p2 := b.process()
			h2, err := p2.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			answer <- core.Errorf(core.CodeFenced, "taken for dead")
			b.Wait(h2, enginetest.Pending(1))
			b.decide(p2, h2, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.RunAgain})
			b.Complete(h2, `{"n":1}`)
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			if s, err := h.Wait(ctx, func(s engine.Status) bool { return s.Stopped }); err != nil || core.CodeOf(s.Err) != core.CodeFenced {
				t.Errorf("the first process goes on: %v, %v", s.Err, err)
			}
			if diff := cmp.Diff([]string{`a:write{"n":1}`}, b.Host.Called()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHolds_UntilRunnerAgain: while this process is no runner a call that was not made
// waits, for as long as that takes; the run neither fails nor makes the call twice.
func TestHolds_UntilRunnerAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.As = asking{b.Host}
	var lost string
	asked := make(chan string, 100)
	b.Holds = func(_ context.Context, runner string) error {
		asked <- runner
		if runner == lost {
			return core.Errorf(core.CodeFenced, "taken for dead")
		}
		return nil
	}
	p := b.process()
	lost = p.Runner.ID()
	h := b.code(p, `return await mcp.a.write({n: 1})`, core.RunOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	ended := make(chan engine.Status, 1)
	go func() {
		s, _ := h.Wait(ctx, func(s engine.Status) bool { return s.Run.State.Final() })
		ended <- s
	}()
	for range 10 { // more often than a call goes back to its gates
		select {
		case got := <-asked:
			if got != lost {
				t.Errorf("asked about the runner %s", got)
			}
			p.SetRunner(lost) // still
		case s := <-ended:
			t.Fatalf("the run is %s: %v", s.Run.State, s.Run.Error)
		}
	}
	fresh, err := p.st.Register(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Runner.Close(); err != nil {
		t.Fatal(err)
	}
	p.Runner = fresh
	p.SetRunner(fresh.ID())
	b.Complete(h, `{"n":1}`)
	if diff := cmp.Diff([]string{`a:write{"n":1}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

// TestHolds_EndedElsewhere: while a process was taken for dead another one has ended its run.
// It is fenced then, so that whoever waits for the run follows it to its end.
func TestHolds_EndedElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reached, ended := make(chan struct{}, 2), make(chan struct{})
	var calls atomic.Int64
	b.Host.Tools["a:gate"] = tool{ReadOnly: true, Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		reached <- struct{}{}
		if calls.Add(1) == 1 {
			select {
			case <-ended:
			case <-ctx.Done():
			}
		}
		return args, nil
	}}
	b.wrap = func(s store.Store) store.Store { return claimsLate{s, ended} }
	p := b.process()
	b.wrap = nil
	h := b.code(p, `return (await mcp.a.gate({n: 1})).n`, core.RunOptions{})
	<-reached
	if err := p.Runner.Close(); err != nil {
		t.Fatal(err)
	}
	fresh, err := p.st.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Runner = fresh
	p.SetRunner(fresh.ID())
	other := b.process()
	there, err := other.Resume(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.Complete(there, "1")
	close(ended)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	s, err := h.Wait(ctx, func(s engine.Status) bool { return s.Stopped })
	if err != nil || core.CodeOf(s.Err) != core.CodeFenced {
		t.Errorf("%v, %v", err, s.Err)
	}
}

// claimsLate is the store of a process that takes runs up after another one has ended them.
type claimsLate struct {
	store.Store
	ended chan struct{}
}

func (s claimsLate) Claim(ctx context.Context, id core.ID, runner string) (core.Run, error) {
	<-s.ended
	return s.Store.Claim(ctx, id, runner)
}
