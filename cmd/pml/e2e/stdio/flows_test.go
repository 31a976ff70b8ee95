//go:build unix

package stdio_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/skiptest"
)

// Calls of offered tools meet flows as any other call does, those that only read too:
// once, also when they wait for a person, and what comes back is what flows have left.
func TestGateway_Flows(t *testing.T) {
	t.Parallel()
	const mark = `const p = context.request.params; return {params: {...p, arguments: {...p.arguments, MEMBER: p.arguments.MEMBER + "!" + context.metadata.clientId}}}`
	cut := `return {response: {...context.response, content: [{type: "text", text: "cut"}], structuredContent: undefined}}`
	ask := map[string]any{"type": "approval", "data": map[string]any{"approval": map[string]any{"message": "sure?"}}}
	timed := func(script string) map[string]any {
		return map[string]any{"type": "hook", "data": map[string]any{"timeoutMs": 300, "hook": map[string]any{"id": "h", "blocking": true, "script": script}}}
	}
	const ends, hoards, nonsense = `for (;;) {}`, `const a = []; for (;;) a.push(new Array(100000).fill(1))`, `return {continue: true}`
	for _, tool := range []struct{ name, member string }{{"echo", "value"}, {"inc", "key"}} {
		change := strings.ReplaceAll(mark, "MEMBER", tool.member)
		changed := tool.name + ` {"` + tool.member + `":"a!host"}`
		plain := strings.ReplaceAll(changed, "!host", "")
		for name, c := range map[string]struct {
			flow   []byte
			calls  string
			failed bool
			text   string // that is in the result
			asks   bool
		}{
			"Changes":          {flow: pmltest.Flow("f", nil, change, ""), calls: changed, text: "a!host"},
			"Blocks":           {flow: pmltest.Flow("f", nil, `return {block: {message: "not today"}}`, ""), failed: true, text: "not today"},
			"Throws":           {flow: pmltest.Flow("f", nil, `throw new Error("broken")`, ""), failed: true, text: "hook_failed"},
			"Answers":          {flow: pmltest.Flow("f", nil, `return {response: {content: [{type: "text", text: "by the flow"}]}}`, ""), text: "by the flow"},
			"ChangesAnswer":    {flow: pmltest.Flow("f", nil, change, strings.ReplaceAll(cut, ", structuredContent: undefined", `, structuredContent: {cut: true}`)), calls: changed, text: "cut"},
			"BlocksAnswer":     {flow: pmltest.Flow("f", nil, "", `return {block: {message: "not this"}}`), calls: plain, failed: true, text: "not this"},
			"Asks":             {flow: pmltest.FlowOf("f", nil, ask, nil), calls: plain, asks: true},
			"TimesOut":         {flow: pmltest.FlowOf("f", nil, timed(ends), nil), failed: true, text: "hook_failed"},
			"Hoards":           {flow: pmltest.FlowOf("f", nil, timed(hoards), nil), failed: true, text: "hook_failed"},
			"Nonsense":         {flow: pmltest.Flow("f", nil, nonsense, ""), failed: true, text: "hook_failed"},
			"ThrowsAtAnswer":   {flow: pmltest.Flow("f", nil, "", `throw new Error("broken")`), calls: plain, failed: true, text: "hook_failed"},
			"TimesOutAtAnswer": {flow: pmltest.FlowOf("f", nil, nil, timed(ends)), calls: plain, failed: true, text: "hook_failed"},
			"HoardsAtAnswer":   {flow: pmltest.FlowOf("f", nil, nil, timed(hoards)), calls: plain, failed: true, text: "hook_failed"},
			"NonsenseAtAnswer": {flow: pmltest.Flow("f", nil, "", nonsense), calls: plain, failed: true, text: "hook_failed"},
			"AsksAtAnswer":     {flow: pmltest.FlowOf("f", nil, nil, ask), failed: true, text: "is not valid"},
			"OtherClient":      {flow: pmltest.Flow("f", map[string]any{"client": "other"}, `return {block: {message: "no"}}`, ""), calls: plain, text: "a"},
		} {
			t.Run(name+"/"+tool.name, func(t *testing.T) {
				t.Parallel()
				if tool.name != "echo" {
					skiptest.Long(t, "does to a tool that writes what it does to one that reads")
				}
				m := exposes(t, "rec:{inc,echo}")
				m.Write(".pml/flows/f.json", string(c.flow))
				m.OK("trust", "--yes")
				h := startHost(m)
				text, failed := h.text(tool.name, map[string]any{tool.member: "a"})
				for strings.Contains(text, "Nothing was called; call it again") {
					text, failed = h.text(tool.name, map[string]any{tool.member: "a"})
				}
				if c.asks {
					var asked api.Result
					if err := json.Unmarshal([]byte(text), &asked); err != nil || asked.Status != api.StatusApprovalRequired || len(m.Calls()) != 0 || !strings.Contains(text, "sure?") {
						t.Fatalf("%s: %v, %q", text, err, m.Calls())
					}
					h.close()
					m.JSON(0, "continue", string(asked.WorkflowID), "--approve")
				} else if failed != c.failed || !strings.Contains(text, c.text) {
					t.Errorf("%s: %t", text, failed)
				}
				if !c.asks {
					h.close()
				}
				if got := strings.Join(m.Calls(), ", "); got != c.calls {
					t.Errorf("%s was called, want %s", got, c.calls)
				}
			})
		}
	}
}

// A flow has looked at an offered call before its run is made: the run does not meet it
// again, neither when another process makes the call that a person has approved.
func TestGateway_FlowsOnce(t *testing.T) {
	t.Parallel()
	m := exposes(t, "rec:danger")
	m.Write(".pml/flows/f.json", string(pmltest.Flow("f", nil, `const p = context.request.params; return {params: {...p, arguments: {x: p.arguments.x + " " + Math.random()}}}`, "")))
	m.OK("trust", "--yes")
	h := startHost(m)
	text, _ := h.text("danger", map[string]any{"x": "a"})
	h.close()
	var asked api.Result
	if err := json.Unmarshal([]byte(text), &asked); err != nil || len(asked.Pending) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	var shown struct {
		Arguments struct{ X string }
	}
	if err := json.Unmarshal(asked.Pending[0].Context, &shown); err != nil {
		t.Fatal(err)
	}
	m.JSON(0, "continue", string(asked.WorkflowID), "--approve")
	if calls := m.Calls(); len(calls) != 1 || !strings.Contains(calls[0], shown.Arguments.X) || strings.Count(calls[0], "0.") != 1 {
		t.Errorf("%q was approved, and %q called", shown.Arguments.X, calls)
	}
}
