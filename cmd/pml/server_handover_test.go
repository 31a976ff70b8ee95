//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestHandOver: a newer pml puts its own server in the place of the one that an
// older pml has started, and runs and approvals go over without loss. The older
// pml uses the newer server then.
//
// Scenario 36.
func TestHandOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.stopAtEnd()
	gate := filepath.Join(m.Dir, "gate")
	m.setenv("PML_TEST_VERSION", "v1.0.0")
	running := strings.TrimSpace(m.ok("execute", "--code",
		`await mcp.rec.inc({key: "a"}); await mcp.rec.wait({file: "`+gate+`"}); await mcp.rec.inc({key: "b"}); return "ran"`, "--detach").Stdout)
	waiting := m.execute(8, `await mcp.rec.danger({x: "a"}); return "decided"`, "--detach", "--wait", "150s").WorkflowID
	waitFor(t, "the run waits for its file", func() bool { return m.count("wait") == 1 })
	old := m.status(0).Server

	m.setenv("PML_TEST_VERSION", "v1.1.0")
	list := m.approvals()
	if len(list) != 1 || list[0].RunID != waiting || list[0].State != core.ApprovalOpen {
		t.Errorf("approvals %+v", list)
	}
	now := m.status(0).Server
	if old.Version != "v1.0.0" || now.Version != "v1.1.0" || now.PID == old.PID || !now.Background {
		t.Errorf("from %+v to %+v", old, now)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.ok("continue", string(waiting), "--approve")
	m.ok("workflows", "watch", running)
	if a, b := m.ok("workflows", "result", running), m.ok("workflows", "result", string(waiting)); a.Stdout != "ran\n" || b.Stdout != "decided\n" {
		t.Errorf("results %q and %q", a.Stdout, b.Stdout)
	}
	if n := m.count("inc"); n != 2 {
		t.Errorf("inc ran %d times", n)
	}

	m.setenv("PML_TEST_VERSION", "v1.0.0")
	if out := m.ok("workflows", "ls"); out.Stderr != "" {
		t.Errorf("stderr %q", out.Stderr)
	}
	if s := m.status(0).Server; s.PID != now.PID {
		t.Errorf("the older pml took over: %+v", s)
	}
}

// TestHandOver_ByHand: a server that a person has started is theirs: a newer pml
// uses it and says that it is older.
//
// Scenario 36.
func TestHandOver_ByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.setenv("PML_TEST_VERSION", "v1.0.0")
	p := m.serving()
	m.setenv("PML_TEST_VERSION", "v1.1.0")
	out := m.ok("execute", "--code", "return 1", "--detach", "--wait", "150s")
	wants(t, out.Stderr, "warning: ", "v1.0.0", "by hand")
	if s := m.status(0).Server; s.PID != p.cmd.Process.Pid {
		t.Errorf("status %+v", s)
	}
}
