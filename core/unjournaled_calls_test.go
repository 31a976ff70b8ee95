package core_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// TestBegun: a call that only reads is in no journal before it has answered. That it runs
// is known from events, and whoever has read the run too keeps what was read.
func TestBegun(t *testing.T) {
	t.Parallel()
	now, layer, next := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 0, 1
	b := core.Begun{}
	say := func(typ core.EventType, task, tool string, layer *int) {
		b.Note(&core.Event{Type: typ, At: now, RunID: "r", TaskID: task, Tool: tool, Layer: layer})
	}
	read := func(st core.RunState) []core.Layer {
		layers := []core.Layer{{Tasks: []core.Task{
			{ID: "c1", Tool: "bad:hang", State: core.TaskQueued, Predicted: true}, {ID: "c2", Tool: "bad:look", State: core.TaskSuccess},
			{ID: "c4", Tool: "bad:again", State: core.TaskQueued, StartedAt: &now, Error: core.Errorf(core.CodeToolTimeout, "no answer")},
		}}}
		w := core.Workflow{Run: core.Run{ID: "r", Kind: core.KindCode, State: st}, Layers: layers}
		b.Show(&w)
		if len(layers) != 1 || layers[0].Tasks[0].State != core.TaskQueued {
			t.Error("what was read has changed for others")
		}
		return w.Layers
	}
	say(core.EventTaskStart, "c1", "bad:hang", &layer)
	say(core.EventTaskStart, "c2", "bad:look", &layer) // and the end of it was missed
	say(core.EventTaskStart, "c3", "bad:more", &next)
	say(core.EventTaskStart, "c4", "bad:again", &layer) // the attempt that has failed
	l := read(core.RunRunning)
	hang := l[0].Tasks[0]
	if hang.State != core.TaskRunning || hang.Predicted || !hang.StartedAt.Equal(now) || l[0].Tasks[1].State != core.TaskSuccess {
		t.Errorf("%+v", l[0].Tasks)
	}
	if st := l[0].Tasks[2].State; st != core.TaskQueued {
		t.Errorf("between two attempts it is %s", st)
	}
	if len(l) != 2 || len(l[1].Tasks) != 1 || l[1].Tasks[0].ID != "c3" || l[1].Tasks[0].State != core.TaskRunning {
		t.Errorf("%+v", l)
	}
	l = read(core.RunInterrupted)
	if hang := l[0].Tasks[0]; len(l) != 2 || hang.State != core.TaskQueued || hang.Predicted || hang.Error == nil || l[0].Tasks[1].Error != nil || l[1].Tasks[0].State != core.TaskQueued {
		t.Errorf("of a run that nobody runs nothing runs, and what was under way is there: %+v", l)
	}
	if l := read(core.RunFailed); len(l) != 1 || l[0].Tasks[0].State != core.TaskQueued {
		t.Errorf("a run that has ended: %+v", l)
	}
	b.Note(&core.Event{Type: core.EventTaskStart, At: now.Add(time.Second), TaskID: "c4", Tool: "bad:again", Layer: &layer})
	if st := read(core.RunRunning)[0].Tasks[2].State; st != core.TaskRunning {
		t.Errorf("in its second attempt it is %s", st)
	}
	say(core.EventTaskError, "c1", "bad:hang", &layer)
	say(core.EventTaskComplete, "c3", "bad:more", &next)
	if l := read(core.RunRunning); len(l) != 1 || l[0].Tasks[0].State != core.TaskQueued {
		t.Errorf("what is over still runs: %+v", l)
	}
}
