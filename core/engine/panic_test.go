package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// brittle is a host of which parts panic.
type brittle struct {
	*host

	mu                     sync.Mutex
	try, check, apply, red string // the tool or subject at which it panics
}

func (h *brittle) at(what *string, name string) {
	h.mu.Lock()
	hit := *what != "" && *what == name
	h.mu.Unlock()
	if hit {
		panic("hush " + name)
	}
}

func (h *brittle) mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.try, h.check, h.apply, h.red = "", "", "", ""
}

func (h *brittle) Try(call engine.Call) (engine.Verdict, bool) {
	h.at(&h.try, call.Tool)
	h.mu.Lock()
	slow := h.check == call.Tool
	h.mu.Unlock()
	if slow {
		return engine.Verdict{}, false
	}
	return h.host.Try(call)
}

func (h *brittle) Check(ctx context.Context, call engine.Call) engine.Verdict {
	h.at(&h.check, call.Tool)
	return h.host.Check(ctx, call)
}

func (h *brittle) Apply(ctx context.Context, a core.Approval, tell func(string)) error {
	h.at(&h.apply, a.Subject)
	return h.host.Apply(ctx, a, tell)
}

func (h *brittle) Redact(text string) string {
	h.at(&h.red, "text")
	return strings.ReplaceAll(text, "hush", "***")
}

func (h *brittle) RedactJSON(raw json.RawMessage) json.RawMessage {
	h.at(&h.red, "json")
	return raw
}

// words is a log that is safe for concurrent use.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// fragile is a bench whose host can panic, and whose log is kept.
func fragile(t *testing.T) (*bench, *brittle, *words) {
	t.Helper()
	b, log := newBench(t), &words{}
	h := &brittle{host: b.Host}
	b.As = h
	b.Logger = slog.New(slog.NewTextHandler(log, nil))
	return b, h, log
}

var broken = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("hush: the call") }}

// A panic ends the run in which it happens, as failed, and nothing else: another
// run of the process goes on, and nobody takes the failed one up again by itself.
func TestPanic_EndsOneRun(t *testing.T) {
	t.Parallel()
	one := []core.TaskSpec{task("one", "a:write"), task("two", "b:bad", "one"), task("three", "a:write", "two")}
	cases := map[string]struct {
		prepare func(h *brittle)
		called  []string // of the run that fails
	}{
		"Call": {func(*brittle) {}, []string{`a:write{"id":"one"}`, `b:bad{"id":"two"}`}},
		"Gate": {func(h *brittle) { h.check = "b:bad" }, []string{`a:write{"id":"one"}`}},
		"Turn": {func(h *brittle) { h.try = "b:bad" }, []string{`a:write{"id":"one"}`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, host, log := fragile(t)
			began, goOn := make(chan struct{}), make(chan struct{})
			b.Host.Tools["b:bad"] = broken
			b.Host.Tools["a:slow"] = tool{Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
				close(began)
				<-goOn
				return a, nil
			}}
			p := b.process()
			other := b.dag(p, []core.TaskSpec{task("s", "a:slow")}, core.RunOptions{})
			<-began
			c.prepare(host)
			h := b.dag(p, one, core.RunOptions{})
			b.failed(h, core.CodeInternal, "inside pml")
			if stored, err := p.st.Run(t.Context(), h.ID); err != nil || stored.State != core.RunFailed {
				t.Errorf("stored: %s %v", stored.State, err)
			}
			if ids, err := p.st.Orphans(t.Context(), p.Runner.ID(), 0); err != nil || slices.Contains(ids, h.ID) {
				t.Errorf("it is taken up again: %v %v", ids, err)
			}
			close(goOn)
			b.Complete(other, `{"s":{"id":"s"}}`)
			got := slices.DeleteFunc(b.Host.Called(), func(s string) bool { return strings.HasPrefix(s, "a:slow") })
			if diff := cmp.Diff(c.called, got); diff != "" {
				t.Error(diff)
			}
			if text := log.String(); !strings.Contains(text, "panic_test.go") || strings.Contains(text, "hush") {
				t.Errorf("the log has no stack, or a secret:\n%s", text)
			}
		})
	}
}

// A call that had not answered when another one panicked, and the one that did, are
// in doubt: a retry asks before it makes them again. What had its outcome keeps it.
func TestPanic_LeavesCallsInDoubt(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"Warm": false, "Cold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _, _ := fragile(t)
			b.Limits.StopGrace = time.Millisecond
			began := make(chan struct{}, 1)
			b.Host.Tools["a:slow"] = hang(began)
			b.Host.Tools["b:bad"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
				<-began
				panic("hush")
			}}
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("one", "a:write"), task("slow", "a:slow", "one"), task("bad", "b:bad", "one")}, core.RunOptions{})
			b.failed(h, core.CodeInternal, "inside pml")
			if cold {
				p.close()
				p = b.process()
			}
			b.Host.Mu.Lock()
			b.Host.Tools["a:slow"], b.Host.Tools["b:bad"] = tool{}, tool{}
			b.Host.Mu.Unlock()
			h, _, err := p.Retry(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			b.Wait(h, enginetest.Pending(2))
			for _, ap := range b.open(p, h.ID) {
				if ap.Type != core.ApproveInDoubt {
					t.Errorf("asked for %s", ap.Type)
				}
				b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.RunAgain})
			}
			b.Complete(h, `{"bad":{"id":"bad"},"slow":{"id":"slow"}}`)
			got := b.Host.Called()
			slices.Sort(got)
			want := []string{`a:slow{"id":"slow"}`, `a:slow{"id":"slow"}`, `a:write{"id":"one"}`, `b:bad{"id":"bad"}`, `b:bad{"id":"bad"}`}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Outcomes that come after the actor's own panic are kept: nothing of them is lost,
