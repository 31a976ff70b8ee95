package service_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Whether a host's answer counts is known before it is asked, and is what its
// decision would be told.
func TestHostMayDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config string
		pin, want    bool
	}{
		{"anybody decides", `{}`, false, true},
		{"people decide", `{"approvals": {"decider": "human"}}`, false, false},
		{"people decide, and the host is trusted", `{"approvals": {"decider": "human", "trust_host": true}}`, false, true},
		{"a PIN", `{}`, true, false},
		{"a PIN, and the host is trusted", `{"approvals": {"decider": "human", "trust_host": true}}`, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write(".pml.json", tt.config)
			c := m.client().trusting()
			if tt.pin {
				m.setPin(rightPin)
			}
			r := c.execute(writes, api.StatusApprovalRequired)
			if got := c.HostMayDecide(c.ctx(), core.Approval{RunID: r.WorkflowID}); got != tt.want {
				t.Errorf("it hears: %v", got)
			}
			_, err := c.Continue(c.ctx(), api.ContinueRequest{
				ID: r.WorkflowID, By: core.Actor{Who: "agent", Via: core.ViaElicitation}, Wait: -1, Decision: &api.Decision{Approve: true},
			})
			if (err == nil) != tt.want {
				t.Errorf("its decision: %v", err)
			}
			if c.HostMayDecide(c.ctx(), core.Approval{RunID: "no-such-run"}) {
				t.Error("it hears of a run that is not there")
			}
		})
	}
}

// A rule of another process counts for the very next question.
func TestHostMayDecide_Changed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r := c.execute(writes, api.StatusApprovalRequired)
	if !c.HostMayDecide(c.ctx(), core.Approval{RunID: r.WorkflowID}) {
		t.Fatal("it does not hear")
	}
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	if c.HostMayDecide(c.ctx(), core.Approval{RunID: r.WorkflowID}) {
		t.Error("what was just written does not count")
	}
}
