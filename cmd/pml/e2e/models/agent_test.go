//go:build unix

package models_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
)

// agentFixtures make an agent of four answers: one script, two at once of which one needs
// a permission, one more, and what it says at its end.
var agentFixtures = func() string {
	type call struct {
		ID        string            `json:"id"`
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	script := func(id, code string) call {
		return call{id, "pml_execute", map[string]string{"intent": "do " + id, "code": code}}
	}
	usage := map[string]int{"input_tokens": 100, "output_tokens": 20, "prompt_tokens": 100, "completion_tokens": 20}
	answer := func(match map[string]string, response map[string]any) map[string]any {
		response["usage"] = usage
		return map[string]any{"match": match, "response": response}
	}
	raw, err := json.Marshal(map[string]any{"fixtures": []any{
		answer(map[string]string{"toolCallId": "call_4"}, map[string]any{"content": "all is counted"}),
		answer(map[string]string{"toolCallId": "call_3"}, map[string]any{"content": "Once more.", "toolCalls": []call{script("call_4", `return (await mcp.rec.inc({key: "d"})).count`)}}),
		answer(map[string]string{"toolCallId": "call_1"}, map[string]any{"toolCalls": []call{
			script("call_2", `return await mcp.rec.danger({x: "b"})`), script("call_3", `return (await Promise.all(["c1", "c2"].map(key => mcp.rec.inc({key})))).length`),
		}}),
		answer(map[string]string{"userMessage": "count"}, map[string]any{"content": "I begin.", "toolCalls": []call{script("call_1", `return (await mcp.rec.inc({key: "a"})).count`)}}),
	}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}()

// agentCalls are the tool calls of such an agent.
var agentCalls = []string{`danger {"x":"b"}`, `inc {"key":"a"}`, `inc {"key":"c1"}`, `inc {"key":"c2"}`, `inc {"key":"d"}`}

// agentMachine is a machine with the recorder and models at a stand-in.
func agentMachine(t *testing.T, a aimock) *pmltest.Machine {
	t.Helper()
	m := pmltest.BareMachine(t)
	m.Setenv("KEY", "sk-test-0123456789")
	if err := os.MkdirAll(m.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"permissions": {"allow": ["pml:model/*"]}, "models": {
		"default": "anthropic",
		"anthropic": {"protocol": "anthropic", "model": "claude-sonnet-5-5", "base_url": %q, "api_key": "${KEY}", "price": {"input": 3, "output": 15}},
		"openai": {"protocol": "openai", "model": "gpt-4.1", "base_url": %q, "api_key": "${KEY}"}
	}}`, a.url, a.url+"/v1")
	if err := os.WriteFile(filepath.Join(m.Home, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Configure(pmltest.AllowRec())
	return m
}

// agentOf is what an agent came to.
func agentOf(t *testing.T, raw json.RawMessage) core.AgentResult {
	t.Helper()
	var r core.AgentResult
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

// TestAgent: an agent reaches its goal in both protocols; the approval of one of its
// scripts is decided by the agent's id in another process, and no answer is asked for
// twice.
func TestAgent(t *testing.T) {
	t.Parallel()
	a := startAimock(t, agentFixtures)
	for _, name := range []string{"anthropic", "openai"} {
		m := agentMachine(t, a)
		r := m.JSON(8, "agent", "count it", "--model", name, "--allow", "rec:*")
		if len(r.Pending) != 1 || r.Pending[0].Tool != "rec:danger" {
			t.Fatalf("%s: %+v", name, r)
		}
		r = m.JSON(0, "continue", string(r.WorkflowID), "--approve")
		out := agentOf(t, r.Result)
		if !out.Success || out.Result != "all is counted" || out.Iterations != 4 || out.Calls != 5 || out.Usage.Input != 400 || out.Usage.LostAttempts != 0 {
			t.Errorf("%s: %+v", name, out)
		}
		if got := a.requests(); len(got) != 4 {
			t.Errorf("%s: %d requests, want 4", name, len(got))
		}
		got := m.Calls()
		slices.Sort(got)
		if diff := cmp.Diff(agentCalls, got); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", name, diff)
		}
		// All of its scripts fail there, so that pml ends it or the model does.
		m.PML("agent", "count it", "--model", name, "--allow", "workspace:*", "--on-approval", "deny")
		if after, asked := m.Calls(), a.requests(); len(after) != len(agentCalls) || len(asked) != 4 || strings.Count(string(asked[3]), "(allowed_tools)") < 3 {
			t.Errorf("%s: a tool that is not allowed was called, or the model is not told: %v, %d requests, %s", name, after, len(asked), asked[len(asked)-1])
		}
	}
}

// TestAgent_ProviderAsked: nothing goes to a provider before a person has said once that it
// may.
func TestAgent_ProviderAsked(t *testing.T) {
	t.Parallel()
	a := startAimock(t, agentFixtures)
	m := agentMachine(t, a)
	file := filepath.Join(m.Home, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(raw, []byte(`"pml:model/*"`), nil, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	r := m.JSON(8, "agent", "count it", "--allow", "rec:*")
	if len(r.Pending) != 1 || r.Pending[0].Tool != "pml:model/"+strings.TrimPrefix(a.url, "http://") || !strings.Contains(string(r.Pending[0].Context), a.url) {
		t.Fatalf("%+v", r)
	}
	if got := a.requests(); len(got) != 0 {
		t.Errorf("%d requests before anybody has said yes", len(got))
	}
	if r = m.JSON(8, "continue", string(r.WorkflowID), "--approve"); len(r.Pending) != 1 || r.Pending[0].Tool != "rec:danger" {
		t.Fatalf("%+v", r)
	}
	if r = m.JSON(8, "agent", "count it", "--allow", "rec:*"); len(r.Pending) != 1 || r.Pending[0].Tool != "rec:danger" {
		t.Errorf("asked again: %+v", r)
	}
}

// TestAgent_Key: an agent whose model has no key asks a person for it, sends nothing before,
// and goes on in another process once the key is there. Where nobody is asked the error says
// what to set, and a retry goes on.
func TestAgent_Key(t *testing.T) {
	t.Parallel()
	a := startAimock(t, agentFixtures)
	for _, name := range []string{"anthropic", "openai"} {
		m := agentMachine(t, a)
		m.Setenv("KEY", "")
		r := m.JSON(8, "agent", "count it", "--model", name, "--allow", "rec:*")
		if len(r.Pending) != 1 || r.Pending[0].Type != core.ApproveKeys || !strings.Contains(string(r.Pending[0].Context), `"KEY"`) {
			t.Fatalf("%s: %+v", name, r)
		}
		failed := m.JSON(9, "agent", "count it", "--model", name, "--allow", "rec:*", "--on-approval", "deny")
		if failed.ErrorCode != core.CodeDenied || !strings.Contains(failed.Error, "needs KEY: set it in") {
			t.Errorf("%s: %+v", name, failed)
		}
		if got := a.requests(); len(got) != 0 {
			t.Errorf("%s: %d requests without a key", name, len(got))
		}
		m.Write(".env", "KEY=sk-test-0123456789\n")
		if r = m.JSON(8, "continue", string(r.WorkflowID), "--approve"); len(r.Pending) != 1 || r.Pending[0].Tool != "rec:danger" {
			t.Fatalf("%s: %+v", name, r)
		}
		if r = m.JSON(0, "continue", string(r.WorkflowID), "--approve"); !agentOf(t, r.Result).Success {
			t.Errorf("%s: %+v", name, r)
		}
		if r = m.JSON(8, "retry", string(failed.WorkflowID)); len(r.Pending) != 1 || r.Pending[0].Tool != "rec:danger" {
			t.Errorf("%s: after a retry: %+v", name, r)
		}
		if got := a.requests(); len(got) != 6 {
			t.Errorf("%s: %d requests, want 4 and 2", name, len(got))
		}
	}
}

// TestAgent_Intent: a model that says in words alone what it wants has it done where the words
// say all that a tool needs; otherwise it is shown the tools that fit, and nothing is run.
func TestAgent_Intent(t *testing.T) {
	t.Parallel()
	a := startAimock(t, `{"fixtures": [
		{"match": {"toolCallId": "call_2"}, "response": {"content": "that is it"}},
		{"match": {"userMessage": "read"}, "response": {"toolCalls": [
			{"id": "call_1", "name": "pml_execute", "arguments": {"intent": "read the file a.txt"}},
			{"id": "call_2", "name": "pml_execute", "arguments": {"intent": "write a file"}}]}}]}`)
	for _, name := range []string{"anthropic", "openai"} {
		m := agentMachine(t, a)
		m.Write("a.txt", "the text of a")
		out := agentOf(t, m.JSON(0, "agent", "read it", "--model", name, "--allow", "workspace:*").Result)
		if !out.Success || out.Calls != 1 || len(out.Runs) != 1 {
			t.Errorf("%s: %+v", name, out)
		}
		sent := a.requests()
		if len(sent) != 2 || !strings.Contains(string(sent[1]), "the text of a") || !strings.Contains(string(sent[1]), "nothing was run") {
			t.Errorf("%s: %s", name, sent)
		}
	}
}

// agentStep is what a person does next: approve, and say of a call in doubt what they
// can see.
func agentStep(m *pmltest.Machine, w core.Workflow) []string {
	for _, ap := range w.Approvals {
		if ap.StateAt(time.Now()) != core.ApprovalOpen {
			continue
		}
		args := []string{"continue", string(w.ID), "--approval", string(ap.ID)}
		if ap.Type != core.ApproveInDoubt {
			return append(args, "--approve")
		}
		for _, call := range m.Calls() {
			if tool, rest, _ := strings.Cut(call, " "); ap.Tool == "rec:"+tool && strings.Contains(pmltest.Compact(m.T, ap.Context), rest) {
				return append(args, "--answer", "skip", "--result", `{"count":1}`)
			}
		}
		return append(args, "--answer", "run-again")
	}
	return []string{"continue", string(w.ID)}
}

// TestAgent_Transcript: the documents show an agent as it is shown, but for ids and times.
func TestAgent_Transcript(t *testing.T) {
	t.Parallel()
	fixtures, err := os.ReadFile(filepath.Join("testdata", "agent", "fixtures.json")) // from the root, see Main
	if err != nil {
		t.Fatal(err)
	}
	a := startAimock(t, string(fixtures))
	m := agentMachine(t, a)
	for _, note := range []string{"release.txt", "shopping.txt", "meeting.txt"} {
		m.Write(note, "# A note\n")
	}
	begun := time.Now()
	r := m.JSON(8, "agent", "which notes mention the release? write them to summary.txt", "--allow", "workspace:*", "--budget-usd", "0.50")
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	if took := time.Since(begun); took > pmltest.Patience/4 { // 30 s
		t.Errorf("three iterations took %s", took)
	}
	shown := m.OK("workflows", "show", string(r.WorkflowID)).Stdout
	for _, doc := range []string{"README.md", "docs/agent.md"} {
		raw, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(agentTree(shown), agentTree(string(raw))); diff != "" {
			t.Errorf("%s (-shown +documented):\n%s", doc, diff)
		}
	}
}

// agentTree are the lines of a text that tell what an agent used and did, without what
// differs from one agent to the next, and in any order.
func agentTree(text string) (out []string) {
	differs := regexp.MustCompile(`  ([0-9a-f]{8}|[0-9.]+m?s)\b`)
	_, text, _ = strings.Cut(text, "\nused ")
	text, _, _ = strings.Cut(text, "```")
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(differs.ReplaceAllString(line, ""), " \n"); line != "" {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
