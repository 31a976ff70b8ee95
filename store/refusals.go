package store

import (
	"time"

	"github.com/casys-ai/pml/core"
)

// KeyLife is how long a store honours an idempotency key.
const KeyLife = 24 * time.Hour

// NoRun says that a store has no run of this id: core.CodeNotFound.
func NoRun(id core.ID) error {
	return core.Errorf(core.CodeNotFound, "there is no run %s", core.Visible(string(id), 80, false)).WithNext("pml", "workflows", "ls")
}

// Fenced tells a runner that the run is not its own any more, because the run has
// ended or because another runner has claimed it: core.CodeFenced.
func Fenced(r core.Run) error {
	if r.State.Final() {
		return core.Errorf(core.CodeFenced, "the run %s has ended meanwhile: it is %s", r.ID.Short(), r.State).
			WithRun(r.ID).WithNext("pml", "workflows", "show", string(r.ID))
	}
	return core.Errorf(core.CodeFenced, "another process (runner %s) has taken the run %s over; this one stops", r.Runner, r.ID.Short()).
		WithRun(r.ID).WithNext("pml", "workflows", "watch", string(r.ID))
}

// Duplicate says that a run exists already, by its id or its idempotency key:
// core.CodeDuplicate.
func Duplicate(id core.ID, format string, args ...any) error {
	return core.Errorf(core.CodeDuplicate, format, args...).WithRun(id).WithNext("pml", "continue", string(id))
}
