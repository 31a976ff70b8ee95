package stdio_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestStdio_Origin: what an agent asks for and decides is put down to its host, in the
// run, the approval and the audit log, and the run has a name wherever it is listed.
func TestStdio_Origin(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	h := startHost(m)
	asked := h.result(h.tool("execute", map[string]any{"code": pmltest.AsksOnce}))
	if asked.Status != api.StatusApprovalRequired {
		t.Fatalf("%+v", asked)
	}
	h.result(h.tool("approval_response", map[string]any{"workflow_id": asked.WorkflowID, "checkpoint_id": asked.CheckpointID, "approved": false}))
	h.result(h.tool("execute", map[string]any{"name": "tidy up", "code": "return 1"}))
	h.close()

	by := core.Actor{Via: core.ViaMCP, Client: core.Client{Name: "host", Version: "1"}}
	same := func(what string, got core.Actor, name, want string) {
		t.Helper()
		if got.Who = ""; got != by || name != want {
			t.Errorf("%s: %q by %+v", what, name, got)
		}
	}
	runs := m.Runs()
	if len(runs) != 2 {
		t.Fatalf("%+v", runs)
	}
	same("the newest run", runs[0].RequestedBy, runs[0].Name, "tidy up")
	same("the first run", runs[1].RequestedBy, runs[1].Name, "inc a")
	for _, a := range m.Approvals("--all") {
		same("the approval", a.RequestedBy, a.RunName, "inc a")
		same("its decision", a.DecidedBy.Actor, a.RunName, "inc a")
	}
	var rows api.Page[core.AuditRow]
	m.OK("audit", "ls", "--tool", "rec:danger", "--json").Decode(&rows)
	if len(rows.Items) != 1 {
		t.Fatalf("%+v", rows.Items)
	}
	same("the row", rows.Items[0].By, rows.Items[0].RunName, "inc a")
	for _, list := range [][]string{{"runs", "ls"}, {"audit", "ls"}, {"approvals", "show", string(asked.CheckpointID)}, {"runs", "show", string(asked.WorkflowID)}, {"events"}} {
		if out := m.OK(list...).Stdout; !strings.Contains(out, "inc a") || list[0] != "events" && !strings.Contains(out, "agent host") {
			t.Errorf("%v does not say what and whose it is:\n%s", list, out)
		}
	}
}
