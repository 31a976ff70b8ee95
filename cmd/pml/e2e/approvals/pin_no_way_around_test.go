//go:build unix

package approvals_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install/registrytest"
	"github.com/casys-ai/pml/core/skiptest"
)

// setPIN sets a PIN on a machine, as a person does.
func setPIN(m *pmltest.Machine) {
	m.T.Helper()
	set := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{
		pmltest.Typed(`the new PIN \(at least 6 characters\): `, pmltest.MachinePIN), pmltest.Typed("the new PIN once more: ", pmltest.MachinePIN), pmltest.Typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.Exit != 0 {
		m.T.Fatalf("no PIN was set: exit %d: %q", set.Exit, set.Text)
	}
}

// Scenario 33: no way of saying yes, with or without a terminal, counts without
// the PIN; saying no needs none. With the PIN each of them does.
func TestScenario33_NoWayAround(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "tries every way around a PIN with processes of its own")
	reg := registrytest.New(t)
	reg.Publish(pmltest.Toolbox("1.0.0", "Shift."))
	m := pmltest.WithToolbox(t, reg)
	m.Configure(pmltest.Config{Permissions: map[string]any{"allow": []string{"toolbox"}}, Servers: map[string]map[string]any{
		"toolbox": {"command": "npx", "args": []string{"-y", "toolbox@^1.0.0"}}}})
	r := m.Execute(8, pmltest.CallSteady)
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	setPIN(m)
	reg.Publish(pmltest.Toolbox("1.1.0", "Shift."))
	files := func() string {
		return pmltest.ReadFile(t, filepath.Join(m.WS, ".pml.json")) + pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock"))
	}
	run := m.Execute(8, writes).WorkflowID // and what rec offers is recorded
	before := files()
	for _, args := range [][]string{
		{"continue", string(run), "--approve"},
		{"continue", string(run), "--approve", "--json"},
		{"continue", string(run), "--approve", "--remember", "run"},
		{"continue", string(run), "--approve", "--remember", "rule", "--yes"},
		{"continue", string(run), "--approve", "--all-of-type", "tool_permission"},
		{"servers", "add", "more", "--yes", "--trust", "--", pmltest.Recorder(t), "--log", m.Log},
		{"servers", "update", "toolbox", "--yes"},
		{"servers", "update", "toolbox", "--yes", "--json"},
	} {
		o := m.Exit(4, args...)
		if !strings.Contains(o.Stderr, "PIN") {
			t.Errorf("%q does not say what it needs: %s", args, o.Stderr)
		}
	}
	if files() != before || m.Count("write") != 0 {
		t.Fatalf("without the PIN: %d calls, and the files\n%s\nare\n%s", m.Count("write"), before, files())
	}

	// A program at a terminal of its own, which types what it reads there.
	const wrong = "sesame1"
	s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(`ater: $`, "y"), pmltest.Typed(`PIN: $`, wrong), pmltest.Typed(`ater: $`, "l")}, "execute", "--code", writes)
	if s.Exit != 8 && s.Exit != 4 || m.Count("write") != 0 || strings.Contains(s.Text, wrong) {
		t.Errorf("at the prompt: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	// No needs none.
	s = m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(`ater: $`, "n"), pmltest.Typed(`reason \(enter sends the no, also without one\): $`, "")}, "execute", "--code", writes)
	if s.Exit != 9 || strings.Contains(s.Text, "PIN: ") {
		t.Errorf("no: exit %d: %q", s.Exit, s.Text)
	}
	m.Exit(9, "continue", string(run), "--deny")

	s = m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(`ater: $`, "r"), pmltest.Typed(`PIN: $`, pmltest.MachinePIN)}, "execute", "--code", writes)
	if s.Exit != 0 || m.Count("write") != 3 {
		t.Errorf("with the PIN: exit %d, %d calls: %q", s.Exit, m.Count("write"), s.Text)
	}
	s = m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(`\[n\]o: $`, "y"), pmltest.Typed(`PIN: $`, pmltest.MachinePIN)}, "servers", "update", "toolbox")
	if s.Exit != 0 || !strings.Contains(pmltest.ReadFile(t, filepath.Join(m.WS, "pml.lock")), "1.1.0") {
		t.Errorf("an update with the PIN: exit %d: %q", s.Exit, s.Text)
	}
}

