package state

import (
	"cmp"
	"slices"

	"github.com/casys-ai/pml/core"
)

const (
	// maxDetails is how many runs are kept with their layers, detailBytes how
	// much all of them may take, roughly.
	maxDetails  = 200
	detailBytes = 24 << 20
)

// detail is a run with its layers and how much memory it takes.
type detail struct {
	workflow core.Workflow
	size     int
	put      int64 // the larger, the later
	plan     int   // the version of the DAG that the layers are of
}

// PutWorkflow takes a run with its layers, tasks and approvals.
func (s *State) PutWorkflow(w core.Workflow) {
	s.puts++
	s.begun[w.ID].Show(&w)
	s.details[w.ID] = &detail{workflow: w, size: sizeOf(&w), put: s.puts, plan: w.DAGVersion}
	s.version++
	s.PutRuns(w.Run)
	s.putBelow(&w)
	s.PutApprovals(w.Approvals...)
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			s.runs.addTool(w.ID, t.Tool)
		}
	}
}

// putBelow takes the runs that an agent has started, as far as its calls tell of them,
// so that they can be opened before they were read themselves.
func (s *State) putBelow(w *core.Workflow) {
	for _, step := range core.AgentSteps(*w) {
		for _, c := range step.Runs {
			if c.ID == "" || s.runs.byID[c.ID] != nil || c.Task.StartedAt == nil {
				continue
			}
			run := core.Run{
				ID: c.ID, ParentID: w.ID, Kind: core.KindCode, Name: w.Title() + " › " + core.OneLine(cmp.Or(c.Intent, "script"), 80), Side: w.Side, Workspace: w.Workspace, Owner: w.Owner,
				RequestedBy: w.RequestedBy, CreatedAt: *c.Task.StartedAt, UpdatedAt: *c.Task.StartedAt, EndedAt: c.Task.EndedAt, State: core.RunRunning,
			}
			switch {
			case c.Task.State == core.TaskSuccess:
				run.State = core.RunComplete
			case c.Task.State.Settled():
				run.State, run.Error = core.RunFailed, c.Task.Error
			}
			s.PutRuns(run)
		}
	}
}

// Workflow returns a run with its layers, as they were when it was last read:
// its header can be newer than they are.
func (s *State) Workflow(id core.ID) (core.Workflow, bool) {
	if d := s.details[id]; d != nil {
		return d.workflow, true
	}
	return core.Workflow{}, false
}

// OldPlan reports whether the layers of a run were read before its DAG was
// changed, as far as that is known by now.
func (s *State) OldPlan(id core.ID) bool {
	d := s.details[id]
	return d != nil && d.plan < d.workflow.DAGVersion
}

// PruneDetails forgets the layers of runs, those that were put first first,
// until there are at most 200 and they take at most about 24 MiB. Those of keep
// stay in any case. It returns the runs whose layers are forgotten.
func (s *State) PruneDetails(keep []core.ID) []core.ID {
	size := 0
	for _, d := range s.details {
		size += d.size
	}
	if len(s.details) <= maxDetails && size <= detailBytes {
		return nil
	}
	type entry struct {
		id core.ID
		*detail
	}
	wanted := make(map[core.ID]bool, len(keep))
	for _, id := range keep {
		wanted[id] = true
	}
	var old []entry
	for id, d := range s.details {
		if !wanted[id] {
			old = append(old, entry{id, d})
		}
	}
	slices.SortFunc(old, func(a, b entry) int { return cmp.Compare(a.put, b.put) })
	var gone []core.ID
	for _, e := range old {
		if len(s.details) <= maxDetails && size <= detailBytes {
			break
		}
		delete(s.details, e.id)
		size -= e.size
		gone = append(gone, e.id)
	}
	if len(gone) > 0 {
		s.version++
	}
	return gone
}

// sizeOf is roughly how much memory a run with its layers takes, in bytes.
func sizeOf(w *core.Workflow) int {
	const header, task, question = 1 << 10, 512, 512
	n := header + len(w.Result)
	for _, l := range w.Layers {
		for i := range l.Tasks {
			t := &l.Tasks[i]
			n += task + len(t.Arguments) + len(t.Sent) + len(t.Output)
			if t.Error != nil {
				n += task + len(t.Error.Message) + len(t.Error.Stack)
			}
		}
	}
	for i := range w.Approvals {
		n += question + len(w.Approvals[i].Context)
	}
	return n
}

// LayerOf is the layer that a run is at, from 1. Of a DAG that has failed it is the first one
// in which a task failed: what came after it was skipped, and those layers count as done. It
// is 0 where the layers that tell it were not read yet.
func (s *State) LayerOf(r core.Run) int {
	if d := s.details[r.ID]; d != nil && r.State == core.RunFailed && r.Kind == core.KindDAG {
		if n := (core.Workflow{Run: r, Layers: d.workflow.Layers}).FailedLayer(); n > 0 {
			return n
		}
	} else if r.State == core.RunFailed && r.Kind == core.KindDAG && r.CurrentLayer >= r.TotalLayers {
		return 0
	}
	return min(r.CurrentLayer+1, max(r.TotalLayers, 1))
}
