package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// TestAudit_OutcomeOfTheColumn: a filter by an outcome finds the rows whose column shows that
// word, and no row that is kept under it and shows another.
func TestAudit_OutcomeOfTheColumn(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	halt := core.Halt{At: fixtureNow, By: core.Actor{Who: "ana"}, Reason: "lunch"}
	rows := []core.AuditRow{approval.HaltedRow(halt), approval.ResumedRow(halt, core.Resumption{At: fixtureNow, By: halt.By}), {At: fixtureNow, Outcome: core.ApprovalDenied, Tool: "fs:write"}}
	for i := range rows {
		rows[i].Seq = int64(i + 1)
	}
	st.SetAudit(rows)
	s := newScreen(t, st, 160, 45)
	press(s, "6", "z") // of the words, "halted" stands in the reason of the row that resumes as well
	for filter, want := range map[string]string{"outcome:halted": "1 of 3", "halted": "2 of 3", "outcome:resumed": "1 of 3", "resumed": "1 of 3", "outcome:aborted": "0 of 3", "outcome:denied": "1 of 3", "denied": "1 of 3", "deny": "1 of 3"} {
		press(s, "/", `"`+filter+`"`, "enter")
		if frame := s.Plain(fixtureNow); !strings.Contains(frame, want+" rows") && !strings.Contains(frame, want+" match") {
			t.Errorf("%s: want %s\n%s", filter, want, frame)
		}
		press(s, "esc")
	}
}

// TestAudit_FilterByWhatItShows: a filter finds what the columns of a row show.
func TestAudit_FilterByWhatItShows(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	st.SetAudit([]core.AuditRow{
		{Seq: 1, At: fixtureNow, Type: core.ApproveTool, Outcome: core.ApprovalApproved, Tool: "fs:write_file", RunID: runNotes, Count: 3, Arguments: raw(map[string]any{"path": "docs/report.md"})},
		{Seq: 2, At: fixtureNow, Type: core.ApproveTool, Outcome: core.ApprovalApproved, Tool: "fs:write_file", RunID: runETL, Arguments: raw(map[string]any{"path": "docs/other.md"})},
	})
	s := newScreen(t, st, 160, 45)
	press(s, "6", "z")
	for _, filter := range []string{"report", "write_file docs/report.md", "release-notes", runNotes.Short(), "×3"} {
		press(s, "/", `"`+filter+`"`, "enter")
		if frame := s.Plain(fixtureNow); !strings.Contains(frame, "1 of 2 rows") {
			t.Errorf("%s\n%s", filter, frame)
		}
		press(s, "esc")
	}
}
