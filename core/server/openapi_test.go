package server_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/server"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is the OpenAPI document as a client gets it.
func document(t *testing.T, e *edge) map[string]any {
	t.Helper()
	r := e.do(t, "GET", "/api/v1/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil || r.status != 200 {
		t.Fatalf("%d %v", r.status, err)
	}
	return doc
}

func withAll(o *server.Options) {
	none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	o.MCP, o.Metrics, o.Backup = none, none, func(context.Context, io.Writer) error { return nil }
}

// Every path that is answered is in the document, and the other way round.
func TestOpenAPI_HasEveryRoute(t *testing.T) {
	t.Parallel()
	e := newEdge(t, withAll)
	doc := document(t, e)
	if v := doc["openapi"]; v != "3.1.0" {
		t.Errorf("OpenAPI %v", v)
	}
	var described []string
	ids := map[string]bool{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
			id, _ := op.(map[string]any)["operationId"].(string)
			if id == "" || ids[id] || op.(map[string]any)["summary"] == "" {
				t.Errorf("%s %s: operation id %q", method, path, id)
			}
			ids[id] = true
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(slices.Sorted(slices.Values(e.Patterns())), described); diff != "" {
		t.Error(diff)
	}
	for _, route := range []string{ // of the contract
		"POST /api/v1/workflows", "GET /api/v1/workflows", "GET /api/v1/workflows/{id}", "DELETE /api/v1/workflows/{id}", "GET /api/v1/workflows/{id}/dag",
		"GET /api/v1/workflows/{id}/checkpoints", "GET /api/v1/workflows/{id}/checkpoints/{cid}", "GET /api/v1/workflows/{id}/journal", "GET /api/v1/workflows/{id}/export", "GET /api/v1/workflows/{id}/result",
		"GET /api/v1/workflows/{id}/events", "POST /api/v1/workflows/{id}/continue", "POST /api/v1/workflows/{id}/abort", "POST /api/v1/workflows/{id}/replan",
		"POST /api/v1/workflows/{id}/retry", "POST /api/v1/workflows/{id}/trace", "POST /api/v1/workflows/{id}/approvals/{cid}",
		"POST /api/v1/workflows/{id}/approvals/{cid}/extend", "POST /api/v1/workflows/{id}/approvals/{cid}/renew", "GET /api/v1/approvals", "GET /api/v1/approvals/{cid}",
		"GET /api/v1/events", "GET /api/v1/audit", "GET /api/v1/audit/verify", "GET /api/v1/tools", "GET /api/v1/flows", "GET /api/v1/flows/{name}", "GET /api/v1/flows/{name}/runs", "GET /api/v1/flows/{name}/stats", "POST /api/v1/plan", "GET /api/v1/server", "POST /mcp", "GET /mcp", "DELETE /mcp", "GET /healthz", "GET /readyz", "GET /metrics",
	} {
		if !slices.Contains(described, route) {
			t.Errorf("%s is missing", route)
		}
	}
}

// What the handlers answer is what the document says, with every field in it.
func TestOpenAPI_AnswersFit(t *testing.T) {
	t.Parallel()
	e := newEdge(t, withAll)
	full := fullResult()
	e.b.mu.Lock()
	e.b.answer = full
	e.b.mu.Unlock()
	doc := document(t, e)
	compiler := jsonschema.NewCompiler()
	closeAll(doc["components"])
	if err := compiler.AddResource("mem:doc", doc); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ method, path, call, body, status string }{
		{"POST", "/api/v1/workflows", "/api/v1/workflows", `{"code":"1"}`, "200"},
		{"GET", "/api/v1/workflows", "/api/v1/workflows?limit=1", "", "200"},
		{"GET", "/api/v1/workflows/{id}", one, "", "200"},
		{"GET", "/api/v1/workflows/{id}/dag", one + "/dag", "", "200"},
		{"GET", "/api/v1/workflows/{id}/checkpoints", one + "/checkpoints", "", "200"},
		{"GET", "/api/v1/workflows/{id}/checkpoints/{cid}", one + "/checkpoints/0000004d", "", "200"},
		{"GET", "/api/v1/workflows/{id}/journal", one + "/journal?limit=2", "", "200"},
		{"GET", "/api/v1/workflows/{id}/export", one + "/export", "", "200"},
		{"GET", "/api/v1/workflows/{id}/result", "/api/v1/workflows/22220002/result", "", "200"},
		{"GET", "/api/v1/workflows/{id}/events", one + "/events", "", "200"},
		{"POST", "/api/v1/workflows/{id}/continue", one + "/continue", "", "200"},
		{"POST", "/api/v1/workflows/{id}/approvals/{cid}", one + "/approvals/ffff0001", `{"approved":true}`, "200"},
		{"GET", "/api/v1/approvals", "/api/v1/approvals?all=true", "", "200"},
		{"GET", "/api/v1/approvals/{cid}", "/api/v1/approvals/ffff0001", "", "200"},
		{"GET", "/api/v1/audit", "/api/v1/audit?limit=1", "", "200"},
		{"GET", "/api/v1/audit/verify", "/api/v1/audit/verify", "", "200"},
		{"GET", "/api/v1/tools", "/api/v1/tools", "", "200"},
		{"GET", "/api/v1/flows", "/api/v1/flows", "", "200"},
		{"GET", "/api/v1/flows/{name}", "/api/v1/flows/sub%2Fdocs.json", "", "200"},
		{"GET", "/api/v1/flows/{name}", "/api/v1/flows/other", "", "default"},
		{"GET", "/api/v1/flows/{name}/runs", "/api/v1/flows/docs/runs?limit=3", "", "200"},
		{"GET", "/api/v1/flows/{name}/stats", "/api/v1/flows/docs/stats", "", "200"},
		{"POST", "/api/v1/plan", "/api/v1/plan", `{"code":"1"}`, "200"},
		{"GET", "/api/v1/server", "/api/v1/server", "", "200"},
		{"GET", "/healthz", "/healthz", "", "200"},
		{"GET", "/readyz", "/readyz", "", "200"},
		{"GET", "/api/v1/workflows/{id}", "/api/v1/workflows/99999999", "", "default"},
		{"POST", "/api/v1/workflows", "/api/v1/workflows", `{"cod":1}`, "default"},
	} {
		r := e.do(t, tt.method, tt.call, tt.body, "Accept", "application/json")
		pointer := "mem:doc#/paths/" + strings.ReplaceAll(strings.ReplaceAll(tt.path, "/", "~1"), "{", "%7B") + "/" + strings.ToLower(tt.method) + "/responses/" + tt.status + "/content/"
		pointer = strings.ReplaceAll(pointer, "}", "%7D")
		kind := strings.ReplaceAll(r.header.Get("Content-Type"), "/", "~1")
		schema, err := compiler.Compile(pointer + kind + "/schema")
		if err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.path, err)
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
		if err != nil {
			t.Errorf("%s %s: %d %v", tt.method, tt.path, r.status, err)
			continue
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s %s: %v\n%s", tt.method, tt.path, err, r.body)
		}
	}
}

