package dag_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/dag"
)

// TestBuild_CodeOnlyComputes: code of a task that calls a tool or waits, as only scripts can, is
// warned of by name.
func TestBuild_CodeOnlyComputes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`return await mcp.fs.read({})`:                  "task c: the code of a task cannot call tools",
		`const t = mcp["fs"]; return t`:                 "task c: the code of a task cannot call tools",
		`await new Promise((r) => setTimeout(r, 1000))`: "task c: the code of a task cannot wait",
		`return deps.mcp.output + input.setTimeout(1)`:  "",
	} {
		g, err := dag.Build([]core.TaskSpec{{ID: "mcp", Tool: "a:b"}, {ID: "c", Type: core.TypeCode, Code: code}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch list := g.Warnings(); {
		case want == "" && len(list) > 0, want != "" && (len(list) != 1 || list[0].CallID != "c" || !strings.HasPrefix(list[0].Message, want)):
			t.Errorf("%s: %v", code, list)
		}
	}
}
