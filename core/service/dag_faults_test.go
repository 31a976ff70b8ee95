package service_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// All that is wrong with a DAG is told at once: what it means, and what its
// tasks name that does not exist.
func TestDAG_FaultsTogether(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	tasks := []core.TaskSpec{
		{ID: "a", Tool: "workspace:read_fiel"},
		{ID: "a", Tool: "nothing:here"},
		{ID: "b", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"path":"a.txt"}`), DependsOn: []string{"c"}},
		{ID: "d", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"pat":"x"}`)},
		{ID: "e"},
	}
	paths := func(err error) []string {
		t.Helper()
		var out []string
		for _, f := range code(t, err, core.CodeDAGInvalid).Faults {
			out = append(out, f.Path)
		}
		return out
	}
	want := []string{"/tasks/1/id", "/tasks/2/depends_on/0", "/tasks/4/tool", "/tasks/0/tool", "/tasks/1/tool", "/tasks/3/arguments"}
	_, err := c.Execute(c.ctx(), api.ExecuteRequest{Tasks: tasks, By: me, Wait: -1})
	if diff := cmp.Diff(want, paths(err)); diff != "" {
		t.Error(diff)
	}
	if e := core.AsError(err); e.Message != "the DAG is not valid: 6 faults; nothing has run" {
		t.Error(e.Message)
	}
	_, err = c.Plan(c.ctx(), api.ExecuteRequest{Tasks: tasks, By: me})
	if diff := cmp.Diff(want, paths(err)); diff != "" {
		t.Error(diff)
	}
	_, _, err = c.ParseDAG([]byte(`{"tasks": [
		{"id": "a", "tool": "workspace:read_fiel", "argments": {}}, {"id": "b", "tool": "workspace:read_file", "argumets": {"path": "a.txt"}}]}`))
	if diff := cmp.Diff([]string{"/tasks/0/argments", "/tasks/1/argumets", "/tasks/0/tool"}, paths(err)); diff != "" {
		t.Error(diff)
	}
	// Arguments that are there are checked, whatever else is wrong with their task.
	_, _, err = c.ParseDAG([]byte(`{"tasks": [{"id": "a", "tool": "workspace:read_file", "depend_on": [], "arguments": {}}]}`))
	if diff := cmp.Diff([]string{"/tasks/0/depend_on", "/tasks/0/arguments"}, paths(err)); diff != "" {
		t.Error(diff)
	}
	page, err := c.Workflows(c.ctx(), nil, 0, "")
	if err != nil || len(page.Items) != 0 {
		t.Errorf("%v: %d runs", err, len(page.Items))
	}
}

// A server that does not answer does not hold back what is known.
func TestDAG_FaultsInTime(t *testing.T) {
	t.Parallel()
	c, _ := slow(t)
	tasks := []core.TaskSpec{{ID: "a", Tool: "a-silent:look"}, {ID: "a", Tool: "mirror:look"}}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	_, err := c.Execute(ctx, api.ExecuteRequest{Tasks: tasks, By: me, Wait: 200 * time.Millisecond})
	if e := code(t, err, core.CodeDAGInvalid); len(e.Faults) != 1 || ctx.Err() != nil {
		t.Errorf("%+v", e)
	}
}

// An idempotency key stands for one program with one input and options.
func TestExecute_IdempotencyKeyOfAnother(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	first := api.ExecuteRequest{
		Code: `return 1`, RunOptions: core.RunOptions{Input: json.RawMessage(`{"a":1,"b":2}`)}, IdempotencyKey: "k", By: me, Wait: -1,
	}
	r, err := c.Execute(c.ctx(), first)
	if err != nil {
		t.Fatal(err)
	}
	same := first
	same.Input, same.Intent, same.File = json.RawMessage(` {"b": 2, "a": 1} `), "a label", "x.ts"
	if again, err := c.Execute(c.ctx(), same); err != nil || again.WorkflowID != r.WorkflowID {
		t.Errorf("%v %+v", err, again)
	}
	for name, change := range map[string]func(*api.ExecuteRequest){
		"Code":    func(r *api.ExecuteRequest) { r.Code = `return 2` },
		"Input":   func(r *api.ExecuteRequest) { r.Input = json.RawMessage(`{"a":1,"b":3}`) },
		"Options": func(r *api.ExecuteRequest) { r.PerLayer = true },
		"Kind": func(r *api.ExecuteRequest) {
			r.Code, r.Tasks = "", []core.TaskSpec{{ID: "a", Tool: "workspace:stat", Arguments: json.RawMessage(`{"path":"a.txt"}`)}}
		},
	} {
		other := first
		change(&other)
		_, err := c.Execute(c.ctx(), other)
		if e := code(t, err, core.CodeDigestMismatch); e.RunID != r.WorkflowID {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A reference that the schemas of tools speak against is a fault of the DAG, of its plan and
// of a run of it, before anything is called.
func TestDAG_MisfitReferences(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	tasks := []core.TaskSpec{
		{ID: "r", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"path":"a.txt"}`)},
		{ID: "w", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"path":"b.txt","content":"$r"}`)},
		{ID: "x", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"path":"c.txt","content":"got ${r.contnt}"}`)},
		{ID: "y", Tool: "workspace:read_fiel", Arguments: json.RawMessage(`{"path":"${w.path}"}`)},
	}
	_, planned := c.Plan(c.ctx(), api.ExecuteRequest{Tasks: tasks, By: me})
	_, run := c.Execute(c.ctx(), api.ExecuteRequest{Tasks: tasks, By: me, Wait: -1})
	for _, err := range []error{planned, run} {
		got := map[string]string{}
		for _, f := range code(t, err, core.CodeDAGInvalid).Faults {
			got[f.Path] = f.Message
		}
		if len(got) != 3 || got["/tasks/3/tool"] == "" || !strings.Contains(got["/tasks/1/arguments/content"], "it is an object, and content of workspace:write_file takes a string") ||
			!strings.Contains(got["/tasks/2/arguments/content"], "did you mean content?") {
			t.Errorf("%v: %v", err, got)
		}
	}
	tasks = tasks[:2]
	tasks[1].Arguments = json.RawMessage(`{"path":"b.txt","content":"$r.content"}`)
	if plan, err := c.Plan(c.ctx(), api.ExecuteRequest{Tasks: tasks, By: me}); err != nil || len(plan.Warnings) != 0 {
		t.Errorf("%v %+v", err, plan.Warnings)
	}
}
