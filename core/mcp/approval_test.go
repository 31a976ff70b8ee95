package mcp_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// gated is a fake whose run waits for one approval; decider "human" lets no
// agent decide.
func gated(t *testing.T, human bool) (f *fake, asked *[]api.ContinueRequest) {
	t.Helper()
	asked = new([]api.ContinueRequest)
	decided := false
	waits := api.Result{
		Status: api.StatusApprovalRequired, WorkflowID: runID, CheckpointID: approvalID, ApprovalType: core.ApproveTool,
		Options: []string{"continue", "abort"}, Context: json.RawMessage(`{"tool":"s:t"}`),
	}
	f = &fake{t: t}
	f.execute = func(context.Context, api.ExecuteRequest) (api.Result, error) { return waits, nil }
	f.proceed = func(_ context.Context, req api.ContinueRequest) (api.Result, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		*asked = append(*asked, req)
		switch d := req.Decision; {
		case d != nil && human && req.By.Via == core.ViaMCP:
			return api.Result{}, core.Errorf(core.CodeAwaitingHuman, "only a person may decide this").WithRun(runID)
		case d != nil && d.Abort:
			return api.Result{Status: api.StatusAborted, WorkflowID: runID, Reason: d.Reason}, nil
		case d != nil:
			decided = true
			return api.Result{Status: api.StatusRunning, WorkflowID: runID}, nil
		case decided:
			return api.Result{Status: api.StatusComplete, WorkflowID: runID, Result: json.RawMessage(`42`)}, nil
		}
		return waits, nil
	}
	return f, asked
}

// execute, approval_required, approval_response, continue, result.
func TestApproval_Flow(t *testing.T) {
	t.Parallel()
	f, asked := gated(t, false)
	w := dial(t, newEdge(t, f, nil))
	w.send(initialize)
	w.next()
	steps := []struct {
		tool, args string
		want       api.Status
	}{
		{"execute", `{"code":"return await mcp.s.t({})"}`, api.StatusApprovalRequired},
		{"continue", `{"workflow_id":"` + string(runID) + `"}`, api.StatusApprovalRequired},
		{"approval_response", `{"workflow_id":"0b9d2a4e","checkpoint_id":"` + string(approvalID) + `","approved":true,"feedback":"they said yes"}`, api.StatusRunning},
		{"continue", `{"workflow_id":"0b9d2a4e","reason":"go on"}`, api.StatusComplete},
	}
	for _, s := range steps {
		w.send(callLine("1", s.tool, s.args, ""))
		tr, r := w.next().result(t)
		if r.Status != s.want || r.WorkflowID != runID || tr.IsError {
			t.Fatalf("%s: got %+v", s.tool, r)
		}
		if s.want == api.StatusApprovalRequired && r.CheckpointID != approvalID {
			t.Errorf("%s: no checkpoint: %+v", s.tool, r)
		}
		if s.want == api.StatusComplete && string(r.Result) != "42" {
			t.Errorf("the result is %s", r.Result)
		}
	}
	// What an agent decides is its own: the name of its client says whose.
	by := core.Actor{Who: "agent", Via: core.ViaMCP, Client: core.Client{Name: "t", Version: "1"}}
	want := []api.ContinueRequest{
		{ID: runID, By: by, Wait: -1},
		{ID: runID, By: by, Wait: -1, Decision: &api.Decision{Approve: true, Checkpoint: approvalID, Reason: "they said yes"}},
		{ID: runID, By: by, Wait: -1, Reason: "go on"},
	}
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// A no by continue_workflow aborts the run, a no by approval_response does not.
func TestApproval_Denied(t *testing.T) {
	t.Parallel()
	f, asked := gated(t, false)
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("1", "execute", `{"continue_workflow":{"workflow_id":"0b9d","approved":false}}`, ""))
	if _, r := w.next().result(t); r.Status != api.StatusAborted || r.Reason != "User rejected approval" {
		t.Errorf("got %+v", r)
	}
	w.send(callLine("2", "approval_response", `{"workflow_id":"0b9d","checkpoint_id":"5c3f77aa","approved":false}`, ""))
	if _, r := w.next().result(t); r.Status != api.StatusRunning {
		t.Errorf("got %+v", r)
	}
	if d := (*asked)[0].Decision; d.Approve || !d.Abort {
		t.Errorf("continue_workflow: %+v", d)
	}
	if d := (*asked)[1].Decision; d.Approve || d.Abort || d.Checkpoint != approvalID {
		t.Errorf("approval_response: %+v", d)
	}
}

