package state

import (
	"slices"

	"github.com/casys-ai/pml/core"
)

// runTable is the runs by id and newest first.
type runTable struct {
	byID  map[core.ID]core.Run
	order []core.ID // newest first; rebuilt when stale
	stale bool
}

func newRunTable() runTable { return runTable{byID: map[core.ID]core.Run{}} }

// PutRuns takes headers of runs; what is known of others stays.
func (s *State) PutRuns(runs ...core.Run) {
	for _, r := range runs {
		s.runs.byID[r.ID] = r
	}
	s.runs.stale = true
	s.version++
}

// PutWorkflow takes a run with its layers, tasks and approvals.
func (s *State) PutWorkflow(w core.Workflow) {
	s.details[w.ID] = w
	s.PutRuns(w.Run)
}

// DropRun forgets a run that is gone.
func (s *State) DropRun(id core.ID) {
	delete(s.runs.byID, id)
	delete(s.details, id)
	s.runs.stale = true
	s.version++
}

// Run returns the header of a run.
func (s *State) Run(id core.ID) (core.Run, bool) {
	r, ok := s.runs.byID[id]
	return r, ok
}

// Workflow returns a run with its layers, as far as it was loaded.
func (s *State) Workflow(id core.ID) (core.Workflow, bool) {
	w, ok := s.details[id]
	return w, ok
}

// Runs returns the ids of all runs, newest first. The slice is the state's own.
func (s *State) Runs() []core.ID {
	if s.runs.stale {
		s.runs.order = s.runs.order[:0]
		for id := range s.runs.byID {
			s.runs.order = append(s.runs.order, id)
		}
		slices.SortFunc(s.runs.order, func(a, b core.ID) int {
			if c := s.runs.byID[b].CreatedAt.Compare(s.runs.byID[a].CreatedAt); c != 0 {
				return c
			}
			if a < b {
				return -1
			}
			return 1
		})
		s.runs.stale = false
	}
	return s.runs.order
}
