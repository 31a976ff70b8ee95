//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

const machinePin = "tr0ub4dor"

// Scenario 33: with a PIN, what is approved a person has typed it for, at a
// terminal; it is on no screen.
func TestScenario33_Pin(t *testing.T) {
	t.Parallel()
	m := bareMachine(t)
	m.write("a.txt", "hello")
	set := m.terminal(usual, nil, []reply{
		typed("the new PIN: ", machinePin), typed("the new PIN once more: ", machinePin), typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.exit != 0 || strings.Contains(set.text, machinePin) || strings.Contains(set.text, "$2a$") {
		t.Fatalf("exit %d: %q", set.exit, set.text)
	}
	config := filepath.Join(m.Home, "config.json")
	if data, err := os.ReadFile(config); err != nil || !strings.Contains(string(data), "$2a$12$") || strings.Contains(string(data), machinePin) {
		t.Fatalf("%s %v", data, err)
	}
	r := m.execute(8, `await mcp.workspace.write_file({path: "b.txt", content: "x"}); return "done"`)

	// A process of the same user without a terminal decides nothing.
	m.exit(4, "continue", string(r.WorkflowID), "--approve")
	m.write(".pml.json", `{"approvals": {"decider": "any"}, "permissions": {"allow": ["workspace:*"]}}`)
	m.exit(4, "trust", "--yes")
	m.exit(4, "continue", string(r.WorkflowID), "--approve")

	wrong := m.terminal(usual, nil, []reply{typed("PIN: ", "letmein1")}, "continue", string(r.WorkflowID), "--approve")
	if wrong.exit != 4 || strings.Contains(wrong.text, "letmein1") {
		t.Errorf("exit %d: %q", wrong.exit, wrong.text)
	}
	broken := m.terminal(usual, nil, []reply{{regexp.MustCompile("PIN: "), "\x03"}}, "continue", string(r.WorkflowID), "--approve")
	if broken.exit != 130 {
		t.Errorf("exit %d: %q", broken.exit, broken.text)
	}
	if _, err := os.Stat(filepath.Join(m.WS, "b.txt")); err == nil {
		t.Fatal("it was written without the PIN")
	}
	right := m.terminal(usual, nil, []reply{typed("PIN: ", machinePin)}, "continue", string(r.WorkflowID), "--approve")
	if right.exit != 0 || strings.Contains(right.text, machinePin) || m.workflow(r.WorkflowID).State != core.RunComplete {
		t.Errorf("exit %d: %q", right.exit, right.text)
	}
}

func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	const address = "https://example.com/?a=1&b=$(x)"
	for _, c := range []struct {
		browser, goos string
		want          []string
	}{
		{"", "linux", []string{"xdg-open", address}},
		{"", "darwin", []string{"open", address}},
		{"", "windows", []string{"rundll32", "url.dll,FileProtocolHandler", address}},
		{"firefox", "linux", []string{"firefox", address}},
		{"w3m -T text/html %s:lynx", "linux", []string{"w3m", "-T", "text/html", address}},
		{`C:\firefox.exe -new-tab`, "windows", []string{`C:\firefox.exe`, "-new-tab", address}},
		{"  ", "darwin", []string{"open", address}},
	} {
		environ := func(string) (string, bool) { return c.browser, c.browser != "" }
		if got := browserCommand(environ, c.goos, address); !slices.Equal(got, c.want) {
			t.Errorf("%q on %s: %q, want %q", c.browser, c.goos, got, c.want)
		}
	}
	open := browserOpener(func(string) (string, bool) { return "/no/such/browser", true }, "linux", startDetached)
	if err := open(t.Context(), address); core.CodeOf(err) != core.CodeServerUnreachable {
		t.Error(err)
	}
	var started *exec.Cmd
	open = browserOpener(func(string) (string, bool) { return "b", true }, "linux", func(cmd *exec.Cmd) error { started = cmd; return nil })
	if err := open(t.Context(), address); err != nil || !slices.Equal(started.Args, []string{"b", address}) {
		t.Errorf("%v %v", err, started)
	}
}
