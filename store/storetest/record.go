package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// testRecord records decisions of no run between those of runs: all of them
// are links of one chain, whoever writes them.
func testRecord(k *kit) {
	_, a := k.waiting()
	if _, err := k.decide(a.ID, true, human); err != nil {
		k.t.Fatal(err)
	}
	trust := core.AuditRow{At: k.now(), Workspace: "/w", Digest: "sha256:t", Outcome: core.ApprovalApproved, By: human, Reason: "trusted"}
	connect := core.AuditRow{Workspace: "/w", Type: core.ApproveOAuth, Tool: "mail", Outcome: core.ApprovalApproved, By: human}
	if err := k.Store.Record(k.ctx(), trust, connect); err != nil {
		k.t.Fatal(err)
	}
	if err := k.Store.Record(k.ctx()); err != nil {
		k.t.Error(err)
	}
	k.Clock.Advance(time.Minute)
	others := k.another()
	refused := core.AuditRow{At: k.now(), Workspace: "/w", Outcome: core.ApprovalDenied, By: other, Reason: "wrong PIN"}
	if err := others.Record(k.ctx(), refused); err != nil {
		k.t.Fatal(err)
	}
	rows := k.audit()
	if bad, reason := approval.Verify(rows); len(rows) != 4 || bad != 0 {
		k.t.Fatalf("%d rows, bad %d: %s", len(rows), bad, reason)
	}
	connect.At = trust.At // one without a time has that of its writing
	want := []core.AuditRow{trust, connect, refused}
	if diff := cmp.Diff(want, rows[1:], cmpopts.IgnoreFields(core.AuditRow{}, "Seq", "PrevHash", "Hash")); diff != "" {
		k.t.Error(diff)
	}
}
