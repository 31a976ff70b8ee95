//go:build unix

package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
)

// The scripts of an agent meet the flows of their workspace like any others, as those of
// the agent at the root: what a flow changes is what is called, once, nothing is where one
// refuses or is broken, and a person is asked where one asks.
func TestAgent_Flows(t *testing.T) {
	t.Parallel()
	a := startAimock(t, agentFixtures)
	hook := func(script string, ms int) map[string]any {
		return map[string]any{"type": "hook", "data": map[string]any{"timeoutMs": ms, "hook": map[string]any{"id": "h", "blocking": true, "script": script}}}
	}
	changed := make([]string, len(agentCalls))
	for i, c := range agentCalls {
		changed[i] = c
		if strings.HasPrefix(c, "inc") {
			changed[i] = strings.TrimSuffix(c, `"}`) + `!"}`
		}
	}
	var incs []string
	for _, c := range agentCalls {
		if strings.HasPrefix(c, "inc") {
			incs = append(incs, c)
		}
	}
	const hoards = `const a = []; for (;;) a.push(new Array(100000).fill(1))`
	for name, c := range map[string]struct {
		tool   string
		node   map[string]any
		calls  []string
		behind bool // the node stands behind the call
	}{
		"Change":   {tool: "inc", node: hook(`const p = context.request.params; return {params: {...p, arguments: {key: p.arguments.key + "!"}}}`, 30_000), calls: changed},
		"Block":    {tool: "*", node: hook(`return {block: {code: "x", message: "not today"}}`, 30_000)},
		"Throw":    {tool: "*", node: hook(`throw new Error("broken hook")`, 30_000)},
		"TimeOut":  {tool: "*", node: hook(`for (;;) {}`, 200)},
		"Memory":   {tool: "*", node: hook(hoards, 30_000)},
		"Nonsense": {tool: "*", node: hook(`return 42`, 30_000)},
		"Approval": {tool: "inc", node: map[string]any{"type": "approval", "data": map[string]any{"approval": map[string]any{"message": "really?"}}}, calls: agentCalls},
		// Whatever becomes of its answer, a call was made, once; that of danger nobody approves.
		"ChangeAnswer":    {tool: "inc", node: hook(`return {response: {...context.response, content: [{type: "text", text: "cut"}], structuredContent: {count: 42, key: "k"}}}`, 30_000), calls: agentCalls, behind: true},
		"BlockAnswer":     {tool: "inc", node: hook(`return {block: {code: "x", message: "not this"}}`, 30_000), calls: incs, behind: true},
		"ThrowAtAnswer":   {tool: "inc", node: hook(`throw new Error("broken hook")`, 30_000), calls: incs, behind: true},
		"TimeOutAtAnswer": {tool: "inc", node: hook(`for (;;) {}`, 200), calls: incs, behind: true},
		"MemoryAtAnswer":  {tool: "inc", node: hook(hoards, 30_000), calls: incs, behind: true},
		"NonsenseAnswer":  {tool: "inc", node: hook(`return 42`, 30_000), calls: incs, behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := agentMachine(t, a)
			m.Write(".pml/flows/f.json", string(flowWith(c.tool, c.node, c.behind)))
			m.Configure(pmltest.AllowRec())
			root := ""
			if len(c.calls) == len(agentCalls) {
				r := m.JSON(8, "agent", "count it", "--model", "anthropic", "--allow", "rec:*")
				root = string(r.WorkflowID)
				exit := 8
				for range 10 { // each approval may lead to the next
					if exit = m.PML("continue", root, "--approve").Exit; exit != 8 {
						break
					}
				}
				if exit != 0 {
					t.Errorf("exit %d", exit)
				}
			} else {
				m.PML("agent", "count it", "--model", "anthropic", "--allow", "rec:*", "--on-approval", "deny")
			}
			out := m.PML("flows", "runs", "f", "--json")
			if !strings.Contains(out.Stdout, `"client": "agent:`+root) {
				t.Errorf("the flow saw no call of the agent: %s", out.Stdout+out.Stderr)
			}
			got := m.Calls()
			slices.Sort(got)
			if diff := cmp.Diff(c.calls, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// flowWith is a flow of the calls of agents with one node, before or behind the call.
func flowWith(tool string, node map[string]any, behind bool) []byte {
	match := map[string]any{"tool": tool, "client": "agent:*"}
	if behind {
		return pmltest.FlowOf("f", match, nil, node)
	}
	return pmltest.FlowOf("f", match, node, nil)
}
