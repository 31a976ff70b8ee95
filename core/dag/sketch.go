package dag

import (
	"bytes"
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

// Sketch is a plan of tasks that Build refuses: one call for each task, in
// order, without layers and edges. It serves to find what else is wrong with
// them. Arguments are set where they are an object and hold nothing that could
// be a reference; a call whose tool is no "server:tool" is kept as it is.
func Sketch(tasks []core.TaskSpec) *core.Plan {
	p := &core.Plan{Kind: core.KindDAG, Calls: make([]core.PlanCall, len(tasks)), Edges: []core.PlanEdge{}, Layers: [][]string{}, Tools: []string{}}
	for i, t := range tasks {
		c := core.PlanCall{ID: t.ID, Tool: t.Tool}
		if t.Type == core.TypeCode {
			c.Tool = core.CodeTool
		} else {
			c.Arguments = literalArguments(t.Arguments)
		}
		p.Calls[i] = c
	}
	return p
}

// literalArguments returns arguments that are sent as they are, nil for others.
func literalArguments(raw json.RawMessage) json.RawMessage {
	args := bytes.TrimSpace(raw)
	switch {
	case len(args) == 0 || string(args) == "null":
		return json.RawMessage("{}")
	case args[0] != '{' || !json.Valid(args) || bytes.ContainsRune(args, '$'):
		return nil
	}
	return args
}
