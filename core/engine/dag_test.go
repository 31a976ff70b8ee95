package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

func TestDAG_Runs(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		b := newBench(t)
		b.Host.Slow = slow
		p := b.process()
		last := task("t3", "a:write", "t1", "t2")
		last.Arguments = json.RawMessage(`{"from":"$t1.id","text":"got ${t2.id}","price":"$5"}`)
		h := b.dag(p, []core.TaskSpec{task("t1", "a:read"), task("t2", "a:read"), last}, core.RunOptions{})
		s := b.Wait(h, engine.Ended)
		if s.Run.State != core.RunComplete {
			t.Fatalf("state %s: %v", s.Run.State, s.Run.Error)
		}
		want := `{"t3":{"from":"t1","text":"got t2","price":"$5"}}`
		if diff := cmp.Diff(want, string(s.Run.Result)); diff != "" {
			t.Error(diff)
		}
		if got := len(b.Host.Called()); got != 3 {
			t.Errorf("%d calls, want 3", got)
		}
	}
}

func TestDAG_FailureStopsDependantsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("bad", "a:fail"), task("after", "a:read", "bad"), task("other", "a:read"), task("more", "a:read", "other")}, core.RunOptions{})
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeToolFailed {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	if diff := cmp.Diff([]core.Failure{{TaskID: "bad", Tool: "a:fail", Code: core.CodeToolFailed, Error: "it failed"}}, s.Run.Error.Failures); diff != "" {
		t.Error(diff)
	}
	calls := b.Host.Called()
	slices.Sort(calls)
	want := []string{`a:fail{"id":"bad"}`, `a:read{"id":"more"}`, `a:read{"id":"other"}`}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

// A DAG may go well later where each of its failures may. The gates need not say of a
// call that they refuse that it was not made: it never began.
func TestDAG_Retryable(t *testing.T) {
	t.Parallel()
	slow := core.Errorf(core.CodeServerUnreachable, "slow")
	for _, c := range []struct {
		second *core.Error
		want   bool
	}{{slow, true}, {core.Errorf(core.CodeToolFailed, "wrong"), false}} {
		b := newBench(t)
		b.Host.Refuse("a:read", slow)
		b.Host.Refuse("a:write", c.second)
		s := b.Wait(b.dag(b.process(), []core.TaskSpec{task("one", "a:read"), task("two", "a:write")}, core.RunOptions{}), engine.Ended)
		if s.Run.Error == nil || s.Run.Error.Retryable != c.want || len(s.Run.Error.Failures) != 2 || !s.Run.Error.Failures[0].Retryable {
			t.Errorf("%v: %+v", c.second, s.Run.Error)
		}
	}
}

func TestDAG_SafeToFail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	bad := task("bad", "a:fail")
	bad.SafeToFail = true
	h := b.dag(p, []core.TaskSpec{bad, task("after", "a:read", "bad")}, core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
}

func TestDAG_Retry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	n := 0
	b.Host.Tools["a:flaky"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		if n++; n < 3 {
			return nil, core.Errorf(core.CodeToolFailed, "not yet")
		}
		return json.RawMessage(`"done"`), nil
	}}
	flaky := task("t", "a:flaky")
	flaky.Retry = &core.Retry{MaxAttempts: 3}
	s := b.Wait(b.dag(p, []core.TaskSpec{flaky}, core.RunOptions{}), engine.Ended)
	if s.Run.State != core.RunComplete || string(s.Run.Result) != `{"t":"done"}` || n != 3 {
		t.Errorf("%s %s after %d attempts", s.Run.State, s.Run.Result, n)
	}
}

func TestDAG_AbortCancelsWhatRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	started, cancelled := make(chan struct{}), make(chan struct{})
	b.Host.Tools["a:slow"] = tool{Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	}}
	h := b.dag(p, []core.TaskSpec{task("t1", "a:read"), task("t2", "a:slow", "t1")}, core.RunOptions{})
	<-started
	if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	<-cancelled
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunAborted || s.Summary.OK != 1 {
		t.Errorf("%s, %d done", s.Run.State, s.Summary.OK)
	}
}

func TestDAG_PerLayer(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			tasks := []core.TaskSpec{task("a1", "a:read"), task("a2", "a:write"), task("b1", "a:write", "a1"), task("c1", "a:write", "b1"), task("d1", "a:read", "c1")}
			h := b.dag(p, tasks, core.RunOptions{PerLayer: true})
			pauses := 0
			for {
				s := b.Wait(h, engine.Paused)
				if s.Run.State.Final() {
					if s.Run.State != core.RunComplete {
						t.Fatalf("%s %v", s.Run.State, s.Run.Error)
					}
					break
				}
				pauses++
				if s.Layer == nil || s.Layer.Done != pauses-1 || s.Layer.Total != 4 {
					t.Fatalf("pause %d: %+v", pauses, s.Layer)
				}
				if cold {
					p.close()
					p = b.process()
				}
				b.decide(p, h, core.ApproveLayer, true, nil)
				if cold {
					var err error
					if h, err = p.Resume(t.Context(), h.ID); err != nil {
						t.Fatal(err)
					}
				}
				b.Wait(h, func(s engine.Status) bool { return s.Run.State.Final() || s.Layer == nil || s.Layer.Done == pauses })
			}
			if pauses != 3 {
				t.Errorf("paused %d times, want 3", pauses)
			}
			if got := len(b.Host.Called()); got != len(tasks) {
				t.Errorf("%d calls for %d tasks: %v", got, len(tasks), b.Host.Called())
			}
		})
	}
}

