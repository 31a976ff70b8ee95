package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

func TestAbort_WhereverTheRunIs(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]time.Duration{"Parked": time.Hour, "Asleep": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.IdleChild = idle
			p := b.process()
			h := b.code(p, `const v = await mcp.a.read({n: 1}); return await mcp.a.ask(v);`, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			if name == "Asleep" {
				b.asleep(h)
			}
			b.abort(p, h)
		})
	}
	t.Run("Running", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		p := b.process()
		began := make(chan struct{}, 1)
		b.Host.Tools["a:slow"] = hang(began)
		h := b.code(p, `await mcp.a.write({n: 1}); try { await mcp.a.slow({}) } catch { await mcp.a.write({never: 1}) }`, core.RunOptions{})
		<-began
		b.abort(p, h)
		if got := len(b.Host.Called()); got != 2 {
			t.Errorf("%v", b.Host.Called())
		}
	})
	t.Run("Sleeping", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		p := b.process()
		h := b.code(p, `await mcp.a.write({n: 1}); await new Promise((r) => setTimeout(r, 3600000)); return 1`, core.RunOptions{})
		b.Wait(h, func(s engine.Status) bool { return len(b.Host.Called()) == 1 })
		b.abort(p, h)
	})
}

func (b *bench) abort(p *process, h *engine.Handle) {
	b.T.Helper()
	if _, err := p.st.RequestAbort(b.T.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}, Reason: "enough"}); err != nil {
		b.T.Fatal(err)
	}
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunAborted || !strings.Contains(s.Run.Error.Message, "enough") {
		b.T.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	if list := b.open(p, h.ID); len(list) != 0 {
		b.T.Errorf("still open: %+v", list)
	}
}

// Scenario 34: pml stops in the middle of a call, of an evaluation, of a sleep
// or while it waits: the run stays, and goes on.
func TestClose_LeavesTheRun(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		source string
		ready  func(b *bench, h *engine.Handle)
		state  core.RunState
	}{
		"Waiting": {`const v = await mcp.a.read({n: 1}); return await mcp.a.ask(v)`, func(b *bench, h *engine.Handle) { b.Wait(h, enginetest.Pending(1)) }, core.RunWaiting},
		"Sleeping": {`await mcp.a.write({n: 1}); await new Promise((r) => setTimeout(r, 300)); return {n: 1}`, func(b *bench, h *engine.Handle) {
			b.Wait(h, func(s engine.Status) bool { return s.Run.JournalSeq >= 2 })
		}, core.RunInterrupted},
		"Evaluating": {`await mcp.a.write({n: 1}); for (let i = 0; i < 2e5; i++) {} return {n: 1}`, func(b *bench, h *engine.Handle) {
			b.Wait(h, func(s engine.Status) bool { return len(b.Host.Called()) == 1 })
		}, core.RunInterrupted},
		"Starting": {`let n = 1; for (let i = 0; i < 2e5; i++) {} return await mcp.a.write({n})`, func(*bench, *engine.Handle) {}, core.RunInterrupted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.code(p, c.source, core.RunOptions{})
			c.ready(b, h)
			p.close()
			p = b.process()
			run, err := p.st.Run(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			if run.State != c.state && run.State != core.RunComplete {
				t.Fatalf("%s %v, want %s", run.State, run.Error, c.state)
			}
			if run.State == core.RunComplete {
				return // it was quicker than the stop
			}
			h = b.Resume(p.Process, h.ID)
			if c.state == core.RunWaiting {
				b.Wait(h, enginetest.Pending(1))
				b.rule(p, b.open(p, h.ID)[0], true)
			}
			b.Complete(h, `{"n":1}`)
			if got := len(b.Host.Called()); got > 2 {
				t.Errorf("%v", b.Host.Called())
			}
		})
	}
}

