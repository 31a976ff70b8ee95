package engine_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store"
)

// TestAgent_LeftBehind: a run of an agent does not outlive it, wherever pml died: between the
// request to abort the agent and that to abort its run, or after the end of the agent.
func TestAgent_LeftBehind(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AbortKept", "EndKept", "Removed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var m fakeModel
			b.Ask = m.Answer([][]string{{`await mcp.a.read({n: 1}); return await mcp.a.ask({n: 1});`}})
			p := b.process()
			h := b.start(p, enginetest.AgentProgram(core.AgentSpec{}), core.RunOptions{})
			child := core.ChildID(h.ID, "m1.t1")
			b.Wait(b.handleOf(p, child), engine.Paused)
			p.close()

			p = b.process()
			taken := h.ID
			if name == "AbortKept" {
				if _, err := p.st.RequestAbort(t.Context(), h.ID, core.AbortRequest{By: core.Actor{Who: "me", Via: core.ViaCLI}, At: time.Now()}); err != nil {
					t.Fatal(err)
				}
			} else {
				taken = child
				p.endByHand(t, h.ID, name == "Removed")
			}
			h, err := p.Resume(t.Context(), taken)
			if err != nil {
				t.Fatal(err)
			}
			if s := b.Wait(h, engine.Ended); s.Run.State != core.RunAborted {
				t.Errorf("it is %s", s.Run.State)
			}
			if h := p.Handle(child); h != nil {
				b.Wait(h, engine.Ended)
			}
			if run, err := p.st.Run(t.Context(), child); err != nil || run.State != core.RunAborted {
				t.Errorf("%v: the run of the agent is %s", err, run.State)
			}
			open, err := p.st.Approvals(t.Context(), store.ApprovalFilter{States: []core.ApprovalState{core.ApprovalOpen}, Now: time.Now()})
			if err != nil || len(open) > 0 {
				t.Errorf("%v: still asked: %+v", err, open)
			}
		})
	}
}

// endByHand ends a run in the store alone, as a pml that died after it would leave it.
func (p *process) endByHand(t *testing.T, id core.ID, remove bool) {
	t.Helper()
	run, err := p.st.Claim(t.Context(), id, p.Runner.ID())
	if err != nil {
		t.Fatal(err)
	}
	run.State = core.RunAborted
	if err := p.st.Commit(t.Context(), store.Step{Run: run}); err != nil {
		t.Fatal(err)
	}
	if remove {
		if err := p.st.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
