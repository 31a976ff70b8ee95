package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// other is somebody else with a hold on the surroundings, who runs nothing.
func (w *World) other() Surroundings {
	w.T.Helper()
	st := w.Open()
	w.T.Cleanup(func() {
		if err := st.Close(); err != nil {
			w.T.Error(err)
		}
	})
	return st
}

// hang makes a tool that says that it began and then waits for its context.
func hang(began chan<- struct{}) Tool {
	return Tool{Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

// fenced waits until a run has stopped because another process has it.
func (w *World) fenced(h *engine.Handle) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), Hung)
	defer cancel()
	s, err := h.Wait(ctx, func(s engine.Status) bool { return s.Stopped })
	if err != nil || core.CodeOf(s.Err) != core.CodeFenced {
		w.T.Fatalf("%v: the old runner ended with %v", err, s.Err)
	}
}

// slow is a script whose second call hangs until another process has its run.
func (w *World) slow(p *Process) *engine.Handle {
	w.T.Helper()
	began := make(chan struct{}, 2)
	w.Host.Tools["a:slow"] = hang(began)
	h := w.Code(p, `await mcp.a.write({n: 1}); await mcp.a.slow({}); return 1`)
	<-began
	w.Host.Mu.Lock()
	w.Host.Tools["a:slow"] = Tool{}
	w.Host.Mu.Unlock()
	return h
}

// testTakeOver: a process that is taken for dead, and is not, changes nothing of its run any
// more. Whoever has taken the run over makes no call a second time without asking.
func testTakeOver(w *World) {
	p := w.Process()
	h := w.slow(p)
	if err := p.Runner.Close(); err != nil { // the world takes it for dead
		w.T.Fatal(err)
	}
	q := w.Process()
	g := w.Resume(q, h.ID)
	w.fenced(h)
	w.Wait(g, Pending(1))
	w.Decide(q.Store, h.ID, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.RunAgain})
	q.Wake(h.ID)
	w.Complete(g, "1")
	if got := w.Host.Called(); !slices.Equal(got, []string{`a:write{"n":1}`, `a:slow{}`, `a:slow{}`}) {
		w.T.Errorf("called %v", got)
	}
}

// testTakeOverOne: of several processes that take a run over at the same time one has it.
func testTakeOverOne(w *World) {
	p := w.Process()
	h := w.slow(p)
	if err := p.Runner.Close(); err != nil {
		w.T.Fatal(err)
	}
	const many = 5
	type taken struct {
		h   *engine.Handle
		err error
	}
	var processes []*Process
	for range many {
		processes = append(processes, w.Process())
	}
	results, together := make(chan taken, many), make(chan struct{})
	for _, q := range processes {
		go func() {
			<-together
			h, err := q.Resume(w.T.Context(), h.ID)
			results <- taken{h, err}
		}()
	}
	close(together)
	var got []*engine.Handle
	for range many {
		switch r := <-results; {
		case r.err == nil:
			got = append(got, r.h)
		case core.CodeOf(r.err) != core.CodeFenced:
			w.T.Error(r.err)
		}
	}
	if len(got) != 1 {
		w.T.Fatalf("%d processes have the run", len(got))
	}
	w.fenced(h)
	w.Wait(got[0], Pending(1))
}

// testTakeOverLive: nobody takes a run from a process that lives.
func testTakeOverLive(w *World) {
	p := w.Process()
	h := w.Code(p, `const q = await mcp.a.ask({n: 1}); return q.n`)
	w.Wait(h, Pending(1))
	if _, err := w.Process().Resume(w.T.Context(), h.ID); core.CodeOf(err) != core.CodeFenced {
		w.T.Errorf("another process takes the run: %v", err)
	}
	w.Decide(p.Store, h.ID, core.ApproveTool, true, nil)
	p.Wake(h.ID)
	w.Complete(h, "1")
}

// testDecideElsewhere: a decision of another process wakes the run where it is, once.
func testDecideElsewhere(w *World) {
	p, other := w.Process(), w.other()
	h := w.Code(p, `const a = await mcp.a.ask({n: [1].length}); const b = await mcp.a.ask({n: a.n + 1}); return b.n`)
	for range 2 {
		s := w.Wait(h, Pending(1))
		w.Decide(other, h.ID, core.ApproveTool, true, nil)
		decided := s.Pending[0].ID
		w.Wait(h, func(s engine.Status) bool {
			return engine.Ended(s) || len(s.Pending) == 1 && s.Pending[0].ID != decided
		})
	}
	w.Complete(h, "2")
	if got := w.Host.Called(); !slices.Equal(got, []string{`a:ask{"n":1}`, `a:ask{"n":2}`}) {
		w.T.Errorf("called %v", got)
	}
}

