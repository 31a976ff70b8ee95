package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// TestInbox: calls of one place of a script are one card, which leads to the form for all of
// them and to each; what is of another run, place or risk stands alone.
func TestInbox(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	ask := func(id core.ID, run core.ID, line int, risk core.Risk) core.Approval {
		return core.Approval{
			ID: id, RunID: run, Type: core.ApproveTool, Tool: "a:ask", State: core.ApprovalOpen, Risk: risk, Description: "Allow a:ask?",
			Context: json.RawMessage(`{"arguments":{"n":"` + string(id) + `"}}`), Place: core.Position{Line: line, Column: 1},
		}
	}
	list := []core.Approval{ask("other", "r2", 3, core.RiskMedium), ask("place", "r1", 4, core.RiskMedium), ask("risk", "r1", 3, core.RiskHigh)}
	for i := range 12 {
		list = append(list, ask(core.ID(fmt.Sprintf("id%02d", i)), "r1", 3, core.RiskMedium))
	}
	p := Inbox("ann", list, nil, now)
	got := p.Data.(map[string]any)["List"].([]entry)
	if p.Title != "15 waiting" || len(got) != 4 {
		t.Fatalf("%s in %d cards", p.Title, len(got))
	}
	loop := got[3]
	if loop.Href != "/approvals/id00#loop" || loop.Title != "12 calls from line 3:1: Allow a:ask?" || len(loop.Each) != 10 || loop.More != 2 {
		t.Errorf("%+v", loop)
	}
	if each := loop.Each[9]; each.Href != "/approvals/id09" || each.Title != "n id09" {
		t.Errorf("%+v", each)
	}
	for _, alone := range got[:3] {
		if len(alone.Each) > 0 || strings.Contains(alone.Href, "#") {
			t.Errorf("%+v", alone)
		}
	}
}
