package screen

import (
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// The filter of the audit log takes the names that commands and HTTP have; what is
// none of them, or makes no sense yet, is a word that a row must contain.
func TestAuditFilter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	f, words := auditFilter("since:7d by:Claude outcome:approved fs:write outcome:appro PATH", now)
	want := core.AuditFilter{From: now.Add(-7 * 24 * time.Hour), By: "Claude", Outcome: core.ApprovalApproved}
	if f != want || !slices.Equal(words, []string{"fs:write", "outcome:appro", "path"}) {
		t.Errorf("%+v, %q", f, words)
	}
}
