//go:build unix

package approvals_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// hooked is a machine on which hosts ask pml, with the names of their settings as they
// document them.
func hooked(t *testing.T, config string) *pmltest.Machine {
	t.Helper()
	m := pmltest.BareMachine(t)
	m.Write(".pml.json", config)
	m.OK("trust", "--yes")
	return m
}

// hook is a pml hook that a host starts with an event.
type hook struct {
	*exec.Cmd
	m        *pmltest.Machine
	out, err pmltest.Buffer
}

func startHook(m *pmltest.Machine, host, event, tool string, args map[string]any) *hook {
	m.T.Helper()
	raw, err := json.Marshal(map[string]any{
		"session_id": "s", "transcript_path": "/dev/null", "cwd": m.WS, "permission_mode": "default", "hook_event_name": event, "tool_name": tool, "tool_input": args,
	})
	if err != nil {
		m.T.Fatal(err)
	}
	h := &hook{Cmd: m.Command(context.Background(), "hook", host), m: m}
	h.Dir, h.Stdin, h.Stdout, h.Stderr = os.TempDir(), strings.NewReader(string(raw)), &h.out, &h.err
	if err := h.Start(); err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() { _ = h.Process.Kill() }) // most have ended
	return h
}

// says waits for the answer. The command never fails.
func (h *hook) says() string {
	h.m.T.Helper()
	if err := h.Wait(); err != nil {
		h.m.T.Errorf("pml hook: %v\n%s", err, h.err.String())
	}
	return h.out.String()
}

// asked waits until the hook has asked.
func (h *hook) asked() core.Approval {
	h.m.T.Helper()
	var list []core.Approval
	pmltest.WaitFor(h.m.T, "an approval", func() bool { list = h.m.Approvals(); return len(list) > 0 })
	return list[0]
}

const patient = `{"hooks": {"wait": "1h"}, "permissions": {"allow": [{"tool": "claude:Bash", "where": "args.command == 'ls'"}], "deny": ["claude:WebFetch"]}}`

// TestHook_Rules: a rule decides for the workspace of the event's folder, wherever the
// command was started.
func TestHook_Rules(t *testing.T) {
	t.Parallel()
	m := hooked(t, patient)
	pmltest.Wants(t, startHook(m, "claude", "PreToolUse", "Bash", map[string]any{"command": "ls"}).says(), `"permissionDecision":"allow"`)
	pmltest.Wants(t, startHook(m, "claude", "PermissionRequest", "WebFetch", map[string]any{"url": "https://x"}).says(), `"behavior":"deny"`, "permissions.deny")
	if said := startHook(m, "claude", "PreToolUse", "Bash", map[string]any{"command": "rm x"}).says(); said != "" {
		t.Errorf("of what no rule speaks it says %q", said)
	}
	pmltest.Wants(t, m.OK("audit", "ls", "--json").Stdout, "host_permission", "claude:WebFetch")
}

// TestHook_Person: a person decides on a terminal and sees the change of the file; an
// agent that tries is refused.
func TestHook_Person(t *testing.T) {
	t.Parallel()
	m := hooked(t, patient)
	m.Write("a.txt", "one\ntwo\n")
	h := startHook(m, "claude", "PermissionRequest", "Edit", map[string]any{
		"file_path": filepath.Join(m.WS, "a.txt"), "old_string": "two", "new_string": "three\x1b[2J", "replace_all": false,
	})
	ap := h.asked()
	pmltest.Wants(t, m.OK("approvals", "show", string(ap.ID)).Stdout, "host_permission", "agent claude-code", "-two", "+three", "folder", "Claude Code", "(hooks.wait)")
	pmltest.Wants(t, m.Exit(8, "continue", string(ap.RunID), "--approve").Stderr, "waits for a person")
	m.ApproveOnTerminal(ap)
	pmltest.Wants(t, h.says(), `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`)
	if m.Audited(core.ApprovalApproved) == 0 || len(m.Approvals()) > 0 {
		t.Error(m.OK("audit", "ls").Stdout)
	}
}

// TestHook_Ends: a host that waits no more leaves nothing in the inbox, and is told to
// ask by itself.
func TestHook_Ends(t *testing.T) {
	t.Parallel()
	m := hooked(t, patient)
	h := startHook(m, "codex", "PermissionRequest", "Bash", map[string]any{"command": "rm x"})
	if ap := h.asked(); ap.Risk != core.RiskHigh {
		t.Errorf("%+v", ap)
	}
	_ = h.Process.Signal(syscall.SIGTERM)
	if err := h.Wait(); h.out.String() != "" {
		t.Errorf("%q, %v", h.out.String(), err)
	}
	if list := m.Approvals(); len(list) > 0 {
		t.Errorf("%+v", list)
	}
	pmltest.Wants(t, m.OK("workflows", "ls", "--json").Stdout, `"aborted"`)
}

// TestHook_NoStore: without pml's store, or with a configuration that cannot be read,
// the host asks.
func TestHook_NoStore(t *testing.T) {
	t.Parallel()
	m := hooked(t, patient)
	m.Write(".pml.json", `{"permissions": `)
	pmltest.Wants(t, startHook(m, "claude", "PreToolUse", "Bash", map[string]any{"command": "ls"}).says(), `"permissionDecision":"ask"`)
	if said := startHook(m, "claude", "PermissionRequest", "Bash", map[string]any{"command": "ls"}).says(); said != "" {
		t.Errorf("it says %q", said)
	}
	m.Write(".pml.json", patient)
	m.Setenv("PML_HOME", m.Write("no-home", "a file"))
	pmltest.Wants(t, startHook(m, "claude", "PreToolUse", "Bash", map[string]any{"command": "ls"}).says(), `"permissionDecision":"ask"`)
}
