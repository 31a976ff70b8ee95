package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/engine"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/gate"
)

// looking is a runner of flows of which a test says what they do.
type looking struct {
	mu         sync.Mutex
	passage    *core.Passage
	block      error
	end        func(flow.Answer) flow.Answer // nil: as it was
	before     []flow.Request
	after      []flow.Request
	saw        flow.Answer
	unanswered []core.Code
	list       func([]core.Tool) ([]core.Tool, error) // nil: as it was
	lists      int
	ready      int
}

func (l *looking) Ready(*flow.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready++
}

func (l *looking) Before(_ context.Context, set *flow.Set, req flow.Request) (*core.Passage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := set.For(req); err != nil {
		return nil, err
	}
	l.before = append(l.before, req)
	return l.passage, l.block
}

func (l *looking) After(_ context.Context, _ *flow.Set, req flow.Request, _ *core.Passage, a flow.Answer) flow.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after, l.saw = append(l.after, req), a
	if l.end == nil {
		return a
	}
	return l.end(a)
}

func (l *looking) Unanswered(_ flow.Request, _ *core.Passage, err *core.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unanswered = append(l.unanswered, err.Code)
}

func (l *looking) List(_ context.Context, set *flow.Set, req flow.Request, tools []core.Tool) ([]core.Tool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if flows, err := set.ForList(req); err != nil || len(flows) == 0 || l.list == nil {
		return tools, err
	}
	l.lists++
	return l.list(tools)
}

// Those who run flows are told of a call before its server is looked at, and when a host
// asks for the tools.
func TestFlows_Ready(t *testing.T) {
	t.Parallel()
	l := &looking{}
	p, _ := watched(t, `{}`, l)
	if _, err := p.Exposure(); err != nil || l.ready != 1 {
		t.Errorf("%d times for the list (%v)", l.ready, err)
	}
	p.check("fake:read", `{}`)
	if l.ready != 2 {
		t.Errorf("%d times after a call", l.ready)
	}
}

const lookAtAll = `{"id":"all","name":"look","workflowType":"tools/call","enabled":true,
"nodes":[{"id":"s","type":"start","position":{"x":0,"y":0},"data":{}},{"id":"c","type":"mcp-call","position":{"x":0,"y":0},"data":{}},{"id":"e","type":"end","position":{"x":0,"y":0},"data":{}}],
"edges":[{"source":"s","target":"c"},{"source":"c","target":"e"}]}`

const flowTools = `[
{"name":"read","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false},"annotations":{"readOnlyHint":true}},
{"name":"write","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"outputSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}},
{"name":"fail","inputSchema":{"type":"object"}}]`

