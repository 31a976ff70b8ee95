//go:build unix

package stdio_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/cmd/pml/pmltest"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
)

// TestHalt_Agent: while calls are halted an agent's own scripts, and tools that are offered
// through, whether they only read or not, wait, and say so to it. It has no tool to resume.
func TestHalt_Agent(t *testing.T) {
	t.Parallel()
	m := exposes(t, "rec:{inc,echo}")
	h := startHost(m)
	if names := h.names(); slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "halt") || strings.Contains(n, "resume") }) {
		t.Errorf("tools: %v", names)
	}
	h.text("echo", map[string]any{"value": "before"})
	m.OK("halt", "--reason", "stop")
	var waits []core.ID
	for tool, args := range map[string]map[string]any{"echo": {"value": "late"}, "inc": {"key": "late"}, "execute": {"code": "return await mcp.rec.inc({ key: 'script' })"}} {
		text, _ := h.text(tool, args)
		var r api.Result
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Status != api.StatusHalted || r.ErrorCode != core.CodeHalted || !strings.Contains(r.Reason, "stop") || !strings.Contains(r.Decide, "no agent") {
			t.Errorf("%s: %s, %v", tool, text, err)
		}
		waits = append(waits, r.WorkflowID)
	}
	if got := m.Calls(); len(got) != 1 {
		t.Errorf("called %v", got)
	}
	if s := m.Terminal(pmltest.UsualSize, nil, []pmltest.Reply{pmltest.Typed(regexp.QuoteMeta("let calls go on? [y]es / [n]o: "), "y")}, "resume"); s.Exit != 0 {
		t.Fatalf("exit %d: %s", s.Exit, s.Text)
	}
	for _, id := range waits { // they go on in the process of the host
		pmltest.WaitFor(t, "a run to end", func() bool { return m.Workflow(id).State == core.RunComplete })
	}
	if got := m.Calls(); len(got) != 4 {
		t.Errorf("called %v", got)
	}
	h.close()
}
