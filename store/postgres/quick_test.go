package postgres_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// A decision that is sent without a lock is kept only if all that it was made from
// is as it was: the run, the question and the audit log. Otherwise it leaves nothing.
func TestDecide_Quickly(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, other := open(t, address, wall{}), open(t, address, wall{})
	cases := map[string]func(run core.Run, a, b core.Approval) error{
		"Nothing": nil,
		"Decided": func(_ core.Run, a, _ core.Approval) error {
			d := yes(a)
			d.Approved = false
			_, err := other.Decide(t.Context(), d, store.Renewal{})
			return err
		},
		"Audited": func(core.Run, core.Approval, core.Approval) error {
			return other.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved})
		},
		"AnotherQuestion": func(_ core.Run, _, b core.Approval) error {
			_, err := other.Decide(t.Context(), yes(b), store.Renewal{})
			return err
		},
		"Extended": func(_ core.Run, a, _ core.Approval) error {
			_, err := other.Extend(t.Context(), a.ID, time.Now().Add(time.Hour))
			return err
		},
		"Aborted": func(run core.Run, _, _ core.Approval) error {
			_, err := other.RequestAbort(t.Context(), run.ID, core.AbortRequest{At: time.Now()})
			return err
		},
		"Claimed": func(run core.Run, _, _ core.Approval) error {
			_, err := other.Claim(t.Context(), run.ID, "r2")
			return err
		},
		"Superseded": func(run core.Run, a, _ core.Approval) error {
			return s.Commit(t.Context(), store.Step{Run: run, Supersede: []core.ID{a.ID}})
		},
		"Stepped": func(run core.Run, _, _ core.Approval) error {
			return s.Commit(t.Context(), store.Step{Run: run, Events: []core.Event{{Type: core.EventTaskLog, At: time.Now()}}})
		},
		"Removed": func(run core.Run, _, _ core.Approval) error {
			run.State = core.RunAborted
			if err := s.Commit(t.Context(), store.Step{Run: run}); err != nil {
				return err
			}
			return other.Remove(t.Context(), run.ID)
		},
	}
	for i := range 2 * len(cases) {
		// One after the other: each of them must be refused for its own reason.
		name, known := slices.Sorted(maps.Keys(cases))[i/2], i%2 == 1
		meanwhile := cases[name]
		run, a, b := asking(t, s)
		if err := s.Record(t.Context(), core.AuditRow{Outcome: core.ApprovalApproved}); err != nil {
			t.Fatal(err)
		}
		if known, read := s.Standings(t.Context(), a.ID); known != read {
			t.Fatal(cmp.Diff(read, known))
		}
		rule, err := s.Ruling(t.Context(), yes(a), known)
		if err != nil {
			t.Fatal(name, err)
		}
		if meanwhile != nil {
			if err := meanwhile(run, a, b); err != nil {
				t.Fatal(name, err)
			}
		}
		before := written(t, s)
		if kept, err := rule(); err != nil || kept != (meanwhile == nil) {
			t.Errorf("%s: kept %v, %v", name, kept, err)
		}
		if after := written(t, s); meanwhile == nil && (after.events != before.events+1 || after.rows != before.rows+1) || meanwhile != nil && after != before {
			t.Errorf("%s: %+v, before %+v", name, after, before)
		}
		if kept, err := rule(); err != nil || kept {
			t.Errorf("%s, a second time: kept %v, %v", name, kept, err)
		}
	}
	rows, err := other.Audit(t.Context(), 0, 0)
	if bad, why := approval.Verify(rows); err != nil || bad != 0 {
		t.Errorf("the audit log breaks at %d: %s %v", bad, why, err)
	}
}

// logged counts what decisions leave behind.
type logged struct{ events, rows int }

func written(t *testing.T, s *postgres.Store) logged {
	t.Helper()
	events, err := s.Events(t.Context(), store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Audit(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return logged{len(events), len(rows)}
}

// A step that acts upon decisions takes the short way if they lie in the database
// as they were read, once.
func TestStep_ActsUponDecisions(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, other := open(t, address, wall{}), open(t, address, wall{})
	run, a, b := asking(t, s)
	use := store.Step{Run: run, Used: []store.Use{{Approval: a.ID, CallID: "c1"}}, Records: []core.Record{newRecord(1)}}
	if _, err := s.Packet(use); err == nil {
		t.Fatal("nobody has read a decision, and yet it is known how it is stored")
	}
	for _, d := range []core.Decision{yes(a), yes(b)} {
		if _, err := other.Decide(t.Context(), d, store.Renewal{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID}); err != nil { // the runner looks
		t.Fatal(err)
	}
	send, err := s.Packet(use)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if kept, err := send(t.Context()); err != nil || kept != want {
			t.Errorf("sent %d times: kept %v, %v", i+1, kept, err)
		}
	}
	got, err := other.Approvals(t.Context(), store.ApprovalFilter{ID: a.ID})
	if err != nil || len(got) != 1 || !got[0].Used || len(got[0].CallIDs) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if ids, err := other.Orphans(t.Context(), "r", 0); err != nil || len(ids) != 1 {
		t.Errorf("one decision is left: %v %v", ids, err)
	}
}

// Whoever has read a decision and acts upon it when it has been used meanwhile has
// its step refused the short way; nothing of it is written.
func TestStep_ActsUponWhatHasChanged(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	run, a, _ := asking(t, s)
	if _, err := s.Decide(t.Context(), yes(a), store.Renewal{}); err != nil {
		t.Fatal(err)
	}
	send, err := s.Packet(store.Step{Run: run, Used: []store.Use{{Approval: a.ID, CallID: "c1"}}, Records: []core.Record{newRecord(1)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, address).Exec(t.Context(), "UPDATE approvals SET data = data || ' '::bytea WHERE id = $1", string(a.ID)); err != nil {
		t.Fatal(err)
	}
	before := written(t, s)
	if kept, err := send(t.Context()); err != nil || kept {
		t.Errorf("kept %v, %v", kept, err)
	}
	if stored, err := s.Run(t.Context(), run.ID); err != nil || stored.JournalSeq != 0 || written(t, s) != before {
		t.Errorf("%d records, %v", stored.JournalSeq, err)
	}
}

// What a store has written last is taken for true until the database says that it
// is not: decisions by turns through two stores all count, and none is lost.
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
	rows, err := stores[0].Audit(t.Context(), 0, 0)
	if bad, why := approval.Verify(rows); err != nil || bad != 0 || len(rows) != 24 {
		t.Errorf("%d rows; the audit log breaks at %d: %s %v", len(rows), bad, why, err)
	}
}
