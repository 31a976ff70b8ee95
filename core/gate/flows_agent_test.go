package gate_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/flow"
	"github.com/casys-ai/pml/core/gate"
)

// A call that starts an agent meets the flows and the rules of any call, before and after
// it: wherever the routing gives its tool to, it is made here.
func TestFlows_Agent(t *testing.T) {
	t.Parallel()
	given := json.RawMessage(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"decision":"by the flow","question":"is it?"}}`)
	one := []core.PassedFlow{{Flow: "all", Node: "c"}}
	const answer = `{"decision":true,"question":"is it?"}`
	for name, tt := range map[string]struct {
		permissions string
		l           *looking
		later       string // the rules by the time it is made
		starts      bool
		err         core.Code
		result      string
	}{
		"Untouched":    {l: &looking{passage: &core.Passage{Flows: one}}, starts: true, result: answer},
		"Answers":      {l: &looking{passage: &core.Passage{Flows: one, Response: given}}, result: `"by the flow"`},
		"ChangesIt":    {l: &looking{passage: &core.Passage{Flows: one}, end: func(flow.Answer) flow.Answer { return flow.Answer{Result: given} }}, starts: true, result: `"by the flow"`},
		"BlocksAnswer": {l: &looking{passage: &core.Passage{Flows: one}, end: func(flow.Answer) flow.Answer { return flow.Answer{Err: core.Errorf(core.CodeDenied, "no")} }}, starts: true, err: core.CodeDenied},
		"DeniedSince":  {l: &looking{passage: &core.Passage{Flows: one}}, later: `{"deny":["agent:*"]}`, err: core.CodePermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &looking{passage: tt.l.passage, end: tt.l.end}
			p, f := watched(t, `{"allow":["*"]}`, l)
			call := p.call("agent:decide", `{"question":"is it?"}`)
			v := p.Check(t.Context(), call)
			if v.Deny != nil || v.Passage == nil || v.Side != core.SideClient {
				t.Fatalf("%+v", v)
			}
			call, err := gate.Passed(call, *v.Passage)
			if err != nil {
				t.Fatal(err)
			}
			if call.Side = v.Side; tt.later != "" {
				p.configure(tt.later)
				p.trust()
			}
			starts := 0
			call.Make = func(context.Context) (json.RawMessage, error) {
				starts++
				return json.RawMessage(answer), nil
			}
			got, err := p.Call(t.Context(), call, func(string) {})
			if core.CodeOf(err) != tt.err || !strings.Contains(string(got), tt.result) || (starts == 1) != tt.starts || starts > 1 || len(f.keys) > 0 {
				t.Errorf("%s, %v, %d agents, %d calls of the server", got, err, starts, len(f.keys))
			}
		})
	}
}
