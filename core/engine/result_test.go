package engine_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/sandbox"
)

// TestRetry_ResultTooLarge: a result over the limit is known when the calls have
// been made. They are not lost: with a higher limit a retry gives the result and
// makes none of them again, and the script reads the limit that it read before.
func TestRetry_ResultTooLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limits.ResultBytes = 1024
	p := b.process()
	const source = `await mcp.a.write({n: 1}); return ["x".repeat(3000).slice(0, pml.limits.result_bytes + 10).length, "y".repeat(1100)]`
	c, err := b.Pool.Compile(t.Context(), source, "test.ts")
	if err != nil {
		t.Fatal(err)
	}
	h := b.start(p, core.Program{Kind: core.KindCode, Version: 1, Source: source, Script: c.Script, Plan: c.Plan, Sandbox: sandbox.Version, ResultBytes: 1024}, core.RunOptions{})
	s := b.Wait(h, engine.Ended)
	if s.Run.State != core.RunFailed || s.Run.Error.Code != core.CodeResultTooLarge || !strings.Contains(s.Run.Error.Message, "retry") {
		t.Fatalf("%s %v", s.Run.State, s.Run.Error)
	}
	b.Limits.ResultBytes = 4096
	h, again, err := p.Retry(t.Context(), h.ID)
	if err != nil || again != 0 {
		t.Fatal(again, err)
	}
	b.Complete(h, `[1034,"`+strings.Repeat("y", 1100)+`"]`)
	if calls := b.Host.Called(); len(calls) != 1 {
		t.Errorf("calls: %v, want the one of the first time", calls)
	}
}