func TestDAG_Permission(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"Approved": true, "Denied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("w", "a:write"), task("q", "a:ask", "w")}, core.RunOptions{})
			s := b.Wait(h, engine.Paused)
			if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveTool {
				t.Fatalf("pending %+v", s.Pending)
			}
			if got := len(b.Host.Called()); got != 1 {
				t.Fatalf("%d calls before the decision", got)
			}
			b.decide(p, h, core.ApproveTool, approve, nil)
			s = b.Wait(h, engine.Ended)
			want := map[bool]core.RunState{true: core.RunComplete, false: core.RunFailed}[approve]
			if s.Run.State != want {
				t.Errorf("%s, want %s: %v", s.Run.State, want, s.Run.Error)
			}
			if got, want := len(b.Host.Called()), map[bool]int{true: 2, false: 1}[approve]; got != want {
				t.Errorf("%d calls, want %d", got, want)
			}
		})
	}
}

func TestDAG_InDoubt(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		approve bool
		answer  *core.Answer
		state   core.RunState
		calls   int
	}{
		"RunAgain": {true, &core.Answer{InDoubt: core.RunAgain}, core.RunComplete, 3},
		"Skip":     {true, &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage(`"as if"`)}, core.RunComplete, 2},
		"Deny":     {false, nil, core.RunFailed, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.StopGrace = 1
			p := b.process()
			started := make(chan struct{}, 4)
			hang := true
			b.Host.Tools["a:once"] = tool{Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				started <- struct{}{}
				if hang {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return args, nil
			}}
			h := b.dag(p, []core.TaskSpec{task("r", "a:read"), task("o", "a:once", "r")}, core.RunOptions{})
			<-started
			p.close()
			hang = false
			p = b.process()
			h, err := p.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			s := b.Wait(h, engine.Paused)
			if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveInDoubt {
				t.Fatalf("%s, pending %+v", s.Run.State, s.Pending)
			}
			b.decide(p, h, core.ApproveInDoubt, c.approve, c.answer)
			s = b.Wait(h, engine.Ended)
			if s.Run.State != c.state {
				t.Errorf("%s, want %s: %v", s.Run.State, c.state, s.Run.Error)
			}
			if got := len(b.Host.Called()); got != c.calls {
				t.Errorf("%d calls, want %d: %v", got, c.calls, b.Host.Called())
			}
		})
	}
}

func TestDAG_RetryRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	broken := true
	b.Host.Tools["a:mended"] = tool{Run: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		if broken {
			return nil, core.Errorf(core.CodeToolFailed, "broken")
		}
		return args, nil
	}}
	h := b.dag(p, []core.TaskSpec{task("ok", "a:write"), task("m", "a:mended", "ok"), task("after", "a:write", "m")}, core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunFailed {
		t.Fatal(s.Run.State)
	}
	p.close()
	broken = false
	p = b.process()
	h, n, err := p.Retry(t.Context(), h.ID)
	if err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	want := []string{`a:write{"id":"ok"}`, `a:mended{"id":"m"}`, `a:mended{"id":"m"}`, `a:write{"id":"after"}`}
	if diff := cmp.Diff(want, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

func TestDAG_Dependency(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Needs["b"] = true
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("t1", "b:read"), task("t2", "b:read")}, core.RunOptions{})
	s := b.Wait(h, engine.Paused)
	if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveDependency {
		t.Fatalf("pending %+v", s.Pending)
	}
	b.decide(p, h, core.ApproveDependency, true, nil)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || s.Summary.OK != 2 {
		t.Errorf("%s %v %+v", s.Run.State, s.Run.Error, s.Summary)
	}
}

// Scenario 4: what is decided about one server decides nothing about another.
func TestDAG_DeniedServerOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Needs["a"], b.Host.Needs["b"] = true, true
	p := b.process()
	one, two := task("one", "a:read"), task("two", "b:read")
	one.SafeToFail = true
	h := b.dag(p, []core.TaskSpec{one, two}, core.RunOptions{})
	s := b.Wait(h, enginetest.Pending(2))
	for _, ap := range s.Pending {
		b.rule(p, ap, ap.Subject == "b")
	}
	b.Complete(h, `{"two":{"id":"two"}}`)
	if diff := cmp.Diff([]string{`b:read{"id":"two"}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}
