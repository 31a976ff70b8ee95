package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// aboutMany are rows about runs, layers and files of two workspaces.
func aboutMany() []core.AuditRow {
	ann := core.Actor{Who: "ann", Via: core.ViaCLI}
	return []core.AuditRow{
		{Seq: 1, At: at, RunID: runA, RunName: "nightly", Workspace: "/src/one", Outcome: core.ApprovalDenied, By: ann, Reason: "aborted the run: enough seen"},
		{Seq: 2, At: at, RunID: runA, Workspace: "/src/one", Outcome: core.OutcomeRefused, By: ann, Reason: "awaiting_human: " + strings.Repeat("the run waits for a person ", 10)},
		{Seq: 3, At: at, Workspace: "/src/one", Outcome: core.ApprovalApproved, By: ann, Reason: core.ChangeReason("the server every", "/src/one/.pml.json")},
		{Seq: 4, At: at, Workspace: "/src/two", Outcome: core.ApprovalApproved, By: ann, Reason: core.ChangeReason("", "/src/two/.pml.json")},
		{Seq: 5, At: at, Workspace: "/src/two", Type: core.ApproveIntegrity, Tool: "every", Outcome: core.ApprovalApproved, By: ann},
		{Seq: 6, At: at, RunID: runA, RunName: "nightly", ApprovalID: appA, Workspace: "/src/one", Type: core.ApproveLayer, Outcome: core.ApprovalApproved, By: ann},
		{Seq: 7, At: at, RunID: runA, RunName: "nightly", ApprovalID: appB, Workspace: "/src/one", Type: core.ApproveLayer, Outcome: core.ApprovalApproved, By: ann},
		{Seq: 8, At: at, RunID: runA, RunName: "nightly", Workspace: "/src/one", Type: core.ApproveTool, Tool: "fs:write_file", Outcome: core.ApprovalApproved, By: ann},
	}
}

func withMany() *fake {
	layer := core.Approval{ID: appA, Type: core.ApproveLayer, Context: json.RawMessage(`{"layer_index":1,"total_layers":3}`)}
	return &fake{audit: aboutMany(), pending: []core.Approval{layer}}
}

// A row says which run, layer or folder it is about, and of a change what was changed.
func TestAuditLs_About(t *testing.T) {
	t.Parallel()
	s := (&shell{fake: withMany(), tty: true, width: 110, env: xterm}).run("audit", "ls").want(t, 0)
	lines := strings.Split(strings.TrimSpace(plain(s.out)), "\n")
	starts := []string{"WHAT", "fs:write_file", "next layer", "layer 2 of 3", "every (integrity in two)", "change of two/.pml.json", "change of one/.pml.json", "run " + runA.Short(), "run nightly"}
	if len(lines) != len(starts) {
		t.Fatal(s.out)
	}
	for i, start := range starts {
		if !strings.HasPrefix(lines[i], start+" ") || layout.Width(lines[i]) > 110 {
			t.Errorf("line %d lacks %q: %s", i, start, lines[i])
		}
	}
	if !strings.HasSuffix(lines[6], "the server every") || !strings.Contains(lines[8], "aborted the run: enough seen") || !strings.Contains(lines[1], "nightly") || strings.Contains(s.out, "the change of") {
		t.Error(s.out)
	}
	f := withMany()
	f.audit = f.audit[4:5]
	(&shell{fake: f, tty: true, width: 110, env: xterm}).run("audit", "ls").want(t, 0).has(t, "out", "every (integrity) ")
}

// Through a pipe nothing is lost, WHAT stays short, and one long cell widens no other row.
func TestAuditLs_Pipe(t *testing.T) {
	t.Parallel()
	f := withMany()
	f.audit[7].RunName = strings.Repeat("long ", 40)
	s := (&shell{fake: f}).run("audit", "ls").want(t, 0).has(t, "out", f.audit[1].Reason, "by the change of /src/one/.pml.json", "layer 2 of 3", f.audit[7].RunName)
	for line := range strings.Lines(s.out) {
		if n := layout.Width(line); n > 240 && !strings.Contains(line, "awaiting_human") && !strings.Contains(line, "long long") {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Index(line, "ann/cli") > 60 {
			t.Errorf("WHAT is long: %s", line)
		}
	}
}

// With -o wide a terminal that is too narrow has a line for each field that says something.
func TestAuditLs_Wide(t *testing.T) {
	t.Parallel()
	f := withMany()
	f.audit = f.audit[6:]
	f.audit[1].Digest = hashA
	s := (&shell{fake: f, tty: true, width: 110, env: xterm}).run("audit", "ls", "-o", "wide").want(t, 0)
	out := plain(s.out)
	if !strings.HasPrefix(out, "WHAT       fs:write_file\nOUTCOME    approved\n") || !strings.Contains(out, "\nDIGEST     "+hashA+"\n\nWHAT       next layer\n") || strings.Contains(out, "HASH") {
		t.Error(out)
	}
	(&shell{fake: f, tty: true, width: 400, env: xterm}).run("audit", "ls", "-o", "wide").want(t, 0).has(t, "out", "HASH")
}

// export takes the filters of ls, and says that what it prints is not the whole chain.
func TestAuditExport_Filters(t *testing.T) {
	t.Parallel()
	f := &fake{audit: auditRows()}
	s := (&shell{fake: f}).run("audit", "export", "--since", "7d", "--by", "ann", "--tool", "move", "--outcome", "denied", "--args").want(t, 0).
		has(t, "err", "cannot be checked on what a filter leaves", "pml audit verify")
	want := core.AuditFilter{From: at.Add(-7 * 24 * time.Hour), By: "ann", Tool: "move", Outcome: core.ApprovalDenied}
	if f.auditQuery.AuditFilter != want || !f.auditQuery.Args || f.auditQuery.Newest || strings.Count(s.out, "\n") != 1 {
		t.Errorf("%+v %s", f.auditQuery, s.out)
	}
	if s := (&shell{fake: f}).run("audit", "export", "--args").want(t, 0); s.err != "" || strings.Count(s.out, "\n") != 2 {
		t.Errorf("%s%s", s.err, s.out)
	}
	(&shell{fake: f}).run("audit", "export", "--outcome", "aproved").want(t, 2).has(t, "err", "did you mean approved")
	(&shell{}).run("audit", "export", "--help").want(t, 0).has(t, "out", "--approval", "pml audit ls", "only pml audit verify")
	(&shell{}).run("audit", "ls", "--help").want(t, 0).has(t, "out", "pml audit export")
}
