package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/mcp"
)

// Arguments that the schemas do not allow are errors of the protocol that name
// each place; nothing is called.
func TestArguments_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, tool, args string
		want             []string // in the message
	}{
		{"ApprovedText", "approval_response", `{"workflow_id":"0b9d","checkpoint_id":"5c3f","approved":"false"}`, []string{"/approved: got string, want boolean"}},
		{"ContinueApprovedText", "execute", `{"continue_workflow":{"workflow_id":"0b9d","approved":"true"}}`, []string{"/continue_workflow/approved"}},
		{"ContinueWithoutApproved", "execute", `{"continue_workflow":{"workflow_id":"0b9d"}}`, []string{"/continue_workflow: ", "approved"}},
		{"Together", "execute", `{"code":1,"options":{"timeout":0,"hil":"maybe"},"extra":true}`, []string{"(root): ", "'extra'", "/code", "/options/timeout", "/options/hil"}},
		{"Nothing", "execute", `{}`, []string{"(root): give one of intent, code, workflow"}},
		{"NoArguments", "execute", `null`, []string{"(root): give one of"}},
		{"NotAnObject", "execute", `[]`, []string{"want object"}},
		{"CodeAndWorkflow", "execute", `{"code":"return 1","workflow":{"tasks":[{"id":"a"}]}}`, []string{"/workflow: give workflow or code"}},
		{"NoTasks", "execute", `{"workflow":{"tasks":[]}}`, []string{"/workflow/tasks"}},
		{"TaskTypo", "execute", `{"workflow":{"tasks":[{"id":"a","tol":"x:y"}]}}`, []string{"/workflow/tasks/0: ", "'tol'"}},
		{"NegativeWait", "execute", `{"code":"1","options":{"wait":-1}}`, []string{"/options/wait"}},
		{"WaitText", "execute", `{"code":"1","options":{"wait":"5s"}}`, []string{"/options/wait"}},
		{"NoGoal", "agent_delegate", `{}`, []string{"goal"}},
		{"TwoLists", "agent_delegate", `{"goal":"x","allowed_tools":[],"allowedTools":[]}`, []string{"/allowedTools: it is the same"}},
		{"NegativeBudget", "agent_delegate", `{"goal":"x","budget":{"tokens":-1}}`, []string{"/budget/tokens"}},
		{"NoWorkflow", "continue", `{}`, []string{"workflow_id"}},
		{"ReplanNothing", "replan", `{"workflow_id":"0b9d"}`, []string{"(root): give new_tasks or new_requirement"}},
		{"ReplanBoth", "replan", `{"workflow_id":"0b9d","new_tasks":[{"id":"a"}],"new_requirement":"x"}`, []string{"(root): give new_tasks or new_requirement"}},
		{"State", "workflow_status", `{"status":["done"]}`, []string{"/status/0"}},
		{"Limit", "workflow_status", `{"limit":0}`, []string{"/limit"}},
		{"DiscoverNothing", "discover", `{"limit":3}`, []string{"(root): give one of intent, pattern, name, id"}},
	}
	w := dial(t, newEdge(t, &fake{t: t}, nil))
	for _, tt := range tests {
		w.send(callLine(`"`+tt.name+`"`, tt.tool, tt.args, ""))
		m := w.next()
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: got %s %+v, want error -32602", tt.name, m.Result, m.Error)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(m.Error.Message, part) {
				t.Errorf("%s: the message %q does not say %q", tt.name, m.Error.Message, part)
			}
		}
		var data struct{ Faults []core.Fault }
		if err := json.Unmarshal(m.Error.Data, &data); err != nil || len(data.Faults) == 0 {
			t.Errorf("%s: no faults in the data: %s", tt.name, m.Error.Data)
		}
		if string(m.ID) != `"`+tt.name+`"` {
			t.Errorf("%s: answered as %s", tt.name, m.ID)
		}
	}
	w.send(callLine("9", "delete_everything", `{}`, ""))
	if m := w.next(); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("an unknown tool: got %+v", m)
	}
}

