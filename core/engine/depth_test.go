package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Nothing that is nested too deeply gets into a run.
func TestDepth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Host.Tools["s:echo"] = tool{}
	b.Host.Tools["s:deep"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(nested(9000)), nil
	}}
	b.Host.Tools["s:full"] = tool{Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(nested(core.MaxDepth)), nil
	}}
	p := b.process()
	grow := `let v = []; for (let i = 1; i < %d; i++) v = [v]; `
	withArgs := task("b", "s:echo", "a")
	withArgs.Arguments = json.RawMessage(`{"v":"$a"}`)
	code := core.TaskSpec{ID: "c", Type: core.TypeCode, Code: fmt.Sprintf(grow, 900) + `return v`}
	reads := core.TaskSpec{ID: "c", Type: core.TypeCode, Code: `return Array.isArray(deps.a.output)`, DependsOn: []string{"a"}}
	for name, tt := range map[string]struct {
		h    *engine.Handle
		says string
	}{
		"a script's call":     {b.code(p, fmt.Sprintf(grow, 900)+`return await mcp.s.echo({v})`, core.RunOptions{}), "argument of s:echo is nested more than 500"},
		"a script's result":   {b.code(p, fmt.Sprintf(grow, 900)+`return v`, core.RunOptions{}), "result is nested more than 500"},
		"a tool's result":     {b.code(p, `return await mcp.s.deep({})`, core.RunOptions{}), "result of s:deep is nested more than 500"},
		"a task's result":     {b.dag(p, []core.TaskSpec{task("a", "s:deep")}, core.RunOptions{}), "result of s:deep is nested more than 500"},
		"a task's arguments":  {b.dag(p, []core.TaskSpec{task("a", "s:full"), withArgs}, core.RunOptions{}), "argument of s:echo is nested more than 500"},
		"a code task":         {b.dag(p, []core.TaskSpec{code}, core.RunOptions{}), "result is nested more than 500"},
		"the limit":           {b.code(p, `return await mcp.s.full({})`, core.RunOptions{}), ""},
		"the limit in a task": {b.dag(p, []core.TaskSpec{task("a", "s:full"), reads}, core.RunOptions{}), ""},
	} {
		s := b.Wait(tt.h, engine.Ended)
		said := ""
		if s.Run.Error != nil {
			said = s.Run.Error.Message
		}
		if tt.says == "" && s.Run.State != core.RunComplete || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %s: %s", name, s.Run.State, said)
		}
		records, err := p.st.Journal(t.Context(), s.Run.ID, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range records {
			if core.TooDeep(r.Args) && r.Tool != core.CodeTool || core.TooDeep(r.Result) {
				t.Errorf("%s: a record is too deep", name)
			}
		}
	}
}
