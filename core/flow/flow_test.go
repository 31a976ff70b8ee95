package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
)

// clock stands still.
type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// nodes answers for each node by its id, and writes down what was executed.
type nodes struct {
	outputs map[string]flow.Output
	errors  map[string]error
	log     []string
}

func (x *nodes) Execute(_ context.Context, in flow.Input) (flow.Output, error) {
	x.log = append(x.log, in.Node.ID+string(in.Request.Args))
	return x.outputs[in.Node.ID], x.errors[in.Node.ID]
}

func (x *nodes) Start(_ context.Context, in flow.Input) bool {
	x.log = append(x.log, in.Node.ID+string(in.Request.Args))
	return true
}

// drawn makes a flow's file of edges such as "start>a a>mcp mcp>end"; a node whose
// name begins with & is not waited for, one with ? is a condition, one with ! asks.
func drawn(picture, more string) string {
	seen := map[string]bool{}
	var list, edges []string
	add := func(id string) {
		if seen[id] {
			return
		}
		seen[id] = true
		node := map[string]any{"id": id, "type": "hook", "position": map[string]int{"x": 10, "y": 20}}
		data := map[string]any{"label": strings.ToUpper(id)}
		switch {
		case id == "start" || id == "end":
			node["type"] = id
		case strings.HasPrefix(id, "mcp"):
			node["type"] = "mcp-call"
		case id[0] == '?':
			node["type"] = "condition"
			data["condition"] = map[string]string{"expression": "true"}
		case id[0] == '!':
			node["type"] = "approval"
			data["approval"] = map[string]string{"message": "really?"}
		default:
			data["hook"] = map[string]any{"id": id, "script": "return", "blocking": id[0] != '&'}
		}
		node["data"] = data
		raw, _ := json.Marshal(node)
		list = append(list, string(raw))
	}
	for e := range strings.FieldsSeq(picture) {
		source, target, _ := strings.Cut(e, ">")
		source, label, _ := strings.Cut(source, "=")
		add(source)
		if target == "" {
			continue
		}
		add(target)
		raw, _ := json.Marshal(map[string]string{"source": source, "target": target, "label": label})
		edges = append(edges, string(raw))
	}
	return `{"id":"f","name":"F","workflowType":"tools/call"` + more + `,"nodes":[` + strings.Join(list, ",") + `],"edges":[` + strings.Join(edges, ",") + `]}`
}

func parseOne(t *testing.T, text string) *flow.Flow {
	t.Helper()
	d := flow.Parse(map[string][]byte{"f.json": []byte(text)}, false)
	if len(d.Flows) != 1 {
		t.Fatalf("%d flows", len(d.Flows))
	}
	return d.Flows[0]
}

