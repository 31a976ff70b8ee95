package service_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestCheckpoint_View: the id that a layer_complete result has finds the run as
// it stood when that layer was complete, whatever came later, and so does the id
// of the checkpoint.
func TestCheckpoint_View(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Code: `
		await mcp.workspace.stat({path: "a.txt"});
		console.log("between");
		await mcp.workspace.read_file({path: "a.txt"});
		console.log("later");
		await mcp.workspace.stat({path: "a.txt"});
		return 1`, By: me, Wait: -1, RunOptions: core.RunOptions{PerLayer: true}})
	if err != nil || r.Status != api.StatusLayerComplete {
		t.Fatalf("%v %+v", err, r)
	}
	first := r.CheckpointID
	if r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil || r.Status != api.StatusLayerComplete {
		t.Fatalf("%v %+v", err, r)
	}
	second := r.CheckpointID
	if r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil || r.Status != api.StatusComplete {
		t.Fatalf("%v %+v", err, r)
	}
	list, err := c.Checkpoints(c.ctx(), r.WorkflowID)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v %+v", err, list)
	}
	for name, want := range map[string]struct {
		id        core.ID
		layer     int
		tasks     string
		decisions []core.ID
		messages  []string
	}{
		"First":      {first, 0, "stat success", nil, []string{"between"}},
		"FirstByID":  {list[0].ID, 0, "stat success", nil, []string{"between"}},
		"Second":     {second, 1, "stat success, read_file success", []core.ID{first}, []string{"between", "later"}},
		"SecondByID": {list[1].ID, 1, "stat success, read_file success", []core.ID{first}, []string{"between", "later"}},
		"Last":       {list[2].ID, 2, "stat success, read_file success, stat success", []core.ID{first, second}, []string{"between", "later"}},
	} {
		for _, text := range []string{string(want.id), strings.ToUpper(want.id.Short())} {
			v, err := c.Checkpoint(c.ctx(), r.WorkflowID, text)
			if err != nil || v.Layer != want.layer || v.RunID != r.WorkflowID || v.ID != list[want.layer].ID {
				t.Errorf("%s: %v %+v", name, err, v.Checkpoint)
				continue
			}
			var tasks []string
			for i, task := range v.Tasks {
				_, tool, _ := core.SplitTool(task.Tool)
				tasks = append(tasks, tool+" "+string(task.State))
				if task.Layer != i || len(task.Output) == 0 {
					t.Errorf("%s: %+v", name, task)
				}
			}
			var decisions []core.ID
			for _, d := range v.Decisions {
				decisions = append(decisions, d.ID)
			}
			var messages []string
			for _, e := range v.Messages {
				messages = append(messages, e.Message)
			}
			if got := strings.Join(tasks, ", "); got != want.tasks || !slices.Equal(decisions, want.decisions) || !slices.Equal(messages, want.messages) {
				t.Errorf("%s: tasks %s, decisions %v, messages %q; want %+v", name, got, decisions, messages, want)
			}
		}
	}
	_, err = c.Checkpoint(c.ctx(), r.WorkflowID, string(newID()))
	code(t, err, core.CodeNotFound)
}

// TestCheckpoint_Replanned: a checkpoint has the tasks that the DAG had then, and
// those that had not begun as queued. The id of a question that came before all
// checkpoints names none.
func TestCheckpoint_Replanned(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.client()
	path := json.RawMessage(`{"path":"a.txt"}`)
	r, err := c.Execute(c.ctx(), api.ExecuteRequest{Tasks: []core.TaskSpec{
		{ID: "a", Tool: "workspace:stat", Arguments: path}, {ID: "b", Tool: "workspace:stat", Arguments: path, DependsOn: []string{"a"}},
	}, By: me, Wait: -1, RunOptions: core.RunOptions{HIL: core.HILAlways}})
	if err != nil || r.Status != api.StatusApprovalRequired {
		t.Fatalf("%v %+v", err, r)
	}
	_, err = c.Checkpoint(c.ctx(), r.WorkflowID, string(r.CheckpointID))
	if e := code(t, err, core.CodeNotFound); !strings.Contains(e.Message, "older than the approval") {
		t.Error(e)
	}
	if r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil || r.Status != api.StatusLayerComplete {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := c.Replan(c.ctx(), r.WorkflowID, []core.TaskSpec{{ID: "c", Tool: "workspace:stat", Arguments: path, DependsOn: []string{"b"}}}, me, ""); err != nil {
		t.Fatal(err)
	}
	v, err := c.Checkpoint(c.ctx(), r.WorkflowID, string(r.CheckpointID))
	if err != nil || v.DAGVersion != 1 || len(v.Tasks) != 2 || v.Tasks[0].State != core.TaskSuccess || v.Tasks[1].State != core.TaskQueued {
		t.Errorf("%v %+v", err, v)
	}
}
