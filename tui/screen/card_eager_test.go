package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// highCard is a person who has pressed a in the inbox on a tool of high risk.
func highCard(t *testing.T, w, h int) (*person, core.Approval) {
	t.Helper()
	st := emptyState()
	st.PutRuns(fixtureRuns()...)
	var a core.Approval
	for _, a = range fixtureApprovals() {
		if a.Type == core.ApproveTool {
			break
		}
	}
	a.Risk = core.RiskHigh
	st.PutApprovals(a)
	p := newPersonOf(t, st, w, h)
	p.wait(decide.Quiet)
	p.press("2", "a")
	return p, a
}

// TestCard_AsksAtOnce: a card that was opened to approve asks for the four characters
// when all of it is on screen; what is typed before it has stood for a moment counts
// for nothing, and the characters approve nothing by themselves.
func TestCard_AsksAtOnce(t *testing.T) {
	t.Parallel()
	p, a := highCard(t, 100, 30)
	want := a.RunID.Short()[:4]
	p.sees("type " + want + " to approve: ____")
	p.press(string(want[0])) // too early
	p.sees("too early")
	p.sees("type " + want + " to approve: ____")
	for _, c := range want {
		p.wait(decide.Quiet)
		p.press(string(c))
	}
	p.wants()
	p.wait(decide.Quiet)
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{a}, Approve: true})
}

// TestCard_AsksAtOnce_Unread: one that does not fit asks for nothing until it was paged
// through and the person says so.
func TestCard_AsksAtOnce_Unread(t *testing.T) {
	t.Parallel()
	p, a := highCard(t, 60, 15)
	p.wait(decide.Quiet)
	hidden(t, p, "to approve: ____")
	for _, c := range a.RunID.Short()[:4] {
		p.press(string(c))
		p.wait(decide.Quiet)
	}
	hidden(t, p, "right. Now approve")
}

func hidden(t *testing.T, p *person, text string) {
	t.Helper()
	if frame := p.frame(); strings.Contains(frame, text) {
		t.Errorf("%q is on screen:\n%s", text, frame)
	}
}