// watched is a trusted workspace with a flow that matches all calls.
func watched(t *testing.T, permissions string, l *looking) (*place, *far) {
	t.Helper()
	f := &far{}
	p := settle(t, permissions)
	p.write("../tools.json", flowTools)
	if err := os.MkdirAll(p.file(".pml/flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(".pml/flows/all.json", lookAtAll)
	p.remote = f
	if l != nil {
		p.flows = l
	}
	return p.trust().open(), f
}

// way is how a call is made once it has passed its gates: what its maker gets of it.
type way struct {
	tool string
	id   string // of the call
	make func(p *place, call engine.Call) (json.RawMessage, error)
	far  bool
}

var ways = map[string]way{
	"Run":      {tool: "fake:write", id: "c1", make: called},
	"Proxied":  {tool: "fake:write", id: core.OfferedTask, make: passedOn},
	"Approved": {tool: "fake:write", id: core.OfferedTask, make: called}, // a proxied call that has waited
	"Builtin":  {tool: "workspace:stat", id: "c1", make: called},
	"Remote":   {tool: "far:read", id: "c1", make: called, far: true},
}

func called(p *place, call engine.Call) (json.RawMessage, error) {
	return p.Call(p.t.Context(), call, func(string) {})
}

func passedOn(p *place, call engine.Call) (json.RawMessage, error) {
	raw, err := p.Through(p.t.Context(), call, func(string) {})
	if raw.Failed != nil {
		err = raw.Failed
	}
	return raw.Result, err
}

// What flows make of a call is what is judged, asked and sent, once, on every way that a
// call takes; nothing is sent that a flow has refused.
func TestFlows_EveryWay(t *testing.T) {
	t.Parallel()
	changed := json.RawMessage(`{"path":"docs"}`)
	result := `{"content":[{"type":"text","text":"by the flow"}],"structuredContent":{"ok":true}}`
	one := []core.PassedFlow{{Flow: "all", Node: "c"}}
	of := func(p core.Passage) *core.Passage { p.Flows = one; return &p }
	failing := func(flow.Answer) flow.Answer {
		return flow.Answer{Err: core.Errorf(core.CodeHookFailed, "it threw")}
	}
	for name, c := range map[string]struct {
		l       *looking
		verdict string // of the gates, where nobody would ask
		err     core.Code
		made    bool // of the error
		notMade bool
		unsent  bool
		args    string // that are sent; empty: the program's
		result  string // that is in what comes back
	}{
		"Untouched":      {l: &looking{passage: of(core.Passage{})}, verdict: "ok"},
		"Changes":        {l: &looking{passage: of(core.Passage{Args: changed})}, verdict: "ok", args: string(changed)},
		"Blocks":         {l: &looking{block: core.Errorf(core.CodeDenied, "no")}, verdict: "denied"},
		"Throws":         {l: &looking{block: core.Errorf(core.CodeHookFailed, "it threw")}, verdict: "hook_failed"},
		"TimesOut":       {l: &looking{block: core.Errorf(core.CodeHookFailed, "no answer within 5s")}, verdict: "hook_failed"},
		"Asks":           {l: &looking{passage: of(core.Passage{Asks: []core.FlowAsk{{Flow: "all", Node: "a", Message: "sure?"}}})}, verdict: "tool_permission"},
		"Answers":        {l: &looking{passage: &core.Passage{Response: json.RawMessage(result)}}, verdict: "ok", unsent: true, result: "ok"},
		"AnswersBadly":   {l: &looking{passage: &core.Passage{Response: json.RawMessage(`{"content":3}`)}}, verdict: "ok", unsent: true, err: core.CodeHookFailed, notMade: true},
		"ChangesAnswer":  {l: &looking{passage: of(core.Passage{}), end: func(flow.Answer) flow.Answer { return flow.Answer{Result: json.RawMessage(result)} }}, verdict: "ok", result: "ok"},
		"BlocksAnswer":   {l: &looking{passage: of(core.Passage{}), end: func(flow.Answer) flow.Answer { return flow.Answer{Err: core.Errorf(core.CodeDenied, "no")} }}, verdict: "ok", err: core.CodeDenied, made: true},
		"ThrowsAtAnswer": {l: &looking{passage: of(core.Passage{}), end: failing}, verdict: "ok", err: core.CodeHookFailed, made: true},
		"NonsenseAnswer": {l: &looking{passage: of(core.Passage{}), end: func(flow.Answer) flow.Answer { return flow.Answer{Result: json.RawMessage(`{"content":"x"}`)} }}, verdict: "ok", err: core.CodeHookFailed, made: true},
		"ThrowsAtGiven":  {l: &looking{passage: of(core.Passage{Response: json.RawMessage(result)}), end: failing}, verdict: "ok", unsent: true, err: core.CodeHookFailed, notMade: true},
	} {
		for on, w := range ways {
			c := c
			t.Run(name+"/"+on, func(t *testing.T) {
				t.Parallel()
				if on == "Builtin" && c.result != "" { // which its output schema does not know
					c.err, c.made, c.notMade = core.CodeHookFailed, !c.unsent, c.unsent
				}
				l := &looking{passage: c.l.passage, block: c.l.block, end: c.l.end}
				p, f := watched(t, `{"allow":["*"]}`, l)
				call := p.call(w.tool, `{"path":"."}`)
				call.ID = w.id
				if err := os.MkdirAll(p.file("docs"), 0o700); err != nil {
					t.Fatal(err)
				}
				if _, ok := p.Try(call); ok {
					t.Error("it was judged, and no flow has looked at it")
				}
				v := p.Check(t.Context(), call)
				if got := verdictOf(v); got != c.verdict {
					t.Fatalf("%s %v, want %s", got, v.Deny, c.verdict)
				}
				if v.Deny != nil {
					return
				}
				if v.Passage != l.passage {
					t.Fatalf("the verdict brings %+v", v.Passage)
				}
				wantArgs := string(call.Args)
				if v.Passage != nil {
					next, err := gate.Passed(call, *v.Passage)
					if err != nil {
						t.Fatal(err)
					}
					if call = next; c.args != "" {
						wantArgs = c.args
					}
					again := p.Check(t.Context(), call)
					if verdictOf(again) != c.verdict || again.Passage != nil || len(l.before) != 1 {
						t.Errorf("asked again: %s, and %d flows ran", verdictOf(again), len(l.before))
					}
				}
				var sent []string
				call.Before = func(context.Context) error { sent = append(sent, string(call.Args)); return nil }
				got, err := w.make(p, call)
				if w.far && len(f.keys) != len(sent) {
					t.Errorf("the server got %d calls, %d were asked about right before", len(f.keys), len(sent))
				}
				if c.unsent != (len(sent) == 0) || len(sent) > 1 || len(sent) == 1 && sent[0] != wantArgs {
					t.Errorf("sent %q, want %s", sent, wantArgs)
				}
				e := core.AsError(err)
				if core.CodeOf(err) != c.err || err != nil && (e.Made != c.made || e.NotMade != c.notMade) {
					t.Errorf("%v: made %t, not made %t", err, e != nil && e.Made, e != nil && e.NotMade)
				}
				if err == nil && !strings.Contains(string(got), c.result) {
					t.Errorf("got %s", got)
				}
				for _, r := range l.after {
					if string(r.Args) != wantArgs {
						t.Errorf("the answer's flows saw %s", r.Args)
					}
				}
			})
		}
	}
}

func verdictOf(v engine.Verdict) string {
	if v.Deny != nil {
		return string(v.Deny.Code)
	}
	asks := []string{}
	for _, a := range v.Ask {
		asks = append(asks, string(a.Type))
	}
	if len(asks) == 0 {
		return "ok"
	}
	return strings.Join(asks, "+")
}

// Flows see what the server itself has answered, also that its tool has failed.
func TestFlows_SeeTheAnswer(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"fake:fail":      `"isError":true`,
		"fake:write":     `"content"`,
		"workspace:stat": `"structuredContent"`,
		"far:read":       `"structuredContent":{"path":"."}`,
		"far:write":      "it failed",
	} {
		l := &looking{passage: &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Node: "c"}}}}
		p, _ := watched(t, `{"allow":["*"]}`, l)
		call := p.call(tool, `{"path":"."}`)
		v := p.Check(t.Context(), call)
		call.Passage = v.Passage
		_, _ = p.Call(t.Context(), call, func(string) {})
		saw := string(l.saw.Result)
		if l.saw.Err != nil {
			saw = l.saw.Err.Error()
		}
		if len(l.after) != 1 || !strings.Contains(saw, want) {
			t.Errorf("%s: %s", tool, saw)
		}
	}
}

