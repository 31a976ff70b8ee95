//go:build unix

package execute_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// flowed is a machine with a flow that inc meets.
func flowed(t *testing.T, flow []byte) *pmltest.Machine {
	t.Helper()
	m := pmltest.BareMachine(t)
	m.Write(".pml/flows/f.json", string(flow))
	m.Configure(pmltest.AllowRec())
	return m
}

// paths are the ways of a call of inc from the command line: arguments of pml, and which
// server makes it.
var paths = map[string]func(m *pmltest.Machine) []string{
	"Script": func(*pmltest.Machine) []string {
		return []string{"execute", "--code", `return await mcp.rec.inc({key: "k"})`}
	},
	"DAG": func(m *pmltest.Machine) []string {
		return []string{"execute", m.DAG("dag.json", pmltest.Task("a", "rec:inc", `{"key":"k"}`, nil))}
	},
	"ToolsCall": func(*pmltest.Machine) []string {
		return []string{"tools", "call", "rec:inc", "--args", `{"key":"k"}`}
	},
	"Server": func(m *pmltest.Machine) []string {
		m.StopAtEnd()
		return []string{"execute", "--detach", "--wait", "150s", "--code", `return await mcp.rec.inc({key: "k"})`}
	},
}

// script is a node with a hook; without a timeout it has time enough on a busy machine.
func script(text string, timeout int) map[string]any {
	timeout = cmp.Or(timeout, 30_000)
	return map[string]any{"type": "hook", "data": map[string]any{"timeoutMs": timeout, "hook": map[string]any{"id": "h", "blocking": true, "script": text}}}
}

