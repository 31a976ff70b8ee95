package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What pml tools call prints is the same after a yes as without a question, and pml
// workflows result prints it too; a graph of a file with such a task keeps its own result.
func TestToolsCall_OneShape(t *testing.T) {
	t.Parallel()
	wrapped := json.RawMessage(`{"call":{"path":"b.txt"}}`)
	done := core.Workflow{
		Run: core.Run{
			ID: runA, Kind: core.KindDAG, State: core.RunComplete, Name: "write b.txt", Result: wrapped, RequestedBy: core.Actor{Who: "ann", Via: core.ViaCLI},
		},
		Layers: []core.Layer{{Tasks: []core.Task{{ID: "call", Tool: "fs:write", State: core.TaskSuccess}}}},
	}
	asked := func() *fake {
		return &fake{workflow: done, results: []api.Result{
			waiting(permission(core.RiskLow)), {Status: api.StatusComplete, Kind: core.KindDAG, WorkflowID: runA, Result: wrapped},
		}}
	}
	const bare = "{\n  \"path\": \"b.txt\"\n}\n"
	if s := (&shell{tty: true, stdin: "y\n", fake: asked()}).run("tools", "call", "fs:write").want(t, 0); s.out != bare {
		t.Errorf("after a yes: %s", s.out)
	}
	if s := (&shell{fake: asked()}).run("wf", "result", "7f3a91c2").want(t, 0); s.out != bare {
		t.Errorf("its result: %s", s.out)
	}
	if s := (&shell{fake: asked()}).run("wf", "result", "7f3a91c2", "-o", "jsonl").want(t, 0); s.out != `{"path":"b.txt"}`+"\n" {
		t.Errorf("its result for a program: %s", s.out)
	}
	done.Name = "flow.yaml"
	(&shell{fake: asked()}).run("wf", "result", "7f3a91c2").want(t, 0).has(t, "out", `"call"`)
}
