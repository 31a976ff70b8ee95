package state

import (
	"encoding/json"

	"github.com/casys-ai/pml/core"
)

// EndOf is the state in which an event says that a run has ended, "" if it says
// no such thing.
func EndOf(t core.EventType) core.RunState {
	switch t {
	case core.EventWorkflowComplete:
		return core.RunComplete
	case core.EventWorkflowFailed:
		return core.RunFailed
	case core.EventWorkflowAbort:
		return core.RunAborted
	case core.EventWorkflowExpired:
		return core.RunExpired
	default:
		return ""
	}
}

// applyEvent changes what an event says as a fact.
func (s *State) applyEvent(e *core.Event) {
	if end := EndOf(e.Type); end != "" {
		delete(s.begun, e.RunID)
		if end == core.RunAborted || end == core.RunExpired {
			s.decisions++
		}
		s.endRun(e, end)
		return
	}
	switch e.Type {
	case core.EventTaskStart, core.EventTaskComplete, core.EventTaskError:
		if s.begun[e.RunID] == nil {
			s.begun[e.RunID] = core.Begun{}
		}
		s.begun[e.RunID].Note(e)
		if e.Error != nil && e.Error.Decided != nil { // a hook flow has refused it, say
			s.decisions++
		}
	case core.EventApprovalResolved:
		s.decisions++
		s.resolve(e)
	default:
	}
}

// endRun ends a run, unless its header is newer than the event: then that has
// it already, or the run was tried again since.
func (s *State) endRun(e *core.Event, end core.RunState) {
	row := s.runs.byID[e.RunID]
	if row == nil || row.run.State.Final() || !e.At.After(row.run.UpdatedAt) {
		return
	}
	r := *row.run
	at := e.At
	r.State, r.EndedAt, r.UpdatedAt, r.Error = end, &at, e.At, e.Error
	s.PutRuns(r)
}

// resolve settles an approval, where the event carries how.
func (s *State) resolve(e *core.Event) {
	a, ok := s.approvals.get(e.ApprovalID)
	if !ok || a.State != core.ApprovalOpen || e.At.Before(a.CreatedAt) {
		return
	}
	said := struct {
		State     core.ApprovalState `json:"state"`
		DecidedBy *core.DecidedBy    `json:"decided_by"`
	}{State: core.ApprovalState(e.Message)}
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &said) != nil {
		return
	}
	switch said.State {
	case core.ApprovalApproved, core.ApprovalDenied, core.ApprovalExpired, core.ApprovalSuperseded:
	default:
		return
	}
	a.State, a.DecidedBy = said.State, said.DecidedBy
	s.approvals.put(a, e.At)
}
