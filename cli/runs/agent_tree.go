package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// withChildren puts below each run those that it has started, as far as they are there,
// and notes how deep each is.
func withChildren(ctx context.Context, b api.Workflows, list []core.Run, depth map[core.ID]int) ([]core.Run, error) {
	var out []core.Run
	for _, r := range list {
		out = append(out, r)
		if r.Kind != core.KindAgent {
			continue
		}
		w, err := b.Workflow(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		var below []core.Run
		for _, c := range childrenOf(w) {
			child, err := b.Workflow(ctx, c.ID)
			if core.CodeOf(err) == core.CodeNotFound {
				continue // it is about to be started, or was removed
			}
			if err != nil {
				return nil, err
			}
			depth[c.ID] = depth[r.ID] + 1
			below = append(below, child.Run)
		}
		if below, err = withChildren(ctx, b, below, depth); err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// childrenOf are the runs that an agent has started, oldest first.
func childrenOf(w core.Workflow) (out []core.AgentChild) {
	for _, s := range core.AgentSteps(w) {
		for _, c := range s.Runs {
			if c.ID != "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// nameBelow is the name of a run in a tree: below its agent the agent's name is left out.
func nameBelow(r core.Run, depth int) string {
	if _, own, ok := strings.Cut(r.Title(), " › "); ok && depth > 0 {
		return own
	}
	return r.Title()
}

// costOf is what an agent has cost so far; of another run it is empty.
func costOf(r core.Run) string {
	if r.Agent == nil {
		return ""
	}
	return r.Agent.Cost()
}

// agentLines are the steps of an agent as a tree: each request to the model, and below it
// the runs that it led to. below are those that were read, with their calls.
func agentLines(w core.Workflow, below map[core.ID]core.Workflow) []layout.Cell {
	var out []layout.Cell
	add := func(depth int, s core.TaskState, text string) {
		style := layout.Plain
		if s != core.TaskSuccess {
			style = layout.StyleOf(string(s))
		}
		out = append(out, layout.Cell{Style: style, Text: core.Visible(strings.Repeat("  ", depth)+glyphs[s]+" "+text, 0, false)})
	}
	var price *core.AgentPrice
	if w.Agent != nil {
		price = w.Agent.Price
	}
	for i, step := range core.AgentSteps(w) {
		add(1, step.Ask.State, strings.TrimRight(fmt.Sprintf("%d  %s  %s", i+1, step.UsedText(price), step.SaidText()), " "))
		for _, c := range step.Runs {
			child, ok := below[c.ID]
			asks := slices.ContainsFunc(w.Approvals, func(p core.Approval) bool { return p.RunID == c.ID && p.State == core.ApprovalOpen })
			if (asks || ok && child.State == core.RunWaiting) && !c.Task.State.Settled() {
				c.Task.State = core.TaskWaiting
			}
			add(2, c.Task.State, childText(c))
			if !ok {
				continue
			}
			for _, l := range child.Layers {
				for _, t := range l.Tasks {
					add(3, t.State, strings.TrimPrefix(treeTask(t, child.State), "  "+glyphs[t.State]+" "))
				}
			}
			for _, deeper := range agentLines(child, below) {
				out = append(out, layout.Cell{Style: deeper.Style, Text: "    " + deeper.Text})
			}
		}
	}
	return out
}

// childText is a run that an agent has started, in a line.
func childText(c core.AgentChild) string {
	intent := c.Intent
	if intent == "" {
		intent = "script"
	}
	text := core.OneLine(intent, 80) + "  " + c.ID.Short()
	if c.Task.State.Settled() {
		text += "  " + layout.Plural(c.Calls, "call") + "  " + layout.Millis(c.Task.DurationMS)
	} else {
		text += "  " + string(c.Task.State)
	}
	if c.Task.Error != nil {
		text += ": " + c.Task.Error.Message
	}
	return text
}

// readBelow reads the runs that an agent has started, and those below them.
func readBelow(ctx context.Context, b api.Workflows, w core.Workflow) (map[core.ID]core.Workflow, error) {
	out := map[core.ID]core.Workflow{}
	for todo := childrenOf(w); len(todo) > 0; todo = todo[1:] {
		id := todo[0].ID
		if _, seen := out[id]; seen {
			continue
		}
		child, err := b.Workflow(ctx, id)
		if core.CodeOf(err) == core.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[id] = child
		todo = append(todo, childrenOf(child)...)
	}
	return out, nil
}