// TestClose_GivesOutcomesAMoment: an outcome that comes within the grace is
// kept; no further call starts.
func TestClose_GivesOutcomesAMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	began, goOn := make(chan struct{}), make(chan struct{})
	b.Host.Tools["a:slow"] = tool{Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
		close(began)
		<-goOn
		return a, nil
	}}
	h := b.code(p, `await mcp.a.slow({n: 1}); return await mcp.a.write({n: 2})`, core.RunOptions{})
	<-began
	closed := make(chan struct{})
	go func() { defer close(closed); p.close() }()
	close(goOn)
	<-closed
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	b.Complete(h, `{"n":2}`)
	if diff := cmp.Diff([]string{`a:slow{"n":1}`, `a:write{"n":2}`}, b.Host.Called()); diff != "" {
		t.Error(diff)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("Calls", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.Limits.Calls = 3
		h := b.code(b.process(), `for (;;) await mcp.a.read({})`, core.RunOptions{})
		b.failed(h, core.CodeCallLimit, "more than 3 calls")
	})
	t.Run("RunTimeout", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		began := make(chan struct{}, 1)
		b.Host.Tools["a:slow"] = hang(began)
		h := b.code(b.process(), `await mcp.a.slow({})`, core.RunOptions{TimeoutMS: 100})
		b.failed(h, core.CodeTimeout, "limit of 100ms")
	})
	t.Run("CallTimeout", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.Limits.CallTimeout = 50 * time.Millisecond
		began := make(chan struct{}, 1)
		b.Host.Tools["a:slow"] = hang(began)
		h := b.code(b.process(), `try { await mcp.a.slow({}) } catch (e) { return e.code }`, core.RunOptions{})
		b.Complete(h, `"tool_timeout"`)
	})
	for name, cold := range map[string]bool{"HumanTimeIsNotCounted": false, "HumanTimeIsNotCountedCold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.ApprovalTTL = 12 * time.Second
			p := b.process()
			// On a busy machine the little that it does takes seconds.
			h := b.code(p, `const v = await mcp.a.read({n: 1}); return await mcp.a.ask(v)`, core.RunOptions{TimeoutMS: 10_000})
			b.Wait(h, engine.Paused)
			if cold {
				p.close()
				p = b.process()
				h = b.Resume(p.Process, h.ID)
			}
			// The question outlives the run's own time; nothing but waiting happens.
			s := b.Wait(h, func(s engine.Status) bool { return engine.Ended(s) || engine.Paused(s) && len(s.Pending) == 0 })
			if s.Run.State != core.RunWaiting {
				t.Errorf("%s %v", s.Run.State, s.Run.Error)
			}
		})
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("UnhandledRejection", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		h := b.code(b.process(), `mcp.a.fail({}); await mcp.a.read({n: 1}); await mcp.a.read({n: 2}); return 1`, core.RunOptions{})
		b.failed(h, core.CodeToolFailed, "it failed")
	})
	t.Run("CallsThatNobodyAwaitsSettle", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		goOn := make(chan struct{})
		b.Host.Tools["a:slow"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) { <-goOn; return core.Null, nil }}
		p := b.process()
		h := b.code(p, `mcp.a.slow({}); return await mcp.a.read({n: 1})`, core.RunOptions{})
		b.Wait(h, func(s engine.Status) bool { return len(b.Host.Called()) == 2 && s.Run.JournalSeq >= 2 })
		close(goOn)
		b.Complete(h, `{"n":1}`)
	})
	t.Run("WaitsForWhatNeverHappens", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		h := b.code(b.process(), `await mcp.a.read({n: 1}); await new Promise(() => {}); return 1`, core.RunOptions{})
		b.failed(h, core.CodeScript, "waits for something that never happens")
	})
}

// What ends while pml stops is kept: nobody is asked about it afterwards. What
// does not end in time is asked about, and no call is started any more.
func TestClose_KeepsOutcomesInTime(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"InTime": true, "TooLate": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if !ends {
				b.Limits.StopGrace = 50 * time.Millisecond
			}
			p := b.process()
			began, goOn := make(chan struct{}, 1), make(chan struct{})
			b.Host.Tools["a:slow"] = tool{Run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				began <- struct{}{}
				select {
				case <-goOn:
					return args, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}}
			h := b.code(p, `await mcp.a.slow({n: 1}); return await mcp.a.write({n: 2});`, core.RunOptions{})
			<-began
			closed := make(chan struct{})
			go func() { defer close(closed); p.close() }()
			for { // until it has begun to stop
				if _, err := p.Resume(t.Context(), newID()); core.CodeOf(err) == core.CodeCancelled {
					break
				}
			}
			if ends {
				close(goOn)
			}
			<-closed
			if got := len(b.Host.Called()); got != 1 {
				t.Errorf("%d calls, want 1", got)
			}
			p = b.process()
			h, err := p.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !ends {
				if s := b.Wait(h, enginetest.Pending(1)); s.Pending[0].Type != core.ApproveInDoubt {
					t.Errorf("%+v", s.Pending)
				}
				return
			}
			if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 2 {
				t.Errorf("%s %v", s.Run.State, b.Host.Called())
			}
		})
	}
}

// A stop does not wait long for what can be done again: a call that only reads,
// beside a sleep. Only calls that cannot be made again get the whole time.
func TestClose_DoesNotWaitForWhatCanBeDoneAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.StopGrace = time.Hour
	p := b.process()
	began, once := make(chan struct{}, 2), make(chan struct{})
	b.Host.Tools["a:look"] = tool{ReadOnly: true, Run: hang(began).Run}
	b.Host.Tools["a:once"] = tool{Run: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-once
		return args, nil
	}}
	h := b.code(p, `const sleep = new Promise((r) => setTimeout(r, 3600000));
		return await Promise.race([Promise.all([mcp.a.look({}), mcp.a.once({})]), sleep])`, core.RunOptions{})
	<-began
	<-began
	closed := make(chan struct{})
	go func() { defer close(closed); p.close() }()
	for { // until it has begun to stop
		if _, err := p.Resume(t.Context(), newID()); core.CodeOf(err) == core.CodeCancelled {
			break
		}
	}
	close(once)
	<-closed
	p = b.process()
	run, err := p.st.Run(t.Context(), h.ID)
	if err != nil || run.State != core.RunInterrupted || run.ExpiresAt != nil {
		t.Errorf("%v: %s, expires %v", err, run.State, run.ExpiresAt)
	}
	records, err := p.st.Journal(t.Context(), h.ID, 0)
	if err != nil || len(records) != 2 || records[1].Kind != core.RecordSettled || records[1].Tool != "a:once" {
		t.Errorf("%v %+v", err, records)
	}
}
