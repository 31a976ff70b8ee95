package dag_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
)

func TestSketch(t *testing.T) {
	t.Parallel()
	tasks := []core.TaskSpec{
		{ID: "a", Tool: "s:one", Arguments: json.RawMessage(`{"n": 1}`)},
		{ID: "a", Tool: "s:two"}, // the id is taken
		{ID: "b", Tool: "s:three", Arguments: json.RawMessage(`{"n": "$a"}`)},
		{ID: "c", Tool: "nonsense", Arguments: json.RawMessage(`[1]`)},
		{ID: "d", Type: core.TypeCode, Code: "return 1"},
		{ID: "e", Tool: "s:broken", Arguments: json.RawMessage(`{`)},
	}
	if _, err := dag.Build(tasks, nil); core.CodeOf(err) != core.CodeDAGInvalid {
		t.Fatalf("Build: %v", err)
	}
	want := []core.PlanCall{
		{ID: "a", Tool: "s:one", Arguments: json.RawMessage(`{"n": 1}`)},
		{ID: "a", Tool: "s:two", Arguments: json.RawMessage(`{}`)},
		{ID: "b", Tool: "s:three"},
		{ID: "c", Tool: "nonsense"},
		{ID: "d", Tool: core.CodeTool},
		{ID: "e", Tool: "s:broken"},
	}
	if diff := cmp.Diff(want, dag.Sketch(tasks).Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
