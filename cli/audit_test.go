package cli_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func auditRows() []core.AuditRow {
	return []core.AuditRow{
		{
			Side: core.SideClient, Seq: 1, At: at.Add(-8 * 24 * time.Hour), RunID: runA, ApprovalID: appA, Type: core.ApproveTool, Tool: "workspace:write_file", Outcome: core.ApprovalApproved,
			By: core.Actor{Who: "root", Via: core.ViaMCP, Client: core.Client{Name: "claude-code"}}, Remember: core.RememberRule,
			Arguments: json.RawMessage(`{"content":"a lot","path":"docs/a/rather/long/path/to/a/file/that/somebody/wants/to/be/written.md"}`),
		},
		{Side: core.SideClient, Seq: 2, At: at.Add(-time.Hour), ApprovalID: appB, Tool: "filesystem:move_file", Outcome: core.ApprovalDenied, By: core.Actor{Who: "ann", Via: core.ViaCLI}, Reason: strings.Repeat("because it is not wanted ", 6)},
	}
}

// A row is one line at 80 columns, the newest first: what decides is whole, why takes the
// place that is left. --args has a line below for what was sent.
func TestAuditLs_Terminal(t *testing.T) {
	t.Parallel()
	f := &fake{audit: append(auditRows(), core.AuditRow{Side: core.SideClient, Seq: 3, At: at, Outcome: core.ApprovalApproved,
		By: core.Actor{Who: "ann", Via: core.ViaCLI}, Reason: "the change of /home/ann/src/a/long/way/down/.pml.json"},
		core.AuditRow{Side: core.SideClient, Seq: 4, At: at, Type: core.ApproveIntegrity, Tool: "github", Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}})}
	ls := func(more ...string) *shell {
		return (&shell{fake: f, tty: true, width: 80, env: xterm}).run(append([]string{"audit", "ls"}, more...)...).want(t, 0)
	}
	s := ls().has(t, "out", "workspace:write_file", "agent claude-code", "filesystem:move_file", "ann/cli", "change of down/.pml.json", "denied", "because")
	lines := strings.Split(strings.TrimSpace(plain(s.out)), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "github (integrity)") || !strings.HasPrefix(lines[2], "change of") || !strings.HasPrefix(lines[4], "workspace:write_file") {
		t.Errorf("%d lines:\n%s", len(lines), s.out)
	}
	s = ls("--args").has(t, "out", "path=docs/a/rather")
	if !f.auditQuery.Newest || !f.auditQuery.Args {
		t.Errorf("%+v", f.auditQuery)
	}
	for line := range strings.Lines(s.out + ls().out) {
		if n := layout.Width(plain(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	wide := (&shell{fake: f, tty: true, width: 170, env: xterm}).run("audit", "ls").want(t, 0)
	wide.has(t, "out", string(appA)[:8], "allow workspace:write_file", "tool_permission")
	pipe := (&shell{fake: f}).run("audit", "ls").want(t, 0).has(t, "out", "/way/down/.pml.json", "allow workspace:write_file")
	if strings.Count(pipe.out, "because") < 6 {
		t.Error(pipe.out)
	}
}

// A yes to the calls of a loop is not taken for a yes to one call.
func TestAuditLs_Bounds(t *testing.T) {
	t.Parallel()
	row := core.AuditRow{Side: core.SideClient, Seq: 1, At: at, ApprovalID: appA, Type: core.ApproveTool, Tool: "rec:inc", Outcome: core.ApprovalApproved, By: core.Actor{Who: "ann", Via: core.ViaCLI}, Shape: "sha256:b0"}
	s := (&shell{fake: &fake{audit: []core.AuditRow{row}}}).run("audit", "ls").want(t, 0)
	s.has(t, "out", "calls within bounds: pml approvals show "+appA.Short())
}

// An abort is read as one, and stays what is stored for programs.
func TestAuditLs_Aborted(t *testing.T) {
	t.Parallel()
	row := core.AuditRow{Side: core.SideClient, Seq: 1, At: at, RunID: runA, Outcome: core.ApprovalDenied, By: core.Actor{Who: "ann", Via: core.ViaCLI}, Reason: "aborted the run: wrong input"}
	f := &fake{audit: []core.AuditRow{row}}
	s := (&shell{fake: f}).run("audit", "ls", "--outcome", "aborted").want(t, 0).has(t, "out", "  aborted  ann/cli")
	if strings.Contains(s.out, "denied") || f.auditQuery.Outcome != "aborted" {
		t.Error(s.out)
	}
	(&shell{fake: f}).run("audit", "ls", "--json").want(t, 0).has(t, "out", `"outcome": "denied"`)
	f.audit[0].Tool, f.audit[0].Reason, f.audit[0].Aborted = "fs:x", "wrong input", true
	(&shell{fake: f}).run("audit", "ls").want(t, 0).has(t, "out", "denied", "aborted the run: wrong input")
	f.audit[0] = core.AuditRow{Side: core.SideClient, Seq: 1, At: at, Tool: "fs:x", Outcome: core.ApprovalApproved, Remember: core.RememberRule, Reason: "allow fs:x: mine"}
	if s := (&shell{fake: f}).run("audit", "ls").want(t, 0).has(t, "out", "allow fs:x: mine"); strings.Count(s.out, "allow") != 1 {
		t.Error(s.out)
	}
}

func TestAuditLs_Filters(t *testing.T) {
	t.Parallel()
	f := &fake{audit: auditRows()}
	(&shell{fake: f}).run("audit", "ls", "--since", "7d", "--until", "2026-03-02", "--by", "ann", "--tool", "move", "--outcome", "denied",
		"--type", "tool_permission", "--workspace", "repo", "--approval", "9c41").want(t, 0).has(t, "err", "no decision is like that")
	want := core.AuditFilter{
		From: at.Add(-7 * 24 * time.Hour), Until: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC), By: "ann", Tool: "move",
		Outcome: core.ApprovalDenied, Type: core.ApproveTool, Workspace: "repo", Approval: "9c41",
	}
	if f.auditQuery.AuditFilter != want || f.auditQuery.Since != (api.Since{}) {
		t.Errorf("%+v", f.auditQuery)
	}
	for _, last := range []string{"7d", "168h", "1w"} {
		s := (&shell{fake: f}).run("audit", "ls", "--since", last).want(t, 0).has(t, "out", "move_file")
		if strings.Contains(s.out, "write_file") {
			t.Error(s.out)
		}
	}
	(&shell{fake: f}).run("audit", "ls", "--outcome", "aproved").want(t, 2).has(t, "err", "did you mean approved")
	(&shell{fake: f}).run("audit", "ls", "--until", "tomorow").want(t, 2).has(t, "err", "--until", "7d")
}

// Colour is for terminals that want it, and for nothing else.
func TestColour(t *testing.T) {
	t.Parallel()
	f := &fake{audit: auditRows()}
	s := (&shell{fake: f, tty: true, width: 200, env: xterm}).run("audit", "ls").want(t, 0)
	if !strings.Contains(s.out, "\x1b[32mapproved\x1b[0m") || !strings.Contains(s.out, "\x1b[31mdenied\x1b[0m") {
		t.Errorf("%q", s.out)
	}
	for name, s := range map[string]*shell{
		"a pipe":     (&shell{fake: f}).run("audit", "ls"),
		"--no-color": (&shell{fake: f, tty: true, width: 200, env: xterm}).run("audit", "ls", "--no-color"),
		"NO_COLOR":   (&shell{fake: f, tty: true, width: 200, env: map[string]string{"TERM": "xterm", "NO_COLOR": "1"}}).run("audit", "ls"),
		"dumb":       (&shell{fake: f, tty: true, width: 200, env: map[string]string{"TERM": "dumb"}}).run("audit", "ls"),
		"JSON":       (&shell{fake: f, tty: true, width: 200, env: xterm}).run("audit", "ls", "--json"),
	} {
		if strings.Contains(s.out+s.err, "\x1b") {
			t.Errorf("%s: %q", name, s.out)
		}
	}
}

var xterm = map[string]string{"TERM": "xterm-256color"}

// plain is text without its colours.
func plain(s string) string { return sgr.ReplaceAllString(s, "") }

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")
