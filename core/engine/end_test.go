package engine_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// A run waits for the calls that nobody awaits, parked ones as well, and what
// follows from them runs, too, also in another process than the one that asked.
func TestEnd_WaitsForWhatIsOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, source, result string
		calls                []string
	}{
		{
			"MainCatch", `async function main() { const v = await mcp.a.read({n: 1}); await mcp.a.ask(v); await mcp.a.write({n: 2}) }
				main().catch(console.error)`, `null`,
			[]string{`a:read{"n":1}`, `a:ask{"n":1}`, `a:write{"n":2}`},
		},
		{
			"ForEachAsync", `[1, 2].forEach(async n => { const v = await mcp.a.read({n}); await mcp.a.ask(v) }); return "over"`, `"over"`,
			[]string{`a:ask{"n":1}`, `a:ask{"n":2}`, `a:read{"n":1}`, `a:read{"n":2}`},
		},
		{
			"CaughtAll", `const v = await mcp.a.read({n: 1});
				try { await Promise.all([mcp.a.ask(v).then(() => mcp.a.write({n: 3})), mcp.a.fail({})]) } catch { return "caught" }`, `"caught"`,
			[]string{`a:ask{"n":1}`, `a:fail{}`, `a:read{"n":1}`, `a:write{"n":3}`},
		},
		{
			"Race", `const v = await mcp.a.read({n: 1}); return await Promise.race([mcp.a.ask(v), "first"])`, `"first"`,
			[]string{`a:read{"n":1}`, `a:ask{"n":1}`},
		},
		{
			"Timer", `const v = await mcp.a.read({n: 1}); setTimeout(() => mcp.a.ask(v).then(() => setTimeout(() => mcp.a.write({n: 4}), 1)), 1); return 1`, `1`,
			[]string{`a:read{"n":1}`, `a:ask{"n":1}`, `a:write{"n":4}`},
		},
	} {
		for _, cold := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := b.process()
				h := b.code(p, tt.source, core.RunOptions{})
				for {
					s := b.Wait(h, engine.Paused)
					if s.Run.State.Final() {
						break
					}
					if cold {
						p.close()
						p = b.process()
						h = b.Resume(p.Process, h.ID)
						s = b.Wait(h, engine.Paused)
					}
					b.rule(p, s.Pending[0], true)
					p.Wake(h.ID)
					open := len(s.Pending)
					b.Wait(h, func(s engine.Status) bool { return engine.Ended(s) || engine.Paused(s) && len(s.Pending) != open })
				}
				b.Complete(h, tt.result)
				got := b.Host.Called()
				if tt.name == "ForEachAsync" || tt.name == "CaughtAll" {
					slices.Sort(got)
				}
				if diff := cmp.Diff(tt.calls, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A denial of a call that nobody awaits is an unhandled rejection.
func TestEnd_DeniedUnawaited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `const v = await mcp.a.read({n: 1}); mcp.a.ask(v); return 1`, core.RunOptions{})
	b.rule(p, b.Wait(h, engine.Paused).Pending[0], false)
	p.Wake(h.ID)
	b.failed(h, core.CodeDenied, "denied")
}

// Only a failure and an abort take calls back; the run says which, and nothing
// asks about them any more.
func TestEnd_Dropped(t *testing.T) {
	t.Parallel()
	const source = `const v = await mcp.a.read({n: 1}); await Promise.all([mcp.a.ask(v), mcp.a.ask({n: v.n + 1}), input ? mcp.a.fail({}) : 0])`
	want := []core.Dropped{{TaskID: "c2", Tool: "a:ask"}, {TaskID: "c3", Tool: "a:ask"}}
	check := func(t *testing.T, p *process, run core.Run) {
		t.Helper()
		if diff := cmp.Diff(want, run.Dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		stored, err := p.st.Run(t.Context(), run.ID)
		if err != nil || len(stored.Dropped) != 2 {
			t.Errorf("stored: %+v %v", stored.Dropped, err)
		}
		list, err := p.st.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, ap := range list {
			if ap.State != core.ApprovalSuperseded {
				t.Errorf("%s of %s is %s", ap.Type, ap.Tool, ap.State)
			}
		}
	}
	t.Run("Failure", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		p := b.process()
		h := b.code(p, source, core.RunOptions{Input: json.RawMessage("true")})
		b.failed(h, core.CodeToolFailed, "it failed")
		s, _ := h.Status()
		check(t, p, s.Run)
	})
	for _, cold := range []bool{false, true} {
		t.Run("Abort", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.process()
			h := b.code(p, source, core.RunOptions{Input: json.RawMessage("false")})
			b.Wait(h, enginetest.Pending(2))
			if cold {
				p.close()
				p = b.process()
			}
			if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}}); err != nil {
				t.Fatal(err)
			}
			if cold {
				h = b.Resume(p.Process, h.ID)
			}
			p.Wake(h.ID)
			s := b.Wait(h, engine.Ended)
			if s.Run.State != core.RunAborted {
				t.Fatalf("%s %v", s.Run.State, s.Run.Error)
			}
			check(t, p, s.Run)
		})
	}
}

// TestEnd_AbortTimer: a run does not wait for the timer of AbortSignal.timeout when
// nothing else is open, as node does not; while something is, the timer counts.
func TestEnd_AbortTimer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	b.Complete(b.code(p, `const s = AbortSignal.timeout(3600000); await mcp.a.write({n: 1}); s.throwIfAborted(); return s.aborted`, core.RunOptions{}), `false`)
	b.Complete(b.code(p, `const s = AbortSignal.timeout(3600000); mcp.a.write({n: 2}); return s.aborted`, core.RunOptions{}), `false`)
	b.Complete(b.code(p, `const s = AbortSignal.timeout(20)
		const late = new Promise((_, no) => s.addEventListener("abort", () => no(s.reason)))
		try { await late } catch (e) { return [e.name, s.aborted] }`, core.RunOptions{}), `["TimeoutError",true]`)
}
