package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

func (c *client) intend(req api.ExecuteRequest) (api.Result, error) {
	req.By, req.Wait = me, -1
	return c.Execute(c.ctx(), req)
}

func perLayer() core.RunOptions { return core.RunOptions{PerLayer: true} }

func (c *client) runs() []core.Run {
	c.t.Helper()
	page, err := c.Workflows(c.ctx(), nil, 0, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return page.Items
}

func TestIntent_SuggestsAndRunsNothing(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	for _, intent := range []string{"read the file a.txt", "write the file b.txt", "zzyzx"} {
		r, err := c.intend(api.ExecuteRequest{Intent: intent})
		if err != nil || r.Status != api.StatusSuggestions || r.Suggestions == nil || r.WorkflowID != "" {
			t.Fatalf("%v %+v", err, r)
		}
		known := intent != "zzyzx"
		if (r.Suggestions.Confidence > 0) != known || (r.Suggestions.Error == "") != known || r.Suggestions.Tools == nil {
			t.Errorf("%s: %+v", intent, r.Suggestions)
		}
	}
	if runs := c.runs(); len(runs) != 0 {
		t.Errorf("it ran: %+v", runs)
	}
}

func TestIntent_DAG(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r, err := c.intend(api.ExecuteRequest{Intent: "read the file a.txt then write its content to b.txt"})
	if err != nil || r.Suggestions == nil || r.Suggestions.SuggestedDAG == nil {
		t.Fatalf("%v %+v", err, r)
	}
	want := []core.TaskSpec{
		{ID: "t1", Tool: "workspace:read_file", Arguments: json.RawMessage(`{"path":"a.txt"}`)},
		{ID: "t2", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"content":"$t1.content","path":"b.txt"}`), DependsOn: []string{"t1"}},
	}
	if diff := cmp.Diff(want, r.Suggestions.SuggestedDAG.Tasks); diff != "" {
		t.Error(diff)
	}
	// It is accepted as it is: an ordinary DAG, through all gates.
	r, err = c.intend(api.ExecuteRequest{Accept: &api.Acceptance{Workflow: &api.WorkflowBody{Tasks: r.Suggestions.SuggestedDAG.Tasks}}})
	if err != nil || r.Status != api.StatusApprovalRequired || r.ApprovalType != core.ApproveTool {
		t.Fatalf("%v %+v", err, r)
	}
	if got := c.runs()[0].Intent; got != "accept suggestion: workspace:read_file, workspace:write_file" {
		t.Error(got)
	}
	r, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || r.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, r)
	}
}

// With a validation of layers a complete suggestion starts and waits before its
// first layer, with the DAG shown.
func TestIntent_StartsPaused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	const intent = "read the file a.txt then write its content to b.txt"
	r, err := c.intend(api.ExecuteRequest{Intent: intent, RunOptions: perLayer()})
	if err != nil || r.Status != api.StatusApprovalRequired || r.ApprovalType != core.ApproveLayer || r.Suggestions == nil {
		t.Fatalf("%v %+v", err, r)
	}
	var shown struct {
		Layer *int            `json:"layer_index"`
		DAG   []core.TaskSpec `json:"dag"`
	}
	if err := json.Unmarshal(r.Context, &shown); err != nil || shown.Layer == nil || *shown.Layer != 0 {
		t.Fatalf("%v %s", err, r.Context)
	}
	if diff := cmp.Diff(r.Suggestions.SuggestedDAG.Tasks, shown.DAG); diff != "" || len(shown.DAG) != 2 {
		t.Error(diff)
	}
	w, err := c.Workflow(c.ctx(), r.WorkflowID)
	if err != nil || w.Intent != intent || w.Kind != core.KindDAG || w.State != core.RunWaiting {
		t.Fatalf("%v %+v", err, w.Run)
	}
	for _, l := range w.Layers {
		for _, task := range l.Tasks {
			if task.State != core.TaskQueued {
				t.Errorf("%s is %s before anybody agreed", task.ID, task.State)
			}
		}
	}
	r, err = c.decide(r.WorkflowID, api.Decision{Approve: true})
	if err != nil || r.Status != api.StatusLayerComplete || *r.LayerIndex != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}) // layer 1
	if err != nil || r.ApprovalType != core.ApproveTool {
		t.Fatalf("%v %+v", err, r)
	}
	r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}) // the write
	if err != nil || r.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, r)
	}
	if got, err := os.ReadFile(filepath.Join(m.ws, "b.txt")); err != nil || string(got) != "hello" {
		t.Errorf("%v %q", err, got)
	}
}

func TestIntent_DoesNotStart(t *testing.T) {
	t.Parallel()
	for name, intent := range map[string]string{
		"Missing":   "write the file b.txt",
		"Destroys":  "delete the file a.txt",
		"Invalid":   "read the file a.txt limit=0",
		"Unmatched": "read the file a.txt then zzyzx",
		"Nothing":   "zzyzx",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newMachine(t).client()
			r, err := c.intend(api.ExecuteRequest{Intent: intent, RunOptions: perLayer()})
			if err != nil || r.Status != api.StatusSuggestions || len(c.runs()) != 0 {
				t.Errorf("%v %+v", err, r)
			}
			if name == "Invalid" && !strings.Contains(r.Suggestions.Error, "limit") {
				t.Errorf("it does not say why: %+v", r.Suggestions)
			}
			if name == "Destroys" && r.Suggestions.Tools[0].Risk != core.RiskHigh {
				t.Errorf("%+v", r.Suggestions.Tools[0])
			}
		})
	}
}

func TestIntent_DeniedToolsAreNotSuggested(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	before, err := c.intend(api.ExecuteRequest{Intent: "read the file a.txt"})
	if err != nil || before.Suggestions.Tools[0].CallName != "workspace:read_file" {
		t.Fatalf("%v %+v", err, before)
	}
	m.configure(c, map[string]any{"permissions": map[string]any{"deny": []string{"workspace:read_*"}}}, map[string]any{})
	r, err := c.intend(api.ExecuteRequest{Intent: "read the file a.txt"})
	if err != nil || r.Suggestions == nil {
		t.Fatalf("%v %+v", err, r)
	}
	for _, tool := range r.Suggestions.Tools {
		if tool.CallName == "workspace:read_file" {
			t.Errorf("%+v", r.Suggestions.Tools)
		}
	}
}

// Servers whose tools are not known are named.
func TestIntent_Problems(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	m.configure(c, nil, map[string]any{"gone": map[string]any{"command": filepath.Join(m.ws, "no-such-program")}})
	r, err := c.intend(api.ExecuteRequest{Intent: "read the file a.txt"})
	if err != nil || len(r.Faults) == 0 || r.Faults[0].Path != "gone" || r.Suggestions.Tools[0].CallName != "workspace:read_file" {
		t.Errorf("%v %+v", err, r)
	}
}

// Runs that went well speak for their tools.
func TestIntent_Past(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	const intent = "refresh the weekly zzyzx digest"
	before, err := c.intend(api.ExecuteRequest{Intent: intent})
	if err != nil || before.Suggestions.Confidence != 0 {
		t.Fatalf("%v %+v", err, before.Suggestions)
	}
	for _, path := range []string{"a.txt", "missing.txt"} {
		if _, err := c.intend(api.ExecuteRequest{Intent: intent, Code: `return await mcp.workspace.stat({path: "` + path + `"})`}); err != nil {
			t.Fatal(err)
		}
	}
	after, err := c.intend(api.ExecuteRequest{Intent: intent})
	if err != nil || len(after.Suggestions.Tools) == 0 || after.Suggestions.Tools[0].CallName != "workspace:stat" {
		t.Errorf("%v %+v", err, after.Suggestions)
	}
}

func TestAccept_Tool(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	r, err := c.intend(api.ExecuteRequest{Intent: "look", Accept: &api.Acceptance{CallName: "workspace:read_file", Args: json.RawMessage(`{"path":"a.txt"}`)}})
	if err != nil || r.Status != api.StatusSuccess || !strings.Contains(string(r.Result), "hello") {
		t.Fatalf("%v %+v", err, r)
	}
	if got := c.runs()[0].Intent; got != "look" {
		t.Error(got)
	}
}

func TestAccept_Errors(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	dag := &api.WorkflowBody{Tasks: []core.TaskSpec{{ID: "a", Tool: "workspace:stat"}}}
	for name, a := range map[string]api.Acceptance{
		"Nothing": {}, "NoServer": {CallName: "read_file"}, "Both": {CallName: "workspace:stat", Workflow: dag},
		"NoTasks": {Workflow: &api.WorkflowBody{}}, "NoObject": {CallName: "workspace:stat", Args: json.RawMessage(`[1]`)},
		"NoJSON": {CallName: "workspace:stat", Args: json.RawMessage(`{`)},
	} {
		_, err := c.intend(api.ExecuteRequest{Accept: &a})
		if core.CodeOf(err) != core.CodeInvalidArguments {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runs := c.runs(); len(runs) != 0 {
		t.Errorf("it ran: %+v", runs)
	}
}

// waiting is a DAG that waits for the permission to write.
func (c *client) waiting() core.ID {
	c.t.Helper()
	r, err := c.intend(api.ExecuteRequest{Tasks: []core.TaskSpec{
		{ID: "replan_3", Tool: "workspace:write_file", Arguments: json.RawMessage(`{"path":"w.txt","content":"w"}`)},
	}})
	if err != nil || r.Status != api.StatusApprovalRequired {
		c.t.Fatalf("%v %+v", err, r)
	}
	return r.WorkflowID
}

func TestReplanFor(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	id := c.waiting()
	r, err := c.ReplanFor(c.ctx(), id, "then read the file", json.RawMessage(`{"path":"a.txt"}`), me, "")
	if err != nil || r.Status != api.StatusReplanned || !cmp.Equal(r.NewTaskIDs, []string{"replan_4"}) || r.TotalTasks != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	p, err := c.Program(c.ctx(), id)
	if err != nil || !cmp.Equal(p.Tasks[1].DependsOn, []string{"replan_3"}) || string(p.Tasks[1].Arguments) != `{"path":"a.txt"}` {
		t.Fatalf("%v %+v", err, p.Tasks)
	}
	r, err = c.decide(id, api.Decision{Approve: true})
	if err != nil || r.Status != api.StatusComplete || r.SuccessfulTasks != 2 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestReplanFor_ChangesNothing(t *testing.T) {
	t.Parallel()
	c := newMachine(t).client()
	id := c.waiting()
	for requirement, want := range map[string]string{
		"zzyzx": "none of the known tools", "write the file b.txt": "/tasks/0/arguments/content", "": "says nothing",
	} {
		_, err := c.ReplanFor(c.ctx(), id, requirement, nil, me, "")
		if e := code(t, err, core.CodeInvalidArguments); !strings.Contains(e.Error(), want) {
			t.Errorf("%q: %v", requirement, e)
		}
	}
	if p, err := c.Program(c.ctx(), id); err != nil || p.Version != 1 || len(p.Tasks) != 1 {
		t.Errorf("%v %+v", err, p)
	}
	_, err := c.ReplanFor(c.ctx(), newID(), "read the file a.txt", nil, me, "")
	code(t, err, core.CodeNotFound)
	script := c.execute(writes, api.StatusApprovalRequired)
	_, err = c.ReplanFor(c.ctx(), script.WorkflowID, "read the file a.txt", nil, me, "")
	code(t, err, core.CodeInvalidArguments)
}
