package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/skiptest"
	"github.com/casys-ai/pml/store"
)

// dying is a tool whose first calls have their effect and end with an error.
func dying(times int, err error) tool {
	var mu sync.Mutex
	return tool{Run: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		if times--; times >= 0 {
			return nil, err
		}
		return args, nil
	}}
}

// retryIn retries in the same process, or in a new one.
func (b *bench) retryIn(p **process, cold bool, id core.ID) *engine.Handle {
	b.T.Helper()
	if cold {
		(*p).close()
		*p = b.process()
	}
	h, _, err := (*p).Retry(b.T.Context(), id)
	if err != nil {
		b.T.Fatal(err)
	}
	return h
}

func warmAndCold(t *testing.T, f func(t *testing.T, cold bool)) {
	t.Helper()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, cold)
		})
	}
}

// unsent is the error of a call of which its server has got nothing.
func unsent() error {
	return core.Errorf(core.CodeServerUnreachable, "server x cannot start").WithNotMade()
}

func lost() error { return core.Errorf(core.CodeServerUnreachable, "server x stopped") }

// A retry asks about a call with side effects whose tool has not answered, says
// so of it before, and makes no call again that somebody gives a result.
func TestRetry_AsksWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	code := func(b *bench, p *process) *engine.Handle {
		return b.code(p, `const w = await mcp.a.write({id: "one"}); await mcp.a.read({}); return await mcp.a.dies({id: "two"})`, core.RunOptions{})
	}
	dag := func(b *bench, p *process) *engine.Handle {
		return b.dag(p, []core.TaskSpec{task("one", "a:write"), task("two", "a:dies", "one"), task("three", "a:read", "two")}, core.RunOptions{})
	}
	for name, start := range map[string]func(*bench, *process) *engine.Handle{"Code": code, "DAG": dag} {
		for word, how := range map[string]struct {
			err  error
			says string
		}{
			"Lost":    {lost(), "its server was lost before it answered"},
			"Timeout": {core.Errorf(core.CodeToolTimeout, "too slow"), "it did not answer in time"},
			"Large":   {core.Errorf(core.CodeResultTooLarge, "too much"), "its result could not be kept"},
			"Unknown": {errors.New("who knows"), "it is not known how it ended"},
		} {
			for _, answer := range []core.InDoubtAnswer{core.RunAgain, core.SkipResult} {
				t.Run(name+word+string(answer), func(t *testing.T) {
					t.Parallel()
					warmAndCold(t, func(t *testing.T, cold bool) {
						t.Helper()
						b := newBench(t)
						b.Host.Tools["a:dies"] = dying(1, how.err)
						p := b.process()
						h := start(b, p)
						s := b.Wait(h, engine.Ended)
						told := s.Run.Error.Error() + fmt.Sprint(s.Run.Error.Failures)
						if s.Run.State != core.RunFailed || word != "Large" && !strings.Contains(told, "a:dies may have run: ") {
							t.Fatalf("%s: %s", s.Run.State, told)
						}
						h = b.retryIn(&p, cold, h.ID)
						s = b.Wait(h, enginetest.Pending(1))
						if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveInDoubt || !strings.Contains(s.Pending[0].Description, how.says) {
							t.Fatalf("%s, pending %+v", s.Run.State, s.Pending)
						}
						if n := made(b, "a:dies"); n != 1 {
							t.Fatalf("%d calls before anybody was asked", n)
						}
						again := 1
						if answer == core.RunAgain {
							again = 2
						}
						b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: answer, Result: json.RawMessage(`{"id":"two"}`)})
						if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete {
							t.Fatalf("%s %v", s.Run.State, s.Run.Error)
						}
						if n := made(b, "a:dies"); n != again || made(b, "a:write") != 1 {
							t.Errorf("called %v", b.Host.Called())
						}
					})
				})
			}
		}
	}
}

func made(b *bench, tool string) (n int) {
	for _, line := range b.Host.Called() {
		if strings.HasPrefix(line, tool+"{") {
			n++
		}
	}
	return n
}