// Scenario 33: a workspace says nothing about the PIN, whatever its files say.
func TestScenario33_WorkspaceHasNoSay(t *testing.T) {
	t.Parallel()
	m := pmltest.NewMachine(t, pmltest.AllowRec())
	setPIN(m)
	run := m.Execute(8, `await mcp.rec.danger({x: "1"})`).WorkflowID
	for _, text := range []string{
		`{"approvals": {"pin": ""}}`, `{"approvals": {"pin": null}}`, `{"approvals": {"pin": "$2a$04$abcdefghijklmnopqrstuu5Lo5g67Cy1mR3uMhAYQ8QcMYHPKZF0e"}}`,
		`{"approvals": {"decider": "any"}}`,
	} {
		m.Write(".pml.json", text)
		if o := m.PML("trust", "--yes"); o.Exit != 4 && o.Exit != 13 {
			t.Errorf("%s was trusted: %+v", text, o)
		}
		if o := m.PML("continue", string(run), "--approve"); o.Exit != 4 && o.Exit != 13 {
			t.Errorf("%s: exit %d: %s%s", text, o.Exit, o.Stdout, o.Stderr)
		}
	}
	m.WriteConfig(pmltest.AllowRec())
	if m.Count("danger") != 0 || m.Workflow(run).Approvals[0].State != core.ApprovalOpen {
		t.Error("it was decided without the PIN")
	}
}

// Scenario 33: who guesses is slowed down, in whatever process: wrong PINs are
// counted beside the runs, and the right one is refused unseen until the wait is
// over. What an older pml has counted in the home goes on to count. How long the
// wait is, is a test of core/service.
func TestScenario33_GuessesAreSlow(t *testing.T) {
	t.Parallel()
	skiptest.Long(t, "guesses PINs, which takes long by design")
	approve := func(m *pmltest.Machine, run, pin string) pmltest.TerminalOutput {
		return m.Terminal(pmltest.UsualSize, nil, pmltest.YesHigh(pmltest.Typed("PIN: ", pin)), "continue", run, "--approve")
	}
	waiting := func(counted string, last time.Time) (*pmltest.Machine, string) {
		m := pmltest.NewMachine(t, pmltest.AllowRec())
		if counted != "" {
			text := fmt.Sprintf(`{"wrong":%s,"last":%q}`, counted, last.UTC().Format(time.RFC3339))
			if err := os.WriteFile(filepath.Join(m.Home, "pin.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		setPIN(m)
		return m, string(m.Execute(8, `await mcp.rec.danger({x: "1"})`).WorkflowID)
	}
	m, run := waiting("", time.Time{})
	for _, guess := range []string{"guess1", "guess2"} {
		if s := approve(m, run, guess); s.Exit != 4 || !strings.Contains(s.Text, "the PIN is wrong") {
			t.Fatalf("%s: exit %d: %q", guess, s.Exit, s.Text)
		}
	}
	m, run = waiting("20", time.Now())
	if s := approve(m, run, pmltest.MachinePIN); s.Exit != 4 || !strings.Contains(s.Text, "a wrong PIN was given 20 times") || m.Count("danger") != 0 {
		t.Errorf("after many guesses: exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
	m, run = waiting("20", time.Now().Add(-time.Hour))
	if s := approve(m, run, pmltest.MachinePIN); s.Exit != 0 || m.Count("danger") != 1 {
		t.Errorf("after the wait: exit %d, %d calls: %q", s.Exit, m.Count("danger"), s.Text)
	}
}
