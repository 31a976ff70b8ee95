package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// An agent is shown step by step: a request to the model and the runs that its answer
// led to. A run opens as any other does.

// ofSteps makes a layer of each step of an agent.
func (m *dagModel) ofSteps(w *core.Workflow) []core.Layer {
	if w.Agent != nil {
		m.price = w.Agent.Price
	}
	layers := make([]core.Layer, len(m.steps))
	for i, s := range m.steps {
		layers[i] = core.Layer{Index: i, Tasks: []core.Task{s.Ask}}
		for _, c := range s.Runs {
			layers[i].Tasks = append(layers[i].Tasks, c.Task)
		}
	}
	return layers
}

// child is the run that a task of an agent has started, empty for any other task.
func (m *dagModel) child(task int) core.ID { return core.ChildOf(*m.tasks[task]).ID }

// waitsBelow is what the run of a task waits for, or one below it.
func waitsBelow(child core.ID, e *Env) (core.Approval, bool) {
	if child == "" {
		return core.Approval{}, false
	}
	for _, a := range e.State.Waiting(e.Now) {
		for id := a.RunID; ; {
			if id == child {
				return a, true
			}
			r, ok := e.State.Run(id)
			if !ok || !r.Below() || r.ParentID == id {
				break
			}
			id = r.ParentID
		}
	}
	return core.Approval{}, false
}

// stateNow is what a task is in: one whose run waits for people waits.
func (p *dagPanel) stateNow(task int, e *Env) core.TaskState {
	if t := p.model.tasks[task]; p.model.steps != nil && !t.State.Settled() {
		if _, ok := waitsBelow(p.model.child(task), e); ok {
			return core.TaskWaiting
		}
	}
	return p.model.states[task]
}

// countsNow counts the tasks by what they are in.
func (p *dagPanel) countsNow(e *Env) dagCounts {
	if p.model.steps == nil {
		return p.model.counts
	}
	var c dagCounts
	for i := range p.model.tasks {
		c.add(p.stateNow(i, e))
	}
	return c
}

// drawStepTask draws a request to the model, or a run that its answer led to.
func (p *dagPanel) drawStepTask(a paint.Area, y, task int, e *Env) {
	t := p.model.tasks[task]
	state := p.stateNow(task, e)
	x := 4
	text := "model"
	if c := core.ChildOf(*t); c.ID != "" {
		x = 6
		if text = core.OneLine(c.Intent, 80); text == "" {
			text = "script"
		}
		text += "  " + c.ID.Short()
		if t.State.Settled() {
			text += "  " + plural(c.Calls, "call")
		}
	} else {
		step := p.model.steps[p.model.layer[task]]
		if text += "  " + step.SaidText(); step.SaidText() == "" {
			text += p.saidNow(step, e)
		}
	}
	glyph, style := taskLook(state, e.Theme)
	a.Put(x, y, style, glyph)
	when, what := p.taskText(task, e)
	if state == core.TaskWaiting {
		what = string(state)
	}
	tail := strings.TrimSpace(when + "  " + what)
	room := max(a.W-x-4-paint.Width(tail), 0)
	a.Text(x+2, y, room, paint.Style{}, text)
	a.Text(max(a.W-paint.Width(tail)-1, x+2), y, paint.Width(tail), style, tail)
}

// saidNow is the newest of what the model writes in a step that is under way, in one line.
func (p *dagPanel) saidNow(step core.AgentStep, e *Env) string {
	if step.Ask.State != core.TaskRunning {
		return ""
	}
	said := strings.TrimSpace(e.State.Said(p.model.run, step.Ask.ID))
	return core.OneLine(said[strings.LastIndexByte(said, '\n')+1:], 200)
}

// saidLines are the end of what the model writes in the step that is under way, as many
// lines as there is room for below the steps.
func (p *dagPanel) saidLines(in paint.Area, e *Env) []func(paint.Area) {
	if len(p.model.steps) == 0 {
		return nil
	}
	last := p.model.steps[len(p.model.steps)-1]
	said := strings.TrimRight(e.State.Said(p.model.run, last.Ask.ID), "\n")
	if last.Ask.State != core.TaskRunning || said == "" {
		return nil
	}
	lines := paint.Wrap(strings.ReplaceAll(said, "\t", "    "), max(in.W-10, 1))
	lines = lines[max(0, len(lines)-max(in.H/3-3, 1)):]
	out := make([]func(paint.Area), len(lines))
	for i, l := range lines {
		label := ""
		if i == 0 {
			label = "writes"
		}
		out[i] = labelled(label, l, paint.Style{})
	}
	return out
}