// Nobody is asked about a call that answered, that was refused before it ran, or
// that can run twice.
func TestRetry_DoesNotAskWithoutDoubt(t *testing.T) {
	t.Parallel()
	calm := false
	for name, c := range map[string]struct {
		err      error
		readOnly bool
		effects  *bool
	}{
		"Answered":  {err: core.Errorf(core.CodeToolFailed, "no")},
		"Arguments": {err: core.Errorf(core.CodeInvalidArguments, "no")},
		"Refused":   {err: core.Errorf(core.CodePermissionDenied, "no")},
		"Unsent":    {err: unsent()},
		"Wrapped":   {err: fmt.Errorf("why: %w", unsent())},
		"NotMade":   {err: &engine.NotMadeError{Reason: core.Errorf(core.CodeServerUnreachable, "another edition")}},
		"ReadOnly":  {err: lost(), readOnly: true},
		"Declared":  {err: lost(), effects: &calm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			warmAndCold(t, func(t *testing.T, cold bool) {
				t.Helper()
				b := newBench(t)
				times := 1
				if name == "NotMade" {
					times = 4 // as often as it goes back to its gates, and once more
				}
				dies := dying(times, c.err)
				dies.ReadOnly = c.readOnly
				b.Host.Tools["a:dies"] = dies
				p := b.process()
				spec := task("one", "a:dies")
				spec.SideEffects = c.effects
				h := b.dag(p, []core.TaskSpec{spec}, core.RunOptions{})
				if s := b.Wait(h, engine.Ended); s.Run.State != core.RunFailed || strings.Contains(s.Run.Error.Error(), "may have run") {
					t.Fatalf("%s %v", s.Run.State, s.Run.Error)
				}
				b.Complete(b.retryIn(&p, cold, h.ID), `{"one":{"id":"one"}}`)
			})
		})
	}
}

// The doubt outlives what does not settle it: a denial of the question, a tool
// that is refused when the run is retried, a further end without an answer.
func TestRetry_DoubtStays(t *testing.T) {
	t.Parallel()
	warmAndCold(t, func(t *testing.T, cold bool) {
		t.Helper()
		b := newBench(t)
		b.Host.Tools["a:dies"] = dying(2, lost())
		p := b.process()
		h := b.dag(p, []core.TaskSpec{task("one", "a:dies")}, core.RunOptions{})
		b.failed(h, core.CodeServerUnreachable, "may have run")

		h = b.retryIn(&p, cold, h.ID)
		b.Wait(h, enginetest.Pending(1))
		b.decide(p, h, core.ApproveInDoubt, false, nil)
		b.failed(h, core.CodeDenied, "denied")

		b.Host.Refuse("a:dies", core.Errorf(core.CodePermissionDenied, "not now"))
		h = b.retryIn(&p, cold, h.ID)
		b.failed(h, core.CodePermissionDenied, "not now")
		b.Host.Refuse("a:dies", nil)

		h = b.retryIn(&p, cold, h.ID)
		b.Wait(h, enginetest.Pending(1))
		if n := made(b, "a:dies"); n != 1 {
			t.Fatalf("%d calls before anybody allowed another", n)
		}
		b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.RunAgain})
		b.failed(h, core.CodeServerUnreachable, "may have run")

		h = b.retryIn(&p, cold, h.ID)
		s := b.Wait(h, enginetest.Pending(1))
		if s.Run.State != core.RunWaiting || made(b, "a:dies") != 2 {
			t.Fatalf("%s, called %v", s.Run.State, b.Host.Called())
		}
		if got := b.view(p.st, h.ID).Layers[0].Tasks[0]; got.Attempt != 2 {
			t.Errorf("%+v", got)
		}
		b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.SkipResult, Result: json.RawMessage("7")})
		b.Complete(h, `{"one":7}`)
	})
}

