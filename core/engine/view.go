package engine

import (
	"slices"

	"github.com/casys-ai/pml/core"
)

// View is a run as callers see it, computed from what is kept of it.
func View(run core.Run, p core.Program, records []core.Record, approvals []core.Approval) core.Workflow {
	v := viewer{tasks: map[string]*core.Task{}, unknown: doubts{}}
	for _, r := range records {
		v.add(r)
	}
	if run.Kind == core.KindDAG {
		v.addPlanned(p)
	} else if len(records) == 0 && p.Plan != nil {
		v.addPredicted(p.Plan)
	}
	switch {
	case run.State.Final():
		v.close()
	case run.State == core.RunInterrupted:
		for id := range v.unknown {
			v.stop(id)
		}
	default:
		for i := range approvals {
			if a := &approvals[i]; a.Type == core.ApproveInDoubt && (a.State == core.ApprovalOpen || a.State == core.ApprovalExpired) {
				for _, id := range a.CallIDs {
					v.stop(id)
				}
			}
		}
	}
	return core.Workflow{Run: run, Layers: v.layers(), Approvals: orEmpty(approvals)}
}

func orEmpty(list []core.Approval) []core.Approval {
	if list == nil {
		return []core.Approval{}
	}
	return list
}

type viewer struct {
	tasks map[string]*core.Task
	order []*core.Task
	// unknown are the calls that may have run.
	unknown doubts
}

func (v *viewer) task(id, tool string, layer int) *core.Task {
	t := v.tasks[id]
	if t == nil {
		t = &core.Task{ID: id, Tool: tool, Layer: layer, State: core.TaskQueued}
		v.tasks[id] = t
		v.order = append(v.order, t)
	}
	return t
}

func (v *viewer) add(r core.Record) {
	if r.CallID == "" {
		return
	}
	v.unknown.add(r)
	t := v.task(r.CallID, r.Tool, r.Layer)
	t.Attempt = max(t.Attempt, r.Attempt)
	if len(r.Args) > 0 {
		t.Arguments = r.Args
	}
	if len(r.Sent) > 0 {
		t.Sent = r.Sent
	}
	if !r.StartedAt.IsZero() {
		t.StartedAt = new(r.StartedAt)
	}
	switch r.Kind {
	case core.RecordStarted:
		t.State, t.AllowedBy = core.TaskRunning, r.AllowedBy
	case core.RecordParked:
		t.State, t.AllowedBy = core.TaskWaiting, ""
	case core.RecordSettled:
		t.AllowedBy = r.AllowedBy
		t.State, t.Output, t.Error = r.Outcome.State(), r.Result, r.Error
		t.EndedAt, t.DurationMS = new(r.At), r.DurationMS()
	case core.RecordVoid: // with the error of an attempt that failed and is followed by another
		t.State, t.Output, t.Error, t.EndedAt, t.DurationMS = core.TaskQueued, nil, r.Error, nil, 0
		t.AllowedBy = "" // the next attempt is judged anew
	case core.RecordLayer:
	}
}

// addPlanned adds the tasks of a DAG that nothing is journaled of.
func (v *viewer) addPlanned(p core.Program) {
	g, err := Graph(p)
	if err != nil {
		return
	}
	for _, spec := range p.Tasks {
		tool := spec.Tool
		switch spec.Type {
		case core.TypeCode:
			tool = core.CodeTool
		case core.TypeAgent:
			tool = core.DelegateTool
		case core.TypeTool:
		}
		t := v.task(spec.ID, tool, g.Layer(spec.ID))
		t.Layer, t.DependsOn = g.Layer(spec.ID), g.DependsOn(spec.ID)
		if len(t.Arguments) == 0 {
			t.Arguments = spec.Arguments
		}
	}
}

// addPredicted adds the calls that analysis expects of a script that has made
// none.
func (v *viewer) addPredicted(p *core.Plan) {
	for _, pc := range p.Calls {
		t := v.task(pc.ID, pc.Tool, pc.Layer)
		t.Predicted, t.Arguments = true, pc.Arguments
	}
	for _, e := range p.Edges {
		if t := v.tasks[e.To]; t != nil && !slices.Contains(t.DependsOn, e.From) {
			t.DependsOn = append(t.DependsOn, e.From)
		}
	}
}

// stop marks a call that may have run and has no outcome: it does not run any
// more, and waits for somebody who lets the run go on.
func (v *viewer) stop(id string) {
	if r, ok := v.unknown.open(id); ok {
		t := v.tasks[id]
		t.State, t.Error = core.TaskWaiting, core.Errorf(core.CodeCancelled, "%s may have run: %s", t.Tool, endedHow(r.Error))
	}
}

// close settles what a run that has ended left open.
func (v *viewer) close() {
	v.order = slices.DeleteFunc(v.order, func(t *core.Task) bool { return t.Predicted })
	for _, t := range v.order {
		if t.State.Settled() {
			continue
		}
		v.stop(t.ID)
		switch {
		case t.Error != nil: // an attempt failed, or may have run
			t.State = core.TaskError
		default:
			t.State = core.TaskSkipped
		}
	}
}

func (v *viewer) layers() []core.Layer {
	highest := -1
	for _, t := range v.order {
		highest = max(highest, t.Layer)
	}
	out := make([]core.Layer, highest+1)
	for i := range out {
		out[i] = core.Layer{Index: i, Tasks: []core.Task{}}
	}
	for _, t := range v.order {
		out[t.Layer].Tasks = append(out[t.Layer].Tasks, *t)
	}
	return out
}

// Summarize counts the tasks of a run.
func Summarize(w core.Workflow) Summary {
	var s Summary
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			if !t.Predicted {
				s.add(t.Tool, t.State)
			}
		}
	}
	slices.Sort(s.Tools)
	return s
}

func (s *Summary) add(tool string, state core.TaskState) {
	if tool == core.SleepTool {
		return
	}
	s.Tasks++
	switch state {
	case core.TaskSuccess, core.TaskFailedSafe:
		s.OK++
	case core.TaskError:
		s.Failed++
	case core.TaskQueued, core.TaskRunning, core.TaskWaiting, core.TaskSkipped:
	}
	if tool != core.CodeTool && !slices.Contains(s.Tools, tool) {
		s.Tools = append(s.Tools, tool)
	}
}
