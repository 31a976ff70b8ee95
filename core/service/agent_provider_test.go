package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestAgent_Provider: before the first conversation of a workspace goes to a provider a
// person is asked, by its URL; a no sends nothing, and a yes holds for the workspace, also
// for others later and after the process has ended, but for no other URL.
func TestAgent_Provider(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	model := &scripted{base: "https://models.example.org/v1", scripts: []string{`return 1;`}}
	m.models = model
	c := m.client()
	run := func() api.Result {
		t.Helper()
		r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "count"}, By: me, Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	answer := func(r api.Result, d api.Decision) api.Result {
		t.Helper()
		got, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, Decision: &d, By: me, Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	failure := func(r api.Result) core.Code {
		t.Helper()
		w, err := c.Workflow(c.ctx(), r.WorkflowID)
		if err != nil || w.Error == nil {
			t.Fatalf("%v %+v", err, w.Run)
		}
		return w.Error.Code
	}
	r := run()
	if len(r.Pending) != 1 || r.Pending[0].Tool != "pml:model/models.example.org" || r.Pending[0].Type != core.ApproveTool || !strings.Contains(r.Pending[0].Description, "https://models.example.org/v1") ||
		r.Pending[0].NotForAgents() == "" || model.requests() != 0 {
		t.Fatalf("%+v, %d requests", r, model.requests())
	}
	if _, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, Decision: &api.Decision{Approve: true}, By: core.Actor{Who: "agent", Via: core.ViaMCP}}); core.CodeOf(err) != core.CodeAwaitingHuman {
		t.Errorf("an agent decides: %v", err)
	}
	if got := answer(r, api.Decision{Reason: "not there"}); failure(got) != core.CodeDenied || model.requests() != 0 {
		t.Fatalf("after a no: %+v, %d requests", got, model.requests())
	}
	if got := answer(run(), api.Decision{Approve: true}); !agentIn(t, got).Success || model.requests() != 2 {
		t.Fatalf("after a yes: %+v, %d requests", got, model.requests())
	}
	if !agentIn(t, run()).Success {
		t.Error("asked again")
	}
	c.close()
	c = m.client()
	if !agentIn(t, run()).Success {
		t.Error("asked again after the process has ended")
	}
	model.base = "https://other.example.org/v1"
	r, asked := run(), model.requests()
	if len(r.Pending) != 1 || r.Pending[0].Tool != "pml:model/other.example.org" {
		t.Fatalf("another provider: %+v", r)
	}
	if got := answer(r, api.Decision{Approve: true, Answer: &core.Answer{Remember: core.RememberRule}}); !agentIn(t, got).Success || model.requests() == asked {
		t.Errorf("after a yes: %+v", got)
	}
	if text, err := os.ReadFile(filepath.Join(m.ws, ".pml.json")); err != nil || !strings.Contains(string(text), "pml:model/other.example.org") {
		t.Errorf("no rule: %s", text)
	}
	m.write(".pml.json", `{"permissions": {"deny": ["pml:model/other.example.org"]}}`)
	asked = model.requests()
	if got := run(); failure(got) != core.CodePermissionDenied || model.requests() != asked {
		t.Errorf("a rule denies it: %+v", got)
	}
}
