package service_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// What has expired is decided all the same, in the same step: named or not, by
// whoever may, and bound to what was shown.
func TestContinue_DecidesExpired(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]func(api.Result) api.Decision{
		"First": func(api.Result) api.Decision { return api.Decision{Approve: true} },
		"Named": func(r api.Result) api.Decision {
			return api.Decision{Approve: true, Checkpoint: r.CheckpointID, ExpectDigest: r.Digest}
		},
		"AllOfType": func(api.Result) api.Decision { return api.Decision{Approve: true, AllOfType: core.ApproveTool} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c := m.client()
			r := c.execute(writes, api.StatusApprovalRequired)
			m.clock.forward(10 * time.Minute)
			_, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: r.CheckpointID, ExpectDigest: "sha256:other"})
			code(t, err, core.CodeDigestMismatch)
			got, err := c.decide(r.WorkflowID, d(r))
			if err != nil || got.Status != api.StatusComplete || string(got.Result) != `"done"` {
				t.Fatalf("%v %+v", err, got)
			}
			rows, err := c.Audit(c.ctx(), api.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var renewed []core.ID
			for _, row := range rows {
				if row.Outcome == core.ApprovalApproved {
					renewed = append(renewed, row.Renewed)
				}
			}
			if !cmp.Equal(renewed, []core.ID{r.CheckpointID}) {
				t.Errorf("%v", renewed)
			}
			_, err = c.decide(r.WorkflowID, api.Decision{Checkpoint: r.CheckpointID})
			code(t, err, core.CodeAlreadyDecided)
		})
	}
}

// What has expired is in the audit log when it is read, though nobody has recorded it before.
func TestAudit_Expired(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	m.clock.forward(10 * time.Minute)
	rows, err := c.Audit(c.ctx(), api.AuditQuery{AuditFilter: core.AuditFilter{Outcome: core.ApprovalExpired}})
	if err != nil || len(rows) != 1 || rows[0].ApprovalID != r.CheckpointID {
		t.Errorf("%v %+v", err, rows)
	}
}

// An agent decides what has expired as little as what is open.
func TestContinue_ExpiredIsNotForAgents(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	m.clock.forward(10 * time.Minute)
	_, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1, Decision: &api.Decision{Approve: true, Checkpoint: r.CheckpointID}})
	code(t, err, core.CodeAwaitingHuman)
	if ap, err := c.Approval(c.ctx(), r.CheckpointID); err != nil || ap.RenewedBy != "" {
		t.Errorf("%+v %v", ap, err)
	}
}

// TestContinue_AsksTheRest: what else a run waits for and has expired by the time it has done what was decided is asked
// again at once: whoever decided is there.
func TestContinue_AsksTheRest(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r := c.execute(`await Promise.all(["a", "b"].map(path => mcp.workspace.write_file({path, content: path}))); return "done"`, api.StatusApprovalRequired)
	if len(r.Pending) != 2 {
		t.Fatalf("%+v", r.Pending)
	}
	m.clock.forward(10 * time.Minute)
	first, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: r.Pending[0].ID})
	if err != nil || first.Status != api.StatusApprovalRequired || len(first.Pending) != 1 || first.Pending[0].Renews != r.Pending[1].ID || first.Decided == nil {
		t.Fatalf("%v %+v", err, first)
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: first.CheckpointID, ExpectDigest: first.Digest})
	if err != nil || got.Status != api.StatusComplete {
		t.Errorf("%v %+v", err, got)
	}
}
