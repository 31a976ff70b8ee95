package core_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

func TestParseWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"30m": "2026-03-10T10:30:00Z", "7d": "2026-03-03T11:00:00Z", "168h": "2026-03-03T11:00:00Z", "2w": "2026-02-24T11:00:00Z",
		"2026-03-01": "2026-02-28T23:00:00Z", "2026-03-01T10:00:00Z": "2026-03-01T10:00:00Z", "2026-03-01 10:00": "2026-03-01T09:00:00Z", "0s": "2026-03-10T11:00:00Z",
	} {
		if got, err := core.ParseWhen(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "-7d", "-1h", "d", "yesterday", "99999d", "2026-13-01"} {
		if got, err := core.ParseWhen(text, now); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func TestAuditFilter_Set(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"outcome": "aproved", "type": "tool", "since": "soon", "until": "x", "tol": "x"} {
		var f core.AuditFilter
		if err := f.Set(key, value, time.Now()); core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	var f core.AuditFilter
	if err := f.Set("outcome", "aproved", time.Now()); !strings.Contains(err.Error(), "approved") {
		t.Error(err)
	}
	for _, pattern := range []string{"fs:*", "fs", "*:write_file", "fs:write_file"} {
		f = core.AuditFilter{}
		if err := f.Set("tool", pattern, time.Now()); err != nil || !f.Match(core.AuditRow{Tool: "fs:write_file"}) || f.Match(core.AuditRow{Tool: "git:log"}) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	f = core.AuditFilter{By: "claude"}
	if !f.Match(core.AuditRow{By: core.Actor{Who: "root", Via: core.ViaMCP, Client: core.Client{Name: "Claude-Code"}}}) || f.Match(core.AuditRow{By: core.Actor{Who: "root", Via: core.ViaMCP}}) {
		t.Error("an agent is found by its name")
	}
}

// Rules that were written or removed are found by the tool that they are for, and by a type.
func TestAuditFilter_Rules(t *testing.T) {
	t.Parallel()
	change := func(about string) core.AuditRow {
		return core.AuditRow{Outcome: core.ApprovalApproved, Reason: core.ChangeReason(about, "/w/.pml.json")}
	}
	rows := map[string]core.AuditRow{
		"written":  change("allow fs:write_* where args.path == 'a, deny git:x', ask git"),
		"removed":  change("no longer deny fs:move"),
		"server":   change("no longer the server files, no longer the server web"),
		"file":     change(""),
		"answered": {Type: core.ApproveTool, Tool: "db:query", Remember: core.RememberRule},
		"once":     {Type: core.ApproveTool, Tool: "db:query", Reason: "allow fs:move, by the change of nothing"},
	}
	for _, tt := range []struct{ key, value, want string }{
		{"tool", "fs:write_file", "written"}, {"tool", "fs:*", "removed written"}, {"tool", "fs", "removed written"}, {"tool", "FS:move", "removed"},
		{"tool", "git:push", "written"}, {"tool", "fs:read", ""}, {"tool", "web", "server"}, {"tool", "query", "answered once"},
		{"type", "rule", "answered removed written"}, {"type", "change", "file removed server written"}, {"type", "tool_permission", "answered once"},
	} {
		var f core.AuditFilter
		if err := f.Set(tt.key, tt.value, time.Now()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if f.Match(rows[name]) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s=%s: %v, want %s", tt.key, tt.value, got, tt.want)
		}
	}
}

// What was done reads as that, and is found as it reads only. A no that has aborted the run
// is found as both.
func TestAuditFilter_Done(t *testing.T) {
	t.Parallel()
	rows := map[string]core.AuditRow{
		"aborted":  {RunID: "r", Outcome: core.ApprovalDenied, Reason: core.AbortedRun + ": no"},
		"halted":   {Outcome: core.ApprovalDenied, Reason: core.HaltedAll},
		"resumed":  {Outcome: core.ApprovalApproved, Reason: core.LetGoOn + "halted"},
		"denied":   {RunID: "r", Tool: "fs:x", Outcome: core.ApprovalDenied, Reason: core.AbortedRun},
		"approved": {RunID: "r", Tool: "fs:x", Outcome: core.ApprovalApproved},
	}
	found := func(outcome string, row core.AuditRow) bool {
		var f core.AuditFilter
		if err := f.Set("outcome", outcome, time.Now()); err != nil {
			t.Fatal(err)
		}
		return f.Match(row)
	}
	for want, row := range rows {
		if got := core.ShownOutcome(row); got != want {
			t.Errorf("%s is shown as %s", want, got)
		}
		for outcome := range rows {
			if found(outcome, row) != (outcome == want) {
				t.Errorf("%s by %s", want, outcome)
			}
		}
	}
	both := core.AuditRow{RunID: "r", Tool: "fs:x", Outcome: core.ApprovalDenied, Aborted: true}
	if !found("denied", both) || !found("aborted", both) || found("halted", both) {
		t.Error("a no that has aborted the run is denied and aborted")
	}
}

// What pml does by itself, where nobody has decided, was done by no rule.
func TestActor_ByItself(t *testing.T) {
	t.Parallel()
	for by, want := range map[core.Actor]string{
		{Who: "pml", Via: core.ViaRule}: "pml pml", {Who: "policy", Via: core.ViaRule}: "policy/rule policy via rule", {Who: "pml", Via: core.ViaCLI}: "pml/cli pml via cli",
	} {
		if got := by.Label() + " " + by.Origin(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