// closeAll makes the schemas as strict as they can be: an answer with a field
// that the document does not name is wrong here, though readers tolerate it.
func closeAll(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["additionalProperties"] == true {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeAll(inner)
		}
	case []any:
		for _, inner := range v {
			closeAll(inner)
		}
	}
}

func fullResult() api.Result {
	layer := 1
	return api.Result{
		Status: api.StatusLayerComplete, WorkflowID: id(1), Result: json.RawMessage(`[1]`), ExecutionTimeMS: 1.5, DAG: &api.DAGSummary{Tasks: 1, Layers: 1, Tools: []string{"a:b"}},
		Totals: &api.Totals{SuccessfulTasks: 1}, CheckpointID: id(2), LayerIndex: &layer, TotalLayers: 2, LayerResults: []api.LayerResult{{TaskID: "t", Status: core.TaskSuccess}},
		NextLayer: &api.LayerPreview{Index: 2, Tasks: []api.PreviewTask{{ID: "a"}}}, Options: []string{"continue"}, ExpiresAt: &start, Pending: []core.Approval{sampleApproval(id(3))},
		Suggestions: &api.Suggestions{Tools: []api.SuggestedTool{{CallName: "a:b"}}, SuggestedDAG: &api.SuggestedDAG{Tasks: []core.TaskSpec{{ID: "t"}}}},
		Plan:        &core.Plan{}, Dropped: []core.Dropped{{TaskID: "t", Tool: "a:b"}}, Error: "x", Location: &core.Position{Line: 1, Column: 2}, Failures: []core.Failure{{TaskID: "t"}}, Faults: []core.Fault{{Message: "m"}},
		Decided: &core.DecidedBy{Actor: core.Actor{Who: "w", Via: core.ViaCLI}, At: start},
	}
}

// Requests are closed, answers are open: readers tolerate fields that they do
// not know.
func TestOpenAPI_RequestsAreClosed(t *testing.T) {
	t.Parallel()
	schemas := document(t, newEdge(t, nil))["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{"ExecuteBody", "ExecuteOptions", "WorkflowBody", "TaskSpec", "Retry", "Acceptance", "ContinueWorkflow", "ContinueBody", "DecisionBody", "Answer", "AbortBody", "ReplanBody", "RetryBody", "ExtendBody", "Trace", "Record"} {
		s, ok := schemas[name].(map[string]any)
		if !ok {
			t.Errorf("there is no schema %s; there are %v", name, slices.Sorted(maps.Keys(schemas)))
			continue
		}
		if s["additionalProperties"] != false {
			t.Errorf("%s takes any field", name)
		}
	}
	for _, name := range []string{"Result", "Run", "Workflow", "Approval", "Problem", "ServerStatus", "Snapshot", "Event"} {
		if s, ok := schemas[name].(map[string]any); !ok || s["additionalProperties"] == false {
			t.Errorf("%s: %v", name, s["additionalProperties"])
		}
	}
}
