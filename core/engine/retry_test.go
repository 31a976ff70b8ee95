package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine/enginetest"
)

// A retry of what a person has denied asks again: about the call, and about
// its server. The answer of before is no answer to the new question.
func TestRetry_AsksAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ  core.ApprovalType
		tool string
		cold bool
	}{
		"Call": {core.ApproveTool, "a:ask", false}, "CallCold": {core.ApproveTool, "a:ask", true},
		"Server": {core.ApproveDependency, "b:read", false}, "ServerCold": {core.ApproveDependency, "b:read", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Host.Needs["b"] = true
			p := b.process()
			h := b.dag(p, []core.TaskSpec{task("one", c.tool)}, core.RunOptions{})
			b.Wait(h, enginetest.Pending(1))
			b.decide(p, h, c.typ, false, nil)
			b.failed(h, core.CodeDenied, "denied")
			for _, approve := range []bool{false, true} {
				if c.cold {
					p.close()
					p = b.process()
				}
				var err error
				if h, _, err = p.Retry(t.Context(), h.ID); err != nil {
					t.Fatal(err)
				}
				b.Wait(h, enginetest.Pending(1))
				b.decide(p, h, c.typ, approve, nil)
				if !approve {
					b.failed(h, core.CodeDenied, "denied")
				}
			}
			b.Complete(h, `{"one":{"id":"one"}}`)
			if diff := cmp.Diff([]string{c.tool + `{"id":"one"}`}, b.Host.Called()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
