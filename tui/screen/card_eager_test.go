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

// TestCard_TypedThenApproved: the characters begin no time in which keys do nothing: only the
// last of them, held too long, is not taken for the key that approves.
func TestCard_TypedThenApproved(t *testing.T) {
	t.Parallel()
	for code, at := range map[string]bool{"9f0d": true, "9f0a": false} {
		p := newPerson(t, 100, 30)
		p.change(apIntegrity, func(a *core.Approval) {
			a.Context = raw(map[string]any{"tool": "std:fetch", "kind": "tool", "old_hash": "sha256:a1b2", "new_hash": "sha256:" + code + strings.Repeat("0", 60)})
		})
		p.s.overlay.open(cardOf(apIntegrity, p.s.env(p.now)))
		p.wait(decide.Quiet)
		p.readAll()
		p.press("a")
		for _, c := range code {
			p.press(string(c))
		}
		p.sees(">[a] Approve")
		p.press("a")
		if got := len(p.got) == 1; got != at {
			t.Errorf("%s: decided %t\n%s", code, got, p.frame())
		}
		if !at {
			p.sees("9f0a is right; that key came too soon behind it: a approves")
			p.wait(decide.Quiet)
			p.press("a")
			if len(p.got) != 1 {
				t.Errorf("not decided\n%s", p.frame())
			}
		}
	}
}

// TestCard_RemembersAtOnce: a row that is approved for longer asks for how long, once all of it is on
// screen; of high risk it asks for the characters first.
func TestCard_RemembersAtOnce(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 160, 45)
	p.wait(decide.Quiet)
	p.press("2", "j", "A")
	p.sees("remember for: r this run")
	p.press("r")
	p.wants() // it has only just appeared
	p.wait(decide.Quiet)
	p.press("r")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Approve: true, Answer: &core.Answer{Remember: core.RememberRun}})

	p, a := highCard(t, 100, 30)
	p.press("esc", "esc", "A")
	p.sees("type " + a.RunID.Short()[:4] + ", then say for how long")
}

// TestCard_MarkWhereAsked: the mark of a card stands on what its row was asked for, and of high
// risk never on what approves.
func TestCard_MarkWhereAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		risk      core.Risk
		key, want string
	}{
		{core.RiskLow, "a", ">[a] Approve once"}, {core.RiskMedium, "a", ">[a] Approve once"}, {core.RiskHigh, "a", ">[d] Deny"},
		{core.RiskMedium, "d", ">[d] Deny"}, {core.RiskMedium, "enter", ">[d] Deny"},
	} {
		p := newPerson(t, 160, 45)
		p.change(apTool, func(a *core.Approval) { a.Risk = c.risk })
		p.s.sel.Approval = apTool
		p.wait(decide.Quiet)
		p.press("2", c.key)
		if c.risk == core.RiskHigh { // it asks for the characters
			p.press("esc")
		}
		p.sees(c.want)
	}
}
