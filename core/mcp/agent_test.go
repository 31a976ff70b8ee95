package mcp_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestDelegate: what agent_delegate asks of a backend, in both spellings of the tools
// that the agent may use; none is not the same as all.
func TestDelegate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args string
		want core.AgentSpec
	}{
		"Goal": {`{"goal":"x"}`, core.AgentSpec{Goal: "x"}},
		"None": {`{"goal":"x","allowed_tools":[]}`, core.AgentSpec{Goal: "x", Allowed: &[]string{}}},
		"All of it": {`{"goal":"x","context":{"a":1},"allowedTools":["fs:*"],"max_iterations":7,"budget":{"tokens":10,"usd":0.5,"calls":3},"model":"m"}`, core.AgentSpec{
			Goal: "x", Context: json.RawMessage(`{"a":1}`), Allowed: &[]string{"fs:*"}, Iterations: 7, Model: "m", Budget: core.AgentBudget{Tokens: 10, USD: 0.5, Calls: 3},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got api.ExecuteRequest
			w := dial(t, newEdge(t, &fake{t: t, execute: func(_ context.Context, req api.ExecuteRequest) (api.Result, error) {
				got = req
				return api.Result{Status: api.StatusSuccess, WorkflowID: "0b9d", Result: json.RawMessage(`{"success":true}`)}, nil
			}}, nil))
			w.send(callLine("1", "agent_delegate", tt.args, ""))
			if m := w.next(); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
			if got.Agent == nil || got.Code != "" || got.By.Via != core.ViaMCP {
				t.Fatalf("%+v", got)
			}
			if diff := cmp.Diff(tt.want, *got.Agent); diff != "" {
				t.Error(diff)
			}
		})
	}
}
