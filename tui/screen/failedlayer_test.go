package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestFailedLayer: a DAG that failed in its first layer did not come to its last one, whose
// tasks were skipped; what the layers are is known once they were read.
func TestFailedLayer(t *testing.T) {
	t.Parallel()
	st := emptyState()
	r := core.Run{ID: runFailed, Name: "build", Kind: core.KindDAG, State: core.RunFailed, CreatedAt: fixtureNow, TotalLayers: 3, CurrentLayer: 3, DAGVersion: 1}
	st.PutRuns(r)
	s := newScreen(t, st, 100, 30)
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "3/3") {
		t.Errorf("nobody knows yet which layer failed:\n%s", frame)
	}
	task := func(id string, layer int, state core.TaskState) core.Layer {
		return core.Layer{Index: layer, Tasks: []core.Task{{ID: id, Tool: "a:b", Layer: layer, State: state}}}
	}
	st.PutWorkflow(core.Workflow{Run: r, Layers: []core.Layer{task("a", 0, core.TaskError), task("b", 1, core.TaskSkipped), task("c", 2, core.TaskSkipped)}})
	wantShown(t, s, "1/3")
	press(s, "3", "z")
	wantShown(t, s, "at L1 of 3 layers")
}