// A call that a flow asks about is asked about for itself: no rule, session or earlier
// answer allows it, and what is asked says who asks and who has changed the arguments.
func TestFlows_Ask(t *testing.T) {
	t.Parallel()
	l := &looking{passage: &core.Passage{
		Flows: []core.PassedFlow{{Flow: "all", Node: "c", Changed: true}}, Args: json.RawMessage(`{"n":2}`),
		Asks: []core.FlowAsk{{Flow: "all", Node: "a", Message: "is it " + strings.Repeat("x", 400)}},
	}}
	p, _ := watched(t, `{"allow":["*"]}`, l)
	v := p.want("fake:write", `{"n":1}`, "tool_permission")
	ask := v.Ask[0]
	digest, _ := core.Digest(json.RawMessage(`{"n":2}`))
	if !ask.Once || ask.Subject != core.CallSubject("fake:write", digest) || !strings.Contains(ask.Description, "The flow look asks: is it") ||
		!strings.Contains(ask.Description, "changed by the flow look") || len(ask.Description) > 600 {
		t.Errorf("%+v", ask)
	}
	raw, _ := json.Marshal(ask.Context)
	if !strings.Contains(string(raw), `"arguments":{"n":2}`) || !strings.Contains(string(raw), `"arguments_before_flows":{"n":1}`) || !strings.Contains(string(raw), `"changed_by_flows":["look"]`) {
		t.Errorf("%s", raw)
	}
	// Its arguments may be changed by a person: no flow looks at those.
	edited := p.call("fake:write", `{"n":3}`)
	now, err := p.Edited(t.Context(), edited, raw)
	if err != nil || !now.Once || len(l.before) != 1 {
		t.Fatalf("%v %+v, %d flows ran", err, now, len(l.before))
	}
	edited.Passage, edited.Program = l.passage, json.RawMessage(`{"n":1}`)
	if v := p.Check(t.Context(), edited); len(v.Ask) != 1 || v.Ask[0].Digest != now.Digest {
		t.Errorf("what the run asks is not what was shown: %+v, %+v", v, now)
	}
	// With a flow that does not ask, another digest.
	plain := p.call("fake:write", `{"n":3}`)
	plain.Passage = &core.Passage{}
	if v := p.Check(t.Context(), plain); len(v.Ask) != 0 {
		t.Errorf("%+v", v.Ask)
	}
}

