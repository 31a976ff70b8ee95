package service_test

import (
	"encoding/json"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestName: a run is called what its caller says, else by its intent, its file, its
// first call, how its code begins: never by its kind or its id.
func TestName(t *testing.T) {
	t.Parallel()
	c := newMachine(t).server()
	write := []core.TaskSpec{{ID: "t1", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"path":"src/a.ts","content":"x"}`)}}
	for want, req := range map[string]api.ExecuteRequest{
		"given":               {Name: "given", Intent: "intent", File: "a.ts", Code: "return 1"},
		"two lines…":          {Name: "two lines\nand more", Code: "return 1"},
		"intent":              {Intent: "intent", File: "a.ts", Code: "return 1"},
		"nightly.ts":          {File: "/home/me/flows/nightly.ts", Code: "return 1"},
		"write_file src/a.ts": {Tasks: write},
		"list_directory .":    {Code: `const x = 1; return await mcp.workspace.list_directory({path: "."})`},
		"read_file no.txt":    {Code: `const n = await mcp.workspace.list_directory; return await mcp.workspace.read_file({limit: input?.n, path: "no.txt"})`},
		"counts the pages":    {Code: "\n// counts the pages\nreturn 2"},
		"return 1 + 1":        {Code: "return 1 + 1"},
	} {
		var id core.ID
		req.Wait, req.Started = -1, func(started core.ID) { id = started }
		_, err := c.Execute(c.ctx(), req)
		if id == "" {
			t.Errorf("%s: no run: %v", want, err)
			continue
		}
		if run, err := c.Workflow(c.ctx(), id); err != nil || run.Name != want || run.Title() != want {
			t.Errorf("%q, want %q (%v)", run.Name, want, err)
		}
	}
}
