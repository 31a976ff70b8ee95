package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/redact"
)

// TestView_Program: nothing of a program is shown or exported with a value in it, whatever
// kind of program it is; what is kept stays as it is.
func TestView_Program(t *testing.T) {
	t.Parallel()
	const key = "sk-live-0123456789"
	r := redact.New(map[string]string{"KEY": key})
	in := core.Program{
		Source: "// " + key, Script: "// " + key,
		Tasks: []core.TaskSpec{{ID: "t", Arguments: json.RawMessage(`{"k":"` + key + `"}`), Code: key, When: key}},
		Plan:  &core.Plan{Calls: []core.PlanCall{{Arguments: json.RawMessage(`"` + key + `"`), Known: map[string]string{"k": key}}}},
		Agent: &core.AgentSpec{
			Goal: "use " + key, Context: json.RawMessage(`{"k":"` + key + `"}`), System: "tools of " + key,
			OutputSchema: json.RawMessage(`{"description":"` + key + `"}`),
		},
	}
	out, err := json.Marshal(redact.NewView(r.String, r.JSON).Program(in))
	if err != nil || strings.Contains(string(out), key) {
		t.Errorf("%s, %v", out, err)
	}
	if in.Agent.Goal != "use "+key {
		t.Errorf("what is kept was changed: %q", in.Agent.Goal)
	}
}
