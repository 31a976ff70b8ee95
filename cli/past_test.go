package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// began are the events of calls that have begun, each in the layer of its place.
func began(ids ...string) (out []core.Event) {
	for i, id := range ids {
		out = append(out, core.Event{Seq: 1, Type: core.EventTaskStart, At: at, RunID: runA, TaskID: id, Tool: "fs:read", Layer: &i})
	}
	return out
}

// A call that only reads is in no journal while it is under way: pml workflows show has its
// arguments where the plan knows them, says why not where it does not, and shows it also
// after the process has died.
func TestWorkflowsShow_CallUnderWay(t *testing.T) {
	t.Parallel()
	for state, says := range map[core.RunState][]string{
		core.RunRunning: {"* running", "c2  read b.txt", "path  b.txt"}, core.RunInterrupted: {". queued", "c2  read b.txt", "path  b.txt", "pml ended before fs:read answered"},
	} {
		f := &fake{
			workflow: core.Workflow{
				Run:    core.Run{ID: runA, Kind: core.KindCode, State: state, CreatedAt: at},
				Layers: []core.Layer{{Tasks: []core.Task{{ID: "c1", Tool: "fs:read", State: core.TaskSuccess, Arguments: json.RawMessage(`{"path":"a.txt"}`)}}}},
			},
			events: began("c1", "c2"),
			program: core.Program{Plan: &core.Plan{Calls: []core.PlanCall{
				{ID: "c1", Tool: "fs:read"}, {ID: "c2", Tool: "fs:read", Arguments: json.RawMessage(`{"path":"b.txt"}`)},
			}}},
		}
		(&shell{fake: f}).run("wf", "show", "7f3a91", "--args").want(t, 0).has(t, "out", says...)
		(&shell{fake: f}).run("wf", "show", "7f3a91", "--json").want(t, 0).has(t, "out", `"b.txt"`)
		f.program.Plan.Calls[0].Repeated = true
		(&shell{fake: f}).run("wf", "show", "7f3a91", "--args").want(t, 0).has(t, "out", "its arguments are kept once it has answered")
	}
}

// What was made anew is said at the call, and of a run that was retried when.
func TestWorkflowsShow_MadeAnew(t *testing.T) {
	t.Parallel()
	f := &fake{
		workflow: core.Workflow{
			Run: core.Run{ID: runA, Kind: core.KindCode, State: core.RunComplete, CreatedAt: at.Add(-time.Hour)},
			Layers: []core.Layer{{Tasks: []core.Task{
				{ID: "c1", Tool: "fs:read", State: core.TaskSuccess, Attempt: 1}, {ID: "c2", Tool: "fs:write", State: core.TaskSuccess, Attempt: 3}, {ID: "c3", Tool: "fs:write", State: core.TaskSuccess, Attempt: 1},
			}}},
		},
		events: append(append(began("c1", "c2"), began("c1")...), core.Event{Seq: 9, Type: core.EventWorkflowStart, RunID: runA, At: at.Add(-time.Minute), Message: "retry"}),
	}
	s := (&shell{fake: f}).run("wf", "show", "7f3a91").want(t, 0).has(t, "out", "retried    2026-", "(1m00s ago)", "c1  read   -  2nd attempt", "c2  write  -  3rd attempt", "c3  write  -\n")
	s.has(t, "out", "complete")
	f.events = f.events[:1]
	f.workflow.Layers[0].Tasks = f.workflow.Layers[0].Tasks[:1]
	(&shell{fake: f}).run("wf", "show", "7f3a91").want(t, 0).lacks(t, "retried", "attempt")
}
