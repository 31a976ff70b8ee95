package cli_test

import (
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestContinue_More: what a person gives an agent is no decision about an approval, and goes
// with none; without a terminal the ID is the consent.
func TestContinue_More(t *testing.T) {
	t.Parallel()
	f := agentRun()
	s := (&shell{fake: f}).run("continue", "7f3a91", "--more", "5", "--budget-usd", "0.5", "--reason", "go on").want(t, 0)
	s.has(t, "err", "used   2 of 5 iterations", "more   5 more iterations, $0.50 more")
	d := f.went[len(f.went)-1].Decision
	if d == nil || !d.Approve || d.More == nil || *d.More != (core.AgentMore{Iterations: 5, USD: 0.5}) || d.Reason != "go on" || d.Presence != "" {
		t.Errorf("%+v", d)
	}
	(&shell{fake: agentRun()}).run("continue", "7f3a91", "--more", "5", "--approve").want(t, 2).has(t, "err", "go with no decision")
	(&shell{fake: agentRun()}).run("continue", "7f3a91", "--more", "-5").want(t, 2)
}
