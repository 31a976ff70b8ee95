package service_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/service"
)

// TestPresent_EndedMeanwhile: a run whose process has ended it, and then itself,
// since it was read is complete, not interrupted.
func TestPresent_EndedMeanwhile(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r := c.execute(`return 1`, api.StatusSuccess)
	run, err := c.store.Run(t.Context(), r.WorkflowID)
	if err != nil {
		t.Fatal(err)
	}
	run.State, run.Runner = core.RunRunning, "ended"
	if got := service.Present(t.Context(), c.Service, run); got.State != core.RunComplete {
		t.Errorf("it is %s", got.State)
	}
}
