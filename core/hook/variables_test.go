package hook_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/hook"
	"github.com/casys-ai/pml/core/sandbox"
)

// blocking is a sandbox whose evaluations wait for hold, if there is one, and tell
// evaluated of each.
type blocking struct {
	hook.Sandbox
	hold      chan struct{}
	evaluated func()
}

func (b *blocking) Eval(ctx context.Context, r sandbox.EvalRequest) (sandbox.Evaluated, error) {
	if b.hold != nil {
		<-b.hold
	}
	if b.evaluated != nil {
		b.evaluated()
	}
	return b.Sandbox.Eval(ctx, r)
}

var key = core.FlowKey{Workspace: "/work", Flow: "f"}

func set(id, data string) node { return node{id: id, kind: "set", data: `"set":` + data} }

// Variables of a flow outlive its runs; those of a run do not, and reach the second half.
func TestRunner_Variables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	flows := setOf(t, line("f", `"variables":{"n":1,"list":[]}`,
		script("pre", `return {variables: {n: context.variables.n + 1, mine: "x"}}`, false),
		set("one", `{"name":"list","scope":"flow","op":"append","expression":"context.request.params.name"}`),
		set("two", `{"name":"sum","scope":"flow","op":"add","value":2}`),
		set("three", `{"name":"put","scope":"flow","expression":"context.variables.n * 10"}`),
		set("four", `{"name":"run","expression":"({a: 1})"}`),
		script("post", `return {response: {content: [{type: "text", text: JSON.stringify(context.variables)}]}}`, true)))
	for _, want := range []string{
		`{"list":["write"],"mine":"x","n":2,"put":20,"run":{"a":1},"sum":2}`, `{"list":["write","write"],"mine":"x","n":3,"put":30,"run":{"a":1},"sum":4}`,
	} {
		_, back, err := r.call(flows, `{}`, ok)
		if err != nil || back.Err != nil {
			t.Fatal(err, back.Err)
		}
		if got := strings.ReplaceAll(string(back.Result), `\"`, `"`); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	kept := r.store.vars[key].Values
	if len(kept) != 5 || string(kept["n"]) != "3" || kept["mine"] != nil || kept["run"] != nil {
		t.Errorf("%s", text(kept))
	}
}

// Calls at the same time lose no change: a script that has read what is no longer
// there runs again, up to three times.
func TestRunner_VariablesTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	flows := setOf(t, line("f", "", set("two", `{"name":"sum","scope":"flow","op":"add","value":1}`)))
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := r.Before(context.Background(), flows, request(`{}`)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := string(r.store.vars[key].Values["sum"]); got != "20" {
		t.Errorf("the sum is %s", got)
	}

	for name, tt := range map[string]struct {
		races int // evaluations during which somebody else changes the variable
		ok    bool
	}{"Once": {1, true}, "Twice": {2, true}, "Always": {9, false}} {
		t.Run(name, func(t *testing.T) {
			races := tt.races
			box := &blocking{Sandbox: pool}
			r := newRig(t, func(o *hook.Options) { o.Sandbox = box })
			box.evaluated = func() {
				if races--; races < 0 {
					return
				}
				v := r.store.vars[key]
				_ = r.store.SetFlowVariables(context.Background(), key, core.FlowVariables{Version: v.Version + 1, Values: map[string]json.RawMessage{"n": json.RawMessage("1" + strings.Repeat("0", tt.races-races))}})
			}
			_, err := r.Before(context.Background(), setOf(t, line("f", `"variables":{"n":1}`, script("x", `return {variables: {n: context.variables.n + 1}}`, false))), request(`{}`))
			if (err == nil) != tt.ok || err != nil && core.CodeOf(err) != core.CodeHookFailed {
				t.Fatal(err)
			}
			if got := string(r.store.vars[key].Values["n"]); tt.ok && got != "1"+strings.Repeat("0", tt.races-1)+"1" {
				t.Errorf("it is %s", got)
			}
		})
	}
}

// A condition takes true and false only.
func TestRunner_Condition(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`context.request.params.arguments.a === 1`:   "blocked",
		`context.request.params.arguments.a === 2`:   "",
		`context.request.params.arguments.a`:         "must give true or false",
		`context.request.params.arguments.b.c === 1`: "cannot read",
		`null`:        "must give true or false",
		`1) || (true`: "must give",
	} {
		r := newRig(t)
		_, err := r.Before(context.Background(), conditional(t, expression), request(`{"a":1}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// conditional blocks where an expression is true.
func conditional(t *testing.T, expression string) *flow.Set {
	return setOf(t, `{"id":"f","name":"f","nodes":[{"id":"start","type":"start","data":{}},{"id":"if","type":"condition","data":{"condition":{"expression":`+text(expression)+`}}},
{"id":"no","type":"hook","data":{"hook":{"id":"h","blocking":true,"script":"return {block: {message: 'blocked'}}"}}},
{"id":"mcp","type":"mcp-call","data":{}},{"id":"mcp2","type":"mcp-call","data":{}},{"id":"end","type":"end","data":{}}],
"edges":[{"source":"start","target":"if"},{"source":"if","target":"no","label":"true"},{"source":"no","target":"mcp"},{"source":"if","target":"mcp2","label":"false"},{"source":"mcp","target":"end"},{"source":"mcp2","target":"end"}]}`)
}
