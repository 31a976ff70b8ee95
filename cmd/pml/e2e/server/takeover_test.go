//go:build unix

package server_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// TestServe_TakesOver: after a server that a person had started was killed,
// looking starts one in the background. Who starts theirs again gets its place,
// with what waits; a second one by hand is an error.
func TestServe_TakesOver(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	m.StopAtEnd()
	m.OK("server", "key", "add", "somebody")
	first := m.Serving()
	waiting := m.Execute(8, `await mcp.rec.danger({x: "a"}); return "decided"`, "--detach", "--wait", "150s").WorkflowID
	first.Signal(syscall.SIGKILL)
	first.Wait()
	m.OK("workflows", "ls")
	by := m.Status(0).Server
	if !by.Background {
		t.Fatalf("no server was started: %+v", by)
	}
	again := m.Serving("--listen", "127.0.0.1:0")
	if now := m.Status(0).Server; now.Background || now.PID == by.PID || now.URL == "" {
		t.Errorf("from %+v to %+v", by, now)
	}
	m.OK("continue", string(waiting), "--approve")
	if n := m.Count("danger"); n != 1 {
		t.Errorf("danger ran %d times", n)
	}
	if out := m.PML("serve"); out.Exit == 0 || !strings.Contains(out.Stderr, "runs already") {
		t.Errorf("a second one: %+v", out)
	}
	again.Signal(syscall.SIGTERM)
	if out := again.Wait(); !strings.Contains(out.Stderr, "has left") {
		t.Errorf("it does not say what it did: %s", out.Stderr)
	}
}
