//go:build unix

package terminal_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// TestTUI_PlainPin: in the dialogue of lines a PIN is typed once, is on no
// screen, and counts; what is typed after it is seen again.
func TestTUI_PlainPin(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`the new PIN \(at least 6 characters\): `, pmltest.MachinePIN), pmltest.Typed("the new PIN once more: ", pmltest.MachinePIN), pmltest.Typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	r := m.Execute(8, `await mcp.workspace.write_file({path: "b.txt", content: "x"}); return "done"`)
	id := r.CheckpointID.Short()
	s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed("about approval", "approve "+id),
		pmltest.Typed("confirm: type ([a-z0-9]+) to approve", "$1"),
		pmltest.Typed("type the PIN\r\n", pmltest.MachinePIN),
		pmltest.Typed("done: approved by you", "help me"),
		pmltest.Typed("quit +leave", "quit"),
	}, "tui", "--plain")
	if s.Exit != 0 || strings.Contains(s.Text, pmltest.MachinePIN) || strings.Contains(s.Text, "not understood") || strings.Count(s.Text, "type the PIN") != 1 {
		t.Errorf("exit %d: %q", s.Exit, s.Text)
	}
	if !strings.Contains(s.Text, "help me\r\n") {
		t.Errorf("what was typed behind the PIN is not seen: %q", s.Text)
	}
	pmltest.WaitFor(t, "the run to end", func() bool {
		return m.Workflow(r.WorkflowID).State.Final() || m.Workflow(r.WorkflowID).State == core.RunInterrupted
	})
	if a := m.Approvals("--all"); len(a) != 1 || a[0].State != core.ApprovalApproved || a[0].DecidedBy.Via != core.ViaTUI {
		t.Errorf("%+v", a)
	}
	wrong := m.Execute(8, `await mcp.workspace.write_file({path: "c.txt", content: "x"}); return "done"`)
	s = m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed("about approval", "approve "+wrong.CheckpointID.Short()),
		pmltest.Typed("confirm: type ([a-z0-9]+) to approve", "$1"),
		{On: regexp.MustCompile("type the PIN\r\n"), Send: "\x03"},
	}, "tui", "--plain")
	if got := m.Approvals(); s.Exit != 130 || len(got) != 1 {
		t.Errorf("exit %d, %d approvals: %q", s.Exit, len(got), s.Text)
	}
}
