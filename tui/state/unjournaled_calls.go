package state

import (
	"maps"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
)

// begunCall is a call that an event says has begun, and none that it is over.
type begunCall struct {
	tool  string
	layer int
	at    time.Time
}

// begin notes what an event says of a call. What only reads is in no journal before it
// has answered: that it goes on is known from events alone.
func (s *State) begin(e *core.Event) {
	if e.TaskID == "" || e.Layer == nil {
		return
	}
	if e.Type != core.EventTaskStart {
		delete(s.begun[e.RunID], e.TaskID)
		return
	}
	if s.begun[e.RunID] == nil {
		s.begun[e.RunID] = map[string]begunCall{}
	}
	s.begun[e.RunID][e.TaskID] = begunCall{e.Tool, *e.Layer, e.At}
}

// underWay shows the calls of a run as running that events say have begun, where the run
// was read without them.
func (s *State) underWay(w *core.Workflow) {
	calls := s.begun[w.ID]
	if len(calls) == 0 || w.State != core.RunRunning {
		return
	}
	left := maps.Clone(calls)
	layers := slices.Clone(w.Layers) // whoever has read them keeps theirs
	for i := range layers {
		tasks := &layers[i].Tasks
		own := false
		for k := range *tasks {
			c, ok := left[(*tasks)[k].ID]
			if !ok {
				continue
			}
			delete(left, (*tasks)[k].ID)
			if (*tasks)[k].State != core.TaskQueued || (*tasks)[k].Tool != c.tool {
				continue
			}
			if !own {
				*tasks, own = slices.Clone(*tasks), true
			}
			t := &(*tasks)[k]
			t.State, t.Predicted, t.StartedAt = core.TaskRunning, false, &c.at
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		c := left[id]
		if c.layer == len(layers) {
			layers = append(layers, core.Layer{Index: c.layer})
		}
		if c.layer < len(layers) {
			layers[c.layer].Tasks = append(slices.Clip(layers[c.layer].Tasks), core.Task{ID: id, Tool: c.tool, State: core.TaskRunning, Layer: c.layer, StartedAt: &c.at})
		}
	}
	w.Layers = layers
}
