package service_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestAgent_More: an agent that has used up its iterations is given more by a person only, by
// the rules of every decision; nothing that was answered is asked again.
func TestAgent_More(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"approvals": {"decider": "human"}}`)
	model := &scripted{scripts: []string{`return 1;`, `return 2;`}}
	m.models = model
	c := m.client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "count", Iterations: 1}, By: me, Wait: -1})
	if err != nil || agentIn(t, r).Stop != core.AgentMaxIterations {
		t.Fatalf("%v %+v", err, r)
	}
	give := func(by core.Actor, p core.Presence, n int) (api.Result, error) {
		d := &api.Decision{Approve: true, More: &core.AgentMore{Iterations: n}, Presence: p}
		return c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, Decision: d, By: by, Wait: -1})
	}
	for _, by := range []core.Actor{{Who: "agent", Via: core.ViaMCP}, me} {
		_, err := give(by, "", 3)
		code(t, err, core.CodeAwaitingHuman)
	}
	_, err = give(me, core.PresenceTerminal, 51)
	code(t, err, core.CodeInvalidArguments)
	if n := model.requests(); n != 1 {
		t.Fatalf("the model was asked %d times", n)
	}
	got, err := give(me, core.PresenceTerminal, 3)
	if err != nil || !agentIn(t, got).Success || model.requests() != 3 {
		t.Errorf("%v %+v, %d requests", err, got, model.requests())
	}
	_, err = give(me, core.PresenceTerminal, 3)
	code(t, err, core.CodeNotWaiting)
	if w, err := c.Workflow(c.ctx(), r.WorkflowID); err != nil || w.Agent.MaxIterations != 4 {
		t.Errorf("%v %+v", err, w.Agent)
	}
}
