package screen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// apResolved is a resolved approval of the fixture.
const apResolved core.ID = "a2000001-0000-4000-8000-000000000000"

// allResolved ends everything that waits.
func allResolved(p *person) {
	for _, a := range fixtureApprovals() {
		p.change(a.ID, func(a *core.Approval) { a.State = core.ApprovalSuperseded })
	}
}

// arrives has approvals come in, the first of which expires first.
func arrives(p *person, n int) (ids []core.ID) {
	for i := range n {
		a := fixtureApprovals()[1]
		a.ID, a.ExpiresAt = core.ID(fmt.Sprintf("c000000%d-0000-4000-8000-000000000000", i)), in(time.Duration(100+i)*time.Second)
		p.st.PutApprovals(a)
		ids = append(ids, a.ID)
	}
	if !p.open() {
		p.apart()
	}
	return ids
}

// TestInbox_CursorGoesToWhatWaits: where nothing waited the cursor is on what is
// over. It goes to what waits first as soon as there is something, and decisions
// wait for a moment.
func TestInbox_CursorGoesToWhatWaits(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	allResolved(p)
	p.wait(time.Second)
	p.press("1")
	ids := arrives(p, 3)
	p.frame()
	p.press("2")
	if p.selected() != ids[0] {
		t.Fatalf("selected %s", p.selected())
	}
	p.press("d", "a", "x", "+")
	p.wants()
	if p.open() {
		t.Error("a key that was pressed too early opened a card")
	}
	p.wait(decide.Quiet)
	p.press("+")
	p.wants(Extend{ID: ids[0], By: 5 * time.Minute})
}

// TestInbox_LastThatWaits: G goes to the last that waits, and from there to the end of all.
func TestInbox_LastThatWaits(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	p.press("G")
	if at := p.selected(); p.approval(at).StateAt(p.now) != core.ApprovalOpen {
		t.Errorf("at %s", at)
	}
	p.press("j")
	if at := p.selected(); p.approval(at).StateAt(p.now) == core.ApprovalOpen {
		t.Errorf("%s waits and is not the last", at)
	}
	p.press("k", "G", "G")
	if at := p.selected(); p.approval(at).StateAt(p.now) == core.ApprovalOpen {
		t.Errorf("at %s", at)
	}
}

// TestInbox_Mini: where the window shows one approval that waits, keys go through those that
// wait and no others: what is over would be decided about unseen.
func TestInbox_Mini(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 40, 10)
	n := len(p.s.o.State.Waiting(p.now))
	for i := range n + 3 {
		if at := p.selected(); p.approval(at).StateAt(p.now) != core.ApprovalOpen {
			t.Fatalf("after %d keys at %s, which does not wait", i, at)
		}
		p.press("j")
	}
	p.press("G", "G")
	if at := p.selected(); p.approval(at).StateAt(p.now) != core.ApprovalOpen {
		t.Errorf("at %s", at)
	}
}

// TestInbox_CursorByHand: on what is over the cursor stays where the person put
// it, by a key or a click, until something new waits.
func TestInbox_CursorByHand(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(p *person){
		"Key": func(p *person) { p.press("G", "G") },
		"Click": func(p *person) {
			y := lineOf(t, p, "expired or resolved")
			p.s.Mouse(10, y+1, Click, p.now)
		},
	} {
		p := atInbox(t, 160, 45)
		p.press("z")
		put(p)
		at := p.selected()
		if !strings.HasPrefix(string(at), "a2") {
			t.Fatalf("%s: selected %s", name, at)
		}
		p.change(apTool, func(a *core.Approval) { a.ExpiresAt = in(time.Hour) })
		p.change(apKeys, func(a *core.Approval) { a.State = core.ApprovalApproved })
		p.wait(time.Second)
		if p.selected() != at {
			t.Errorf("%s: the cursor moved to %s, and nothing new waits", name, p.selected())
		}
		p.press("enter")
		arrives(p, 2)
		p.wait(time.Second)
		if p.selected() != at {
			t.Errorf("%s: the cursor moved to %s while a card is open", name, p.selected())
		}
		p.press("esc")
		p.frame()
		if p.selected() != at {
			t.Errorf("%s: the cursor moved to %s right after it was put there", name, p.selected())
		}
		p.wait(stays)
		ids := arrives(p, 3)
		p.frame()
		p.press("R", "+")
		p.wants()
		if p.approval(p.selected()).StateAt(p.now) != core.ApprovalOpen {
			t.Errorf("%s: %v wait anew, selected %s", name, ids, p.selected())
		}
	}
}

