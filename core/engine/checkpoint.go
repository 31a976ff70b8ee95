package engine

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// MessageEvents are the types of events that are messages of a checkpoint's view.
var MessageEvents = []core.EventType{core.EventTaskLog, core.EventTaskWarning}

// ViewAt is a run as it stood at a checkpoint, computed from what is kept of it:
// its whole journal, its approvals and its events of the types MessageEvents, in
// order.
func ViewAt(cp core.Checkpoint, run core.Run, p core.Program, records []core.Record, approvals []core.Approval, events []core.Event) core.CheckpointView {
	// It ran then, whatever became of it since.
	run.State = core.RunRunning
	end := len(records)
	for end > 0 && records[end-1].Seq > cp.JournalSeq {
		end--
	}
	out := core.CheckpointView{Checkpoint: cp, Tasks: []core.Task{}, Decisions: []core.Approval{}, Messages: []core.Event{}}
	for _, l := range View(run, programAt(p, cp.DAGVersion), records[:end], nil).Layers {
		out.Tasks = append(out.Tasks, l.Tasks...)
	}
	for _, ap := range approvals {
		if ap.DecidedBy != nil && !ap.DecidedBy.At.After(cp.CreatedAt) {
			out.Decisions = append(out.Decisions, ap)
		}
	}
	slices.SortStableFunc(out.Decisions, func(a, b core.Approval) int { return a.DecidedBy.At.Compare(b.DecidedBy.At) })
	for _, e := range events {
		if !e.At.After(cp.CreatedAt) {
			out.Messages = append(out.Messages, e)
		}
	}
	return out
}

// programAt is a program as it was in a version: replans only add.
func programAt(p core.Program, version int) core.Program {
	if replans := version - 1; replans >= 0 && replans < len(p.Added) {
		p.Tasks, p.Added = p.Tasks[:p.Added[replans].From], p.Added[:replans]
	}
	return p
}

// Before is the newest checkpoint that was there when an approval was asked for;
// checkpoints are the oldest first.
func Before(ap core.Approval, checkpoints []core.Checkpoint) (core.Checkpoint, bool) {
	for _, cp := range slices.Backward(checkpoints) {
		// A store may keep an approval's time to the microsecond only.
		if !cp.CreatedAt.Truncate(time.Microsecond).After(ap.CreatedAt) {
			return cp, true
		}
	}
	return core.Checkpoint{}, false
}
