//go:build unix

package approvals_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// marker is a program that leaves a file "evil" where it runs.
const marker = "#!/bin/sh\n: >evil\n"

func writeProgram(m *pmltest.Machine, name, text string) {
	m.T.Helper()
	m.Write(name, text)
	if err := os.Chmod(filepath.Join(m.WS, name), 0o700); err != nil {
		m.T.Fatal(err)
	}
}

func isThere(m *pmltest.Machine, name string) bool {
	_, err := os.Stat(filepath.Join(m.WS, name))
	return err == nil
}

// Trust in a workspace shows ${CMD}: what .env makes of it is asked about before
// it runs, the first time and whenever it is something else.
func TestDotEnv_DecidesNothing(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	args, err := json.Marshal([]string{"--log", m.Log})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(".pml.json", `{"permissions": {"allow": ["rec"]}, "mcpServers": {"rec": {"command": "${CMD}", "args": `+string(args)+`}}}`)
	m.OK("trust", "--yes")
	writeProgram(m, "evil-program.sh", marker)
	m.Write(".env", "CMD=./evil-program.sh\n")
	const code = `return (await mcp.rec.echo({value: 1})).value`
	r := m.Execute(8, code)
	if r.ApprovalType != core.ApproveIntegrity || !strings.Contains(string(r.Context), "+ ./evil-program.sh --log") || !strings.Contains(string(r.Context), `"old_hash": ""`) {
		t.Fatalf("%s %s", r.ApprovalType, r.Context)
	}
	m.Exit(0, "servers", "ls")
	m.Write(".env", "CMD="+pmltest.Recorder(t)+"\n")
	r = m.Execute(8, code)
	r = m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if string(r.Result) != "1" || m.Count("echo") != 1 {
		t.Errorf("result %s, %d calls", r.Result, m.Count("echo"))
	}
	m.Execute(0, code)
	m.Write(".env", "CMD=./evil-program.sh\n")
	if r = m.Execute(8, code); r.ApprovalType != core.ApproveIntegrity || strings.Contains(string(r.Context), `"old_hash": ""`) {
		t.Errorf("%s %s", r.ApprovalType, r.Context)
	}
	if isThere(m, "evil") {
		t.Error("the program ran")
	}
}

// Scenario 31: a clone that nobody trusts does not lend its files to the servers
// that this user has set up for every workspace, whatever looks at them.
func TestTrust_CloneAndHomeEntries(t *testing.T) {
	t.Parallel()
	m := pmltest.BareMachine(t)
	if err := os.MkdirAll(m.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := `{"permissions": {"allow": ["*"]}, "mcpServers": {
		"script": {"command": "sh", "args": ["serve.sh"]}, "program": {"command": "./serve.sh"}, "loads": {"command": "sh", "args": ["./own.sh"], "env": {"ENV": "${HOOK:-}"}}}}`
	for name, text := range map[string]string{"config.json": config, "own.sh": "[ -z \"$ENV\" ] || : >" + filepath.Join(m.WS, "evil") + "\n"} {
		if err := os.WriteFile(filepath.Join(m.Home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeProgram(m, "serve.sh", marker)
	writeProgram(m, "own.sh", marker)
	m.Write(".env", "HOOK=./serve.sh\n")
	m.Write(".pml.json", `{"permissions": {"allow": ["*"]}}`)
	for _, args := range [][]string{
		{"doctor"}, {"servers", "check"}, {"tools", "ls"}, {"tools", "call", "script:x"}, {"tools", "call", "program:x"}, {"tools", "call", "loads:x"},
	} {
		m.PML(args...)
		if isThere(m, "evil") {
			t.Fatalf("pml %s ran what the clone holds", strings.Join(args, " "))
		}
	}
}