// states are the nodes of a half with their states, if that is not the usual one: a call
// waits for its answer, all else is done.
func states(h flow.Half) string {
	var out []string
	for _, n := range h.Nodes {
		text := n.Node
		if usual := map[bool]core.FlowState{true: core.FlowPending, false: core.FlowOK}[n.Type == flow.TypeCall]; n.State != usual {
			text += ":" + string(n.State)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// The main path is the walk over the nodes that the call waits for; the others hang
// off it and begin when the node before them is done.
func TestWalk(t *testing.T) {
	t.Parallel()
	args := func(s string) flow.Output { return flow.Output{Args: json.RawMessage(s)} }
	for name, tt := range map[string]struct {
		picture, more   string
		outputs         map[string]flow.Output
		errors          map[string]error
		log             string // what was executed, with the arguments that it saw
		before, after   string // states of the nodes of each half
		args, code      string
		asks            int
		noCall, changed bool
	}{
		"Empty":    {picture: "start>mcp mcp>end", before: "mcp", after: "end"},
		"Picture":  {picture: "start>a start>&f a>b b>mcp mcp>&g mcp>c c>end", log: "&f{} a{} b{} | &g{} c{}", before: "&f:running a b mcp", after: "&g:running c end"},
		"Order":    {picture: "mcp>end a>mcp a>&f start>a", log: "a{} &f{} |", before: "a &f:running mcp", after: "end"},
		"Changed":  {picture: "start>a a>b a>&f b>mcp mcp>c c>end", outputs: map[string]flow.Output{"a": args(`{"x":1}`)}, log: `a{} &f{"x":1} b{"x":1} | c{"x":1}`, before: "a &f:running b mcp", after: "c end", args: `{"x":1}`},
		"Blocked":  {picture: "start>a a>b b>mcp mcp>c c>end", outputs: map[string]flow.Output{"a": {Block: &flow.Block{Message: "no"}}}, log: "a{}", before: "a:blocked b:skipped mcp:skipped c:skipped", code: "denied"},
		"Failed":   {picture: "start>a a>mcp mcp>end", errors: map[string]error{"a": core.Errorf(core.CodeScript, "x")}, log: "a{}", before: "a:failed mcp:skipped", code: "hook_failed"},
		"Timeout":  {picture: "start>a a>mcp mcp>end", errors: map[string]error{"a": core.Errorf(core.CodeSandboxTimeout, "x")}, log: "a{}", before: "a:timeout mcp:skipped", code: "hook_failed"},
		"NoObject": {picture: "start>a a>mcp mcp>end", outputs: map[string]flow.Output{"a": args("3")}, log: "a{}", before: "a:failed mcp:skipped", code: "hook_failed"},
		"Doubled":  {picture: "start>a a>mcp mcp>end", outputs: map[string]flow.Output{"a": args(`{"a":1,"a":2}`)}, log: "a{}", before: "a:failed mcp:skipped", code: "hook_failed"},
		"True":     {picture: "start>?c ?c=true>a ?c=false>b a>mcp b>mcp2 mcp>end mcp2>end", outputs: map[string]flow.Output{"?c": {Branch: true}}, log: "?c{} a{} |", before: "?c a mcp b:skipped mcp2:skipped", after: "end"},
		"False":    {picture: "start>?c ?c=true>a ?c=false>b ?c=false>&f a>mcp b>mcp2 mcp>end mcp2>end", log: "?c{} &f{} b{} |", before: "?c &f:running b mcp2 a:skipped mcp:skipped", after: "end"},
		"Asks":     {picture: "start>!a !a>mcp mcp>end", before: "!a mcp", after: "end", asks: 1},
		"Answered": {picture: "start>a a>mcp mcp>c c>end", outputs: map[string]flow.Output{"a": {Response: json.RawMessage(`{"content":[]}`)}}, log: "a{}", before: "a mcp:skipped c:skipped", noCall: true},
		"Response": {picture: "start>mcp mcp>c c>end", outputs: map[string]flow.Output{"c": {Response: json.RawMessage(`{"content":[]}`)}}, log: "| c{}", before: "mcp", after: "c end", changed: true},
		"TooLate":  {picture: "start>mcp mcp>c c>end", outputs: map[string]flow.Output{"c": args(`{"x":1}`)}, log: "| c{}", before: "mcp", after: "c:failed", code: "hook_failed"},
		"Audit":    {picture: "start>a a>!b !b>mcp mcp>end", more: `,"mode":"audit"`, outputs: map[string]flow.Output{"a": args(`{"x":1}`)}, log: "a{} |", before: "a !b mcp", after: "end"},
		"AuditNo":  {picture: "start>a a>mcp mcp>end", more: `,"mode":"audit"`, outputs: map[string]flow.Output{"a": {Block: &flow.Block{}}}, log: "a{}", before: "a:blocked mcp:skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := parseOne(t, drawn(tt.picture, tt.more))
			x := &nodes{outputs: tt.outputs, errors: tt.errors}
			in := flow.Input{Flow: f, Request: flow.Request{Tool: "s:t", Args: json.RawMessage("{}")}}
			h := flow.Walk(t.Context(), x, clock{}, in)
			if got := states(h); got != tt.before || string(h.Args) != tt.args || len(h.Asks) != tt.asks {
				t.Errorf("%s, args %s, asks %v", got, h.Args, h.Asks)
			}
			if noCall := len(h.Response) > 0; noCall != tt.noCall {
				t.Errorf("%s", h.Response)
			}
			if h.State == core.FlowPending && !tt.noCall {
				if x.log = append(x.log, "|"); len(h.Args) > 0 {
					in.Request.Args = h.Args
				}
				in.Node, in.Answer, in.Variables = f.Node(h.Node), &flow.Answer{Result: json.RawMessage(`{}`)}, h.Variables
				h = flow.Walk(t.Context(), x, clock{}, in)
				if got := states(h); got != tt.after || len(h.Response) > 0 != tt.changed {
					t.Errorf("behind: %s, response %s", got, h.Response)
				}
			} else if tt.after != "" {
				t.Errorf("no second half: %+v", h)
			}
			if code := core.CodeOf(errOf(h)); string(code) != tt.code {
				t.Errorf("%v", h.Err)
			}
			if log := strings.Join(x.log, " "); tt.log != "" && log != tt.log {
				t.Errorf("executed %s", log)
			}
		})
	}
}

func errOf(h flow.Half) error {
	if h.Err == nil {
		return nil
	}
	return h.Err
}
