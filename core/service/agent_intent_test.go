package service_test

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestAgent_Intended: what a model wants in words alone is called where the words say all
// that a tool needs, under the gates of any call; otherwise the model is shown the tools that
// fit and that it may use.
func TestAgent_Intended(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		intent  string
		allowed *[]string
		asks    string // the tool that a person is asked about
		shown   string // to the model
		hidden  string
		calls   int
	}{
		"Complete":   {intent: "read the file a.txt", shown: "the text of a", calls: 1},
		"Gated":      {intent: "read the file a.txt then write its content to b.txt", asks: "workspace:write_file", shown: "b.txt", calls: 2},
		"Incomplete": {intent: "write the file b.txt", shown: "mcp[\"workspace\"][\"write_file\"]("},
		"NotAllowed": {intent: "write the file b.txt", allowed: &[]string{"workspace:read_*"}, shown: "read_file", hidden: "write_file"},
		"Nothing":    {intent: "zzyzx", shown: "no tool fits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.write("a.txt", "the text of a")
			model := &scripted{scripts: []string{"intent: " + tt.intent}}
			m.models = model
			c := m.client()
			r, err := c.Execute(c.ctx(), api.ExecuteRequest{Agent: &core.AgentSpec{Goal: "reach it", Allowed: tt.allowed}, By: me, Wait: -1})
			if err != nil {
				t.Fatal(err)
			}
			if tt.asks != "" {
				if len(r.Pending) != 1 || r.Pending[0].Tool != tt.asks {
					t.Fatalf("%+v", r)
				}
				if r, err = c.decide(r.WorkflowID, api.Decision{Approve: true}); err != nil {
					t.Fatal(err)
				}
			}
			out := agentIn(t, r)
			if out.Calls != tt.calls || !strings.Contains(out.Result, tt.shown) || tt.hidden != "" && strings.Contains(out.Result, tt.hidden) {
				t.Errorf("%+v", out)
			}
		})
	}
}