// Whatever a hook does, before or behind a call and on whichever way it comes: nothing is
// called with other arguments than the flow has left, nothing twice, and nothing when a
// hook in front of it is broken. A call that was made says so when its answer is refused.
func TestFlows_EveryPath(t *testing.T) {
	t.Parallel()
	asks := map[string]any{"type": "approval", "data": map[string]any{"approval": map[string]any{"message": "really?"}}}
	const changes = `const p = context.request.params; return {params: {...p, arguments: {key: p.arguments.key + "!"}}}`
	const gives = `return {response: {...context.response, content: [{type: "text", text: "cut"}], structuredContent: {count: 42, key: "k"}}}`
	cases := map[string]struct {
		before, behind map[string]any
		exit           int
		calls          string   // that reach the server
		says           []string // in what is printed
	}{
		"Change":          {before: script(changes, 0), calls: `inc {"key":"k!"}`, says: []string{"k!"}},
		"ChangeToWrong":   {before: script(`return {params: {...context.request.params, arguments: {key: 3}}}`, 0), exit: 1, says: []string{"changed by the flow f"}},
		"OtherTool":       {before: script(`return {params: {...context.request.params, name: "danger"}}`, 0), exit: 9, says: []string{"hook_failed"}},
		"Block":           {before: script(`return {block: {code: "x", message: "not today"}}`, 0), exit: 9, says: []string{"not today", "denied"}},
		"Throw":           {before: script(`throw new Error("broken hook")`, 0), exit: 9, says: []string{"broken hook", "hook_failed"}},
		"TimeOut":         {before: script(`for (;;) {}`, 200), exit: 9, says: []string{"hook_failed"}},
		"Memory":          {before: script(`const a = []; for (;;) a.push(new Array(100000).fill(1))`, 0), exit: 9, says: []string{"hook_failed"}},
		"Nonsense":        {before: script(`return 42`, 0), exit: 9, says: []string{"hook_failed"}},
		"Answer":          {before: script(`return {response: {content: [{type: "text", text: "{\"count\":7}"}]}}`, 0), says: []string{"7"}},
		"ChangeAnswer":    {behind: script(gives, 0), calls: `inc {"key":"k"}`, says: []string{"42"}},
		"BlockAnswer":     {behind: script(`return {block: {code: "x", message: "not this"}}`, 0), exit: 9, calls: `inc {"key":"k"}`, says: []string{"not this", "denied"}},
		"ThrowAtAnswer":   {behind: script(`throw new Error("broken hook")`, 0), exit: 9, calls: `inc {"key":"k"}`, says: []string{"broken hook", "hook_failed"}},
		"TimeOutAtAnswer": {behind: script(`for (;;) {}`, 200), exit: 9, calls: `inc {"key":"k"}`, says: []string{"hook_failed"}},
		"MemoryAtAnswer":  {behind: script(`const a = []; for (;;) a.push(new Array(100000).fill(1))`, 0), exit: 9, calls: `inc {"key":"k"}`, says: []string{"hook_failed"}},
		"AsksAtAnswer":    {behind: asks, exit: 9, says: []string{"invalid_config"}}, // nobody can be asked about a call that was made
		"ChangeBoth":      {before: script(changes, 0), behind: script(gives, 0), calls: `inc {"key":"k!"}`, says: []string{"42"}},
		"NonsenseAnswer":  {behind: script(`return {params: {}}`, 0), exit: 9, calls: `inc {"key":"k"}`, says: []string{"hook_failed"}},
		"Asks":            {before: asks, exit: 8, says: []string{"really?"}},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		for j, on := range slices.Sorted(maps.Keys(paths)) {
			c, path := cases[name], paths[on]
			t.Run(name+"/"+on, func(t *testing.T) {
				skiptest.Share(t, i+j, len(paths))
				t.Parallel()
				m := flowed(t, pmltest.FlowOf("f", map[string]any{"tool": "inc"}, c.before, c.behind))
				out := m.PML(append(path(m), "--json")...)
				text := out.Stdout + out.Stderr
				if exit := c.exit; out.Exit != exit && (exit == 0 || exit == 8 || out.Exit == 0) {
					t.Errorf("exit %d, want %d: %s", out.Exit, exit, text)
				}
				for _, say := range c.says {
					if !strings.Contains(text, say) {
						t.Errorf("%q is not in %s", say, text)
					}
				}
				if got := strings.Join(m.Calls(), ", "); got != c.calls {
					t.Errorf("calls %s, want %s", got, c.calls)
				}
				if c.exit == 8 {
					r := out.Result()
					m.JSON(0, "continue", string(r.WorkflowID), "--approve")
					if got := strings.Join(m.Calls(), ", "); got != `inc {"key":"k"}` {
						t.Errorf("approved, and %s is called", got)
					}
				}
			})
		}
	}
}

// What a flow has changed is what is asked, approved and sent, by another process too,
// and a person's own change comes after it. No memory answers a flow's question.
func TestFlows_Approved(t *testing.T) {
	t.Parallel()
	const counts = `const p = context.request.params; return {params: {...p, arguments: {...p.arguments, x: p.arguments.x + " by " + Math.random()}}}`
	m := flowed(t, pmltest.Flow("f", map[string]any{"tool": "danger"}, counts, ""))
	r := m.Execute(8, `return await mcp.rec.danger({x: "a"})`)
	shown := m.OK("approvals", "show", string(r.Pending[0].ID)).Stdout
	pmltest.Wants(t, shown, "changed by the flow f", "the program's own arguments", "a by 0.")
	m.JSON(0, "continue", string(r.WorkflowID), "--approve")
	calls := m.Calls()
	if len(calls) != 1 || !strings.Contains(shown, strings.Trim(strings.Fields(calls[0])[3], `"}`)) {
		t.Errorf("%s was approved, and %q was called", shown, calls)
	}
	// A run that is asked about its call twice has both from one look of the flow.
	again := m.Execute(8, `return await mcp.rec.danger({x: "b"})`)
	edited := m.OK("approve", string(again.Pending[0].ID), "--arguments", m.Write("mine.json", `{"x":"mine"}`), "--yes")
	if calls := m.Calls(); len(calls) != 2 || calls[1] != `danger {"x":"mine"}` {
		t.Errorf("%q was called: %+v", calls, edited)
	}
}

