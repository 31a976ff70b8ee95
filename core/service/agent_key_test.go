package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// keyless is a machine with a model whose key is not set.
func keyless(t *testing.T) (m *machine, requests func() int) {
	t.Helper()
	url, requests := provider(t, "pml_execute", "ready")
	m = newMachine(t)
	m.writeHome("config.json", `{"permissions": {"allow": ["pml:model/*"]}, "models": {"home": {"protocol": "openai", "model": "m", "base_url": "`+url+`", "api_key": "${KEY}"}}}`)
	return m, requests
}

// asksForKey starts an agent that cannot ask its model without its key.
func asksForKey(t *testing.T, c *client) api.Result {
	t.Helper()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "say it", Plain: true}, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusApprovalRequired || len(r.Pending) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if ap := r.Pending[0]; ap.Type != core.ApproveKeys || !core.IsProvider(ap.Tool) || !strings.Contains(string(ap.Context), `"KEY"`) || !strings.Contains(string(ap.Context), ".env") {
		t.Fatalf("%+v %s", ap, ap.Context)
	}
	return r
}

// TestAgent_MissingKey: a key that is not set is asked for by its name; a yes without it
// asks again, and with it the agent goes on, also in another process.
func TestAgent_MissingKey(t *testing.T) {
	t.Parallel()
	m, requests := keyless(t)
	c := m.client()
	r := asksForKey(t, c)
	found := func(id core.ID, want int) {
		t.Helper()
		if names, err := c.KeysFound(c.ctx(), id); err != nil || names == nil || len(names) != want {
			t.Errorf("%v %v, want %d", names, err, want)
		}
	}
	found(r.CheckpointID, 0)
	again, err := c.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || len(again.Pending) != 1 || again.Pending[0].Type != core.ApproveKeys || again.CheckpointID == r.CheckpointID || requests() != 0 {
		t.Fatalf("a yes without the key: %v %+v", err, again)
	}
	c.close()
	m.write(".env", "KEY=sk-0123456789\n")
	c = m.client()
	found(again.CheckpointID, 1)
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	if out := agentIn(t, got); out.Result != "ready" || out.Usage.LostAttempts != 0 || requests() != 1 {
		t.Errorf("%+v", out)
	}
}

// TestAgent_MissingKeyDenied: a no ends the agent without a request, also where the key has
// come meanwhile and another process takes the agent up.
func TestAgent_MissingKeyDenied(t *testing.T) {
	t.Parallel()
	for _, cold := range []bool{false, true} {
		m, requests := keyless(t)
		c := m.client()
		r := asksForKey(t, c)
		if cold {
			c.close()
			m.write(".env", "KEY=sk-0123456789\n")
			c = m.client()
		}
		got, err := c.decide(r.WorkflowID, api.Decision{Reason: "not today"})
		if err != nil || got.ErrorCode != core.CodeDenied || !strings.Contains(got.Error, "not today; The model home needs KEY: set it in") {
			t.Errorf("cold %v: %v %+v", cold, err, got)
		}
		if n := requests(); n != 0 {
			t.Errorf("cold %v: %d requests", cold, n)
		}
	}
}
