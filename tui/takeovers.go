package tui

import (
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

// takeovers are the runs that this process runs itself, because what was
// decided here found their runner dead.
type takeovers struct {
	// runner names this process as one that runs; nil: nobody knows, and the epoch
	// has to tell.
	runner func() string
	// maybe are runs that went on after a call, with their epoch before it: who
	// takes a run over makes that grow.
	maybe map[core.ID]int64
	ours  map[core.ID]bool
}

func newTakeovers(runner func() string) *takeovers {
	return &takeovers{runner: runner, maybe: map[core.ID]int64{}, ours: map[core.ID]bool{}}
}

// saw takes the result of a call that may have taken a run over. epoch is that
// of the run before the call.
func (t *takeovers) saw(r api.Result, epoch int64) {
	if r.Status == api.StatusRunning && r.WorkflowID != "" && !t.ours[r.WorkflowID] {
		t.maybe[r.WorkflowID] = epoch
	}
}

// running are those that go on now, in order of their ids.
func (t *takeovers) running(s *state.State) []core.ID {
	if len(t.maybe) == 0 && len(t.ours) == 0 {
		return nil
	}
	for id, epoch := range t.maybe {
		switch r, ok := s.Run(id); {
		case !ok:
		case r.Side == core.SideServer || r.State.Final():
			delete(t.maybe, id)
		case t.runner != nil && r.Runner != t.runner(): // it may be taken over later
		case t.runner != nil, r.Epoch > epoch:
			delete(t.maybe, id)
			t.ours[id] = true
		}
	}
	var out []core.ID
	for id := range t.ours {
		switch r, ok := s.Run(id); {
		case !ok, r.State.Final(), t.runner != nil && r.Runner != t.runner():
			delete(t.ours, id)
		case r.State == core.RunRunning:
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