// A flow's question is asked each time, whatever a rule says or a person wants to be
// remembered.
func TestFlows_AskEachTime(t *testing.T) {
	t.Parallel()
	ask := map[string]any{"type": "approval", "data": map[string]any{"approval": map[string]any{"message": "sure?"}}}
	m := flowed(t, pmltest.FlowOf("f", map[string]any{"tool": "inc"}, ask, nil))
	r := m.Execute(8, `await mcp.rec.inc({key: "a"}); return (await mcp.rec.inc({key: "a"})).count`)
	m.Exit(2, "continue", string(r.WorkflowID), "--approve", "--remember", "run")
	for n := range 2 {
		if len(m.Calls()) != n {
			t.Fatalf("%d calls after %d decisions", len(m.Calls()), n)
		}
		r = m.PML("continue", string(r.WorkflowID), "--approve", "--json").Result()
	}
	if string(r.Result) != "2" {
		t.Errorf("%+v", r)
	}
}

// A call that was made although its answer was refused is not made again by itself: a
// retry asks first.
func TestFlows_MadeIsAskedAbout(t *testing.T) {
	t.Parallel()
	m := flowed(t, pmltest.Flow("f", map[string]any{"tool": "inc"}, "", `throw new Error("broken hook")`))
	r := m.PML("execute", "--json", "--code", `return await mcp.rec.inc({key: "k"})`).Result()
	for _, task := range pmltest.TasksOf(m.Workflow(r.WorkflowID)) {
		if task.Error == nil || !task.Error.Made {
			t.Errorf("%+v", task)
		}
	}
	again := m.PML("retry", string(r.WorkflowID), "--json")
	pending := m.Approvals()
	if len(pending) != 1 || pending[0].Type != core.ApproveInDoubt || !strings.Contains(pending[0].Description, "it has run") || m.Count("inc") != 1 {
		t.Errorf("%+v, %d calls: %+v", pending, m.Count("inc"), again)
	}
}

// A flow that is changed after it was trusted refuses what it matches, also the call that
// waits for a decision.
func TestFlows_Swapped(t *testing.T) {
	t.Parallel()
	m := flowed(t, pmltest.Flow("f", map[string]any{"tool": "danger"}, `return undefined`, ""))
	r := m.Execute(8, `return await mcp.rec.danger({x: "a"})`)
	m.Write(".pml/flows/f.json", string(pmltest.Flow("f", map[string]any{"tool": "danger"}, `return {params: {...context.request.params, arguments: {x: "b"}}}`, "")))
	out := m.PML("continue", string(r.WorkflowID), "--approve", "--json")
	if out.Exit == 0 || len(m.Calls()) != 0 || !strings.Contains(out.Stdout+out.Stderr, "not_trusted") {
		t.Errorf("%+v, %q", out, m.Calls())
	}
	m.OK("trust", "--yes")
	if out := m.Execute(8, `return await mcp.rec.danger({x: "a"})`); !strings.Contains(out.Pending[0].Description, "changed by the flow f") {
		t.Errorf("%+v", out.Pending)
	}
}

// What a flow makes of a result for agents alone is what a single call gives, and not
// what a script sees.
func TestFlows_ForAgents(t *testing.T) {
	t.Parallel()
	cut := script(`return {response: {content: [{type: "text", text: "cut for " + context.metadata.clientId}]}}`, 0)
	cut["data"].(map[string]any)["scope"] = "agent"
	m := flowed(t, pmltest.FlowOf("f", nil, nil, cut))
	if out := m.OK("tools", "call", "rec:texts", "--args", `{"texts":["a","b"]}`).Stdout; !strings.Contains(out, "cut for cli") || strings.Contains(out, `"a"`) {
		t.Errorf("%s", out)
	}
	if r := m.Execute(0, `return await mcp.rec.texts({texts: ["a", "b"]})`); !strings.Contains(string(r.Result), `"a"`) || strings.Contains(string(r.Result), "cut") {
		t.Errorf("%s", r.Result)
	}
}

