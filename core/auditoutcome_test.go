package core_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestShownReason: what a decision was besides its outcome stands before what somebody gave as
// their reason, once.
func TestShownReason(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]core.AuditRow{
		"":                             {},
		"no need":                      {Reason: "no need"},
		"aborted the run":              {Aborted: true},
		"aborted the run: no need":     {Aborted: true, Reason: "no need"},
		"changed the arguments":        {SentDigest: "sha256:1"},
		"allow for this run":           {Remember: core.RememberRun},
		"allow for this session: mine": {Remember: core.RememberSession, Reason: "mine"},
		"allow fs:x":                   {Remember: core.RememberRule, Tool: "fs:x"},
		"allow fs:x: mine":             {Remember: core.RememberRule, Tool: "fs:x", Reason: "allow fs:x: mine"},
		"calls within bounds: pml approvals show 7f3a91c2":            {Shape: "sha256:1", ApprovalID: "7f3a91c2-0000-4000-8000-000000000001"},
		"changed the arguments: allow for this run: as agreed with B": {SentDigest: "sha256:1", Remember: core.RememberRun, Reason: "as agreed with B"},
	} {
		if got := core.ShownReason(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
