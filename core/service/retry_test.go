package service_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// A retry of a run that has not failed names what goes on with it.
func TestRetry_NotFailed(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r := c.execute(writes, api.StatusApprovalRequired)
	next := func() []string {
		_, err := c.Retry(c.ctx(), r.WorkflowID, me, 0)
		return code(t, err, core.CodeNotWaiting).Next
	}
	if diff := cmp.Diff([]string{"pml", "approve", r.WorkflowID.Short()}, next()); diff != "" {
		t.Error(diff)
	}
	if _, err := c.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != nil {
		t.Errorf("a run that is complete: %v", got)
	}
}