// What execute asks of its backend: what decides comes first, and a person is
// waited for only when the caller says so.
func TestExecute_Request(t *testing.T) {
	t.Parallel()
	by := core.Actor{Who: "agent", Via: core.ViaMCP}
	tests := []struct {
		name, args string
		want       api.ExecuteRequest
	}{
		{"Code", `{"code":"return input","intent":"a label","input":{"n":9007199254740993}}`, api.ExecuteRequest{
			Code: "return input", Intent: "a label", By: by, Wait: -1, RunOptions: core.RunOptions{Input: json.RawMessage(`{"n":9007199254740993}`)},
		}},
		{"Options", `{"code":"1","options":{"timeout":5000,"wait":1500,"per_layer_validation":true,"hil":"always","idempotency_key":"k"}}`, api.ExecuteRequest{
			Code: "1", By: by, Wait: 1500 * time.Millisecond, HoldApprovals: true, IdempotencyKey: "k",
			RunOptions: core.RunOptions{TimeoutMS: 5000, PerLayer: true, HIL: core.HILAlways},
		}},
		{"WaitZero", `{"code":"1","options":{"wait":0}}`, api.ExecuteRequest{Code: "1", By: by}},
		{"Workflow", `{"workflow":{"tasks":[{"id":"a","tool":"s:t","arguments":{"x":12345678901234567890}},{"id":"b","dependsOn":["a"],"type":"code","code":"1"}]}}`, api.ExecuteRequest{
			By: by, Wait: -1, Tasks: []core.TaskSpec{
				{ID: "a", Tool: "s:t", Arguments: json.RawMessage(`{"x":12345678901234567890}`)},
				{ID: "b", DependsOn: []string{"a"}, Type: core.TypeCode, Code: "1"},
			},
		}},
		{"Intent", `{"intent":"read a file"}`, api.ExecuteRequest{Intent: "read a file", By: by, Wait: -1}},
		{"Accept", `{"accept_suggestion":{"callName":"s:t","args":{"a":1}},"code":"ignored"}`, api.ExecuteRequest{
			By: by, Wait: -1, Accept: &api.Acceptance{CallName: "s:t", Args: json.RawMessage(`{"a":1}`)},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got api.ExecuteRequest
			f := &fake{t: t, execute: func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
				got = req
				return api.Result{Status: api.StatusSuccess, WorkflowID: runID}, nil
			}}
			w := dial(t, newEdge(t, f, nil))
			w.send(callLine("1", "execute", tt.args, ""))
			tr, r := w.next().result(t)
			if tr.IsError || r.Status != api.StatusSuccess {
				t.Errorf("got %+v", r)
			}
			if got.Started == nil {
				t.Error("Started is not set")
			}
			got.Started = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// A failed call is marked as failed and says so; what a person must do is not a
// failure of the call.
func TestResult_Failed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		result api.Result
		err    error
		want   api.Status
		code   core.Code
		failed bool
	}{
		{"Error", api.Result{}, core.Errorf(core.CodeSyntax, "line 3: what?").WithRun(runID), api.StatusError, core.CodeSyntax, true},
		{"Foreign", api.Result{}, context.DeadlineExceeded, api.StatusError, core.CodeInternal, true},
		{"Stopped", api.Result{}, context.Canceled, api.StatusError, core.CodeCancelled, true},
		{"FailedRun", api.Result{Status: api.StatusError, WorkflowID: runID, ErrorCode: core.CodeToolFailed, Error: "x"}, nil, api.StatusError, core.CodeToolFailed, true},
		{"Human", api.Result{}, core.Errorf(core.CodeAwaitingHuman, "only a person may decide this").WithRun(runID), api.StatusAwaitingHuman, core.CodeAwaitingHuman, false},
		{"Waits", api.Result{Status: api.StatusApprovalRequired, WorkflowID: runID}, nil, api.StatusApprovalRequired, "", false},
		{"Aborted", api.Result{Status: api.StatusAborted, WorkflowID: runID, ErrorCode: core.CodeAborted}, nil, api.StatusAborted, core.CodeAborted, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) { return tt.result, tt.err }}
			w := dial(t, newEdge(t, f, nil))
			w.send(callLine("1", "execute", `{"code":"return '<&>'"}`, ""))
			tr, r := w.next().result(t)
			if tr.IsError != tt.failed || r.Status != tt.want || r.ErrorCode != tt.code {
				t.Errorf("isError %v, status %s, code %s", tr.IsError, r.Status, r.ErrorCode)
			}
			if tt.err != nil && !strings.HasSuffix(r.Error, tt.err.Error()) {
				t.Errorf("the message is %q", r.Error)
			}
		})
	}
	f := &fake{t: t}
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("1", "execute", `{"code":"  "}`, ""))
	if tr, r := w.next().result(t); !tr.IsError || r.ErrorCode != core.CodeEmptyCode {
		t.Errorf("empty code: got %+v", r)
	}
}