// What flows make of arguments is judged as if the program had passed it.
func TestFlows_ChangedIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tool, args, want, says string }{
		"Schema":   {"fake:read", `{"n":"x"}`, "invalid_arguments", "changed by the flow look"},
		"Executed": {"workspace:write_file", `{"path":".github/workflows/x.yml","content":"x"}`, "tool_permission", ""},
		"Repaired": {"fake:read", `{"n":1}`, "ok", ""},
	} {
		l := &looking{passage: &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Changed: true}}, Args: json.RawMessage(c.args)}}
		p, _ := watched(t, `{"allow":["*"]}`, l)
		v := p.want(c.tool, `{"n":"wrong","path":"a","content":""}`, c.want)
		if v.Deny != nil && !strings.Contains(v.Deny.Message, c.says) {
			t.Errorf("%s: %v", name, v.Deny)
		}
	}
}

// A planned call meets no flow; nobody is asked about it ahead, and its arguments, which
// a flow may change, are not judged.
func TestFlows_Planned(t *testing.T) {
	t.Parallel()
	l := &looking{passage: &core.Passage{}}
	p, _ := watched(t, `{}`, l)
	for _, tool := range []string{"fake:write", "fake:read", "far:write"} {
		call := p.call(tool, `{"n":"x"}`)
		call.Planned = true
		if v := p.Check(t.Context(), call); v.Deny != nil || len(v.Ask) > 0 || v.Passage != nil || len(l.before) > 0 {
			t.Errorf("%s: %+v", tool, v)
		}
	}
}

// A process that runs no flows refuses what one matches, before and after.
func TestFlows_NobodyRunsThem(t *testing.T) {
	t.Parallel()
	p, f := watched(t, `{"allow":["*"]}`, nil)
	for _, tool := range []string{"fake:write", "workspace:stat", "far:read"} {
		p.want(tool, `{"path":"."}`, "hook_failed")
		call := p.call(tool, `{"path":"."}`)
		call.Passage = &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Node: "c"}}}
		if _, err := p.Call(t.Context(), call, func(string) {}); core.CodeOf(err) != core.CodeHookFailed || !core.AsError(err).Made {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if len(f.keys) != 1 {
		t.Errorf("%q", f.keys)
	}
}

