package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// Who is let in, or refused, again and again has one row a minute, which counts.
func TestVisits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	out, ana := core.Actor{Who: "(not signed in)", Via: core.ViaPage}, core.Actor{Who: "ana", Via: core.ViaPage}
	tries := func() {
		for range 500 {
			if err := c.RefusedVisit(c.ctx(), out, "key POST /sign-in", "POST /sign-in on the pages: \x1b[2Jno\u202e "+strings.Repeat("x", 10_000)); err != nil {
				t.Fatal(err)
			}
			if err := c.Visited(c.ctx(), ana, "sign-in", "signed in"); err != nil {
				t.Fatal(err)
			}
		}
	}
	tries()
	m.clock.forward(2 * time.Minute)
	tries()
	if err := c.Visited(c.ctx(), core.Actor{}, "", "removed the device phone"); err != nil {
		t.Fatal(err)
	}
	m.clock.forward(2 * time.Minute)
	rows, err := c.Audit(c.ctx(), api.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	count := map[core.ApprovalState]int{}
	for _, r := range rows {
		count[r.Outcome] += max(1, r.Count)
		if len(r.Reason) > 600 || strings.ContainsAny(r.Reason, "\x1b\u202e") {
			t.Errorf("%q", r.Reason)
		}
	}
	if report, err := c.VerifyAudit(c.ctx()); err != nil || !report.OK || len(rows) != 7 || count[core.OutcomeRefused] != 1000 || count[core.ApprovalApproved] != 1001 {
		t.Errorf("%d rows, %v, %+v %v", len(rows), count, report, err)
	}
}
