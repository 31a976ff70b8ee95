package service_test

import (
	"slices"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestAgent_Seen: an agent is one run in lists, with what it has used while it waits and
// at its end; what one of its runs asks says the way to it; it is removed with its runs.
func TestAgent_Seen(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.models = &scripted{scripts: []string{`return 1;`, writes}, price: &core.AgentPrice{Input: 10, Output: 20}}
	c := m.client()
	spec := core.AgentSpec{Goal: "copy a to b", Budget: core.AgentBudget{Tokens: 9000}}
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &spec, By: me, Wait: -1})
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Fatalf("%v %+v", err, r)
	}
	used := func(iterations, calls, tokens int, cost string) {
		t.Helper()
		page, err := c.Workflows(c.ctx(), nil, 0, "")
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != r.WorkflowID || page.Items[0].Agent == nil {
			t.Fatalf("%v: listed are %+v", err, page.Items)
		}
		w, err := c.Workflow(c.ctx(), r.WorkflowID)
		if err != nil || w.Agent == nil {
			t.Fatalf("%v %+v", err, w.Agent)
		}
		for where, s := range map[string]core.AgentSpent{"list": *page.Items[0].Agent, "run": *w.Agent} {
			if s.Iterations != iterations || s.Calls != calls || s.Tokens() != tokens || s.Cost() != cost || s.Budget.Tokens != 9000 || s.MaxIterations != 5 {
				t.Errorf("in the %s: %s", where, s.Text())
			}
		}
	}
	used(2, 0, 300, "$0.0040")
	want := []string{"copy a to b", "iteration 2", "step 2"}
	open, err := c.Approvals(c.ctx(), false)
	if err != nil || len(open) != 1 || !slices.Equal(open[0].Path, want) {
		t.Errorf("%v: the way to the question is %q, want %q", err, open[0].Path, want)
	}
	if one, err := c.Approval(c.ctx(), open[0].ID); err != nil || !slices.Equal(one.Path, want) {
		t.Errorf("%v: %q", err, one.Path)
	}
	if id, _, err := c.Resolve(c.ctx(), "@latest"); err != nil || id != r.WorkflowID {
		t.Errorf("@latest is %s, %v; the agent is %s", id, err, r.WorkflowID)
	}
	got, err := c.decide(r.WorkflowID, api.Decision{Approve: true, ExpectDigest: r.Digest})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	used(3, 2, 450, "$0.0060")
	used(3, 2, 450, "$0.0060") // remembered
	w, err := c.Workflow(c.ctx(), r.WorkflowID)
	if err != nil {
		t.Fatal(err)
	}
	steps := core.AgentSteps(w)
	if len(steps) != 3 || len(steps[0].Runs) != 1 || len(steps[1].Runs) != 1 || len(steps[2].Runs) != 0 || steps[1].Runs[0].Intent != "step 2" || steps[1].Runs[0].Calls != 2 {
		t.Fatalf("the steps are %+v", steps)
	}
	if err := c.RemoveWorkflows(c.ctx(), r.WorkflowID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []core.ID{steps[0].Runs[0].ID, steps[1].Runs[0].ID, r.WorkflowID} {
		if _, err := c.Workflow(c.ctx(), id); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("%s is left: %v", id.Short(), err)
		}
	}
}