// A hook's effects are calls that pass the gates, meet no flow and belong to the run: one
// that no rule allows is not made.
func TestFlows_Effects(t *testing.T) {
	t.Parallel()
	var flow map[string]any
	text := pmltest.Flow("f", nil, `return {effects: [{tool: "rec:inc", arguments: {key: "effect"}}]}`, "")
	if err := json.Unmarshal(text, &flow); err != nil {
		t.Fatal(err)
	}
	flow["uses"] = []string{"rec:inc"}
	text, err := json.Marshal(flow)
	if err != nil {
		t.Fatal(err)
	}
	m := flowed(t, text)
	r := m.Execute(0, `return (await mcp.rec.echo({value: 1})).value`)
	if got := strings.Join(m.Calls(), ", "); got != `inc {"key":"effect"}, echo {"value":1}` {
		t.Errorf("%s", got)
	}
	runs := m.Runs()
	if len(runs) != 2 || runs[0].ParentID != r.WorkflowID && runs[1].ParentID != r.WorkflowID {
		t.Errorf("%+v", runs)
	}
}

// A flow that has let a call pass which a person or a rule then refuses, or whose run is
// aborted, says so; it does not wait for an answer for good.
func TestFlows_Unanswered(t *testing.T) {
	t.Parallel()
	m := flowed(t, pmltest.Flow("f", nil, `return undefined`, ""))
	const call = `return await mcp.rec.danger({x: "a"})`
	m.PML("continue", string(m.Execute(8, call).WorkflowID), "--deny", "--reason", "not this one")
	m.PML("abort", string(m.Execute(8, call).WorkflowID))
	m.Execute(0, `return (await mcp.rec.inc({key: "k"})).count`)
	var runs struct{ Items []core.FlowRun }
	if err := json.Unmarshal([]byte(m.OK("flows", "runs", "f", "--json").Stdout), &runs); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range runs.Items {
		got = append(got, string(r.State)+" "+r.Reason)
	}
	if len(got) != 3 || got[0] != "ok " || !strings.HasPrefix(got[1], "cancelled the run ended") || !strings.HasPrefix(got[2], "denied ") || !strings.Contains(got[2], "not this one") {
		t.Errorf("%q", got)
	}
}

// A flow is tried on what one run has called, with the recorded arguments and answers, and
// nothing is called.
func TestFlows_Record(t *testing.T) {
	t.Parallel()
	const masks = `return {response: {...context.response, content: [{type: "text", text: "masked"}], structuredContent: {count: 0, key: "masked"}}}`
	m := flowed(t, pmltest.Flow("f", map[string]any{"tool": "inc", "client": "run:*", "where": "args.key != 'free'"}, `if (context.request.params.arguments.key === "bad") return {block: {code: "x", message: "not bad"}}`, masks))
	m.OK("flows", "disable", "f")
	m.OK("trust", "--yes")
	r := m.Execute(0, `for (const key of ["good", "bad", "free"]) await mcp.rec.inc({key}); await mcp.rec.echo({value: 1}); return 1`)
	m.Execute(0, `return (await mcp.rec.inc({key: "another run"})).count`)
	calls := len(m.Calls())
	var got api.FlowReplay
	if err := json.Unmarshal([]byte(m.OK("flows", "test", "f", "--record", string(r.WorkflowID), "--json").Stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Calls != 2 || got.RunID != r.WorkflowID || len(got.Trials) != 2 || got.Trials[0].Verdict != "changed" || !strings.Contains(got.Trials[1].Reason, "not bad") || len(m.Calls()) != calls {
		t.Errorf("%+v", got)
	}
	if out := m.OK("flows", "test", "f", "--record", string(r.WorkflowID)).Stdout; !strings.Contains(out, "2 calls of the run") || !strings.Contains(out, "masked") || !strings.Contains(out, "not bad") {
		t.Errorf("%s", out)
	}
}
