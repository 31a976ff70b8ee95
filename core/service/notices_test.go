package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// One process, two restrictions edited out of a trusted file while it lives:
// both hold, everybody is told, and the audit log has it.
func TestTakenOut_HoldsInTheSameProcess(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(".pml.json", `{"permissions": {"allow": ["workspace:read_file"], "deny": ["workspace:list_directory"]}, "approvals": {"decider": "human"}}`)
	c := m.client()
	c.trust()
	r := c.execute(`await mcp.workspace.write_file({path: "b.txt", content: "b"})`, api.StatusApprovalRequired)
	if len(r.Notices) > 0 {
		t.Errorf("nothing was taken out: %q", r.Notices)
	}

	m.write(".pml.json", `{"permissions": {"allow": ["workspace:read_file", "workspace:list_directory"]}}`)
	if _, err := c.Continue(c.ctx(), api.ContinueRequest{ID: r.WorkflowID, By: agent, Wait: -1, Decision: &api.Decision{Approve: true}}); core.CodeOf(err) != core.CodeAwaitingHuman {
		t.Errorf("the agent decides: %v", err)
	}
	denied := c.execute(`return await mcp.workspace.list_directory({path: "."})`, api.StatusError)
	if denied.ErrorCode != core.CodePermissionDenied || len(denied.Notices) != 1 || !strings.Contains(denied.Notices[0], "list_directory") || !strings.Contains(denied.Notices[0], "decider") {
		t.Errorf("%s %q", denied.ErrorCode, denied.Notices)
	}
	page, err := c.Workflows(c.ctx(), nil, 1, "")
	if err != nil || len(page.Notices) != 1 || page.Notices[0] != denied.Notices[0] {
		t.Errorf("a list does not say it: %v %q", err, page.Notices)
	}
	state, err := c.Trust(c.ctx())
	if err != nil || state.Trusted || len(state.TakenOut) != 2 {
		t.Errorf("%v %+v", err, state)
	}
	if got := c.named("trust"); len(got) != 1 || got[0].Status != "warn" || !strings.Contains(got[0].Detail, "taken out") {
		t.Errorf("%+v", got)
	}
	found := false
	for _, row := range c.refusals() {
		found = found || strings.Contains(row.Reason, "taken out") && strings.Contains(row.Reason, "approvals.decider")
	}
	if !found {
		t.Error("the audit log does not say it")
	}

	c.trust()
	if after := c.execute(`return await mcp.workspace.list_directory({path: "."})`, api.StatusSuccess); len(after.Notices) > 0 {
		t.Errorf("%q", after.Notices)
	}
}

// TestNotTrusted_IsSaid: a list says that what the files grant does not count, until somebody
// has trusted them. Files that grant nothing need no trust.
func TestNotTrusted_IsSaid(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	said := func() string {
		page, err := c.Workflows(c.ctx(), nil, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(page.Notices, "\n")
	}
	if got := said(); got != "" {
		t.Errorf("there are no files: %q", got)
	}
	m.write(".pml.json", `{"permissions": {"allow": ["workspace:read_file"]}}`)
	if got := said(); !strings.Contains(got, "only once trusted: pml trust") {
		t.Errorf("nobody has trusted them: %q", got)
	}
	c.trust()
	if got := said(); got != "" {
		t.Errorf("they are trusted: %q", got)
	}
}
