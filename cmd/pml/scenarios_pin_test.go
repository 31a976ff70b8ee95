//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/install/registrytest"
)

// pinned sets a PIN on a machine, as a person does.
func (m *machine) pinned() {
	m.t.Helper()
	set := m.terminal(usual, nil, []reply{
		typed("the new PIN: ", machinePin), typed("the new PIN once more: ", machinePin), typed(`\[y\]es / \[n\]o: `, "y"),
	}, "config", "pin")
	if set.exit != 0 {
		m.t.Fatalf("no PIN was set: exit %d: %q", set.exit, set.text)
	}
}

// Scenario 33: no way of saying yes, with or without a terminal, counts without
// the PIN; saying no needs none. With the PIN each of them does.
func TestScenario33_NoWayAround(t *testing.T) {
	t.Parallel()
	reg := registrytest.New(t)
	reg.Publish(toolbox("1.0.0", "Shift."))
	m := withToolbox(t, reg)
	m.configure(config{Permissions: map[string]any{"allow": []string{"toolbox"}}, Servers: map[string]map[string]any{
		"toolbox": {"command": "npx", "args": []string{"-y", "toolbox@^1.0.0"}}}})
	r := m.execute(8, steady)
	m.json(0, "continue", string(r.WorkflowID), "--approve")
	m.pinned()
	reg.Publish(toolbox("1.1.0", "Shift."))
	files := func() string {
		return readFile(t, filepath.Join(m.WS, ".pml.json")) + readFile(t, filepath.Join(m.WS, "pml.lock"))
	}
	run := m.execute(8, writes).WorkflowID // and what rec offers is recorded
	before := files()
	for _, args := range [][]string{
		{"continue", string(run), "--approve"},
		{"continue", string(run), "--approve", "--json"},
		{"continue", string(run), "--approve", "--remember", "run"},
		{"continue", string(run), "--approve", "--remember", "rule", "--yes"},
		{"continue", string(run), "--approve", "--all-of-type", "tool_permission"},
		{"servers", "add", "more", "--yes", "--trust", "--", recorderBin(t), "--log", m.Log},
		{"servers", "update", "toolbox", "--yes"},
		{"servers", "update", "toolbox", "--yes", "--json"},
	} {
		o := m.exit(4, args...)
		if !strings.Contains(o.Stderr, "PIN") {
			t.Errorf("%q does not say what it needs: %s", args, o.Stderr)
		}
	}
	if files() != before || m.count("write") != 0 {
		t.Fatalf("without the PIN: %d calls, and the files\n%s\nare\n%s", m.count("write"), before, files())
	}

	// A program at a terminal of its own, which types what it reads there.
	const wrong = "sesame1"
	s := m.terminal(usual, nil, []reply{typed(`ater: $`, "y"), typed(`PIN: $`, wrong), typed(`ater: $`, "l")}, "execute", "--code", writes)
	if s.exit != 8 && s.exit != 4 || m.count("write") != 0 || strings.Contains(s.text, wrong) {
		t.Errorf("at the prompt: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	// No needs none.
	s = m.terminal(usual, nil, []reply{typed(`ater: $`, "n")}, "execute", "--code", writes)
	if s.exit != 9 || strings.Contains(s.text, "PIN: ") {
		t.Errorf("no: exit %d: %q", s.exit, s.text)
	}
	m.exit(9, "continue", string(run), "--deny")

	s = m.terminal(usual, nil, []reply{typed(`ater: $`, "r"), typed(`PIN: $`, machinePin)}, "execute", "--code", writes)
	if s.exit != 0 || m.count("write") != 3 {
		t.Errorf("with the PIN: exit %d, %d calls: %q", s.exit, m.count("write"), s.text)
	}
	s = m.terminal(usual, nil, []reply{typed(`\[n\]o: $`, "y"), typed(`PIN: $`, machinePin)}, "servers", "update", "toolbox")
	if s.exit != 0 || !strings.Contains(readFile(t, filepath.Join(m.WS, "pml.lock")), "1.1.0") {
		t.Errorf("an update with the PIN: exit %d: %q", s.exit, s.text)
	}
}

// Scenario 33: a workspace says nothing about the PIN, whatever its files say.
func TestScenario33_WorkspaceHasNoSay(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.pinned()
	run := m.execute(8, `await mcp.rec.danger({x: "1"})`).WorkflowID
	for _, text := range []string{
		`{"approvals": {"pin": ""}}`, `{"approvals": {"pin": null}}`, `{"approvals": {"pin": "$2a$04$abcdefghijklmnopqrstuu5Lo5g67Cy1mR3uMhAYQ8QcMYHPKZF0e"}}`,
		`{"approvals": {"decider": "any"}}`,
	} {
		m.write(".pml.json", text)
		if o := m.pml("trust", "--yes"); o.Exit != 4 && o.Exit != 13 {
			t.Errorf("%s was trusted: %+v", text, o)
		}
		if o := m.pml("continue", string(run), "--approve"); o.Exit != 4 && o.Exit != 13 {
			t.Errorf("%s: exit %d: %s%s", text, o.Exit, o.Stdout, o.Stderr)
		}
	}
	m.writeConfig(allowRec())
	if m.count("danger") != 0 || m.workflow(run).Approvals[0].State != core.ApprovalOpen {
		t.Error("it was decided without the PIN")
	}
}

// Scenario 33: who guesses is slowed down, in whatever process: wrong PINs are
// counted in the home, and the right one is refused unseen until the wait is
// over. How long it is, is a test of core/local.
func TestScenario33_GuessesAreSlow(t *testing.T) {
	t.Parallel()
	m := newMachine(t, allowRec())
	m.pinned()
	run := string(m.execute(8, `await mcp.rec.danger({x: "1"})`).WorkflowID)
	approve := func(pin string) screen {
		return m.terminal(usual, nil, []reply{typed("PIN: ", pin)}, "continue", run, "--approve")
	}
	for _, guess := range []string{"guess1", "guess2"} {
		if s := approve(guess); s.exit != 4 || !strings.Contains(s.text, "the PIN is wrong") {
			t.Fatalf("%s: exit %d: %q", guess, s.exit, s.text)
		}
	}
	counted := filepath.Join(m.Home, "pin.json")
	if text := readFile(t, counted); !strings.Contains(text, `"wrong":2`) {
		t.Errorf("counted: %s", text)
	}
	tries := func(last time.Time) {
		text := fmt.Sprintf(`{"wrong":20,"last":%q}`, last.UTC().Format(time.RFC3339))
		if err := os.WriteFile(counted, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tries(time.Now())
	if s := approve(machinePin); s.exit != 4 || !strings.Contains(s.text, "a wrong PIN was given 20 times") || m.count("danger") != 0 {
		t.Errorf("after many guesses: exit %d, %d calls: %q", s.exit, m.count("danger"), s.text)
	}
	tries(time.Now().Add(-time.Hour))
	if s := approve(machinePin); s.exit != 0 || m.count("danger") != 1 {
		t.Errorf("after the wait: exit %d, %d calls: %q", s.exit, m.count("danger"), s.text)
	}
}
