//go:build unix

package approvals_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// Scenario 33: with a PIN, what is approved a person has typed it for, at a
// terminal; it is on no screen.
func TestScenario33_Pin(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	m.Write("a.txt", "hello")
	set := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`the new PIN \(at least 6 characters\): `, pmltest.MachinePIN), pmltest.Typed("the new PIN once more: ", pmltest.MachinePIN), pmltest.Typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.Exit != 0 || strings.Contains(set.Text, pmltest.MachinePIN) || strings.Contains(set.Text, "$2a$") {
		t.Fatalf("exit %d: %q", set.Exit, set.Text)
	}
	config := filepath.Join(m.Home, "config.json")
	if data, err := os.ReadFile(config); err != nil || !strings.Contains(string(data), "$2a$12$") || strings.Contains(string(data), pmltest.MachinePIN) {
		t.Fatalf("%s %v", data, err)
	}
	r := m.Execute(8, `await mcp.workspace.delete_file({path: "a.txt"}); return "done"`)

	// A process of the same user without a terminal decides nothing.
	m.Exit(4, "continue", string(r.WorkflowID), "--approve")
	m.Write(".pml.json", `{"approvals": {"decider": "any"}, "permissions": {"allow": ["workspace:*"]}}`)
	m.Exit(4, "trust", "--yes")
	m.Exit(4, "continue", string(r.WorkflowID), "--approve")

	wrong := m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(pmltest.Typed("PIN: ", "letmein1")), "continue", string(r.WorkflowID), "--approve")
	if wrong.Exit != 4 || strings.Contains(wrong.Text, "letmein1") {
		t.Errorf("exit %d: %q", wrong.Exit, wrong.Text)
	}
	broken := m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(pmltest.Reply{On: regexp.MustCompile("PIN: "), Send: "\x03"}), "continue", string(r.WorkflowID), "--approve")
	if broken.Exit != 130 {
		t.Errorf("exit %d: %q", broken.Exit, broken.Text)
	}
	if _, err := os.Stat(filepath.Join(m.WS, "a.txt")); err != nil {
		t.Fatal("it was deleted without the PIN")
	}
	right := m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(pmltest.Typed("PIN: ", pmltest.MachinePIN)), "continue", string(r.WorkflowID), "--approve")
	if right.Exit != 0 || strings.Contains(right.Text, pmltest.MachinePIN) || m.Workflow(r.WorkflowID).State != core.RunComplete {
		t.Errorf("exit %d: %q", right.Exit, right.Text)
	}
}
