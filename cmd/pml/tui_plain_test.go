//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestTUI_PlainPin: in the dialogue of lines a PIN is typed once, is on no
// screen, and counts; what is typed after it is seen again.
func TestTUI_PlainPin(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.terminal(usual, nil, []reply{
		typed("the new PIN: ", machinePin), typed("the new PIN once more: ", machinePin), typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	r := m.execute(8, `await mcp.workspace.write_file({path: "b.txt", content: "x"}); return "done"`)
	id := r.CheckpointID.Short()
	s := m.terminal(usual, nil, []reply{
		typed("about approval", "approve "+id),
		typed("confirm: type ([a-z0-9]+) to approve", "$1"),
		typed("type the PIN\r\n", machinePin),
		typed("done: approved by you", "help me"),
		typed("quit +leave", "quit"),
	}, "tui", "--plain")
	if s.exit != 0 || strings.Contains(s.text, machinePin) || strings.Contains(s.text, "not understood") || strings.Count(s.text, "type the PIN") != 1 {
		t.Errorf("exit %d: %q", s.exit, s.text)
	}
	if !strings.Contains(s.text, "help me\r\n") {
		t.Errorf("what was typed behind the PIN is not seen: %q", s.text)
	}
	waitFor(t, "the run to end", func() bool {
		return m.workflow(r.WorkflowID).State.Final() || m.workflow(r.WorkflowID).State == core.RunInterrupted
	})
	if a := m.approvals("--all"); len(a) != 1 || a[0].State != core.ApprovalApproved || a[0].DecidedBy.Via != core.ViaTUI {
		t.Errorf("%+v", a)
	}
	wrong := m.execute(8, `await mcp.workspace.write_file({path: "c.txt", content: "x"}); return "done"`)
	s = m.terminal(usual, nil, []reply{
		typed("about approval", "approve "+wrong.CheckpointID.Short()),
		typed("confirm: type ([a-z0-9]+) to approve", "$1"),
		{regexp.MustCompile("type the PIN\r\n"), "\x03"},
	}, "tui", "--plain")
	if got := m.approvals(); s.exit != 130 || len(got) != 1 {
		t.Errorf("exit %d, %d approvals: %q", s.exit, len(got), s.text)
	}
}
