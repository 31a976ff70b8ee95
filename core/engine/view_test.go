package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
)

// dependsOn is what each task of a view comes after.
func dependsOn(w core.Workflow) map[string][]string {
	out := map[string][]string{}
	for _, l := range w.Layers {
		for _, t := range l.Tasks {
			out[t.ID] = t.DependsOn
		}
	}
	return out
}

// TestView_DependsOn: the tasks of a DAG say what they come after, by name or by
// a reference, and so do predicted calls, once for each.
func TestView_DependsOn(t *testing.T) {
	t.Parallel()
	tasks := []core.TaskSpec{
		{ID: "a", Tool: "s:a"},
		{ID: "b", Tool: "s:b", Arguments: json.RawMessage(`{"x":"$a.y"}`)},
		{ID: "c", Tool: "s:c", DependsOn: []string{"a", "b"}},
	}
	w := engine.View(core.Run{Kind: core.KindDAG}, core.Program{Kind: core.KindDAG, Tasks: tasks}, nil, nil)
	if diff := cmp.Diff(map[string][]string{"a": nil, "b": {"a"}, "c": {"a", "b"}}, dependsOn(w)); diff != "" {
		t.Error(diff)
	}
	plan := &core.Plan{
		Calls: []core.PlanCall{{ID: "1", Tool: "s:a"}, {ID: "2", Tool: "s:b", Layer: 1}},
		Edges: []core.PlanEdge{{From: "1", To: "2", Kind: core.EdgeData}, {From: "1", To: "2", Kind: core.EdgeOrder}, {From: "1", To: "gone"}},
	}
	w = engine.View(core.Run{Kind: core.KindCode}, core.Program{Kind: core.KindCode, Plan: plan}, nil, nil)
	if diff := cmp.Diff(map[string][]string{"1": nil, "2": {"1"}}, dependsOn(w)); diff != "" {
		t.Error(diff)
	}
}

// TestView_UnderWay: a call that was under way when its process ended runs no
// more: it waits, and may have run. One of a run that goes on runs.
func TestView_UnderWay(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	records := []core.Record{
		{Kind: core.RecordStarted, CallID: "1", Tool: "s:a", StartedAt: began},
		{Kind: core.RecordSettled, CallID: "1", Tool: "s:a", Outcome: core.OutcomeSuccess, At: began},
		{Kind: core.RecordStarted, CallID: "2", Tool: "s:b", StartedAt: began},
	}
	doubt := core.Approval{Type: core.ApproveInDoubt, State: core.ApprovalOpen, CallIDs: []string{"2"}}
	other := core.Approval{Type: core.ApproveTool, State: core.ApprovalOpen, CallIDs: []string{"2"}}
	for name, c := range map[string]struct {
		run       core.RunState
		approvals []core.Approval
		want      core.TaskState
	}{
		"Running":     {core.RunRunning, nil, core.TaskRunning},
		"Elsewhere":   {core.RunWaiting, []core.Approval{other}, core.TaskRunning},
		"Interrupted": {core.RunInterrupted, nil, core.TaskWaiting},
		"InDoubt":     {core.RunWaiting, []core.Approval{doubt}, core.TaskWaiting},
		"Ended":       {core.RunAborted, nil, core.TaskError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := engine.View(core.Run{Kind: core.KindCode, State: c.run}, core.Program{}, records, c.approvals)
			done, begun := w.Layers[0].Tasks[0], w.Layers[0].Tasks[1]
			if done.State != core.TaskSuccess || done.Error != nil {
				t.Errorf("what had ended is %s: %v", done.State, done.Error)
			}
			if begun.State != c.want || (begun.Error == nil) != (c.want == core.TaskRunning) {
				t.Errorf("what was under way is %s: %v", begun.State, begun.Error)
			}
		})
	}
}

// TestView_Sent: a call whose arguments were changed has both.
func TestView_Sent(t *testing.T) {
	t.Parallel()
	records := []core.Record{
		{Kind: core.RecordStarted, CallID: "1", Tool: "s:a", Args: json.RawMessage(`{"n":1}`), Sent: json.RawMessage(`{"n":7}`)},
		{Kind: core.RecordSettled, CallID: "1", Tool: "s:a", Outcome: core.OutcomeSuccess},
	}
	got := engine.View(core.Run{Kind: core.KindCode}, core.Program{Kind: core.KindCode}, records, nil).Layers[0].Tasks[0]
	if string(got.Arguments) != `{"n":1}` || string(got.Sent) != `{"n":7}` || string(got.Made()) != `{"n":7}` {
		t.Errorf("%s, sent %s, made %s", got.Arguments, got.Sent, got.Made())
	}
}

// TestView_AllowedByLastAttempt: why nobody was asked is said of the last attempt: about an earlier one it says
// nothing once a person is asked.
func TestView_AllowedByLastAttempt(t *testing.T) {
	t.Parallel()
	rec := func(kind core.RecordKind, by string) core.Record {
		return core.Record{Kind: kind, CallID: "c1", Tool: "x:y", AllowedBy: by, Outcome: core.OutcomeError}
	}
	records := []core.Record{rec(core.RecordSettled, "readonly"), rec(core.RecordVoid, "readonly"), rec(core.RecordParked, ""), rec(core.RecordStarted, ""), rec(core.RecordSettled, "")}
	for n, want := range []string{"", "readonly", "", "", "", ""} {
		w := engine.View(core.Run{State: core.RunRunning, Kind: core.KindCode}, core.Program{}, records[:n], nil)
		if n > 0 && w.Layers[0].Tasks[0].AllowedBy != want {
			t.Errorf("after %d records: %q, want %q", n, w.Layers[0].Tasks[0].AllowedBy, want)
		}
	}
}
