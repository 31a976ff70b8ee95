package service_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestAgent_ProviderOnce: agents that start together ask each whether they may send what they
// work on to their provider; one answer is for all that wait: a yes in the workspace, a no in
// the tree. Of each the audit log has a row.
func TestAgent_ProviderOnce(t *testing.T) {
	t.Parallel()
	const both = `const r = await Promise.allSettled(["a", "b", "c"].map(goal => mcp.agent.delegate({goal}))); return r.map(x => x.status).join()`
	for _, yes := range []bool{true, false} {
		m := newMachine(t)
		m.writeHome("config.json", `{"models": {"home": {"protocol": "openai", "model": "m", "base_url": "https://models.example.org/v1"}}}`)
		model := &scripted{base: "https://models.example.org/v1"}
		m.models = model
		c := m.client()
		other, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "alone"}, By: me, Wait: -1})
		if err != nil || len(other.Pending) != 1 {
			t.Fatalf("%v %+v", err, other)
		}
		r := c.execute(both, api.StatusApprovalRequired)
		c.awaitOpen(4)
		got, err := c.decide(r.WorkflowID, api.Decision{Approve: yes})
		if err != nil || got.Status != api.StatusSuccess && got.Status != api.StatusComplete {
			t.Fatalf("%v: %v %+v", yes, err, got)
		}
		want, left := `"fulfilled,fulfilled,fulfilled"`, 0
		if !yes {
			want, left = `"rejected,rejected,rejected"`, 1
		}
		if string(got.Result) != want {
			t.Errorf("%v: %s, want %s", yes, got.Result, want)
		}
		c.awaitOpen(left)
		rows, err := c.Audit(c.ctx(), api.AuditQuery{})
		if err != nil || len(rows) != 4-left {
			t.Errorf("%v: %v %d rows in the audit log", yes, err, len(rows))
		}
	}
}

// awaitOpen waits until as many questions are open.
func (c *client) awaitOpen(want int) {
	c.t.Helper()
	ctx := c.ctx()
	changes, err := c.store.Watch(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		list, err := c.Approvals(ctx, false)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(list) == want {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			c.t.Fatalf("%d questions are open, want %d", len(list), want)
		}
	}
}
