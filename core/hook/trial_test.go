package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
)

// TestTry runs both halves on a call that is not made, and keeps nothing of it.
func TestTry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := line("f", `"enabled":false,"variables":{"n":0},"uses":["mail:send"]`,
		script("up", `console.log("before"); return {params: {arguments: {path: "docs/a"}}, variables: {n: context.variables.n + 1}, effects: [{tool: "mail:send", arguments: {}}, {tool: "count", arguments: {key: "k", limit: 9, seconds: 60}}]}`, false),
		node{id: "log", kind: "hook", data: `"hook":{"id":"l","blocking":false,"script":"console.log('beside')"}`, beside: true},
		script("down", `return {response: {content: [{type: "text", text: "less"}]}}`, true))
	f := flow.Parse(map[string][]byte{"f.json": []byte(text)}, false).Flows[0]
	try := func(answer *flow.Answer) hook.Tried {
		t.Helper()
		out, err := r.Try(context.Background(), hook.Trial{Flow: f, Request: request(`{"path":"a"}`), Answer: answer})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	full := try(&flow.Answer{Result: json.RawMessage(`{"content":[{"type":"text","text":"more"}]}`)})
	if full.Answer == nil || !strings.Contains(string(full.Answer.Result), "less") || !strings.Contains(string(full.Args), "docs/a") || full.Run.State != core.FlowOK {
		t.Errorf("%+v", full)
	}
	states := ""
	for _, n := range full.Run.Nodes {
		states += n.Node + " " + string(n.State) + " " + strings.Join(n.Console, ",") + ";"
	}
	if want := "up ok before;log ok beside;mcp ok ;down ok ;end ok ;"; states != want {
		t.Errorf("%s, want %s", states, want)
	}
	if half := try(nil); half.Answer != nil || half.Run.State != core.FlowPending {
		t.Errorf("without an answer: %+v", half)
	}
	if runs := r.runs(); len(runs) != 0 || len(r.store.vars) != 0 || len(r.store.audit) != 0 {
		t.Errorf("kept: %v %v %v", runs, r.store.vars, r.store.audit)
	}
}

// TestTry_Stops: a block, a question and a fault, each where it happens.
func TestTry_Stops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	try := func(nodes ...node) (hook.Tried, error) {
		f := flow.Parse(map[string][]byte{"f.json": []byte(line("f", "", nodes...))}, false).Flows[0]
		return r.Try(context.Background(), hook.Trial{Flow: f, Request: request(`{}`), Answer: &flow.Answer{Result: json.RawMessage(`{"content":[]}`)}})
	}
	got, err := try(script("no", `return {block: {message: "not this"}}`, false))
	if err != nil || got.Run.State != core.FlowBlocked || got.Run.Node != "no" || got.Answer == nil || got.Answer.Err.Code != core.CodeDenied {
		t.Errorf("a block: %+v, %v", got, err)
	}
	got, err = try(node{id: "ask", kind: "approval", data: `"approval":{"message":"really?"}`})
	if err != nil || len(got.Asks) != 1 || got.Asks[0].Message != "really?" {
		t.Errorf("a question: %+v, %v", got, err)
	}
	if _, err = try(script("empty", "", false)); core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("a fault: %v", err)
	}
}

// A flow of tools/list is tried on what the server lists; what would be no list is refused
// as it would be.
func TestTry_List(t *testing.T) {
	t.Parallel()
	tools := []core.Tool{{Server: "files", Name: "read", Description: "Reads"}, {Server: "files", Name: "stat"}, {Server: "files", Name: "write"}}
	for name, c := range map[string]struct{ script, hidden, changed, refused string }{
		"Hides":    {script: `return {response: {tools: context.response.tools.filter(t => t.name !== "write").map(t => t.name === "read" ? {...t, description: "x"} : t)}}`, hidden: "write", changed: "read"},
		"Nothing":  {script: `return`},
		"AddsOne":  {script: `return {response: {tools: [{name: "delete"}]}}`, refused: "no tool delete"},
		"Promises": {script: `return {response: {tools: [{name: "write", annotations: {readOnlyHint: true}}]}}`, refused: "stricter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			f := setOf(t, line("f", `"workflowType":"tools/list"`, script("x", c.script, true))).Flows()[0]
			tried, err := r.Try(context.Background(), hook.Trial{Flow: f, Request: flow.Request{Tool: "files", Workspace: "/work"}, Tools: tools})
			if err != nil || tried.Answer == nil {
				t.Fatalf("%+v %v", tried, err)
			}
			if a := tried.Answer; c.refused != "" || a.Err != nil {
				if a.Err == nil || !strings.Contains(a.Err.Error(), c.refused) || c.refused == "" || tried.Run.State != core.FlowFailed {
					t.Errorf("%+v, %s", a, tried.Run.State)
				}
				return
			}
			d, ok := flow.DiffLists(tried.List, tried.Answer.Result)
			if !ok || strings.Join(d.Hidden, " ") != c.hidden || strings.Join(d.Changed, " ") != c.changed || len(d.Same)+len(d.Changed)+len(d.Hidden) != 3 {
				t.Errorf("%+v", d)
			}
			if len(r.runs()) != 0 {
				t.Error("it kept a flow run")
			}
		})
	}
}