// A failure of the server whose outcome is not known stays in doubt when a flow fails
// at it, and one that was certainly not made stays that.
func TestFlows_FailAtAFailure(t *testing.T) {
	t.Parallel()
	l := &looking{passage: &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Node: "c"}}}, end: func(flow.Answer) flow.Answer {
		return flow.Answer{Err: core.Errorf(core.CodeHookFailed, "it threw").WithMade()}
	}}
	p, _ := watched(t, `{"allow":["*"]}`, l)
	call := p.call("far:write", `{}`)
	call.Passage = l.passage
	_, err := p.Call(t.Context(), call, func(string) {})
	if e := core.AsError(err); core.CodeOf(err) != core.CodeHookFailed || e.Made || e.NotMade {
		t.Errorf("%v", err)
	}
	call = p.call("fake:write", `{}`)
	call.Passage, call.Before = l.passage, func(context.Context) error {
		return core.Errorf(core.CodeTimeout, "not sent").WithNotMade()
	}
	_, err = p.Call(t.Context(), call, func(string) {})
	if e := core.AsError(err); err == nil || e.Made || !e.NotMade {
		t.Errorf("%v", err)
	}
}

// A call that no flow has looked at goes back to its gates where one would look at it by
// the time it is made: somebody has enabled it while the call waited.
func TestFlows_Since(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"fake:read", "far:read"} {
		for where, made := range map[string]bool{"true": false, "false": true} {
			t.Run(tool+where, func(t *testing.T) {
				t.Parallel()
				p, f := watched(t, `{"allow":["*"]}`, &looking{})
				p.write(".pml/flows/all.json", `{"id":"all","enabled":false}`)
				p.trust().open()
				call := p.call(tool, `{"n":1}`)
				if v := p.Check(t.Context(), call); v.Deny != nil || v.Passage != nil {
					t.Fatalf("%+v", v)
				}
				p.write(".pml/flows/all.json", strings.Replace(lookAtAll, `"enabled":true`, `"enabled":true,"match":{"where":"`+where+`"}`, 1))
				p.trust()
				_, err := p.Call(t.Context(), call, func(string) {})
				if again, ok := errors.AsType[*engine.NotMadeError](err); made != (err == nil) || !made && !ok {
					t.Errorf("%v, %v", err, again)
				}
				if !made && len(f.keys) > 0 {
					t.Errorf("called %v", f.keys)
				}
			})
		}
	}
}

// A flow that has let a call pass is told when the gates then refuse it.
func TestFlows_PassedAndRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, permissions string
		want              core.Code
	}{
		"Arguments": {`{"n":"x"}`, `{"allow":["*"]}`, core.CodeInvalidArguments},
		"Rule":      {`{"n":9}`, `{"allow":["*"],"deny":[{"tool":"fake:write","where":"args.n == 9"}]}`, core.CodePermissionDenied},
		"Passes":    {`{"n":3}`, `{"allow":["*"]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &looking{passage: &core.Passage{Flows: []core.PassedFlow{{Flow: "all", Node: "c", Changed: true}}, Args: json.RawMessage(c.args)}}
			p, _ := watched(t, c.permissions, l)
			v := p.Check(t.Context(), p.call("fake:write", `{"n":1}`))
			var got core.Code
			if v.Deny != nil {
				got = v.Deny.Code
			}
			if got != c.want || (c.want != "") != (len(l.unanswered) == 1) || c.want != "" && l.unanswered[0] != c.want {
				t.Errorf("%v; the flow was told %v", v.Deny, l.unanswered)
			}
		})
	}
}
