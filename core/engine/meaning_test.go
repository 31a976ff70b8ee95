package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/store"
)

// TestInDoubt_NotAwaited: a call that may have run is asked about although the
// script has returned without it.
func TestInDoubt_NotAwaited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.StopGrace = 1
	p := b.process()
	started := make(chan struct{})
	b.Host.Tools["a:once"] = tool{Run: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h := b.code(p, `mcp.a.once({n: 1}); return (await mcp.a.read({n: 2})).n`, core.RunOptions{})
	<-started
	p.close()
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	s := b.Wait(h, engine.Paused)
	if len(s.Pending) != 1 || s.Pending[0].Type != core.ApproveInDoubt {
		t.Fatalf("%s, pending %+v", s.Run.State, s.Pending)
	}
	b.decide(p, h, core.ApproveInDoubt, true, &core.Answer{InDoubt: core.SkipResult, Result: core.Null})
	b.Complete(h, `2`)
}

// TestConsole_ToldOnce: a replay does not tell again what a process before it
// has told.
func TestConsole_ToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process()
	h := b.code(p, `console.log("a"); const v = await mcp.a.write({n: 1}); console.warn("b"); await mcp.a.ask(v); console.log("c"); return {n: 1}`, core.RunOptions{})
	for range 3 {
		b.Wait(h, engine.Paused)
		p.close()
		p = b.process()
		h = b.Resume(p.Process, h.ID)
	}
	b.Wait(h, engine.Paused)
	b.rule(p, b.open(p, h.ID)[0], true)
	b.Complete(h, `{"n":1}`)
	events, err := p.st.Events(t.Context(), store.EventFilter{RunID: h.ID, Types: []core.EventType{core.EventTaskLog}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range events {
		lines = append(lines, e.Message)
	}
	if diff := cmp.Diff([]string{"a", "warn: b", "c"}, lines); diff != "" {
		t.Error(diff)
	}
}

// TestBarrier_KeepsTheOrderOfOutcomes: behind a barrier a race is won by the
// first to come, and timers of one moment fire as they were set.
func TestBarrier_KeepsTheOrderOfOutcomes(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"Race": `return {n: await Promise.race([mcp.a.slow({n: "slow"}).then((r) => r.n), mcp.a.read({n: "fast"}).then((r) => r.n)])}`,
		"Timers": `const l = []; const at = (ms, x) => new Promise((r) => setTimeout(() => { l.push(x); r() }, ms));
await Promise.all([at(20, 2), at(20, 3), at(1, 1), at(20, 4)]); mcp.a.slow({}); mcp.a.read({}); return {n: l.join("") === "1234" ? "fast" : l}`,
	} {
		for _, barrier := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := b.process()
				quick := make(chan struct{})
				b.Host.Tools["a:slow"] = tool{ReadOnly: true, Run: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
					<-quick
					return a, nil
				}}
				h := b.code(p, source, core.RunOptions{PerLayer: barrier})
				b.Wait(h, func(s engine.Status) bool { return s.Run.JournalSeq > 0 }) // an outcome is kept
				close(quick)
				for s := b.Wait(h, engine.Paused); !engine.Ended(s); s = b.Wait(h, engine.Paused) {
					b.decide(p, h, core.ApproveLayer, true, nil)
					p.Wake(h.ID)
					b.Wait(h, func(s engine.Status) bool { return len(s.Pending) == 0 })
				}
				b.Complete(h, `{"n":"fast"}`)
			})
		}
	}
}
