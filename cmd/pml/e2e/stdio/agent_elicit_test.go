//go:build unix

package stdio_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// oneScript is a model that asks for one script and then says what came of it.
func oneScript(t *testing.T, code string) (url string) {
	t.Helper()
	input, err := json.Marshal(map[string]string{"intent": "count", "code": code})
	if err != nil {
		t.Fatal(err)
	}
	call, err := json.Marshal(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "function": map[string]string{"name": "pml_execute", "arguments": string(input)}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		delta, finish := string(call), "tool_calls"
		switch {
		case strings.Contains(string(body), "denied"):
			delta, finish = `{"content":"it was refused"}`, "stop"
		case strings.Contains(string(body), `"role":"tool"`):
			delta, finish = `{"content":"it is done"}`, "stop"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"model\":\"m-1\",\"choices\":[{\"delta\":%s,\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n", delta, finish)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestClients_AgentElicitation: what a script of an agent asks is asked of the person at the
// host that has called agent_delegate: their yes makes the call, their no is a refusal that
// the agent's model learns, and neither is the model's to give.
func TestClients_AgentElicitation(t *testing.T) {
	t.Parallel()
	for _, p := range goPeers()[:2] {
		for action, want := range map[string]struct {
			danger int
			says   string
		}{"accept": {1, "it is done"}, "decline": {0, "it was refused"}} {
			t.Run(p.name+" "+action, func(t *testing.T) {
				t.Parallel()
				m := &meeting{Machine: pmltest.NewMachine(t, pmltest.AllowRec()), peer: p, elicits: &elicits{Action: action, After: seen.Milliseconds()}}
				config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {"m": {"protocol": "openai", "model": "m-1", "base_url": %q}}}`, oneScript(t, `return await mcp.rec.danger({x: "a"})`))
				if err := os.WriteFile(filepath.Join(m.Home, "config.json"), []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
				m.begin()
				r := m.call("agent_delegate", map[string]any{"goal": "count it", "allowed_tools": []string{"rec:*"}})
				var out core.AgentResult
				if err := json.Unmarshal(r.Result, &out); err != nil {
					t.Fatalf("%v: %+v", err, r)
				}
				if r.Status != api.StatusSuccess || !out.Success || out.Result != want.says || m.Count("danger") != want.danger || len(m.Approvals()) != 0 {
					t.Errorf("%+v %+v; %d danger, %d open", r, out, m.Count("danger"), len(m.Approvals()))
				}
				if audit := m.OK("audit", "ls", "--json").Stdout; !strings.Contains(audit, "elicitation") {
					t.Errorf("who has decided: %s", audit)
				}
			})
		}
	}
}

// TestStdio_AgentHuman: where only a person may decide, neither the model inside an agent nor
// the one that has called agent_delegate decides what is asked inside, by whichever id and
// however the host answers; a person at a terminal does. Where anybody may, that model does.
func TestStdio_AgentHuman(t *testing.T) {
	t.Parallel()
	for _, decider := range []string{"human", "any"} {
		t.Run(decider, func(t *testing.T) {
			t.Parallel()
			c := pmltest.AllowRec()
			c.Approvals = map[string]any{"decider": decider}
			m := pmltest.NewMachine(t, c)
			config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {"m": {"protocol": "openai", "model": "m-1", "base_url": %q}}}`, oneScript(t, `return await mcp.workspace.write_file({path: "a.txt", content: "x"})`))
			if err := os.WriteFile(filepath.Join(m.Home, "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			written := func() bool {
				_, err := os.Stat(filepath.Join(m.WS, "a.txt"))
				return err == nil
			}
			h := startHost(m)
			r := h.result(h.tool("agent_delegate", map[string]any{"goal": "write it", "allowed_tools": []string{"workspace:*"}}))
			if r.Status != api.StatusApprovalRequired || len(r.Pending) != 1 || r.Pending[0].Tool != "workspace:write_file" {
				t.Fatalf("%+v", r)
			}
			ap := r.Pending[0]
			answer := func(id core.ID, yes bool) api.Result {
				return h.result(h.tool("approval_response", map[string]any{"workflow_id": id, "checkpoint_id": ap.ID, "approved": yes}))
			}
			if decider == "any" {
				if got := answer(r.WorkflowID, true); got.Status != api.StatusComplete || !written() {
					t.Errorf("%+v", got)
				}
				h.close()
				return
			}
			for _, no := range []api.Result{answer(r.WorkflowID, true), answer(ap.RunID, true), answer(r.WorkflowID, false)} {
				if no.Status != api.StatusAwaitingHuman || written() || len(m.Approvals()) != 1 {
					t.Errorf("%+v, %d open, written %v", no, len(m.Approvals()), written())
				}
			}
			h.close()
			m.ApproveOnTerminal(ap)
			if out := m.JSON(0, "continue", string(r.WorkflowID)); !written() || !strings.Contains(string(out.Result), "it is done") {
				t.Errorf("%s", out.Result)
			}
		})
	}
}
