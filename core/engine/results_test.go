package engine_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// TestAgent_Handles: a later script has a large result whole, which the model has seen the
// beginning of, also after the process that had it is gone, while the script waits for a
// person; a script that names none has none.
func TestAgent_Handles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var m fakeModel
	b.Ask = m.Answer([][]string{
		{`return {text: "x".repeat(100000), n: 7}`},
		{`await mcp.a.ask({n: 1}); return [results.h1.text.length, results.h1.n, typeof results.h2]`, `return typeof results`},
	})
	p := b.process()
	h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
	script := core.ChildID(h.ID, "m2.t1")
	ch := b.handleOf(p, script)
	b.Wait(ch, engine.Paused)
	p.close()
	p = b.process()
	h = b.Resume(p.Process, h.ID)
	b.decide(p, ch, core.ApproveTool, true, nil)
	b.Resume(p.Process, script)
	r := enginetest.AgentResult(t, b.Wait(h, engine.Ended))
	for _, want := range []string{"results.h1)", "[100000,7,\"undefined\"]", "\n\"undefined\"\n"} {
		if !strings.Contains(r.Result, want) {
			t.Errorf("no %q in %d bytes: %s", want, len(r.Result), r.Result[max(0, len(r.Result)-400):])
		}
	}
}
