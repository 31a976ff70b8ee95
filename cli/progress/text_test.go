package progress_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/cli/progress"
	"github.com/casys-ai/pml/core"
)

// TestProgress_Text: what a model writes stands on a terminal piece by piece, the totals
// come between two answers, and of the result only what was not written is left.
func TestProgress_Text(t *testing.T) {
	t.Parallel()
	const run core.ID = "11111111-2222-4333-8444-555555555555"
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	piece := func(call, text string) core.Event {
		return core.Event{Type: core.EventAgentText, RunID: run, TaskID: call, Message: text}
	}
	used, _ := json.Marshal(map[string]any{"usage": core.AgentUsage{Input: 1000, Output: 500}})
	answered := func(call string) core.Event {
		return core.Event{Type: core.EventAgentIteration, RunID: run, TaskID: call, Tool: core.ModelTool, Message: call + ": done", Data: used}
	}
	for _, redraws := range []bool{true, false} {
		screen, w := screenOf(redraws)
		screen.Now = func() time.Time { return now }
		p := progress.New(screen)
		p.Start()
		spent := core.AgentSpent{MaxIterations: 5, Budget: core.AgentBudget{Tokens: 4000, USD: 1}, Price: &core.AgentPrice{Input: 3, Output: 15}, Usage: core.AgentUsage{USD: new(float64)}}
		p.Agent(run, spent)
		p.Text(piece("m1", "I look\x1b[2J "), 0)
		p.Text(piece("m1", "first."), 9)
		p.Event(answered("m1"))
		p.Event(core.Event{Type: core.EventTaskComplete, RunID: "c", TaskID: "c1", Tool: "fs:read"})
		p.Text(piece("m2", "It is "), 0)
		p.Text(piece("m2", "done"), 6)
		rest := p.Rest("It is done, all of it.")
		p.Stop()
		if p.Run() != run {
			t.Errorf("redraws %t: the run is %s", redraws, p.Run())
		}
		got := w.String()
		totals := "1 of 5 iterations, 0 calls, 1500 of 4000 tokens, $0.0105 of $1.00"
		if redraws { // drawn after the call as well
			totals = strings.ReplaceAll(totals, "0 calls", "1 call")
		}
		if !strings.Contains(got, totals) {
			t.Errorf("redraws %t: no totals: %q", redraws, got)
		}
		if !redraws {
			if rest != "It is done, all of it." || strings.Contains(got, "first.") || !strings.Contains(got, "m1: done") {
				t.Errorf("where nothing is redrawn: %q, then %q", got, rest)
			}
			continue
		}
		if !strings.Contains(got, "first.\n") || strings.Contains(got, "\x1b") || !strings.HasSuffix(got, "It is done") || rest != ", all of it." {
			t.Errorf("%q, then %q", got, rest)
		}
	}
}
