package service_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/service"
)

// Who holds for people hears what Execute would have told, whether the run is
// decided while it waits or was over before.
func TestHold(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	type told struct {
		r   *api.Result
		err error
	}
	waits := c.execute(writes, api.StatusApprovalRequired)
	if r, err := c.Hold(c.ctx(), waits.WorkflowID, 0); err != nil || r.Status != api.StatusRunning || r.WorkflowID != waits.WorkflowID {
		t.Errorf("without time: %v %+v", err, r)
	}
	held := make(chan told, 1)
	ctx := c.ctx()
	go func() {
		r, err := c.Hold(ctx, waits.WorkflowID, -1)
		held <- told{r, err}
	}()
	if _, err := c.decide(waits.WorkflowID, api.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if got := <-held; got.err != nil || got.r.Status != api.StatusSuccess || string(got.r.Result) != `"done"` {
		t.Errorf("decided: %v %+v", got.err, got.r)
	}
	if r, err := c.Hold(c.ctx(), waits.WorkflowID, -1); err != nil || r.Status != api.StatusSuccess || string(r.Result) != `"done"` {
		t.Errorf("over before: %v %+v", err, r)
	}
	away := newMachine(t).server()
	service.SetParkAfter(away.Service, time.Millisecond)
	waits = away.execute(writes, api.StatusApprovalRequired)
	go func() {
		r, err := away.Hold(ctx, waits.WorkflowID, -1)
		held <- told{r, err}
	}()
	for service.Held(away.Service) > 0 {
		if err := away.store.Record(t.Context(), core.AuditRow{Reason: "time goes by"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := away.decide(waits.WorkflowID, api.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if got := <-held; got.err != nil || got.r.Status != api.StatusSuccess || string(got.r.Result) != `"done"` {
		t.Errorf("decided when it had left memory: %v %+v", got.err, got.r)
	}
	_, err := c.Hold(c.ctx(), newID(), -1)
	code(t, err, core.CodeNotFound)
}
