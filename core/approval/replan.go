package approval

import (
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
)

// NotEnded refuses a request about a run that has ended at now: core.CodeWorkflowExpired
// or core.CodeNotWaiting.
func NotEnded(r core.Run, now time.Time) error {
	switch state := RunAt(r, now).State; {
	case state == core.RunExpired:
		return Expired(r)
	case state.Final():
		return Ended(r)
	}
	return nil
}

// Replan makes program the newest version of a run's DAG. Its state counts as state, for a
// store may know better than the run's header that its runner was killed. It refuses, with
// core.CodeNotWaiting, a run that is at work and a version that does not follow the stored
// one, because somebody else has replanned the run meanwhile.
func Replan(r *core.Run, state core.RunState, program core.Program, now time.Time) error {
	if state != core.RunWaiting && state != core.RunInterrupted {
		return core.Errorf(core.CodeNotWaiting, "the run %s is %s; only a run that waits or was interrupted can be planned anew",
			r.ID.Short(), state).WithRun(r.ID).WithNext("pml", "workflows", "watch", string(r.ID))
	}
	if program.Version != r.DAGVersion+1 {
		return core.Errorf(core.CodeNotWaiting, "the run %s was planned anew meanwhile: it is at version %d; look at it and try again",
			r.ID.Short(), r.DAGVersion).WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
	}
	r.State, r.DAGVersion, r.UpdatedAt = state, program.Version, now
	if program.Plan != nil {
		r.TotalLayers = len(program.Plan.Layers)
	}
	return nil
}

// ReplanEvent completes the event of a replan: its time, and who made which version where
// the caller has said nothing else.
func ReplanEvent(e core.Event, program core.Program, by core.Actor, now time.Time) (core.Event, error) {
	if e.At.IsZero() {
		e.At = now
	}
	if e.Data != nil {
		return e, nil
	}
	var err error
	e.Data, err = json.Marshal(map[string]any{"by": by, "dag_version": program.Version})
	return e, err
}

// ExpireRun ends a run that has waited too long, and fences its runner off should it have
// one. The event says so.
func ExpireRun(r *core.Run, now time.Time) core.Event {
	at := *r.ExpiresAt
	r.State, r.EndedAt, r.UpdatedAt = core.RunExpired, &at, now.UTC()
	r.Runner, r.Epoch = "", r.Epoch+1
	return core.Event{Type: core.EventWorkflowExpired, At: now.UTC(), Message: "it waited too long for a decision"}
}
