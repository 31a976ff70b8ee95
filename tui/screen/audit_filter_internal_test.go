package screen

import (
	"slices"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// The filter of the audit log takes the names that commands and HTTP have, and ages as the
// filter of runs does; what is none of them is a word that a row must contain.
func TestAuditFilter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	f, words, err := auditFilter("age<7d by:Claude outcome:approved fs:write PATH tool: !Root age>1h", now)
	want := core.AuditFilter{From: now.Add(-7 * 24 * time.Hour), Until: now.Add(-time.Hour), By: "Claude", Outcome: core.ApprovalApproved}
	if f != want || !slices.Equal(words, []string{"fs:write", "path", "!root"}) || err != nil {
		t.Errorf("%+v, %q, %v", f, words, err)
	}
	for _, text := range []string{"outcome:appro", "since:yesterday", "age<x"} {
		if _, _, err := auditFilter("by:ada "+text, now); err == nil {
			t.Errorf("%s makes sense", text)
		}
	}
	e := newScreen(t, fixtureState(), 80, 24).env(fixtureNow)
	if r := (core.AuditRow{Tool: "fs:write"}); auditMatches(r, []string{"fs", "!write"}, e) || !auditMatches(r, []string{"fs", "!read", "!"}, e) {
		t.Error("a word that a row must not contain")
	}
}
