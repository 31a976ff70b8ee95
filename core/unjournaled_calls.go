package core

import (
	"maps"
	"slices"
	"time"
)

// Begun are the calls of one run, by id, of which its events say that they have begun, and
// none that they are over. A call that only reads is in no journal before it has answered:
// whoever does not run it himself knows from events alone that it is under way. The zero
// value can be read; make it before an event is noted.
type Begun map[string]begunCall

type begunCall struct {
	tool  string
	layer int
	at    time.Time
}

// runs reports whether a task that was read from the journal is under way by this call: it
// is not where an attempt that began no earlier has failed and waits for the next one.
func (c begunCall) runs(t *Task) bool {
	return t.State == TaskQueued && t.Tool == c.tool && (t.StartedAt == nil || c.at.After(*t.StartedAt))
}

// Note takes in what an event of the run says of a call.
func (b Begun) Note(e *Event) {
	if e.TaskID == "" || e.Layer == nil {
		return
	}
	switch e.Type {
	case EventTaskStart:
		b[e.TaskID] = begunCall{e.Tool, *e.Layer, e.At}
	case EventTaskComplete, EventTaskError:
		delete(b, e.TaskID)
	default:
	}
}

// Show has the calls run in a run that was read from the journal; in one that was interrupted
// they were under way when its process ended, and are made again. The layers and tasks that
// w was read with stay as they are for others.
func (b Begun) Show(w *Workflow) {
	if len(b) == 0 || w.State != RunRunning && w.State != RunInterrupted {
		return
	}
	left := maps.Clone(b)
	layers := slices.Clone(w.Layers)
	for i := range layers {
		tasks := &layers[i].Tasks
		own := false
		for k := range *tasks {
			c, ok := left[(*tasks)[k].ID]
			if !ok {
				continue
			}
			delete(left, (*tasks)[k].ID)
			if !c.runs(&(*tasks)[k]) {
				continue
			}
			if !own {
				*tasks, own = slices.Clone(*tasks), true
			}
			c.show(&(*tasks)[k], w.State)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		c := left[id]
		if c.layer == len(layers) {
			layers = append(layers, Layer{Index: c.layer})
		}
		if c.layer < len(layers) {
			t := Task{ID: id, Tool: c.tool, Layer: c.layer}
			c.show(&t, w.State)
			layers[c.layer].Tasks = append(slices.Clip(layers[c.layer].Tasks), t)
		}
	}
	w.Layers = layers
}

// show has a task be under way, or have been when the run was interrupted.
func (c begunCall) show(t *Task, run RunState) {
	t.State, t.Predicted, t.StartedAt = TaskRunning, false, &c.at
	if run == RunInterrupted {
		t.State, t.Error = TaskQueued, Errorf(CodeCancelled, "pml ended before %s answered; it is called again when the run goes on", c.tool)
	}
}
