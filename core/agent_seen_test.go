package core_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestSpentBy: the bounds of an agent are those that people have given it: what was asked
// for, once more after a yes to the question for more, and what was given at its end.
func TestSpentBy(t *testing.T) {
	t.Parallel()
	spec := core.AgentSpec{Iterations: 5, Budget: core.AgentBudget{Calls: 4, Tokens: 1000, Ask: true}, More: []core.AgentMore{{Calls: 3, Iterations: 2}}}
	for state, want := range map[core.ApprovalState]int{core.ApprovalApproved: 11, core.ApprovalDenied: 7, core.ApprovalOpen: 7} {
		w := core.Workflow{Run: core.Run{ID: "r"}, Approvals: []core.Approval{{RunID: "below", Type: core.ApproveBudget, State: core.ApprovalApproved}, {RunID: "r", Type: core.ApproveBudget, State: state}}}
		if s := core.SpentBy(spec, w); s.Budget.Calls != want || s.MaxIterations != 7 {
			t.Errorf("%s: %+v", state, s)
		}
	}
}
