//go:build unix

package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/skiptest"
)

// TestHandOver: a newer pml puts its own server in the place of the one that an
// older pml has started, and runs and approvals go over without loss. The older
// pml uses the newer server then.
//
// Scenario 36.
func TestHandOver(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "builds two versions of pml")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	m.Version = "v1.0.0"
	running := strings.TrimSpace(m.OK("execute", "--code",
		`await mcp.rec.inc({key: "a"}); await mcp.rec.wait({file: "`+gate+`"}); await mcp.rec.inc({key: "b"}); return "ran"`, "--detach").Stdout)
	waiting := m.Execute(8, `await mcp.rec.danger({x: "a"}); return "decided"`, "--detach", "--wait", "150s").WorkflowID
	pmltest.WaitFor(t, "the run waits for its file", func() bool { return m.Count("wait") == 1 })
	old := m.Status(0).Server

	m.Version = "v1.1.0"
	list := m.Approvals()
	if len(list) != 1 || list[0].RunID != waiting || list[0].State != core.ApprovalOpen {
		t.Errorf("approvals %+v", list)
	}
	now := m.Status(0).Server
	if old.Version != "v1.0.0" || now.Version != "v1.1.0" || now.PID == old.PID || !now.Background {
		t.Errorf("from %+v to %+v", old, now)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.OK("continue", string(waiting), "--approve")
	m.OK("workflows", "watch", running)
	if a, b := m.OK("workflows", "result", running), m.OK("workflows", "result", string(waiting)); a.Stdout != "ran\n" || b.Stdout != "decided\n" {
		t.Errorf("results %q and %q", a.Stdout, b.Stdout)
	}
	if n := m.Count("inc"); n != 2 {
		t.Errorf("inc ran %d times", n)
	}

	m.Version = "v1.0.0"
	if out := m.OK("workflows", "ls"); out.Stderr != "" {
		t.Errorf("stderr %q", out.Stderr)
	}
	if s := m.Status(0).Server; s.PID != now.PID {
		t.Errorf("the older pml took over: %+v", s)
	}
}

// TestHandOver_ByHand: a server that a person has started is theirs: a newer pml
// uses it and says that it is older.
//
// Scenario 36.
func TestHandOver_ByHand(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "builds two versions of pml")
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.Version = "v1.0.0"
	p := m.Serving()
	m.Version = "v1.1.0"
	out := m.OK("execute", "--code", "return 1", "--detach", "--wait", "150s")
	pmltest.Wants(t, out.Stderr, "warning: ", "v1.0.0", "by hand")
	if s := m.Status(0).Server; s.PID != p.Cmd.Process.Pid {
		t.Errorf("status %+v", s)
	}
}