// Attempts that a task asks for are not made of a call that may have run, unless
// it can run twice.
func TestAttempts_NotOfWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		readOnly bool
		err      error
		calls    int
	}{"SideEffects": {false, lost(), 1}, "ReadOnly": {true, lost(), 2}, "Unsent": {false, unsent(), 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			dies := dying(1, c.err)
			dies.ReadOnly = c.readOnly
			b.Host.Tools["a:dies"] = dies
			p := b.process()
			spec := task("one", "a:dies")
			spec.Retry = &core.Retry{MaxAttempts: 3}
			h := b.dag(p, []core.TaskSpec{spec}, core.RunOptions{})
			s := b.Wait(h, engine.Ended)
			if (s.Run.State == core.RunComplete) != (c.calls == 2) || made(b, "a:dies") != c.calls {
				t.Errorf("%s after %d calls", s.Run.State, made(b, "a:dies"))
			}
		})
	}
}

// A call that a stop, an abort or its time-out keeps from its server was not made,
// and nobody is asked about it.
func TestDoubt_NotOfWhatWasKeptFromItsServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, p **process, h *engine.Handle) *engine.Handle{
		"Stop": func(b *bench, p **process, h *engine.Handle) *engine.Handle {
			(*p).close()
			*p = b.process()
			return b.Resume((*p).Process, h.ID)
		},
		"Timeout": func(b *bench, p **process, h *engine.Handle) *engine.Handle {
			b.failed(h, core.CodeToolTimeout, "a:slow did not answer")
			return b.retryIn(p, true, h.ID)
		},
		"Abort": func(b *bench, p **process, h *engine.Handle) *engine.Handle {
			b.abort(*p, h)
			if task := b.view((*p).st, h.ID).Layers[0].Tasks[0]; task.Error == nil || strings.Contains(task.Error.Message, "may have run") {
				b.T.Errorf("%+v", task)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.StopGrace = 1
			p := b.process()
			began := make(chan struct{})
			var calls atomic.Int32
			b.Host.Tools["a:slow"] = tool{Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				if calls.Add(1) > 1 {
					return args, nil
				}
				close(began)
				<-ctx.Done()
				return nil, core.Errorf(core.CodeCancelled, "starting server a was cancelled").WithNotMade()
			}}
			spec := task("one", "a:slow")
			if name == "Timeout" {
				spec.TimeoutMS = 1
			}
			h := b.dag(p, []core.TaskSpec{spec}, core.RunOptions{})
			<-began
			if h = end(b, &p, h); h != nil {
				b.Complete(h, `{"one":{"id":"one"}}`)
			}
		})
	}
}

// What a retry asks about is seen as what may have run, wherever the run is read,
// and is no skipped task when the run is aborted instead.
func TestRetry_ViewOfDoubt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Tools["a:dies"] = dying(1, lost())
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("one", "a:dies")}, core.RunOptions{})
	b.failed(h, core.CodeServerUnreachable, "may have run")
	h = b.retryIn(&p, false, h.ID)
	b.Wait(h, enginetest.Pending(1))
	run, err := p.st.Run(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	program, err := p.st.Program(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	records, err := p.st.Journal(t.Context(), h.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := engine.View(run, program, records, b.open(p, h.ID)).Layers[0].Tasks[0]
	if got.State != core.TaskWaiting || got.Error == nil || got.Error.Code != core.CodeCancelled || !strings.Contains(got.Error.Message, "may have run") {
		t.Errorf("%+v %v", got, got.Error)
	}
	if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me"}, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	p.Wake(h.ID)
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted || s.Summary.Failed != 1 {
		t.Errorf("%s %+v", s.Run.State, s.Summary)
	}
	if got := b.view(p.st, h.ID).Layers[0].Tasks[0]; got.State != core.TaskError || got.Error == nil {
		t.Errorf("%+v", got)
	}
}

// pml dies before and after each commit of a run whose call dies and that is
// retried: the call is made again only when somebody says so.
func TestRetry_DoubtAtEveryCommit(t *testing.T) {
	t.Parallel()
	skiptest.Short(t, "stops runs at each of their commits")
	programs := map[string]func(b *bench) core.Program{
		"Code": func(b *bench) core.Program {
			return b.Compile(`const [x] = await Promise.all([mcp.a.write({n: 1}), mcp.a.read({n: 2})]); return await mcp.a.dies({n: x.n})`)
		},
		"DAG": func(*bench) core.Program {
			return core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "a:write"), task("two", "a:dies", "one"), task("three", "a:read", "two")}}
		},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			commits := doubtRun(t, b, program(b), 0, 0)
			if commits < 2 {
				t.Fatalf("%d commits", commits)
			}
			for n := 1; n <= commits; n++ {
				doubtRun(t, b, program(b), n, 0)
				doubtRun(t, b, program(b), 0, n)
			}
		})
	}
}

