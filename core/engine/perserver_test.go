package engine_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// TestPerServer: as many calls of a run begin at one server as the limit says,
// the others when those have ended; another server's calls do not wait for them.
func TestPerServer(t *testing.T) {
	t.Parallel()
	for name, readOnly := range map[string]bool{"Reads": true, "Writes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), newSteps(t)
			b.Limits.PerServer = 2
			step := s.tool()
			step.ReadOnly = readOnly
			b.Host.Tools["s:tep"], b.Host.Tools["r:tep"] = step, step
			p := b.process()
			h := b.code(p, `const on = n => mcp.s.tep({k: "s" + n}); const all = Array.from({length: 8}, (_, n) => on(n))
				await Promise.all([...all, mcp.r.tep({k: "r"})]); return "done"`, core.RunOptions{})
			s.await([]string{"r", "s0", "s1"})
			for n, next := range []string{"s2", "s3", "s4", "s5", "s6", "s7"} {
				begun := len(b.Host.Called())
				if begun != n+3 {
					t.Errorf("%d calls have begun, want %d", begun, n+3)
				}
				under := s.under()
				s.end(under[1], nil)
				s.await(append([]string{"r", next}, under[2:]...))
			}
			for _, k := range s.under() {
				s.end(k, nil)
			}
			b.Complete(h, `"done"`)
			if b.Wait(h, engine.Ended); len(b.Host.Called()) != 9 {
				t.Error(b.Host.Called())
			}
		})
	}
}
