package engine_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/core/sandbox"
	"github.com/casys-ai/pml/store"
)

// TestMemory_RunsThatWait: runs whose scripts hold memory and wait for a slow tool
// give it back when others need it, and go on when the tool has answered. Each
// call is made once, and each line is told once.
func TestMemory_RunsThatWait(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSteps(t)
	b.Pool = sandbox.NewPool(sandbox.Options{Command: enginetest.ChildCommand(), Warm: -1, Limits: sandbox.Limits{CPU: hung}, Memory: 400 << 20})
	t.Cleanup(func() {
		if err := b.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Host.Tools["s:tep"] = s.tool()
	p := b.process()
	var runs []*engine.Handle
	var keys []string
	for n := range 8 {
		keys = append(keys, strconv.Itoa(n))
		runs = append(runs, b.code(p, fmt.Sprintf(`const keep = []; for (let i = 0; i < 60; i++) keep.push(new Uint8Array(1 << 20).fill(1))
			const r = Math.random(); console.log("once"); const a = await mcp.s.tep({k: "%d"}); await mcp.a.write({k: a.k}); return [keep.length, a.k, r < 1]`, n), core.RunOptions{}))
	}
	s.await(keys)
	if n := b.Pool.Children(); n > 5 {
		t.Errorf("%d children hold 60 MB each, and one that goes on may take 160 of 400", n)
	}
	for _, k := range keys {
		s.end(k, nil)
	}
	for n, h := range runs {
		b.Complete(h, fmt.Sprintf(`[60,"%d",true]`, n))
		lines := 0
		events, err := p.st.Events(t.Context(), store.EventFilter{RunID: h.ID, Types: []core.EventType{core.EventTaskLog}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Message == "once" {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("a line of the console was told %d times", lines)
		}
	}
	if n := len(b.Host.Called()); n != 16 {
		t.Errorf("%d calls, want 16: %v", n, b.Host.Called())
	}
}