// doubtRun makes a run fail, and retries it in a process whose store fails before
// or after the n-th commit from then on. It returns how many there were.
func doubtRun(t *testing.T, shared *bench, program core.Program, before, after int) int {
	t.Helper()
	next := *shared
	b := &next
	w := *b.World
	b.World, b.dir = &w, t.TempDir()
	w.Host, w.Wrap = enginetest.NewHost(), nil
	b.Host.Tools["a:dies"] = dying(1, lost())
	p := b.process()
	h := b.start(p, program, core.RunOptions{})
	if s := b.Wait(h, engine.Ended); s.Run.State != core.RunFailed {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	p.close()
	var faulty *enginetest.Faulty
	b.Wrap = func(s enginetest.Surroundings) enginetest.Surroundings {
		faulty = enginetest.NewFaulty(s)
		if before > 0 {
			faulty.FailBefore(before)
		}
		if after > 0 {
			faulty.FailAfter(after)
		}
		return faulty
	}
	asked := map[core.ID]bool{}
	for life := 1; ; life++ {
		p = b.process()
		if goOn(t, b, p, h.ID, asked) {
			break
		}
		if life > 3 {
			t.Fatalf("life %d does not go on", life)
		}
		p.close()
		b.Wrap = nil
	}
	p.close()
	// Whoever dies after the second started record asks once more.
	if n := made(b, "a:dies"); n > 1+len(asked) || n < 2 || len(asked) == 0 || made(b, "a:write") != 1 {
		t.Errorf("before %d, after %d: asked %d times, called %v", before, after, len(asked), b.Host.Called())
	}
	return faulty.Commits()
}

// goOn retries a run, or continues it, and says that its calls in doubt are to be
// made again; false when the process died.
func goOn(t *testing.T, b *bench, p *process, id core.ID, asked map[core.ID]bool) bool {
	t.Helper()
	h, _, err := p.Retry(t.Context(), id)
	if core.CodeOf(err) == core.CodeNotWaiting {
		run, rerr := p.st.Run(t.Context(), id)
		if rerr == nil && run.State == core.RunComplete {
			return true
		}
		h, err = p.Resume(t.Context(), id)
	}
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	for {
		s, err := h.Wait(ctx, func(s engine.Status) bool { return engine.Ended(s) || engine.Paused(s) && len(s.Pending) > 0 })
		if err != nil {
			t.Fatal(err)
		}
		if s.Stopped || s.Run.State.Final() {
			if s.Run.State == core.RunFailed {
				t.Fatal(s.Run.Error)
			}
			return s.Err == nil && s.Run.State == core.RunComplete
		}
		_, changed := h.Status()
		for _, ap := range s.Pending {
			if diff := cmp.Diff(core.ApproveInDoubt, ap.Type); diff != "" {
				t.Fatal(diff)
			}
			asked[ap.ID] = true
			_, err := p.st.Decide(ctx, core.Decision{
				ApprovalID: ap.ID, Approved: true, By: core.Actor{Who: "me"}, At: time.Now(), Answer: &core.Answer{InDoubt: core.RunAgain},
			}, store.Renewal{})
			if err != nil {
				t.Fatal(err)
			}
		}
		p.Wake(id)
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("hung")
		}
	}
}
