package engine_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

func isAwayNow(s engine.Status) bool { return s.Away }

// A run that only waits leaves memory; a decision, or an abort, brings it back,
// and nothing runs twice.
func TestPark_ComesBack(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(b *bench, p *process) *engine.Handle{
		"Code": func(b *bench, p *process) *engine.Handle {
			return b.code(p, `const v = await mcp.a.write({n: 1}); return await mcp.a.ask(v);`, core.RunOptions{})
		},
		"DAG": func(b *bench, p *process) *engine.Handle {
			return b.dag(p, []core.TaskSpec{task("t1", "a:write"), task("t2", "a:write", "t1")}, core.RunOptions{PerLayer: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Limits.ParkAfter = time.Millisecond
			p := b.process()
			h := start(b, p)
			s := b.Wait(h, isAwayNow)
			if s.Run.State != core.RunWaiting || len(s.Pending) != 1 || p.Handle(h.ID) != nil || p.Running() != 0 {
				t.Fatalf("%s, %d pending, %d in memory", s.Run.State, len(s.Pending), p.Running())
			}
			b.decide(p, h, s.Pending[0].Type, true, nil)
			h, err := p.Resume(t.Context(), h.ID)
			if err != nil {
				t.Fatal(err)
			}
			if s := b.Wait(h, engine.Ended); s.Run.State != core.RunComplete || len(b.Host.Called()) != 2 {
				t.Errorf("%s %v", s.Run.State, b.Host.Called())
			}
		})
	}
}

// What sleeps or runs beside what waits keeps the run here.
func TestPark_NotWhileSomethingRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.ParkAfter = time.Millisecond
	p := b.process()
	began := make(chan struct{}, 1)
	goOn := make(chan struct{})
	b.Host.Tools["a:slow"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-goOn
		return json.RawMessage(`1`), nil
	}}
	h := b.code(p, `const v = await mcp.a.read({n: 1}); await Promise.all([mcp.a.ask(v), mcp.a.slow({})]); return 1;`, core.RunOptions{})
	<-began
	if p.Handle(h.ID) == nil {
		t.Error("it left while a call ran")
	}
	close(goOn)
	if s := b.Wait(h, isAwayNow); s.Run.State != core.RunWaiting {
		t.Errorf("%s", s.Run.State)
	}
}

// Any number of callers take a run up once.
func TestResume_AtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.ParkAfter = time.Millisecond
	p := b.process()
	h := b.code(p, `return await mcp.a.ask({n: 1});`, core.RunOptions{})
	b.Wait(h, isAwayNow)
	b.decide(p, h, core.ApproveTool, true, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			h, err := p.Resume(t.Context(), h.ID)
			if core.CodeOf(err) == core.CodeNotWaiting {
				return // it has ended
			}
			if err != nil {
				t.Error(err)
				return
			}
			if s, err := h.Wait(t.Context(), engine.Ended); err != nil || s.Err != nil {
				t.Error(err, s.Err)
			}
		})
	}
	wg.Wait()
	run, err := p.st.Run(t.Context(), h.ID)
	if err != nil || run.State != core.RunComplete || run.Epoch != 2 || len(b.Host.Called()) != 1 {
		t.Errorf("%v %s epoch %d %v", err, run.State, run.Epoch, b.Host.Called())
	}
}

// A process that has lost its standing as a runner goes on under a new one,
// unless somebody else has taken the run.
func TestSetRunner(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	began := make(chan struct{}, 2)
	goOn := make(chan struct{})
	b.Host.Tools["a:slow"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		began <- struct{}{}
		<-goOn
		return json.RawMessage(`1`), nil
	}}
	mine := b.code(p, `return await mcp.a.slow({});`, core.RunOptions{})
	theirs := b.code(p, `return await mcp.a.slow({});`, core.RunOptions{})
	<-began
	<-began
	if err := p.Runner.Close(); err != nil {
		t.Fatal(err)
	}
	other := b.process()
	if _, err := other.st.Claim(t.Context(), theirs.ID, other.Runner.ID()); err != nil {
		t.Fatal(err)
	}
	fresh, err := p.st.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fresh.Close() })
	p.SetRunner(fresh.ID())
	close(goOn)
	if s := b.Wait(mine, engine.Ended); s.Run.State != core.RunComplete || s.Run.Runner != fresh.ID() {
		t.Errorf("%s %s", s.Run.State, s.Run.Runner)
	}
	s, err := theirs.Wait(t.Context(), engine.Ended)
	if err != nil || core.CodeOf(s.Err) != core.CodeFenced {
		t.Errorf("%v %v", err, s.Err)
	}
}

// A decision that the run cannot act upon yet, because other questions are open,
// leaves nothing to do: whoever looks for runs that nobody runs does not find it.
// It counts all the same once the others are decided.
func TestDecided_WhileOthersAreOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ     core.ApprovalType
		approve bool
		want    string
		called  int
	}{
		"DeniedServer": {core.ApproveDependency, false, `["denied",{"n":2},{"n":3}]`, 2},
		"ApprovedTool": {core.ApproveTool, true, `[{"n":1},{"n":2},{"n":3}]`, 3},
		"DeniedTool":   {core.ApproveTool, false, `[{"n":1},"denied",{"n":3}]`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Needs["b"] = true
			p := b.process()
			h := b.code(p, `const out = [];
				try { out.push(await mcp.b.read({n: 1})) } catch (e) { out.push(e.code) }
				try { out.push(await mcp.a.ask({n: 2})) } catch (e) { out.push(e.code) }
				try { out.push(await mcp.a.ask({n: 3})) } catch (e) { out.push(e.code) }
				return out`, core.RunOptions{})
			b.Wait(h, enginetest.Pending(3))
			b.decideFirst(p, h, c.typ, c.approve)
			p.Wake(h.ID)
			b.Wait(h, enginetest.Pending(2))
			if s, _ := h.Status(); s.Run.State != core.RunWaiting {
				t.Errorf("the run is %s", s.Run.State)
			}
			p.close()
			p = b.process()
			if list, err := p.st.Orphans(t.Context(), p.Runner.ID(), 0); err != nil || len(list) > 0 {
				t.Errorf("%v: something to do: %v", err, list)
			}
			h = b.Resume(p.Process, h.ID)
			for _, ap := range b.open(p, h.ID) {
				b.rule(p, ap, true)
			}
			b.Complete(h, c.want)
			if got := b.Host.Called(); len(got) != c.called {
				t.Errorf("%v", got)
			}
		})
	}
}

// decideFirst decides the oldest open question of a type.
func (b *bench) decideFirst(p *process, h *engine.Handle, typ core.ApprovalType, approve bool) {
	b.T.Helper()
	for _, ap := range b.open(p, h.ID) {
		if ap.Type == typ && (typ != core.ApproveTool || ap.PlannedFor == "plan:"+firstPlanned(b, p, h)) {
			b.rule(p, ap, approve)
			return
		}
	}
	b.T.Fatalf("no open question of type %s", typ)
}

// firstPlanned is the planned id of the first call of a:ask.
func firstPlanned(b *bench, p *process, h *engine.Handle) string {
	b.T.Helper()
	program, err := p.st.Program(b.T.Context(), h.ID)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, c := range program.Plan.Calls {
		if c.Tool == "a:ask" {
			return c.ID
		}
	}
	b.T.Fatal("a:ask is not planned")
	return ""
}
