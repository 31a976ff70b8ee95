package postgres_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// A run that is read with its approvals is one with them: what is committed between
// the two is in both, or in neither.
func TestApprovals_IntoIsConsistent(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	run, a, b := asking(t, s)
	if _, err := s.Decide(t.Context(), yes(a), store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	var warm core.Run // from here on its statements are prepared
	if _, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID, Into: &warm}); err != nil {
		t.Fatal(err)
	}
	other, look := connect(t, address), connect(t, address)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE approvals IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		run  core.Run
		list []core.Approval
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		var got answer
		got.list, got.err = s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID, Into: &got.run})
		done <- got
	}()
	for waits := false; !waits; { // the reader has begun, and stands at the lock
		if t.Context().Err() != nil {
			t.Fatal("nobody waits for the lock")
		}
		err := look.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'approvals'::regclass)").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		"UPDATE workflows SET epoch = epoch + 1 WHERE id = $1",
		"DELETE FROM approvals WHERE workflow_id = $1",
	} {
		if _, err := tx.Exec(t.Context(), sql, string(run.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if before, after := got.run.Epoch == run.Epoch, len(got.list) == 0; before == after {
		t.Errorf("epoch %d (%d before) and %d approvals, of %s and %s", got.run.Epoch, run.Epoch, len(got.list), a.ID.Short(), b.ID.Short())
	}
}