// lineOf is the line of the frame that holds a text.
func lineOf(t *testing.T, p *person, text string) int {
	t.Helper()
	for y, l := range strings.Split(p.frame(), "\n") {
		if strings.Contains(l, text) {
			return y
		}
	}
	t.Fatalf("no %q in\n%s", text, p.frame())
	return 0
}

// TestInbox_ResolvedPushNothingAway: what is over takes no line from what waits,
// wherever the cursor is, but its own.
func TestInbox_ResolvedPushNothingAway(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 160, 45)
	p.press("2")
	p.wait(decide.Quiet)
	for _, key := range []string{"G", "k", "k", "g"} {
		p.press(key)
		frame := p.frame()
		waiting := p.st.Waiting(p.now)
		for i, text := range []string{"0:48", "3:0", "4:1", "6:"} {
			if !strings.Contains(frame, text) {
				t.Errorf("after %s: %s (%s) is not in view:\n%s", key, waiting[i].Tool, text, frame)
			}
		}
	}
}

// TestInboxView: the row of the cursor is in view, so is whatever waits as far as
// there are lines, and each line has the row that is drawn in it.
func TestInboxView(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := &inboxRows{
			waiting:  make([]core.ID, rapid.IntRange(0, 12).Draw(rt, "waiting")),
			resolved: make([]core.ID, rapid.IntRange(0, 12).Draw(rt, "resolved")),
		}
		if r.len() == 0 {
			return
		}
		v := inboxView{}
		for range 5 {
			v.height = rapid.IntRange(1, 20).Draw(rt, "height")
			selected := rapid.IntRange(0, r.len()-1).Draw(rt, "selected")
			v.arrange(selected, r)
			seen := map[int]bool{}
			heading := -1
			for y := range v.height {
				if row := v.rowAt(y, r); row >= 0 {
					if seen[row] || heading >= 0 && row < len(r.waiting) {
						rt.Fatalf("row %d in line %d", row, y)
					}
					seen[row] = true
				}
				if v.isHeading(y, r) {
					heading = y
				}
			}
			if !seen[selected] {
				rt.Fatalf("row %d is not in view: %+v", selected, v)
			}
			room := v.height
			if selected >= len(r.waiting) {
				room--
			}
			for row := range r.waiting {
				if len(r.waiting) <= room && !seen[row] || selected >= len(r.waiting) && row < room && !seen[row] {
					rt.Fatalf("%d waits and is not in view: %+v", row, v)
				}
			}
		}
	})
}

// TestCard_ResolvedOffersNothing: the card of what is over has no button that
// decides, and a key that would says so.
func TestCard_ResolvedOffersNothing(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{160, 45}, {80, 24}, {60, 15}} {
		p := newPerson(t, size[0], size[1])
		p.s.overlay.open(cardOf(apResolved, p.s.env(p.now)))
		p.wait(decide.Quiet)
		p.sees("Resolved: api key")
		for _, word := range []string{"[a]", "[d]", "[A]", "[x]", "[m]", "Are the keys there?"} {
			if strings.Contains(p.frame(), word) {
				t.Errorf("%v: it offers %s:\n%s", size, word, p.frame())
			}
		}
		for _, key := range []string{"a", "A", "d", "m", "x", "+"} {
			p.press(key)
			if size[1] > 15 {
				p.sees("nothing is left to decide here")
			}
			p.press("j")
		}
		p.press("y")
		p.wants(Copy{What: "the command that shows it", Text: "pml approvals show a2000001"})
	}
}

// TestInbox_RenewedCursor: the cursor goes from what has expired to the question that asks it again,
// and not when somebody looks at what was asked again long ago.
func TestInbox_RenewedCursor(t *testing.T) {
	t.Parallel()
	const later core.ID = "a9000000-0000-4000-8000-000000000000"
	p := atInbox(t, 100, 40)
	expired := p.approval("a2000003-0000-4000-8000-000000000000")
	for p.selected() != expired.ID {
		before := p.selected()
		if p.press("j"); p.selected() == before {
			t.Fatal("it cannot be selected")
		}
	}
	p.press("R")
	p.wants(Renew{ID: expired.ID})
	next := expired
	next.ID, next.Renews, next.ExpiresAt = later, expired.ID, in(time.Hour)
	p.st.PutApprovals(next)
	p.s.Changed(p.now)
	if got := p.selected(); got != later {
		t.Errorf("the cursor is on %s", got)
	}
	p.press("a")
	if p.open() {
		t.Error("a key that was meant for something else has opened a card")
	}
	p.wait(decide.Quiet)
	for p.selected() != expired.ID {
		before := p.selected()
		if p.press("j"); p.selected() == before {
			t.Fatal("what was asked again cannot be looked at any more")
		}
	}
}
