package bolt_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store"
)

// Events that were committed together lie in few rows. Whoever reads may begin
// and end in the middle of one, and another run's are left alone.
func TestEvents_CommittedTogether(t *testing.T) {
	t.Parallel()
	s := openExclusive(t, t.TempDir(), wall{})
	var ids []core.ID
	total := 0
	for _, n := range []int{1, 2, 40, 3, 100} {
		run := newRun("r")
		run.State = core.RunComplete
		ids = append(ids, run.ID)
		step := store.Step{Run: run, Create: true, Program: &core.Program{Kind: core.KindCode, Version: 1}}
		for range n {
			step.Events = append(step.Events, core.Event{Type: core.EventTaskLog, Message: string(run.ID), At: run.CreatedAt})
		}
		total += n
		if err := s.Commit(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	read := func(f store.EventFilter) []core.Event {
		t.Helper()
		list, err := s.Events(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := read(store.EventFilter{})
	if len(all) != total {
		t.Fatalf("%d events, want %d", len(all), total)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) || e.Message != string(e.RunID) {
			t.Fatalf("event %d is %+v", i+1, e)
		}
		page := read(store.EventFilter{After: e.Seq - 1, Limit: 7})
		if want := min(7, total-i); len(page) != want || page[0].Seq != e.Seq {
			t.Fatalf("after %d: %d events from %d, want %d", e.Seq-1, len(page), page[0].Seq, want)
		}
	}
	if list := read(store.EventFilter{RunID: ids[2]}); len(list) != 40 || list[0].Seq != 4 {
		t.Fatalf("%d events of the third run from %d, want 40 from 4", len(list), list[0].Seq)
	}
	if list := read(store.EventFilter{RunID: ids[2], After: 20}); len(list) != 23 || list[0].Seq != 21 {
		t.Fatalf("%d events of the third run after 20 from %d, want 23 from 21", len(list), list[0].Seq)
	}
	if err := s.Remove(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	if left := read(store.EventFilter{}); len(left) != total-40 || left[3].Seq != 44 {
		t.Fatalf("%d events are left, the fourth is %d; want %d and 44", len(left), left[3].Seq, total-40)
	}
}
