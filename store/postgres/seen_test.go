package postgres_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// A runner has read its approvals. Then one of them is decided, and before the
// runner looks again its next step asks another question, which is decided at once.
// The runner's next look must bring both.
func TestSeen_StepThatAsksBetweenTwoDecisions(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(t *testing.T, s, other *postgres.Store, run core.Run, a, b core.Approval) error{
		"DecidedHere": func(t *testing.T, s, _ *postgres.Store, _ core.Run, _, b core.Approval) error {
			_, err := s.Decide(t.Context(), yes(b), store.Renewal{})
			return err
		},
		"ExtendedHere": func(t *testing.T, s, _ *postgres.Store, _ core.Run, _, b core.Approval) error {
			_, err := s.Extend(t.Context(), b.ID, time.Now().Add(time.Hour))
			return err
		},
		"DecidedElsewhere": func(t *testing.T, s, other *postgres.Store, _ core.Run, _, b core.Approval) error {
			told, err := s.WatchOthers(t.Context())
			if err != nil {
				return err
			}
			_, err = other.Decide(t.Context(), yes(b), store.Renewal{})
			<-told
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := database(t)
			s, other := open(t, address, wall{}), open(t, address, wall{})
			run, a, b := asking(t, s)
			var header core.Run
			looked, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID, Into: &header, Seen: false})
			if err != nil || len(looked) != 2 {
				t.Fatal(looked, err)
			}
			known := map[core.ID]core.Approval{}
			for _, ap := range looked {
				known[ap.ID] = ap
			}
			if err := first(t, s, other, run, a, b); err != nil {
				t.Fatal(err)
			}
			c := newApproval(run.ID)
			c.Subject = "c3"
			if err := s.Commit(t.Context(), store.Step{Run: run, Open: []core.Approval{c}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Decide(t.Context(), yes(c), store.Renewal{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // two looks, so that a stale one would be corrected if there were a second wake-up
				got, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID, Into: &header, Seen: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, ap := range got {
					known[ap.ID] = ap
				}
				all, err := s.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID})
				if err != nil {
					t.Fatal(err)
				}
				for _, ap := range all {
					if k := known[ap.ID]; k.State != ap.State || (k.ExpiresAt == nil) != (ap.ExpiresAt == nil) {
						t.Errorf("%s is %s until %v; the runner, which has looked, takes it for %s until %v", ap.Subject, ap.State, ap.ExpiresAt, k.State, k.ExpiresAt)
					}
				}
			}
		})
	}
}
