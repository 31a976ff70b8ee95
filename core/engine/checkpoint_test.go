package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// TestViewAt: what the journal has after the checkpoint, and what was decided and
// said later, is not in its view; a retry that took an outcome back later, neither.
func TestViewAt(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	records := []core.Record{
		{Seq: 1, Kind: core.RecordStarted, CallID: "a", Tool: "s:a", Attempt: 1, StartedAt: at(1)},
		{Seq: 2, Kind: core.RecordSettled, CallID: "a", Tool: "s:a", Attempt: 1, Outcome: core.OutcomeFailedSafe, StartedAt: at(1), At: at(2)},
		{Seq: 3, Kind: core.RecordStarted, CallID: "b", Tool: "s:b", Layer: 1, Attempt: 1, StartedAt: at(2)},
		{Seq: 4, Kind: core.RecordSettled, CallID: "b", Tool: "s:b", Layer: 1, Attempt: 1, Outcome: core.OutcomeSuccess, At: at(4)},
		{Seq: 5, Kind: core.RecordVoid, CallID: "a", Tool: "s:a"},
	}
	decided := func(id core.ID, s int) core.Approval {
		return core.Approval{ID: id, DecidedBy: &core.DecidedBy{At: at(s)}}
	}
	cp := core.Checkpoint{ID: "cp", JournalSeq: 3, DAGVersion: 2, CreatedAt: at(3)}
	p := core.Program{Kind: core.KindDAG, Version: 3, Added: []core.Addition{{From: 1}, {From: 3}}, Tasks: []core.TaskSpec{
		{ID: "a", Tool: "s:a"}, {ID: "b", Tool: "s:b", DependsOn: []string{"a"}}, {ID: "c", Tool: "s:c", DependsOn: []string{"b"}},
		{ID: "d", Tool: "s:d", DependsOn: []string{"c"}},
	}}
	got := engine.ViewAt(cp, core.Run{Kind: core.KindDAG, State: core.RunFailed}, p, records,
		[]core.Approval{{ID: "open"}, decided("late", 4), decided("second", 3), decided("first", 1)},
		[]core.Event{{Seq: 1, Message: "then", At: at(3)}, {Seq: 2, Message: "later", At: at(4)}})
	began, ended := at(1), at(2)
	want := core.CheckpointView{
		Checkpoint: cp,
		Tasks: []core.Task{
			{ID: "a", Tool: "s:a", State: core.TaskFailedSafe, Attempt: 1, StartedAt: &began, EndedAt: &ended, DurationMS: 1000},
			{ID: "b", Tool: "s:b", Layer: 1, State: core.TaskRunning, Attempt: 1, StartedAt: &ended, DependsOn: []string{"a"}},
			{ID: "c", Tool: "s:c", Layer: 2, State: core.TaskQueued, DependsOn: []string{"b"}},
		},
		Decisions: []core.Approval{decided("first", 1), decided("second", 3)},
		Messages:  []core.Event{{Seq: 1, Message: "then", At: at(3)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBefore: an approval belongs to the newest checkpoint that was there when it
// was asked for.
func TestBefore(t *testing.T) {
	t.Parallel()
	at := func(ns int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, ns, time.UTC) }
	list := []core.Checkpoint{{ID: "one", CreatedAt: at(1_000_999)}, {ID: "two", CreatedAt: at(2_000_000)}}
	for ns, want := range map[int]core.ID{999_000: "", 1_000_000: "one", 1_999_000: "one", 2_000_000: "two", 3_000_000: "two"} {
		if got, ok := engine.Before(core.Approval{CreatedAt: at(ns)}, list); got.ID != want || ok != (want != "") {
			t.Errorf("%d ns: %q, want %q", ns, got.ID, want)
		}
	}
}
