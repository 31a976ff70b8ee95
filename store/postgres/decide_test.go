package postgres_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// asking commits a new run that waits for two approvals.
func asking(t *testing.T, s *postgres.Store) (core.Run, core.Approval, core.Approval) {
	t.Helper()
	run := newRun("r")
	run.State = core.RunWaiting
	a, b := newApproval(run.ID), newApproval(run.ID)
	b.Subject = "c2"
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true, Open: []core.Approval{a, b}}); err != nil {
		t.Fatal(err)
	}
	return run, a, b
}

func yes(a core.Approval) core.Decision {
	return core.Decision{ApprovalID: a.ID, Approved: true, At: time.Now().UTC(), By: core.Actor{Who: "ann", Via: core.ViaHTTP}}
}

// Decisions by turns through two stores all count, and none is lost.
func TestDecide_ByTurns(t *testing.T) {
	t.Parallel()
	address := database(t)
	stores := []*postgres.Store{open(t, address, wall{}), open(t, address, wall{})}
	for i := range 12 {
		_, a, b := asking(t, stores[i%2])
		for j, d := range []core.Decision{yes(b), yes(a), yes(b)} { // the last is the same as the first
			got, err := stores[(i/2+j)%2].Decide(t.Context(), d, store.Renewal{})
			if err != nil || got.State != core.ApprovalApproved || got.DecidedBy == nil || string(got.Context) != string(a.Context) {
				t.Fatalf("%+v %v", got, err)
			}
		}
	}
	rows, err := stores[0].Audit(t.Context(), store.AuditFilter{})
	if bad, why := approval.Verify(rows); err != nil || bad != 0 || len(rows) != 24 {
		t.Errorf("%d rows; the audit log breaks at %d: %s %v", len(rows), bad, why, err)
	}
}
