package service_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/store"
)

// leftBehind is a run whose question was decided, and nobody went on: the
// process that decided has ended at once.
func leftBehind(t *testing.T, m *machine, approved bool) (*client, api.Result) {
	t.Helper()
	first := m.client()
	r := first.execute(writes, api.StatusApprovalRequired)
	first.close()
	c := m.client()
	d := core.Decision{ApprovalID: r.CheckpointID, Approved: approved, By: me, At: m.clock.Now()}
	if _, err := c.store.Decide(c.ctx(), d, store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// Whoever decided was killed before the run went on: the same decision again
// goes on with it.
func TestRepeated_GoesOn(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"approved": true, "denied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c, r := leftBehind(t, m, approve)
			m.clock.forward(time.Minute)
			_, err := c.decide(r.WorkflowID, api.Decision{Approve: !approve})
			if e := code(t, err, core.CodeAlreadyDecided); e.Decided == nil || !cmp.Equal(e.Next, []string{"pml", "continue", r.WorkflowID.Short()}) {
				t.Errorf("the opposite: %+v", e)
			}
			other := api.ContinueRequest{ID: r.WorkflowID, Decision: &api.Decision{Approve: approve}, By: core.Actor{Who: "a model", Via: core.ViaMCP}, Wait: -1}
			_, err = c.Continue(c.ctx(), other)
			if e := code(t, err, core.CodeAlreadyDecided); !cmp.Equal(e.Next, []string{"pml", "continue", r.WorkflowID.Short()}) {
				t.Errorf("another kind of decider: %v", e.Next)
			}
			got, err := c.decide(r.WorkflowID, api.Decision{Approve: approve})
			if approve && (err != nil || got.Status != api.StatusComplete || got.Decided == nil || got.Decided.Who != "me") {
				t.Fatalf("%v %+v", err, got)
			}
			if !approve && (got.Status != api.StatusError || got.Error == "") {
				t.Fatalf("%v %+v", err, got)
			}
			// It has ended now: the id is used.
			_, err = c.decide(r.WorkflowID, api.Decision{Approve: approve})
			if e := code(t, err, core.CodeAlreadyDecided); !cmp.Equal(e.Next, []string{"pml", "workflows", "show", r.WorkflowID.Short()}) ||
				!strings.HasPrefix(e.Message, "the run "+r.WorkflowID.Short()+" is ") || !strings.Contains(e.Message, "nothing in it waits") {
				t.Errorf("after the end: %v %s", e.Next, e.Message)
			}
		})
	}
}

// Scenario 3: somebody has decided at the same moment and goes on just now.
func TestRepeated_SomebodyWasFaster(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c, r := leftBehind(t, m, true)
	told := make(chan error, 1)
	go func() {
		_, err := c.decide(r.WorkflowID, api.Decision{Approve: true})
		told <- err
	}()
	faster := m.client()
	got, err := faster.Continue(faster.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: me, Wait: -1})
	if err != nil || got.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, got)
	}
	code(t, <-told, core.CodeAlreadyDecided)
}

// A rule that a person writes with a yes answers what other calls of the tool ask in runs that
// go on; not what the gates ask all the same, nor what is of higher risk.
func TestDecide_RuleAnswersWaiting(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", ownConfig)
	c := m.client()
	c.trust()
	c.execute(`await mcp.workspace.write_file({path: "left.txt", content: "x"})`, api.StatusApprovalRequired)
	c.close()
	c = m.client() // nobody runs that one any more
	c.execute(`await mcp.workspace.write_file({path: "b.txt", content: "x"})`, api.StatusApprovalRequired)
	r := c.execute(`const w = path => mcp.workspace.write_file({path, content: "x"});
		await Promise.all([w("a.txt"), w(".vscode/tasks.json")])`, api.StatusApprovalRequired)
	var first core.Approval
	for _, ap := range r.Pending {
		if strings.Contains(string(ap.Context), `"a.txt"`) {
			first = ap
		}
	}
	rule, err := c.RuleFor(c.ctx(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(c.ctx(), api.ChangeSet{Changes: []api.Change{rule.Change}}, true, ""); err != nil {
		t.Fatal(err)
	}
	rows, err := c.Audit(c.ctx(), api.AuditQuery{})
	if err != nil || !slices.ContainsFunc(rows, func(r core.AuditRow) bool {
		return strings.HasPrefix(r.Reason, "allow workspace:write_file, by the change of ")
	}) {
		t.Errorf("the audit log does not say which rule was written: %+v, %v", rows, err)
	}
	if _, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: first.ID, Answer: &core.Answer{Remember: core.RememberRule}}); err != nil {
		t.Fatal(err)
	}
	var open []string
	list, err := c.Approvals(c.ctx(), false)
	for _, ap := range list {
		for _, path := range []string{"left.txt", "a.txt", "b.txt", "tasks.json"} {
			if strings.Contains(string(ap.Context), path) {
				open = append(open, path)
			}
		}
	}
	slices.Sort(open)
	if err != nil || !cmp.Equal(open, []string{"left.txt", "tasks.json"}) {
		t.Errorf("%v: still open: %q", err, open)
	}
	rows, err = c.Audit(c.ctx(), api.AuditQuery{})
	if err != nil || !slices.ContainsFunc(rows, func(a core.AuditRow) bool { return a.Reason == "the rule that allows workspace:write_file" }) {
		t.Errorf("%v: the audit log does not say why: %+v", err, rows)
	}
}

// A rule that was written from a question of high risk answers none of high risk in another run
// all the same: those are approved one by one.
func TestDecide_RuleLeavesHigh(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", ownConfig)
	for _, name := range []string{"one.txt", "two.txt"} {
		m.write(name, strings.Repeat("a line\n", 300))
	}
	c := m.client()
	c.trust()
	r := c.execute(`const w = path => mcp.workspace.write_file({path, content: "x\n".repeat(300)});
		await Promise.all([w("one.txt"), w("new.txt")])`, api.StatusApprovalRequired)
	beside := c.execute(`await mcp.workspace.write_file({path: "two.txt", content: "x\n".repeat(300)})`, api.StatusApprovalRequired)
	risks := map[string]core.Approval{}
	for _, ap := range append(r.Pending, beside.Pending...) {
		for _, path := range []string{"one.txt", "two.txt", "new.txt"} {
			if strings.Contains(string(ap.Context), `"`+path+`"`) {
				risks[path] = ap
			}
		}
	}
	if risks["one.txt"].Risk != core.RiskHigh || risks["two.txt"].Risk != core.RiskHigh || risks["new.txt"].Risk != core.RiskMedium {
		t.Fatalf("%+v", r.Pending)
	}
	rule, err := c.RuleFor(c.ctx(), risks["one.txt"].ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(c.ctx(), api.ChangeSet{Changes: []api.Change{rule.Change}}, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.decide(r.WorkflowID, api.Decision{Approve: true, Checkpoint: risks["one.txt"].ID, Answer: &core.Answer{Remember: core.RememberRule}}); err != nil {
		t.Fatal(err)
	}
	list, err := c.Approvals(c.ctx(), false)
	if err != nil || len(list) != 1 || list[0].ID != risks["two.txt"].ID {
		t.Fatalf("%v: still open: %+v", err, list)
	}
	got, err := c.decide(beside.WorkflowID, api.Decision{Approve: true, Checkpoint: list[0].ID})
	if err != nil || got.Status != api.StatusComplete {
		t.Errorf("%v %+v", err, got)
	}
}
