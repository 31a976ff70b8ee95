package api_test

import (
	"context"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// runs has what family has not.
type runs = api.Workflows

// family knows which run has started which.
type family struct {
	runs
	parents map[core.ID]core.ID
	kinds   map[core.ID]core.Kind
}

func (f family) Workflow(_ context.Context, id core.ID) (core.Workflow, error) {
	return core.Workflow{Run: core.Run{ID: id, ParentID: f.parents[id], Kind: f.kinds[id]}}, nil
}

// TestBelow: what a script of an agent asks is the agent's, also through an agent in
// between; what somebody else's run asks, or the run of a flow, is not.
func TestBelow(t *testing.T) {
	t.Parallel()
	f := family{
		parents: map[core.ID]core.ID{"script": "inner", "inner": "agent", "flow": "agent", "round": "round"},
		kinds:   map[core.ID]core.Kind{"script": core.KindCode, "inner": core.KindAgent, "flow": core.KindDAG, "round": core.KindCode},
	}
	for _, c := range []struct {
		run, above core.ID
		want       bool
	}{
		{"agent", "agent", true}, {"script", "inner", true}, {"script", "agent", true}, {"agent", "script", false},
		{"other", "agent", false}, {"flow", "agent", false}, {"round", "agent", false},
	} {
		if got := api.Below(t.Context(), f, c.run, c.above); got != c.want {
			t.Errorf("%s below %s: %t", c.run, c.above, got)
		}
	}
}
