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

// warmed counts how often a sandbox is to start its children.
type warmed struct {
	hook.Sandbox
	times int
}

func (w *warmed) Warm() { w.times++ }

// The sandbox starts its children before the first call where flows have scripts, once.
func TestRunner_Ready(t *testing.T) {
	t.Parallel()
	where := node{id: "n", kind: "set", data: `"set":{"name":"seen","value":true}`}
	for name, tt := range map[string]struct {
		nodes []node
		want  int
	}{
		"None": {nil, 0}, "NoScript": {[]node{where}, 0}, "Script": {[]node{where, script("x", `return`, false)}, 1},
		"Expression": {[]node{{id: "n", kind: "set", data: `"set":{"name":"n","expression":"1 + 1"}`}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := &warmed{}
			r := newRig(t, func(o *hook.Options) { o.Sandbox = box })
			set := setOf(t, line("f", `"enabled":true`, tt.nodes...))
			r.Ready(nil)
			r.Ready(set)
			r.Ready(set)
			if box.times != tt.want {
				t.Errorf("%d times, want %d", box.times, tt.want)
			}
		})
	}
}

const ok = `{"content":[{"type":"text","text":"done"}]}`

// What a script returns decides what is sent and what comes back.
func TestRunner_Script(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after string // scripts
		answer        string
		sent, back    string // empty: unchanged
		code          core.Code
		says          string
		made          bool
	}{
		"Nothing":          {before: `return`, after: `return {}`},
		"Params":           {before: `return {params: {arguments: {...context.request.params.arguments, b: 2}}}`, sent: `{"a":1,"b":2}`},
		"ParamsNamed":      {before: `return {params: {...context.request.params, arguments: {}}}`, sent: `{}`},
		"OtherTool":        {before: `return {params: {name: "delete", arguments: {}}}`, code: core.CodeHookFailed, says: "another tool"},
		"ParamsBare":       {before: `return {params: {a: 2}}`, code: core.CodeHookFailed, says: "params must be"},
		"ParamsList":       {before: `return {params: {arguments: [1]}}`, code: core.CodeHookFailed, says: "no JSON object"},
		"ParamsAfter":      {after: `return {params: {arguments: {a: 3}}}`, code: core.CodeHookFailed, says: "after the call was made", made: true},
		"Context":          {before: `const {request: {method, params}, metadata: m, variables} = context; return {params: {arguments: {got: [method, params.name, m.clientId, m.serverName, m.toolName, m.workflowId, m.nodeId, m.flowRunId, Object.keys(variables).length, Object.keys(context).join()]}}}`, sent: `{"got":["tools/call","write","cli","files","write","f","before","run000001",0,"request,metadata,variables"]}`},
		"Block":            {before: `return {block: {code: "no", message: "not on Sundays"}}`, code: core.CodeDenied, says: "not on Sundays"},
		"BlockAfter":       {after: `return {block: {message: "too long"}}`, code: core.CodeDenied, says: "too long", made: true},
		"BlockText":        {before: `return {block: "no"}`, code: core.CodeHookFailed, says: "block must be"},
		"Throws":           {before: `throw new Error("broken")`, code: core.CodeHookFailed, says: "broken"},
		"ThrowsAfter":      {after: `throw new Error("broken")`, code: core.CodeHookFailed, says: "broken", made: true},
		"Syntax":           {before: `return {`, code: core.CodeHookFailed},
		"Nonsense":         {before: `return 7`, code: core.CodeHookFailed, says: "must return nothing"},
		"List":             {before: `return [{}]`, code: core.CodeHookFailed, says: "must return nothing"},
		"Unknown":          {before: `return {continue: true}`, code: core.CodeHookFailed, says: "member continue"},
		"Case":             {before: `return {Block: {message: "x"}}`, code: core.CodeHookFailed, says: "member Block"},
		"BlockMember":      {before: `return {block: {message: "x", tool: "y"}}`, code: core.CodeHookFailed, says: "block must be"},
		"Never":            {before: `await new Promise(() => {})`, code: core.CodeHookFailed, says: "never happens"},
		"Frozen":           {before: `context.request.params.arguments.a = 2`, code: core.CodeHookFailed, says: "read-only"},
		"FrozenDeep":       {before: `context.metadata = {}`, code: core.CodeHookFailed, says: "read-only"},
		"NoTools":          {before: `return await mcp.files.read({})`, code: core.CodeHookFailed, says: "not defined"},
		"NoFetch":          {before: `return await fetch("https://example.com")`, code: core.CodeHookFailed, says: "not defined"},
		"NoTimer":          {before: `setTimeout(() => {}, 1)`, code: core.CodeHookFailed, says: "not defined"},
		"Response":         {after: `return {response: {...context.response, content: [{type: "text", text: context.response.content[0].text + "!"}]}}`, back: `{"content":[{"type":"text","text":"done!"}]}`},
		"ResponseInstead":  {before: `return {response: {content: [{type: "text", text: "stored"}]}}`, back: `{"content":[{"type":"text","text":"stored"}]}`},
		"ResponseNonsense": {after: `return {response: {content: "x"}}`, code: core.CodeHookFailed, says: "content must be a list", made: true},
		"ResponseNoBlock":  {after: `return {response: {content: [{text: "x"}]}}`, code: core.CodeHookFailed, says: "type", made: true},
		"ResponseEmpty":    {after: `return {response: {}}`, code: core.CodeHookFailed, says: "needs content", made: true},
		"IsErrorStays": {after: `return {response: {content: []}}`, answer: `{"content":[{"type":"text","text":"x"}],"isError":true}`,
			back: `{"content":[],"isError":true}`},
		"StructuredFollows": {after: `return {response: {...context.response, content: [{type: "text", text: '{"a":2}'}]}}`, answer: `{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`,
			back: `{"content":[{"type":"text","text":"{\"a\":2}"}],"structuredContent":{"a":2}}`},
		"TextFollows": {after: `return {response: {...context.response, structuredContent: {a: 2}}}`, answer: `{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`,
			back: `{"content":[{"text":"{\"a\":2}","type":"text"}],"structuredContent":{"a":2}}`},
		"StructuredAlone": {after: `return {response: {structuredContent: {a: 2}}}`, answer: `{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`,
			back: `{"content":[{"text":"{\"a\":2}","type":"text"}],"structuredContent":{"a":2}}`},
		"LeftBehind": {after: `return {response: {...context.response, content: [{type: "text", text: "taken out"}]}}`, answer: `{"content":[{"type":"text","text":"key 1"}],"structuredContent":{"key":1}}`,
			code: core.CodeHookFailed, says: "structuredContent was not", made: true},
		"TextLeftBehind": {after: `return {response: {...context.response, structuredContent: {}}}`, answer: `{"content":[{"type":"text","text":"key 1"}],"structuredContent":{"key":1}}`,
			code: core.CodeHookFailed, says: "content was not", made: true},
		"NoteAdded": {after: `return {response: {...context.response, content: [...context.response.content, {type: "text", text: "note"}]}}`, answer: `{"content":[{"type":"text","text":"key 1"}],"structuredContent":{"key":1}}`,
			back: `{"content":[{"type":"text","text":"key 1"},{"type":"text","text":"note"}],"structuredContent":{"key":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var nodes []node
			if tt.before != "" {
				nodes = append(nodes, script("before", tt.before, false))
			}
			if tt.after != "" {
				nodes = append(nodes, script("after", tt.after, true))
			}
			if tt.answer == "" {
				tt.answer = ok
			}
			sent, back, err := r.call(setOf(t, line("f", "", nodes...)), `{"a":1}`, tt.answer)
			if tt.made {
				if back.Err == nil {
					t.Fatalf("no error, but %s", back.Result)
				}
				err = back.Err
				if !back.Err.Made {
					t.Error("the error does not say that the call was made")
				}
			}
			if core.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("the error is %v, want %q with %q", err, tt.code, tt.says)
			}
			if err != nil {
				if !strings.Contains(err.Error(), `f`) || tt.before != "" && !strings.Contains(err.Error(), "before") {
					t.Errorf("%v names no flow and node", err)
				}
				if e := core.AsError(err); e.DeniedBy().Who != "flow:f" {
					t.Errorf("it was refused by %v", e.DeniedBy())
				}
				return
			}
			equalJSON(t, "sent", sent, tt.sent, `{"a":1}`)
			equalJSON(t, "answer", string(back.Result), tt.back, tt.answer)
		})
	}
}

func equalJSON(t *testing.T, what, got, want, otherwise string) {
	t.Helper()
	if want == "" {
		want = otherwise
	}
	a, err := core.Digest(json.RawMessage(got))
	b, _ := core.Digest(json.RawMessage(want))
	if a != b || err != nil {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// Flows nest: the first one meets the call first and its answer last, and a block
// inside is what the second halves outside see.
func TestRunner_Nested(t *testing.T) {
	t.Parallel()
	add := func(id string) string {
		return line(id, "", script("pre", `const a = context.request.params.arguments; return {params: {arguments: {way: [...(a.way ?? []), "`+id+`"]}}}`, false),
			script("post", `return {response: {content: [{type: "text", text: context.response.content[0].text + "`+id+`"}]}}`, true))
	}
	r := newRig(t)
	sent, back, err := r.call(setOf(t, add("a"), add("b"), add("c")), `{}`, `{"content":[{"type":"text","text":":"}]}`)
	if err != nil || back.Err != nil || sent != `{"way":["a","b","c"]}` || !strings.Contains(string(back.Result), `":cba"`) {
		t.Errorf("%s %s %v %v", sent, back.Result, back.Err, err)
	}

	outer := line("a", `"variables":{"seen":""}`, script("post", `return {variables: {seen: context.error.code + ": " + context.error.message}}`, true))
	for name, inner := range map[string]string{
		"denied":      line("b", "", script("no", `return {block: {message: "not now"}}`, false)),
		"hook_failed": line("b", "", script("no", `throw new Error("not now")`, false)),
	} {
		r := newRig(t)
		_, _, err := r.call(setOf(t, outer, inner), `{}`, ok)
		if string(core.CodeOf(err)) != name || core.AsError(err).Made {
			t.Errorf("%s: %v", name, err)
		}
		seen, _ := r.store.FlowVariables(context.Background(), core.FlowKey{Workspace: "/work", Flow: "a"})
		if got := string(seen.Values["seen"]); !strings.Contains(got, name+": ") || !strings.Contains(got, "not now") {
			t.Errorf("the flow outside saw %s", got)
		}
	}
}

// Whether a flow matches is asked about the call as the flows before have left it.
func TestRunner_NestedWhere(t *testing.T) {
	t.Parallel()
	change := line("a", "", script("x", `return {params: {arguments: {path: "/etc/passwd"}}}`, false))
	block := line("b", `"match":{"where":"args.path == '/etc/passwd'"}`, script("no", `return {block: {message: "not that"}}`, false))
	if _, _, err := newRig(t).call(setOf(t, change, block), `{"path":"x/../../etc/passwd"}`, ok); core.CodeOf(err) != core.CodeDenied {
		t.Errorf("what an earlier flow made of the call was not blocked: %v", err)
	}
	away := line("a", "", script("x", `return {params: {arguments: {path: "docs"}}}`, false))
	if _, _, err := newRig(t).call(setOf(t, away, block), `{"path":"/etc/passwd"}`, ok); err != nil {
		t.Errorf("a flow that does not match any more blocked: %v", err)
	}
	broken := line("b", `"match":{"where":"args.none == 1"}`)
	if _, _, err := newRig(t).call(setOf(t, change, broken), `{}`, ok); core.CodeOf(err) != core.CodeHookFailed {
		t.Errorf("a flow that cannot say whether it matches let the call pass: %v", err)
	}
}

// A flow in audit mode records what it would have done, and decides nothing.
func TestRunner_Audit(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]node{
		"Change": {script("x", `return {params: {arguments: {b: 2}}, variables: {kept: 2}, effects: [{tool: "audit", arguments: {message: "x"}}]}`, false), script("y", `return {response: {content: []}}`, true)},
		"Block":  {script("x", `return {block: {message: "no"}}`, false)},
		"Throw":  {script("x", `throw 1`, false)},
		"Ask":    {{id: "x", kind: "approval", data: `"approval":{"message":"?"}`}},
		"After":  {script("x", `return {block: {message: "no"}}`, true)},
		"Give":   {script("x", `return {response: {content: []}}`, false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			set := setOf(t, line("f", `"mode":"audit","variables":{"kept":1}`, nodes...))
			req := request(`{"a":1}`)
			p, err := r.Before(context.Background(), set, req)
			if err != nil || len(p.Args) > 0 || len(p.Asks) > 0 || len(p.Response) > 0 {
				t.Fatalf("%+v %v", p, err)
			}
			a := r.After(context.Background(), set, req, p, flow.Answer{Result: json.RawMessage(ok)})
			if string(a.Result) != ok || a.Err != nil || a.Agent != nil {
				t.Errorf("%s %v", a.Result, a.Err)
			}
			if len(r.store.vars) > 0 || len(r.store.audit) > 0 {
				t.Error("it has written")
			}
			runs := r.runs()
			if len(runs) != 1 || !runs[0].Audit {
				t.Fatalf("%+v", runs)
			}
			if name == "Change" && (runs[0].Nodes[0].Change == nil || !strings.Contains(runs[0].Nodes[0].Change.Diff, `+  "b": 2`)) {
				t.Errorf("%+v does not say what it would have changed", runs[0].Nodes[0])
			}
		})
	}
}

// A flow that has changed since it let a call pass cannot say anything of its answer.
func TestRunner_Changed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := request(`{}`)
	p, err := r.Before(context.Background(), setOf(t, line("f", "", script("x", `return`, true))), req)
	if err != nil {
		t.Fatal(err)
	}
	other := setOf(t, line("f", "", script("x", `return {}`, true)))
	a := r.After(context.Background(), other, req, p, flow.Answer{Result: json.RawMessage(ok)})
	if core.CodeOf(a.Err) != core.CodeHookFailed || !a.Err.Made || a.Result != nil {
		t.Errorf("%+v", a)
	}
	a = r.After(context.Background(), other, req, p, flow.Answer{Err: core.Errorf(core.CodeServerUnreachable, "x").WithNotMade()})
	if a.Err.Made || !a.Err.NotMade {
		t.Errorf("%+v", a.Err)
	}
	p.Flows[0].Audit = true
	if a := r.After(context.Background(), other, req, p, flow.Answer{Result: json.RawMessage(ok)}); a.Err != nil {
		t.Error(a.Err)
	}
}
