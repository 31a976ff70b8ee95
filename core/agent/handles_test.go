package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/agent"
)

// TestLoop_Handles: of a large result the model sees the beginning and a handle; a later
// script that names the handle gets the run whose result it is, and nothing else does. The
// same large result three times is still the same.
func TestLoop_Handles(t *testing.T) {
	t.Parallel()
	l := agent.New(spec(), objectsOnly)
	l.Begin()
	big, _ := json.Marshal(strings.Repeat("x", 20<<10))
	outcomes := []agent.Outcome{{ID: "run-a", Result: big}, {ID: "run-b", Result: json.RawMessage(`1`)}, {ID: "run-c", Result: big}}
	s := l.Answered(script("return 1", "return 2", "return 3"), 1)
	for i, r := range s.Runs {
		if len(r.Results) > 0 {
			t.Errorf("%+v", r)
		}
		s = l.Ran(r.Call, outcomes[i])
	}
	for i, want := range []string{"results.h1)", "", "results.h2)"} {
		text := last(t, s).Results[i].Text
		if strings.Contains(text, "results.h") != (want != "") || !strings.HasSuffix(text, want) || len(text) > 9<<10 {
			t.Errorf("%d: %s", i, text[max(0, len(text)-120):])
		}
	}
	s = l.Answered(script("return results.h2.length + results['h1'].length", "return results.h3", "return oh1 + h10", "return 1"), 1)
	if got, want := s.Runs[0].Results, map[string]core.ID{"h1": "run-a", "h2": "run-c"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, r := range s.Runs[1:] {
		if len(r.Results) > 0 {
			t.Errorf("%q gets %v", r.Code, r.Results)
		}
	}
	l = agent.New(spec(), objectsOnly)
	s = l.Begin()
	for n := 0; !s.Done && n < 9; n++ {
		s = l.Answered(script("return 1"), 1)
		for _, r := range s.Runs {
			s = l.Ran(r.Call, agent.Outcome{ID: core.ID(fmt.Sprint("run-", n)), Result: big})
		}
	}
	if s.Result == nil || s.Result.Stop != core.AgentNoProgress {
		t.Errorf("%+v", s.Result)
	}
}