// or in doubt.
func TestPanic_KeepsOutcomes(t *testing.T) {
	t.Parallel()
	b, host, _ := fragile(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	b.Host.Tools["a:slow"] = tool{Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
		close(began)
		<-goOn
		return a, nil
	}}
	b.Host.Tools["a:next"] = tool{Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
		<-began
		return a, nil
	}}
	host.try = "b:bad"
	b.Host.Tools["b:bad"] = tool{}
	log := &words{}
	b.Logger = slog.New(slog.NewTextHandler(&telling{log, "a panic in pml", goOn}, nil))
	p := b.process()
	h := b.dag(p, []core.TaskSpec{task("slow", "a:slow"), task("next", "a:next"), task("bad", "b:bad", "next")}, core.RunOptions{})
	b.failed(h, core.CodeInternal, "inside pml")
	host.mend()
	h, _, err := p.Retry(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.Complete(h, `{"bad":{"id":"bad"},"slow":{"id":"slow"}}`)
	if n := len(b.Host.Called()); n != 3 {
		t.Errorf("%v", b.Host.Called())
	}
}

// telling closes a channel once a text is written.
type telling struct {
	*words

	text string
	done chan struct{}
}

func (w *telling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		close(w.done)
	}
	return w.words.Write(p)
}

// A run whose take-over panics ends for good: no process falls over it, and none
// tries again.
func TestPanic_TakeOver(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	mad := core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "a:write")}, Added: []core.Addition{{From: 99}}}
	cases := map[string]struct {
		program core.Program
		prepare func(h *brittle)
	}{
		"Program": {mad, func(*brittle) {}},
		"Gate":    {core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "b:bad")}}, func(h *brittle) { h.try = "b:bad" }},
		"Call":    {core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "b:bad")}}, func(*brittle) {}},
		"Redact": {core.Program{Kind: core.KindDAG, Version: 1, Tasks: []core.TaskSpec{task("one", "a:read")}},
			func(h *brittle) { h.red = "json" }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, host, _ := fragile(t)
			b.Host.Tools["b:bad"] = broken
			c.prepare(host)
			dead := b.store()
			run := core.Run{
				ID: newID(), Side: core.SideServer, Workspace: "/w", Kind: core.KindDAG, State: core.RunRunning, CreatedAt: now, UpdatedAt: now,
				Runner: "gone", Epoch: 1, DAGVersion: 1,
			}
			if err := dead.Commit(t.Context(), store.Step{Run: run, Create: true, Program: &c.program}); err != nil {
				t.Fatal(err)
			}
			if err := dead.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second server does not even begin
				p := b.process()
				ids, err := p.st.Orphans(t.Context(), p.Runner.ID(), 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					if h, err := p.Resume(t.Context(), id); err == nil {
						b.failed(h, core.CodeInternal, "inside pml")
					} else if core.CodeOf(err) != core.CodeInternal {
						t.Fatal(err)
					}
				}
				got, err := p.st.Run(t.Context(), run.ID)
				if err != nil || got.State != core.RunFailed || got.Error == nil || got.Error.Code != core.CodeInternal {
					t.Fatalf("%s %v %v", got.State, got.Error, err)
				}
				p.close()
			}
			if n := len(b.Host.Called()); n > 1 {
				t.Errorf("called %d times", n)
			}
		})
	}
}

// A replan whose program panics, and a question whose answer cannot be carried
// out, end a run that waits.
func TestPanic_WhileWaiting(t *testing.T) {
	t.Parallel()
	t.Run("Replan", func(t *testing.T) {
		t.Parallel()
		b, _, _ := fragile(t)
		p := b.process()
		h := b.dag(p, []core.TaskSpec{task("one", "a:ask")}, core.RunOptions{})
		b.Wait(h, enginetest.Pending(1))
		mad := core.Program{Kind: core.KindDAG, Version: 2, Tasks: []core.TaskSpec{task("one", "a:ask")}, Added: []core.Addition{{From: 99}}}
		if _, err := p.st.Replan(t.Context(), h.ID, mad, core.Actor{Who: "me"}, core.Event{Type: core.EventTaskLog}); err != nil {
			t.Fatal(err)
		}
		b.failed(h, core.CodeInternal, "inside pml")
		if list := b.open(p, h.ID); len(list) != 0 {
			t.Errorf("still open: %+v", list)
		}
	})
	t.Run("Apply", func(t *testing.T) {
		t.Parallel()
		b, host, _ := fragile(t)
		b.Host.Needs["b"], host.apply = true, "b"
		p := b.process()
		h := b.dag(p, []core.TaskSpec{task("one", "b:read")}, core.RunOptions{})
		b.Wait(h, enginetest.Pending(1))
		b.decide(p, h, core.ApproveDependency, true, nil)
		b.failed(h, core.CodeInternal, "inside pml")
		host.mend()
		h, _, err := p.Retry(t.Context(), h.ID) // what was decided counts
		if err != nil {
			t.Fatal(err)
		}
		b.Complete(h, `{"one":{"id":"one"}}`)
	})
}

// What is planned is looked at before there is a run: a gate that panics says no.
func TestPanic_Foresee(t *testing.T) {
	t.Parallel()
	b, host, _ := fragile(t)
	host.check = "a:read"
	p := b.process()
	run := core.Run{ID: newID(), Workspace: "/w", Kind: core.KindDAG}
	program := core.Program{Kind: core.KindDAG, Version: 1, Plan: &core.Plan{Calls: []core.PlanCall{{ID: "one", Tool: "a:read"}}}}
	f, err := p.Foresee(t.Context(), run, program)
	if err != nil || f == nil {
		t.Fatalf("%v %v", f, err)
	}
}