// testDecideNobody: a decision about a run that no process has counts for whoever takes it up;
// of two that say different things the first one counts.
func testDecideNobody(w *World) {
	p, other := w.Process(), w.other()
	h := w.Code(p, `try { return (await mcp.a.ask({n: [1].length})).n } catch { return "no" }`)
	asked := w.Wait(h, Pending(1)).Pending[0]
	p.Close()
	d := core.Decision{ApprovalID: asked.ID, Approved: true, By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), ExpectDigest: "other"}
	if _, err := other.Decide(w.T.Context(), d, store.Renewal{}); core.CodeOf(err) != core.CodeDigestMismatch {
		w.T.Errorf("a decision about something else: %v", err)
	}
	d.ExpectDigest = asked.Digest
	if _, err := other.Decide(w.T.Context(), d, store.Renewal{}); err != nil {
		w.T.Fatal(err)
	}
	q := w.Process()
	d.Approved = false
	if _, err := q.Store.Decide(w.T.Context(), d, store.Renewal{}); core.CodeOf(err) != core.CodeAlreadyDecided {
		w.T.Errorf("decided a second time: %v", err)
	}
	w.Complete(w.Resume(q, h.ID), "1")
	if got := w.Host.Called(); len(got) != 1 {
		w.T.Errorf("called %v", got)
	}
}

// testAbortElsewhere: a request of another process ends a run that waits.
func testAbortElsewhere(w *World) {
	p, other := w.Process(), w.other()
	h := w.Code(p, `return await mcp.a.ask({n: [1].length})`)
	w.Wait(h, Pending(1))
	if _, err := other.RequestAbort(w.T.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now(), Reason: "enough"}); err != nil {
		w.T.Fatal(err)
	}
	s := w.Wait(h, engine.Ended)
	if s.Run.State != core.RunAborted || !strings.Contains(s.Run.Error.Message, "enough") {
		w.T.Errorf("%s %v", s.Run.State, s.Run.Error)
	}
	list, err := other.Approvals(w.T.Context(), store.ApprovalFilter{RunID: h.ID, States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
	if err != nil || len(list) != 0 {
		w.T.Errorf("%v: still open %+v", err, list)
	}
}

// testLarge: results that are large one by one, and together larger than what a service takes
// at once, come back to a script that starts over.
func testLarge(w *World) {
	const each, calls = 300 << 10, 12
	w.Host.Tools["a:large"] = Tool{ReadOnly: true, Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.Marshal(strings.Repeat("é", each/2))
	}}
	p := w.Process()
	h := w.Code(p, fmt.Sprintf(`let n = 0; for (let i = 0; i < %d; i++) n += (await mcp.a.large({i})).length; const q = await mcp.a.ask({n}); return q.n`, calls))
	w.Wait(h, Pending(1))
	p.Close()
	q := w.Process()
	h = w.Resume(q, h.ID)
	w.Wait(h, Pending(1))
	w.Decide(q.Store, h.ID, core.ApproveTool, true, nil)
	q.Wake(h.ID)
	w.Complete(h, strconv.Itoa(each/2*calls))
	if got := w.Host.Called(); len(got) != calls+1 {
		w.T.Errorf("%d calls were made, want %d", len(got), calls+1)
	}
}

// testFaulty: what fails after a commit is kept, and nothing after it.
func testFaulty(w *World) {
	f := NewFaulty(w.other())
	run := w.NewRun(core.Program{Kind: core.KindCode, Version: 1}, core.RunOptions{})
	run.Runner, run.Epoch, run.State, run.DAGVersion = "r1", 1, core.RunRunning, 1
	f.FailAfter(2)
	ctx := w.T.Context()
	if err := f.Commit(ctx, store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}}); err != nil {
		w.T.Fatal(err)
	}
	step := store.Step{Run: run, Records: []core.Record{{Seq: 1, Kind: core.RecordStarted, CallID: "c1", Tool: "a:write", At: run.CreatedAt}}}
	for range 2 {
		if err := f.Commit(ctx, step); core.CodeOf(err) != core.CodeStoreFailed {
			w.T.Error(err)
		}
		step.Records[0].Seq++
	}
	<-f.Tripped()
	if got, err := f.Run(ctx, run.ID); err != nil || got.JournalSeq != 1 || f.Commits() != 3 {
		w.T.Errorf("%v: journal at %d after %d commits", err, got.JournalSeq, f.Commits())
	}
}
