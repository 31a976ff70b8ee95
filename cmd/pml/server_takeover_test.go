//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestServe_TakesOver: after a server that a person had started was killed,
// looking starts one in the background. Who starts theirs again gets its place,
// with what waits; a second one by hand is an error.
func TestServe_TakesOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.stopAtEnd()
	m.ok("server", "key", "add", "somebody")
	first := m.serving()
	waiting := m.execute(8, `await mcp.rec.danger({x: "a"}); return "decided"`, "--detach", "--wait", "150s").WorkflowID
	first.signal(syscall.SIGKILL)
	first.wait()
	m.ok("workflows", "ls")
	by := m.status(0).Server
	if !by.Background {
		t.Fatalf("no server was started: %+v", by)
	}
	again := m.serving("--listen", "127.0.0.1:0")
	if now := m.status(0).Server; now.Background || now.PID == by.PID || now.URL == "" {
		t.Errorf("from %+v to %+v", by, now)
	}
	m.ok("continue", string(waiting), "--approve")
	if n := m.count("danger"); n != 1 {
		t.Errorf("danger ran %d times", n)
	}
	if out := m.pml("serve"); out.Exit == 0 || !strings.Contains(out.Stderr, "runs already") {
		t.Errorf("a second one: %+v", out)
	}
	again.signal(syscall.SIGTERM)
	if out := again.wait(); !strings.Contains(out.Stderr, "has left") {
		t.Errorf("it does not say what it did: %s", out.Stderr)
	}
}
