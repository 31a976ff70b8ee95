package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
	"github.com/casys-ai/pml/store/postgres"
)

// stepsOf commits steps with so many records and events each.
func stepsOf(t *testing.T, s *postgres.Store, sizes ...int) core.Run {
	t.Helper()
	run := newRun("r")
	if err := s.Commit(t.Context(), store.Step{Run: run, Create: true}); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for i, n := range sizes {
		step := layerStep(run, seq, n)
		for j := range step.Events {
			if (i+j)%3 == 0 {
				step.Events[j].Type = core.EventTaskStart
			}
		}
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		seq += int64(n)
	}
	return run
}

// A row holds the events of a step. Pages that begin and end within one are
// the same as a cut from the whole list, whatever they are restricted to.
func TestEvents_PagesWithinSteps(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), wall{})
	run := stepsOf(t, s, 1, 7, 0, 1, 1, 1, 30, 1, 1, 1, 1, 1, 2)
	other := stepsOf(t, s, 3, 1)
	all, err := s.Events(t.Context(), store.EventFilter{})
	if err != nil || len(all) != 52 {
		t.Fatal(len(all), err)
	}
	for _, f := range []store.EventFilter{{}, {RunID: run.ID}, {RunID: other.ID}, {Types: []core.EventType{core.EventTaskStart}}, {Types: []core.EventType{"task"}}} {
		for after := int64(0); after <= 52; after += 3 {
			for _, limit := range []int{0, 1, 5, 17} {
				var want []core.Event
				for _, e := range all[after:] {
					if (f.RunID == "" || e.RunID == f.RunID) && (f.Types == nil || e.Type == f.Types[0]) && (limit == 0 || len(want) < limit) {
						want = append(want, e)
					}
				}
				f.After, f.Limit = after, limit
				got, err := s.Events(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%+v: %s", f, diff)
				}
			}
		}
	}
}

// A journal can be read from any record on, also from within a step.
func TestJournal_FromWithinAStep(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), wall{})
	run := stepsOf(t, s, 1, 4, 0, 3)
	for after := range int64(10) {
		records, err := s.Journal(t.Context(), run.ID, after)
		if err != nil {
			t.Fatal(err)
		}
		want, got := []int64(nil), []int64(nil)
		for seq := after + 1; seq <= 8; seq++ {
			want = append(want, seq)
		}
		for _, r := range records {
			got = append(got, r.Seq)
			if id := fmt.Sprintf("t%d", r.Seq); r.CallID != id || string(r.Args) != `{"n":1}` || r.Sent != nil || string(r.Result) != `"ok"` {
				t.Errorf("%d: %+v", r.Seq, r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
	}
}

// A row that was cut off is an error that says what to do, never fewer records.
func TestJournal_ARowThatIsDamaged(t *testing.T) {
	t.Parallel()
	address := database(t)
	s := open(t, address, wall{})
	run := stepsOf(t, s, 3)
	if _, err := connect(t, address).Exec(t.Context(), "UPDATE steps SET records = substr(records, 1, length(records) - 1) WHERE workflow_id = $1", string(run.ID)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Journal(t.Context(), run.ID, 0); core.CodeOf(err) != core.CodeStoreFailed {
		t.Errorf("%d records, %v", len(got), err)
	}
}
