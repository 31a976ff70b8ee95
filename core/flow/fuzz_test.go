package flow_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/flow"
)

// FuzzParse: whatever a file of flows holds, an enforced flow with a fault refuses the calls that it
// meets, and one without can be walked to its end.
func FuzzParse(f *testing.F) {
	f.Add([]byte(drawn("start>a a>mcp mcp>end", "")))
	f.Add([]byte(drawn("start>?a ?a>mcp ?a>!b !b>mcp mcp>&c mcp>end", `, "match": {"tool": "w*"}, "mode": "audit"`)))
	f.Add([]byte(`{"enabled": true, "nodes": [{"id": "start", "type": "start"}], "edges": [{"source": "start", "target": "start"}]}`))
	f.Add([]byte(`{"enabled": false, "match": {"where": "args.a == 1"}}`))
	f.Add([]byte(`{"nodes": {}, "edges": 1, "match": [], "priority": 1e99}`))
	f.Add([]byte(`{"id": "a", "id": "b"}`))
	f.Add([]byte("not a flow"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := flow.Parse(map[string][]byte{"a.json": text}, false)
		req := flow.Request{Tool: "srv:write", Args: json.RawMessage(`{"a": 1}`), Client: "cli"}
		met, err := flow.NewSet(nil, d, true).For(req)
		if !json.Valid(text) && (len(d.Flows)+len(d.Faults) == 0 || err == nil) {
			t.Errorf("what is no JSON is passed by: %q", text)
		}
		for _, fl := range d.Flows {
			if len(fl.Faults) > 0 && fl.Enabled && fl.Mode != flow.Audit && fl.Type != flow.ListTools && fl.Meets(req) && err == nil {
				t.Errorf("the call is not refused by a flow with faults %v: %q", fl.Faults, text)
			}
		}
		for _, fl := range met {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			half := flow.Walk(ctx, &nodes{}, clock{}, flow.Input{Flow: fl, Request: req, Run: "r"})
			if ctx.Err() != nil || half.State == "" {
				t.Errorf("state %q, %v: %q", half.State, ctx.Err(), text)
			}
			cancel()
		}
	})
}
