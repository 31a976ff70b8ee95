package screen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
)

// comments adds calls that line 12 of one run's script makes, the first of which is asked first.
func comments(p *person, risk core.Risk, bodies ...string) (out []core.Approval) {
	for i, body := range bodies {
		a := p.approval(apTool)
		a.ID = core.ID(fmt.Sprintf("c%07d-0000-4000-8000-000000000000", i))
		a.Tool, a.Subject, a.Risk, a.Digest = "linear:create_comment", fmt.Sprintf("c%d", i), risk, fmt.Sprintf("sha256:c0ffee%02d", i)
		a.Description, a.Place = "Allow linear:create_comment?", core.Position{Line: 12, Column: 9}
		a.Context = raw(map[string]any{"arguments": map[string]any{"issueId": fmt.Sprintf("ENG-%d", i), "body": body, "team": "ENG"}})
		a.CreatedAt, a.ExpiresAt = ago(time.Minute-time.Duration(i)*time.Second), in(time.Duration(20+i)*time.Second)
		out = append(out, a)
	}
	p.st.PutApprovals(out...)
	p.s.Changed(p.now)
	return out
}

// atLoop is a person at the row of calls of one line.
func atLoop(t *testing.T, risk core.Risk, w, h int, bodies ...string) (p *person, list []core.Approval) {
	t.Helper()
	p = atInbox(t, w, h)
	list = comments(p, risk, bodies...)
	p.wait(decide.Quiet)
	p.press("g")
	return p, list
}

// given are the bounds that a person has approved.
func (p *person) given(of core.Approval) core.Shape {
	p.t.Helper()
	if len(p.got) == 1 {
		if d, ok := p.got[0].(Decide); ok && d.Approve && len(d.Approvals) == 1 && d.Approvals[0].ID == of.ID && d.Approvals[0].Digest == of.Digest && d.Answer != nil && d.Answer.Shape != nil {
			return *d.Answer.Shape
		}
	}
	p.t.Fatalf("no bounds were approved: %#v\n%s", p.got, p.frame())
	return core.Shape{}
}

// TestCard_BoundsHelp: the help over bounds names each key once, and nothing that is for the question.
func TestCard_BoundsHelp(t *testing.T) {
	t.Parallel()
	p, _ := atLoop(t, core.RiskMedium, 100, 40, "one", "two")
	p.press("b", "?")
	p.sees("Edit the bounds")
	for _, not := range []string{"change the arguments", "as JSON, and back", "5 more minutes", "ask again"} {
		hidden(t, p, not)
	}
}

// TestCard_Bounds: the calls of one line are one row; b shows their bounds, which are approved
// once all of them was on screen, bound to the question.
func TestCard_Bounds(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskMedium, 80, 24, "one", "two\x1b[2J", "a longer text that says why this is not worth it at all, and nothing more", "three")
	p.sees("4 × create_comment *, line 12")
	p.sees("b loop")
	p.press("b", "a")
	p.wants()
	p.sees("Approve the calls of line 12?")
	p.wait(decide.Quiet)
	checkGolden(t, "card/bounds_80x24.txt", p.frame())
	p.press("a", "d", "x", "A", "m", "enter", "G", "a")
	p.wants() // not read, and denied on the card of the call only
	p.readAll()
	p.press("a")
	s := p.given(list[0])
	if want, _ := approval.Propose(list); s.Max != 4 || fmt.Sprint(approval.ShapeLines(s)) != fmt.Sprint(approval.ShapeLines(want)) || s.Place.Line != 12 {
		t.Errorf("%+v", s)
	}
	if p.open() {
		t.Error("the card is still open")
	}
}

// TestCard_BoundsChanged: the count goes up and down, lines of the editor change the rest, and
// what is wrong changes nothing. What was changed is read again.
func TestCard_BoundsChanged(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskMedium, 100, 40, "one", "two")
	p.press("b")
	p.wait(decide.Quiet)
	p.press("+", "+", "-", "a")
	p.wants()
	p.sees("at most 3 calls of linear:create_comment from line 12:9")
	p.s.typed = decide.Guard{} // time has passed
	p.press("e")
	p.s.typed = decide.Guard{} // in the editor, too
	i, ok := p.got[0].(EditBounds)
	if !ok || i.Approval.ID != list[0].ID || i.Text != "max 3\nuntil run\nbody any\nissueId any\nteam is \"ENG\"\n" {
		t.Fatalf("%#v", p.got)
	}
	p.got = nil
	for _, lines := range []string{"team is OPS", "max 1001", "issueId is ENG-9", "priority any", "until yesterday"} {
		if wrong, open := p.s.BoundsEdited(i, "max 2\n"+lines, p.now); len(wrong) != 1 || !open {
			t.Errorf("%s: %v, %v", lines, wrong, open)
		}
	}
	p.sees("at most 3 calls")
	if wrong, open := p.s.BoundsEdited(i, "max 1\nuntil 10m\nissueId matches \"ENG-*\"\n# no\n", p.now); len(wrong) != 0 || !open {
		t.Fatal(wrong, open)
	}
	p.press("a")
	p.wants()
	p.sees("at most 1 call of linear:create_comment from line 12:9, in this run until 2026-11-22 14:12:32")
	p.sees(`issueId matches "ENG-*"`)
	p.sees("2 calls wait now, 1 of them asked about all the same")
	p.sees("asks: it is one more than the bounds are for")
	checkGolden(t, "card/bounds_100x40.txt", p.frame())
	p.wait(decide.Quiet)
	p.press("a")
	if s := p.given(list[0]); s.Max != 1 || s.Until == nil || s.Fields[1].Matches != "ENG-*" {
		t.Errorf("%+v", s)
	}
}

