package server_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
)

const one = "/api/v1/workflows/11110001"

func TestExecute_Requests(t *testing.T) {
	t.Parallel()
	me := core.Actor{Who: "me", Via: core.ViaHTTP}
	tests := []struct {
		name, body, key string
		want            api.ExecuteRequest
	}{
		{"code", `{"code":"return 1","intent":"a label","input":{"a":1}}`, "", api.ExecuteRequest{Code: "return 1", Intent: "a label", RunOptions: core.RunOptions{Input: []byte(`{"a":1}`)}, By: me}},
		{"intent", `{"intent":"read a file"}`, "", api.ExecuteRequest{Intent: "read a file", By: me}},
		{
			"options", `{"code":"1","options":{"timeout":5000,"wait":-1,"per_layer_validation":true,"hil":"always","hold_approvals":true,"detach":true}}`, "k1",
			api.ExecuteRequest{Code: "1", IdempotencyKey: "k1", Wait: -1, HoldApprovals: true, Detach: true, RunOptions: core.RunOptions{TimeoutMS: 5000, PerLayer: true, HIL: core.HILAlways}, By: me},
		},
		{"wait", `{"code":"1","options":{"wait":250,"idempotency_key":"k2"}}`, "k2", api.ExecuteRequest{Code: "1", IdempotencyKey: "k2", Wait: 250 * time.Millisecond, By: me}},
		{
			"workflow", `{"workflow":{"tasks":[{"id":"a","tool":"x:y"},{"id":"b","tool":"x:z","dependsOn":["a"],"arguments":{"n":12345678901234567890}}]}}`, "",
			api.ExecuteRequest{Tasks: []core.TaskSpec{{ID: "a", Tool: "x:y"}, {ID: "b", Tool: "x:z", DependsOn: []string{"a"}, Arguments: []byte(`{"n":12345678901234567890}`)}}, By: me},
		},
		{
			"suggestion first", `{"code":"1","accept_suggestion":{"callName":"x:y","args":{"a":1}}}`, "",
			api.ExecuteRequest{Accept: &api.Acceptance{CallName: "x:y", Args: []byte(`{"a":1}`)}, By: me},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, nil)
			var headers []string
			if tt.key != "" {
				headers = []string{"Idempotency-Key", tt.key}
			}
			if r := e.do(t, "POST", "/api/v1/workflows", tt.body, headers...); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if diff := cmp.Diff(tt.want, last[api.ExecuteRequest](e.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExecute_Statuses(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for status, want := range map[api.Status]int{
		api.StatusSuccess: 200, api.StatusRunning: 202, api.StatusApprovalRequired: 200, api.StatusError: 200, api.StatusSuggestions: 200, api.StatusExecuteLocally: 200,
	} {
		e.b.mu.Lock()
		e.b.answer = api.Result{Status: status, WorkflowID: id(1)}
		e.b.mu.Unlock()
		r := e.do(t, "POST", "/api/v1/workflows", `{"code":"1"}`)
		if r.status != want || !strings.Contains(r.body, string(status)) {
			t.Errorf("%s: %d %s, want %d", status, r.status, r.body, want)
		}
	}
}

// Everything that is wrong comes in one answer, each with its place.
func TestRequests_Refused(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	tests := []struct {
		name, method, path, body string
		status                   int
		code                     core.Code
		faults                   []string // pointer and a word of the message
	}{
		{"not JSON", "POST", "/api/v1/workflows", `{"code":`, 400, core.CodeInvalidArguments, []string{"|JSON"}},
		{"no body", "POST", "/api/v1/workflows", ``, 400, core.CodeInvalidArguments, []string{"|required"}},
		{"nothing", "POST", "/api/v1/workflows", `{}`, 400, core.CodeInvalidArguments, []string{"|give one of"}},
		{"two", "POST", "/api/v1/workflows", `{"code":"1","workflow":{"tasks":[]}}`, 400, core.CodeInvalidArguments, []string{"/code|give one"}},
		{"agent and code", "POST", "/api/v1/workflows", `{"code":"1","agent":{"goal":"x"}}`, 400, core.CodeInvalidArguments, []string{"/agent|give one"}},
		{"no goal", "POST", "/api/v1/workflows", `{"agent":{"goal":"","max_iterations":51}}`, 400, core.CodeInvalidArguments, []string{"/agent/goal|1", "/agent/max_iterations|50"}},
		{"empty DAG", "POST", "/api/v1/workflows", `{"workflow":{"tasks":[]}}`, 422, core.CodeDAGInvalid, nil},
		{"long code", "POST", "/api/v1/workflows", `{"code":"` + strings.Repeat("x", 100<<10+1) + `"}`, 413, core.CodeTooLarge, nil},
		{
			"all together", "POST", "/api/v1/workflows", `{"code":1,"optoins":{},"options":{"timeout":-1,"hil":"never ever","waits":3},"workflow":{"tasks":[{"tool":"a:b","dependson":[]}]}}`, 400, core.CodeInvalidArguments,
			[]string{"/code|string", "/optoins|options", "/options/timeout|0", "/options/hil|always", "/options/waits|wait", "/workflow/tasks/0/id|required", "/workflow/tasks/0/dependson|depends_on"},
		},
		{"a name with a dot", "POST", "/api/v1/workflows", `{"code":"1","a.b[0]/c":1}`, 400, core.CodeInvalidArguments, []string{"/a.b[0]~1c|no such field"}},
		{"upper case", "POST", "/api/v1/workflows", `{"Code":"1"}`, 400, core.CodeInvalidArguments, []string{"/Code|code"}},
		{"approved is text", "POST", one + "/approvals/ffff0001", `{"approved":"false"}`, 400, core.CodeInvalidArguments, []string{"/approved|boolean"}},
		{"approved is null", "POST", one + "/approvals/ffff0001", `{"approved":null}`, 400, core.CodeInvalidArguments, []string{"/approved|boolean"}},
		{"approved is missing", "POST", one + "/approvals/ffff0001", `{}`, 400, core.CodeInvalidArguments, []string{"/approved|required"}},
		{"approved within continue", "POST", one + "/continue", `{"decision":{"approved":1}}`, 400, core.CodeInvalidArguments, []string{"/decision/approved|boolean"}},
		{"approved within execute", "POST", "/api/v1/workflows", `{"continue_workflow":{"workflow_id":"11110001","approved":"true"}}`, 400, core.CodeInvalidArguments, []string{"/continue_workflow/approved|boolean"}},
		{"no id", "POST", "/api/v1/workflows", `{"continue_workflow":{"workflow_id":"","approved":true}}`, 400, core.CodeInvalidArguments, []string{"/continue_workflow/workflow_id|empty"}},
		{"made-up id", "POST", "/api/v1/workflows", `{"continue_workflow":{"workflow_id":"99990001","approved":true}}`, 404, core.CodeNotFound, nil},
		{"limit", "GET", "/api/v1/workflows?limit=501&status=waitin,complete&curser=x", "", 400, core.CodeInvalidArguments, nil},
		{"state", "GET", "/api/v1/workflows?status=waitin", "", 400, core.CodeInvalidArguments, []string{"|waiting"}},
		{"replan both", "POST", one + "/replan", `{"new_tasks":[{"id":"a"}],"new_requirement":"x"}`, 400, core.CodeInvalidArguments, []string{"|either"}},
		{"extend by nothing", "POST", one + "/approvals/ffff0001/extend", `{"by_ms":0}`, 400, core.CodeInvalidArguments, []string{"/by_ms|1"}},
		{"a number too large", "POST", one + "/approvals/ffff0001/extend", `{"by_ms":1e30}`, 400, core.CodeInvalidArguments, nil},
		{"no such path", "GET", "/api/v1/workflow", "", 404, core.CodeUsage, nil},
		{"no such method", "PUT", "/api/v1/workflows", "", 405, core.CodeUsage, nil},
		{"unknown run", "GET", "/api/v1/workflows/99990000", "", 404, core.CodeNotFound, nil},
		{"approval of another run", "POST", one + "/approvals/ffff0002", `{"approved":true}`, 404, core.CodeNotFound, nil},
		{"events types", "GET", "/api/v1/events?types=task_strat&since=-1&limit=0&x=1", "", 400, core.CodeInvalidArguments, []string{"|task_start", "|sequence", "|1 to 1000", "|no such parameter"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := e.do(t, tt.method, tt.path, tt.body)
			p := r.problem(t)
			if r.status != tt.status || p.Status != tt.status || p.Code != tt.code || p.Title != http.StatusText(tt.status) || p.Detail == "" {
				t.Errorf("%d %s, want %d %s", r.status, r.body, tt.status, tt.code)
			}
			if tt.faults != nil && len(p.Error.Faults) != len(tt.faults) {
				t.Errorf("%d faults, want %d: %s", len(p.Error.Faults), len(tt.faults), r.body)
			}
			for _, want := range tt.faults {
				path, word, _ := strings.Cut(want, "|")
				if !slices.ContainsFunc(p.Error.Faults, func(f core.Fault) bool { return f.Path == path && strings.Contains(f.Message, word) }) {
					t.Errorf("no fault at %q with %q: %s", path, word, r.body)
				}
			}
		})
	}
}

func TestRequests_ValuesAreNotRepeated(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	r := e.do(t, "POST", "/api/v1/workflows", `{"code":{"secret":"hunter2"},"options":{"hil":"hunter2"}}`)
	if r.status != 400 || strings.Contains(r.body, "hunter2") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestDecisions_Requests(t *testing.T) {
	t.Parallel()
	run, ap := id(0x11110001), sampleApproval(id(0x11110001)).ID
	me := core.Actor{Who: "me", Via: core.ViaHTTP}
	tests := []struct {
		name, path, body string
		want             api.ContinueRequest
	}{
		{"continue", one + "/continue", ``, api.ContinueRequest{ID: run, By: me}},
		{"continue with a wait", one + "/continue", `{"wait":100,"reason":"r","hold_approvals":true}`, api.ContinueRequest{ID: run, By: me, Reason: "r", Wait: 100 * time.Millisecond, HoldApprovals: true}},
		{"first", one + "/continue", `{"decision":{"approved":true,"wait":5}}`, api.ContinueRequest{ID: run, By: me, Wait: 5 * time.Millisecond, Decision: &api.Decision{Approve: true}}},
		{"by the id of the approval", "/api/v1/workflows/" + string(ap) + "/continue", `{"decision":{"approved":true}}`, api.ContinueRequest{ID: run, By: me, Decision: &api.Decision{Approve: true, Checkpoint: ap}}},
		{
			"one", one + "/approvals/" + string(ap), `{"approved":false,"feedback":"no","expect_digest":"d","pin":"1","abort":true,"answer":{"in_doubt":"skip","result":1}}`,
			api.ContinueRequest{ID: run, By: me, Decision: &api.Decision{Checkpoint: ap, Reason: "no", ExpectDigest: "d", Pin: "1", Abort: true, Answer: &core.Answer{InDoubt: core.SkipResult, Result: []byte("1")}}},
		},
		{"all of a type", one + "/continue", `{"decision":{"approved":true,"all_of_type":"layer"}}`, api.ContinueRequest{ID: run, By: me, Decision: &api.Decision{Approve: true, AllOfType: core.ApproveLayer}}},
		{
			"older spelling", "/api/v1/workflows", `{"code":"ignored","continue_workflow":{"workflow_id":"11110001","approved":false,"reason":"no"},"options":{"wait":7}}`,
			api.ContinueRequest{ID: run, By: me, Reason: "no", Wait: 7 * time.Millisecond, Decision: &api.Decision{Abort: true, Reason: "no"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, nil)
			if r := e.do(t, "POST", tt.path, tt.body); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if diff := cmp.Diff(tt.want, last[api.ContinueRequest](e.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMoves_Requests(t *testing.T) {
	t.Parallel()
	run, ap := id(0x11110001), sampleApproval(id(0x11110001)).ID
	me := core.Actor{Who: "me", Via: core.ViaTUI}
	tests := []struct {
		path, body string
		want       []any
	}{
		{"/abort", `{"reason":"r"}`, []any{"abort", run, me, "r"}},
		{"/abort", ``, []any{"abort", run, me, ""}},
		{"/retry", `{"wait":-5}`, []any{"retry", run, me, time.Duration(-1)}},
		{"/replan", `{"new_tasks":[{"id":"a","tool":"x:y","dependsOn":["b"]}],"reason":"r"}`, []any{"replan", run, []core.TaskSpec{{ID: "a", Tool: "x:y", DependsOn: []string{"b"}}}, me, "r"}},
		{"/replan", `{"new_requirement":"more","available_context":{"a":1}}`, []any{"replanFor", run, "more", `{"a":1}`, me, ""}},
		{"/approvals/ffff0001/extend", `{"by_ms":1500}`, []any{"extend", ap, 1500 * time.Millisecond}},
		{"/approvals/ffff0001/renew", ``, []any{"renew", ap, me}},
	}
	for _, tt := range tests {
		e := newEdge(t, nil)
		if r := e.do(t, "POST", one+tt.path, tt.body, "Pml-Via", "tui"); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.path, r.status, r.body)
		}
		if diff := cmp.Diff(tt.want, last[[]any](e.b)); diff != "" {
			t.Errorf("%s: %s", tt.path, diff)
		}
	}
}

func TestTraceAndRemove(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	if r := e.do(t, "POST", one+"/trace", `{"state":"complete","result":{"a":1},"records":[{"seq":1,"kind":"settled","layer_index":0,"at":"2026-01-01T00:00:00Z"}]}`); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if tr := last[api.Trace](e.b); tr.State != core.RunComplete || string(tr.Result) != `{"a":1}` || len(tr.Records) != 1 {
		t.Errorf("%+v", tr)
	}
	if r := e.do(t, "DELETE", one, ""); r.status != http.StatusNoContent || r.body != "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if ids := last[[]core.ID](e.b); len(ids) != 1 || ids[0] != id(0x11110001) {
		t.Errorf("%v", ids)
	}
}

// Each code of the vocabulary has its status, and comes through whole.
func TestErrors_EveryCode(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	for _, code := range codesOf(t) {
		status := server.Statuses[code]
		if status == 0 {
			t.Errorf("the code %s has no HTTP status", code)
			continue
		}
		cause := core.Errorf(code, "what happened").WithNext("pml", "help").WithRun(id(3))
		cause.Decided = &core.DecidedBy{Actor: core.Actor{Who: "x", Via: core.ViaCLI}, At: start}
		e.b.mu.Lock()
		e.b.fail = cause
		e.b.mu.Unlock()
		r := e.do(t, "GET", "/api/v1/approvals", "")
		p := r.problem(t)
		if r.status != status || p.Code != code || p.Detail != "what happened" || p.Type != "about:blank" {
			t.Errorf("%s: %d %s", code, r.status, r.body)
		}
		if p.Error == nil || p.Error.RunID != id(3) || len(p.Error.Next) != 2 || p.Error.Decided == nil {
			t.Errorf("%s: the error is not whole: %s", code, r.body)
		}
	}
	if len(server.Statuses) != len(codesOf(t)) {
		t.Errorf("%d statuses for %d codes", len(server.Statuses), len(codesOf(t)))
	}
}

func TestErrors_ForeignOnesAreNotShown(t *testing.T) {
	t.Parallel()
	e := newEdge(t, nil)
	e.b.fail = errors.New("dial tcp 10.0.0.1: password=hunter2")
	r := e.do(t, "GET", "/api/v1/approvals", "")
	if p := r.problem(t); r.status != 500 || p.Code != core.CodeInternal || strings.Contains(r.body, "hunter2") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
