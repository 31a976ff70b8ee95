//go:build unix

package approvals_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

const dangers = `return (await mcp.rec.danger({x: "a"})).done`

// elsewhere is the same machine in another workspace, configured and trusted as the
// first.
func elsewhere(t *testing.T, m *pmltest.Machine) *pmltest.Machine {
	t.Helper()
	other := m.In(t)
	other.WS = filepath.Join(m.Dir, "other")
	other.Setenv("PML_WORKSPACE", other.WS)
	if err := os.Mkdir(other.WS, 0o755); err != nil {
		t.Fatal(err)
	}
	other.Configure(pmltest.AllowRec())
	return other
}

// TestLatest_OfThisWorkspace: what an agent has started next door is not the newest run
// of who stands here, and nothing of it is decided.
func TestLatest_OfThisWorkspace(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	here := m.Execute(8, dangers)
	there := elsewhere(t, m).Execute(8, dangers)
	o := m.Exit(2, "continue", "@latest", "--approve")
	pmltest.Wants(t, o.Stderr, "decides only at a terminal", here.WorkflowID.Short())
	if strings.Contains(o.Stderr, there.WorkflowID.Short()) {
		t.Errorf("the run of another workspace: %s", o.Stderr)
	}
	s := m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(), "continue", "@latest", "--approve")
	if s.Exit != 0 || !strings.Contains(s.Text, string(here.CheckpointID)) || m.Count("danger") != 1 {
		t.Errorf("exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
	if w := m.Workflow(there.WorkflowID); w.State != core.RunWaiting || w.Approvals[0].State != core.ApprovalOpen {
		t.Errorf("the run of another workspace is %s", w.State)
	}
	// It has ended: there is nothing to decide, and the text says so.
	pmltest.Wants(t, m.Terminal(pmltest.UsualSize, nil, nil, "continue", "@latest", "--approve").Text, "is complete: nothing in it waits")
	empty := m.In(t)
	empty.WS = t.TempDir()
	empty.Setenv("PML_WORKSPACE", empty.WS)
	pmltest.Wants(t, empty.Exit(3, "continue", "@latest", "--approve").Stderr, "there is no run yet in the workspace")
}

// TestApprove_Terminal: high risk takes four characters of what is on the screen, and
// one key is not enough.
func TestApprove_Terminal(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, dangers)
	for _, args := range [][]string{{"continue", string(r.WorkflowID), "--approve"}, {"approve", string(r.CheckpointID)}, {"approve"}} {
		s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
			pmltest.Typed(`ater: $`, ""), pmltest.Typed(`ater: $`, "y"), pmltest.Typed(`to approve: $`, "yes"), pmltest.Typed(`ater: $`, "l"),
		}, args...)
		pmltest.Wants(t, s.Text, "rec:danger", "x  a", r.Digest, "high risk: type ")
		if s.Exit != 8 || m.Count("danger") != 0 {
			t.Errorf("%v: exit %d, %d calls: %q", args, s.Exit, m.Count("danger"), s.Text)
		}
	}
	if s := m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(), "approve", string(r.CheckpointID)); s.Exit != 0 || m.Count("danger") != 1 {
		t.Errorf("exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
	asked(t, m, core.PresenceTerminal)
}

// TestApprove_NoTerminal: an id is the consent of a script. The card is on stderr, the
// digest can be bound, and the audit log says that nobody was asked.
func TestApprove_NoTerminal(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	r := m.Execute(8, dangers)
	pmltest.Wants(t, m.Exit(12, "approve", string(r.CheckpointID), "--expect-digest", "sha256:00").Stderr, "rec:danger")
	pmltest.Wants(t, m.Exit(2, "approve").Stderr, r.CheckpointID.Short(), "next: pml approve "+r.CheckpointID.Short())
	pmltest.Wants(t, m.Exit(2, "deny").Stderr, r.CheckpointID.Short())
	if m.Count("danger") != 0 {
		t.Fatal("it was called")
	}
	o := m.OK("approve", string(r.CheckpointID), "--expect-digest", r.Digest)
	pmltest.Wants(t, o.Stderr, "approval required: tool_permission", "x  a", r.Digest)
	asked(t, m, core.PresenceNobody)
	r = m.Execute(8, dangers)
	o = m.Exit(9, "deny", string(r.WorkflowID), "--reason", "wrong folder", "--json")
	pmltest.Wants(t, o.Stderr, `{"deciding":{"checkpoint_id":"`+string(r.CheckpointID))
}

// TestLatest_Several: where more than one approval of the run waits, they are listed and
// nothing is decided.
func TestLatest_Several(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Execute(8, `return await Promise.all([mcp.rec.danger({x: "a"}), mcp.rec.danger({x: "b"})])`)
	open := m.Approvals()
	if len(open) != 2 {
		t.Fatalf("%d wait", len(open))
	}
	s := m.Terminal(pmltest.UsualSize, nil, nil, "approve", "@latest")
	said := strings.Join(strings.Fields(s.Text), " ") // wherever the terminal's width has broken it
	pmltest.Wants(t, said, "waits for 2 approvals", open[0].ID.Short(), open[1].ID.Short())
	if s.Exit != 2 || m.Count("danger") != 0 {
		t.Errorf("exit %d, %d calls", s.Exit, m.Count("danger"))
	}
	// The inbox shows both, asks once for what is alike, and waits for the run.
	s = m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(), "approve")
	pmltest.Wants(t, s.Text, "2 approvals are alike", "(1 of 2)", "(2 of 2)", "is complete")
	if s.Exit != 0 || m.Count("danger") != 2 {
		t.Errorf("exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
}

// asked wants that the newest decision of the audit log says how somebody was asked.
func asked(t *testing.T, m *pmltest.Machine, want core.Presence) {
	t.Helper()
	var page api.Page[core.AuditRow]
	m.OK("audit", "ls", "--json").Decode(&page)
	got := core.Presence("no row")
	for _, row := range page.Items {
		if row.Outcome == core.ApprovalApproved && row.Type == core.ApproveTool {
			got = row.Asked
		}
	}
	if got != want {
		t.Errorf("the audit log says %q, want %q", got, want)
	}
	m.OK("audit", "verify")
}

// TestStatus: what waits is on one screen, also of pml alone on a terminal; where
// nothing waits that is help, and nothing is made by looking.
func TestStatus(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	pmltest.Wants(t, m.Terminal(pmltest.UsualSize, nil, nil).Text, "Usage:")
	r := m.Execute(8, dangers)
	for _, args := range [][]string{{"status"}, nil} {
		s := m.Terminal(pmltest.UsualSize, nil, nil, args...)
		pmltest.Wants(t, s.Text, "waiting (1)", r.CheckpointID.Short(), "danger a", "who decides", "nobody has chosen that")
		pmltest.WantHarmless(t, s.Text)
	}
	pmltest.Wants(t, m.OK().Stdout, "Usage:") // a pipe
	fresh := pmltest.BareMachine(t)
	pmltest.Wants(t, fresh.Terminal(pmltest.UsualSize, nil, nil).Text, "Nothing is configured here yet", "pml init")
	if _, err := os.Stat(fresh.Home); err == nil {
		t.Error("to look has made a home")
	}
}

// TestApprove_Enter: enter is a yes to what is of medium risk, once the question has
// stood there. What was typed before is none.
func TestApprove_Enter(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.Config{Permissions: map[string]any{"ask": []string{"rec:write"}}})
	m.Execute(8, `return (await mcp.rec.write({path: "a"})).path`)
	screen := m.OnScreen(140, 40, m.Command(t.Context(), "approve"))
	screen.Types("\r")
	screen.Shows("[y]es, once (enter)")
	if m.Count("write") != 0 {
		t.Fatal("approved by what was typed before")
	}
	screen.Does("\r", "is complete")
	if code := screen.End(); code != 0 || m.Count("write") != 1 {
		t.Errorf("exit %d, %d calls", code, m.Count("write"))
	}
}