func TestCall_Nobody(t *testing.T) {
	t.Parallel()
	e := newEdge(t, &fake{t: t}, func(o *mcp.Options) {
		o.Scope = func(context.Context) (api.Scope, bool) { return api.Scope{}, false }
	})
	if err := e.ServeStdio(t.Context(), strings.NewReader(""), nil); core.CodeOf(err) != core.CodePermissionDenied {
		t.Errorf("got %v", err)
	}
}

// A panic of a backend ends the call, not the server, and shows nothing of it.
func TestCall_Panic(t *testing.T) {
	t.Parallel()
	f := &fake{t: t, execute: func(context.Context, api.ExecuteRequest) (api.Result, error) { panic("secret") }}
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("1", "execute", `{"code":"1"}`, ""))
	if m := w.next(); m.Error == nil || m.Error.Code != -32603 || strings.Contains(m.Error.Message, "secret") {
		t.Errorf("got %+v", m.Error)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if m := w.next(); string(m.ID) != "2" || m.Error != nil {
		t.Errorf("got %+v", m)
	}
}

// The scope of an MCP caller: it came by MCP, and on the socket it sees its own
// workspace only.
func TestCall_Scope(t *testing.T) {
	t.Parallel()
	got := make(chan api.Scope, 1)
	f := &fake{t: t}
	e := newEdge(t, f, func(o *mcp.Options) {
		o.Scope = mcp.Fixed(api.Scope{Workspace: "/w", By: core.Actor{Who: "ann", Via: core.ViaCLI}})
		o.Backend = func(s api.Scope) (mcp.Backend, error) {
			got <- s
			return f, nil
		}
	})
	w := dial(t, e)
	w.send(callLine("1", "abort", `{"workflow_id":"0b9d2a4e","reason":"enough"}`, ""))
	w.next().result(t)
	want := api.Scope{Workspace: "/w", Confined: true, By: core.Actor{Who: "ann", Via: core.ViaMCP}}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("scope (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{[]any{"abort", runID, want.By, "enough"}}, f.seen); diff != "" {
		t.Errorf("abort (-want +got):\n%s", diff)
	}
}

func TestReplan_Forms(t *testing.T) {
	t.Parallel()
	by := core.Actor{Who: "agent", Via: core.ViaMCP}
	f := &fake{t: t}
	w := dial(t, newEdge(t, f, nil))
	w.send(callLine("1", "replan", `{"workflow_id":"0b9d","new_tasks":[{"id":"n","tool":"s:t","depends_on":["a"],"dependsOn":["b"]}],"reason":"r"}`, ""))
	w.next().result(t)
	w.send(callLine("2", "replan", `{"workflow_id":"0b9d","new_requirement":"and mail it","available_context":{"to":"x"}}`, ""))
	w.next().result(t)
	w.send(callLine("3", "workflow_status", `{"status":["waiting"],"limit":7,"cursor":"c"}`, ""))
	if m := w.next(); !strings.Contains(string(m.Result), `"structuredContent":{"items":[]}`) {
		t.Errorf("an empty list: got %s", m.Result)
	}
	want := []any{
		[]any{"replan", runID, []core.TaskSpec{{ID: "n", Tool: "s:t", DependsOn: []string{"a", "b"}}}, by, "r"},
		[]any{"replan for", runID, "and mail it", `{"to":"x"}`, by, ""},
		[]any{"list", []core.RunState{core.RunWaiting}, 7, "c"},
	}
	if diff := cmp.Diff(want, f.seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