// TestCard_BoundsHigh: high risk takes its four characters and the PIN, as any approval does.
// What was typed for the call is not for the bounds.
func TestCard_BoundsHigh(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskHigh, 100, 40, "one", "two")
	p.s.NeedPin(true)
	p.press("=", "enter")
	p.wait(decide.Quiet)
	p.press("a", `"7f3a"`)
	p.sees("right. Now approve")
	p.press("b")
	p.wait(decide.Quiet)
	p.press("a")
	p.sees("type 7f3a to approve")
	p.press(`"7f3a"`)
	p.wait(decide.Quiet)
	p.press("a", `"`+fixtureSecret+`"`)
	p.wants()
	p.press("enter")
	if s := p.given(list[0]); s.Risk != core.RiskHigh || p.got[0].(Decide).Pin != fixtureSecret {
		t.Errorf("%+v", p.got)
	}
}

// TestCard_BoundsBehind: what comes while bounds are shown is not among them until b shows it,
// and they go with their question.
func TestCard_BoundsBehind(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskMedium, 100, 40, "one", "two")
	p.press("b")
	p.wait(decide.Quiet)
	comments(p, core.RiskMedium, "one", "two", "three")
	p.sees("2 calls wait now")
	p.sees("1 more call of this line has come since: b shows all")
	p.press("b")
	p.sees("3 calls wait now")
	p.sees("at most 3 calls")
	i := EditBounds{Approval: list[0]}
	p.change(list[0].ID, func(a *core.Approval) { a.Digest = "sha256:other" })
	p.sees("the bounds are gone: read it again")
	if _, open := p.s.BoundsEdited(i, "max 9", p.now); open {
		t.Error("the bounds of another question were changed")
	}
	p.wait(decide.Quiet)
	p.press("b")
	p.wait(decide.Quiet)
	p.change(list[0].ID, func(a *core.Approval) { a.State = core.ApprovalDenied })
	p.press("a")
	p.wants()
	p.sees("already denied")
}

// TestCard_BoundsBack: esc goes back to the card, or to the inbox where there was none; what
// bounds cannot be about has none.
func TestCard_BoundsBack(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskMedium, 100, 40, "one", "two")
	p.press("b", "esc")
	if p.open() {
		t.Error("the card is still open")
	}
	p.press("enter")
	p.sees("[b] loop")
	p.press("b", "esc", "=")
	p.press("g", "enter")
	p.sees("[b] Bounds for line 12")
	p.press("b")
	p.sees("Approve the calls of line 12?")
	if strings.Contains(p.frame(), "The call that is asked about") {
		t.Error("the question is shown again, which was read")
	}
	p.press("esc")
	p.sees("Approve tool permission?")
	p.wait(decide.Quiet)
	p.press("d")
	p.wants(Decide{Approvals: list[:1]})

	p = atCard(t, apTool, 100, 40)
	p.press("b")
	p.sees("bounds are for the calls of one line of a script")
	if strings.Contains(p.frame(), "[b]") {
		t.Error("bounds are offered")
	}
}

// TestCard_BoundsSizes: every window shows them, down to the smallest, and they can be read there.
func TestCard_BoundsSizes(t *testing.T) {
	t.Parallel()
	for _, size := range windowSizes {
		p := newPerson(t, size[0], size[1])
		list := comments(p, core.RiskMedium, "日本語の名前 and a text that is too long for a column", "two")
		p.s.overlay.open(newBoundsCard(list[0].ID, p.s.env(p.now)))
		p.wait(decide.Quiet)
		seen := p.frame()
		for range 60 {
			p.press("j")
			seen += p.frame()
		}
		for _, want := range []string{"at most 2 calls", "c0000001", "ENG-1", "team is", "The call that is asked about"} {
			if !strings.Contains(seen, want) {
				t.Errorf("%v: %q was never on the screen", size, want)
			}
		}
		if size[0] >= 80 && !strings.Contains(seen, `c0000001  "two"  `) {
			t.Errorf("%v: the calls are no table", size)
		}
		p.press("a")
		if s := p.given(list[0]); s.Max != 2 {
			t.Errorf("%v: %+v", size, s)
		}
	}
}

// TestCard_BoundsExpired: calls whose questions have run out are known, too: bounds permit them
// when the run goes on.
func TestCard_BoundsExpired(t *testing.T) {
	t.Parallel()
	p, list := atLoop(t, core.RiskMedium, 100, 40, "one", "two", "three")
	p.change(list[2].ID, func(a *core.Approval) { a.State = core.ApprovalDenied })
	p.wait(time.Minute)
	p.s.overlay.open(newBoundsCard(list[1].ID, p.s.env(p.now)))
	p.wait(decide.Quiet)
	p.sees("at most 2 calls")
	p.sees("expired at 14:02:52")
	p.press("a")
	if s := p.given(list[1]); s.Max != 2 || s.Fields[1].Is != nil {
		t.Errorf("%+v", s)
	}
}
