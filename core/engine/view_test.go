package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/google/go-cmp/cmp"
)

// dependsOn is what each task of a view comes after.
func dependsOn(w core.Workflow) map[string][]string {
	out := map[string][]string{}
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			out[t.ID] = t.DependsOn
		}
	}
	return out
}

// TestView_DependsOn: the tasks of a DAG say what they come after, by name or by
// a reference, and so do predicted calls, once for each.
func TestView_DependsOn(t *testing.T) {
	t.Parallel()
	tasks := []core.TaskSpec{
		{ID: "a", Tool: "s:a"},
		{ID: "b", Tool: "s:b", Arguments: json.RawMessage(`{"x":"$a.y"}`)},
		{ID: "c", Tool: "s:c", DependsOn: []string{"a", "b"}},
	}
	w := engine.View(core.Run{Kind: core.KindDAG}, core.Program{Kind: core.KindDAG, Tasks: tasks}, nil, nil)
	if diff := cmp.Diff(map[string][]string{"a": nil, "b": {"a"}, "c": {"a", "b"}}, dependsOn(w)); diff != "" {
		t.Error(diff)
	}
	plan := &core.Plan{
		Calls: []core.PlanCall{{ID: "1", Tool: "s:a"}, {ID: "2", Tool: "s:b", Layer: 1}},
		Edges: []core.PlanEdge{{From: "1", To: "2", Kind: core.EdgeData}, {From: "1", To: "2", Kind: core.EdgeOrder}, {From: "1", To: "gone"}},
	}
	w = engine.View(core.Run{Kind: core.KindCode}, core.Program{Kind: core.KindCode, Plan: plan}, nil, nil)
	if diff := cmp.Diff(map[string][]string{"1": nil, "2": {"1"}}, dependsOn(w)); diff != "" {
		t.Error(diff)
	}
}
