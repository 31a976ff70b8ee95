package tui

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/state"
)

// TestTakeovers_Runner: only a run that this process is the runner of is its own,
// whatever was known of the run before.
func TestTakeovers_Runner(t *testing.T) {
	t.Parallel()
	s := state.New(10)
	k := newTakeovers(func() string { return "r-here" })
	put := func(runner string, epoch int64) {
		s.PutRuns(core.Run{ID: runA, Side: core.SideClient, State: core.RunRunning, Epoch: epoch, Runner: runner})
	}
	k.saw(api.Result{Status: api.StatusRunning, WorkflowID: runA}, 0)
	for i, tt := range []struct {
		runner string
		want   int
	}{{"r-other", 0}, {"r-here", 1}, {"r-other", 0}} {
		put(tt.runner, int64(i+1))
		if got := k.running(s); len(got) != tt.want {
			t.Errorf("run by %s: %v are said to run here", tt.runner, got)
		}
	}
}