// Where only people decide, every way in is closed, and what is said is no
// failure: the agent has a person to tell.
func TestApproval_Human(t *testing.T) {
	t.Parallel()
	f, _ := gated(t, true)
	w := dial(t, newEdge(t, f, nil))
	for _, s := range []struct{ tool, args string }{
		{"approval_response", `{"workflow_id":"0b9d","checkpoint_id":"5c3f77aa","approved":true}`},
		{"execute", `{"continue_workflow":{"workflow_id":"0b9d","approved":true,"checkpoint_id":"5c3f77aa"}}`},
	} {
		w.send(callLine("1", s.tool, s.args, ""))
		tr, r := w.next().result(t)
		if tr.IsError || r.Status != api.StatusAwaitingHuman || r.WorkflowID != runID {
			t.Errorf("%s: got %+v", s.tool, r)
		}
	}
}

// Ids that do not exist, or are of something else, are not found.
func TestApproval_WrongID(t *testing.T) {
	t.Parallel()
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for _, s := range []struct{ tool, args string }{
		{"approval_response", `{"workflow_id":"0b9d","checkpoint_id":"ffff0000","approved":true}`},
		{"approval_response", `{"workflow_id":"0b9d","checkpoint_id":"0b9d","approved":true}`},
		{"continue", `{"workflow_id":"made-up"}`},
		{"abort", `{"workflow_id":"made-up"}`},
		{"workflow_status", `{"workflow_id":"made-up"}`},
		{"replan", `{"workflow_id":"made-up","new_requirement":"x"}`},
	} {
		w.send(callLine("1", s.tool, s.args, ""))
		if tr, r := w.next().result(t); !tr.IsError || r.Status != api.StatusError || r.ErrorCode != core.CodeNotFound {
			t.Errorf("%s: got %+v", s.tool, r)
		}
	}
}

// A caller that waits for a person is told what waits once its time is over,
// and gets the result when the person is faster.
func TestExecute_WaitForPerson(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		state core.RunState
		again api.Status
		want  api.Status
	}{
		{"StillWaits", core.RunWaiting, api.StatusApprovalRequired, api.StatusApprovalRequired},
		{"DecidedSince", core.RunWaiting, api.StatusComplete, api.StatusSuccess},
		{"Computes", core.RunRunning, "", api.StatusRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{t: t}
			f.execute = func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
				if !req.HoldApprovals || req.Wait != time.Minute {
					t.Errorf("wait %v, hold %v", req.Wait, req.HoldApprovals)
				}
				return api.Result{Status: api.StatusRunning, WorkflowID: runID}, nil
			}
			f.workflow = func(id core.ID) (core.Workflow, error) {
				return core.Workflow{Run: core.Run{ID: id, State: tt.state}}, nil
			}
			if tt.again != "" {
				f.proceed = func(_ context.Context, req api.ContinueRequest) (api.Result, error) {
					if req.Decision != nil || req.HoldApprovals || req.Wait < 0 {
						t.Errorf("the second look is %+v", req)
					}
					return api.Result{Status: tt.again, WorkflowID: runID}, nil
				}
			}
			w := dial(t, newEdge(t, f, nil))
			w.send(callLine("1", "execute", `{"code":"1","options":{"wait":60000}}`, ""))
			if _, r := w.next().result(t); r.Status != tt.want {
				t.Errorf("got %s, want %s", r.Status, tt.want)
			}
		})
	}
}

// What waits is told to an agent in tools that it has, and not as a command of a
// shell; continue names the one that decides.
func TestApproval_SaidToAgents(t *testing.T) {
	t.Parallel()
	high := oneApproval()
	high.Risk = core.RiskHigh
	human := oneApproval()
	human.Human = true
	all := []string{"approval_response", "continue", "abort"}
	answer := `approval_response {"workflow_id":"` + string(runID) + `","checkpoint_id":"` + string(approvalID) + `","approved":`
	for want, tt := range map[string]struct {
		asks    core.Approval
		options []string
	}{
		answer + "true or false}":    {oneApproval(), all},
		answer + "false} denies it":  {high, all},
		"no agent (approvals.decide": {human, all[1:]},
	} {
		f := newAsker(t, tt.asks)
		execute := f.execute
		f.execute = func(ctx context.Context, req api.ExecuteRequest) (api.Result, error) {
			r, err := execute(ctx, req)
			r.Next = []string{"pml", "continue", "0b9d2a4e", "--approve"}
			return r, err
		}
		w, _ := asking(t, f, `{}`)
		w.send(callLine("1", "execute", `{"code":"1"}`, ""))
		_, r := w.next().result(t)
		if !strings.Contains(r.Decide, want) || !strings.Contains(r.Decide, "pml tui") || len(r.Next) > 0 || !slices.Equal(r.Options, tt.options) {
			t.Errorf("an agent is told %q, %q, %q", r.Decide, r.Next, r.Options)
		}
		w.send(callLine("2", "continue", `{"workflow_id":"0b9d2a4e","approved":true}`, ""))
		m := w.next()
		if m.Error == nil || !strings.Contains(m.Error.Message, "approval_response") || !strings.Contains(m.Error.Message, "/approved") || strings.Contains(m.Error.Message, "additional properties") {
			t.Errorf("continue {approved}: %+v", m.Error)
		}
	}
}
