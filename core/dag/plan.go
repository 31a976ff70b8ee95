package dag

import (
	"maps"
	"slices"

	"github.com/casys-ai/pml/core"
)

// Plan returns the graph as a plan. A task that has a `when`, or that depends
// on one that may be skipped, is conditional. Arguments are set where they
// hold no reference. An edge is data where the arguments use the result, order
// where depends_on alone asks for it.
func (g *Graph) Plan() *core.Plan {
	p := &core.Plan{Kind: core.KindDAG, Calls: []core.PlanCall{}, Edges: []core.PlanEdge{}, Layers: g.Layers(), Tools: []string{}, Warnings: g.Warnings()}
	tools := map[string]bool{}
	maybe := g.conditional()
	for i := range g.tasks {
		t := &g.tasks[i]
		c := core.PlanCall{ID: t.ID, Tool: t.Tool, Layer: g.layer[i], Conditional: maybe[i]}
		if t.Type == core.TypeCode {
			c.Tool = core.CodeTool
		} else {
			tools[t.Tool] = true
			if len(g.refs[i]) == 0 {
				c.Arguments, _ = g.Resolve(t.ID, nil)
			}
		}
		p.Calls = append(p.Calls, c)
		used := map[int]bool{}
		for _, h := range g.refs[i] {
			for _, part := range h.parts {
				if part.ref != nil {
					used[part.ref.task] = true
				}
			}
		}
		for _, j := range g.deps[i] {
			kind := core.EdgeOrder
			if used[j] {
				kind = core.EdgeData
			}
			p.Edges = append(p.Edges, core.PlanEdge{From: g.tasks[j].ID, To: t.ID, Kind: kind})
		}
	}
	p.Tools = slices.Sorted(maps.Keys(tools))
	if p.Tools == nil {
		p.Tools = []string{}
	}
	return p
}

// conditional tells which tasks may be skipped: those with a `when`, and all
// that depend on one.
func (g *Graph) conditional() []bool {
	out := make([]bool, len(g.tasks))
	var queue []int
	for i := range g.tasks {
		if g.tasks[i].When != "" {
			out[i] = true
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, u := range g.users[i] {
			if !out[u] {
				out[u] = true
				queue = append(queue, u)
			}
		}
	}
	return out
}
