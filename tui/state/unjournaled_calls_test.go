package state_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// TestBegun_ReadAgain: that a call runs stays known when its run is read again.
func TestBegun_ReadAgain(t *testing.T) {
	t.Parallel()
	layer := 0
	s := state.New(100)
	s.AddEvents(core.Event{Seq: 1, Side: core.SideClient, Type: core.EventTaskStart, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), RunID: "r", TaskID: "c1", Tool: "bad:hang", Layer: &layer})
	for range 2 {
		s.PutWorkflow(core.Workflow{Run: core.Run{ID: "r", Kind: core.KindCode, State: core.RunRunning}, Layers: []core.Layer{{Tasks: []core.Task{
			{ID: "c1", Tool: "bad:hang", State: core.TaskQueued, Predicted: true},
		}}}})
		if w, _ := s.Workflow("r"); w.Layers[0].Tasks[0].State != core.TaskRunning {
			t.Errorf("%+v", w.Layers)
		}
	}
}
