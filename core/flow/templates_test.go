package flow_test

import (
	"testing"
	"time"

	"github.com/casys-ai/pml/core/flow"
)

// Each template is a valid flow that is switched off, and valid once it is on.
func TestTemplates(t *testing.T) {
	t.Parallel()
	if n := len(flow.Templates()); n < 10 {
		t.Fatalf("%d templates", n)
	}
	for _, tmpl := range flow.Templates() {
		text := tmpl.Flow("x", "My flow", time.UnixMilli(1700000000000))
		f := flow.Parse(map[string][]byte{"x.json": text}, false).Flows[0]
		if len(f.Faults) > 0 || f.Enabled || f.ID != "x" || f.Name != "My flow" || f.CreatedAt != 1700000000000 {
			t.Errorf("%s: %v\n%s", tmpl.Name, f.Faults, text)
		}
	}
}
