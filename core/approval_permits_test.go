package core_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestApproval_Permits: a yes answers another question of its run that is about the same tool
// where it counts for all calls, or has let that very call on within its bounds.
func TestApproval_Permits(t *testing.T) {
	t.Parallel()
	other := core.Approval{ID: "b", RunID: "r", Type: core.ApproveTool, Tool: "a:b", State: core.ApprovalSuperseded, CallIDs: []string{"c2"}}
	yes := func(answer *core.Answer, calls ...string) core.Approval {
		return core.Approval{ID: "a", RunID: "r", Type: core.ApproveTool, Tool: "a:b", State: core.ApprovalApproved, Answer: answer, CallIDs: calls}
	}
	run, bounds := &core.Answer{Remember: core.RememberRun}, &core.Answer{Shape: &core.Shape{Max: 2}}
	foreign, once := yes(run), yes(run)
	foreign.RunID, once.Once = "s", true
	for name, c := range map[string]struct {
		yes  core.Approval
		want bool
	}{
		"Run": {yes(run, "c1"), true}, "Bounds": {yes(bounds, "c1", "c2"), true}, "OutsideBounds": {yes(bounds, "c1", "c3"), false},
		"Plain": {yes(nil, "c1", "c2"), false}, "OtherRun": {foreign, false}, "EachTime": {once, false},
	} {
		if got := c.yes.Permits(other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
