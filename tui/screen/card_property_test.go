package screen

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
)

// TestCard_Property: whatever keys are pressed in whatever order on the card of
// whatever approval, it is approved only after the end of the payload was on
// screen and, at high risk, its characters were typed one by one; never by
// enter, space or pasted text, and never within the quiet time.
func TestCard_Property(t *testing.T) {
	t.Parallel()
	ids := []core.ID{apIntegrity, apTool, apDependency, apKeys, apOAuth, apLayer, apInDoubt, apHook}
	names := []string{
		"a", "a", "A", "d", "m", "x", "y", "s", "r", "w", "p", "+", "R", "enter", "space", "esc", "tab", "j", "k", "G", "g",
		"pgdown", "backspace", "0", "3", "4", "7", "8", "9", "f", "paste",
	}
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.SampledFrom(ids).Draw(rt, "id")
		st := fixtureState()
		a, _ := st.Approval(id)
		if rapid.Bool().Draw(rt, "long") {
			a.Description += strings.Repeat(" long", 300)
			st.PutApprovals(a)
		}
		s := newScreen(t, st, 80, 24)
		s.NeedPin(rapid.Bool().Draw(rt, "pin"))
		now := fixtureNow
		c := cardOf(id, s.env(now))
		s.overlay.open(c)
		quiet := now.Add(decide.Quiet)
		var pressed []string
		for range rapid.IntRange(0, 60).Draw(rt, "keys") {
			s.Plain(now)
			read, mode := c.pager.AtEnd(), c.mode
			name := rapid.SampledFrom(names).Draw(rt, "key")
			k := keyNamed(name)
			switch {
			case name == "paste":
				k = keys.Key{Name: "a", Text: approval.Confirmation(a, false), Paste: true}
			case mode == confirming && rapid.Bool().Draw(rt, "right"):
				want := c.rule.Wants()
				k = keyNamed(want[len(c.rule.Typed()) : len(c.rule.Typed())+1])
			}
			pressed = append(pressed, k.Name)
			for _, i := range s.Key(k, now) {
				checkDecision(rt, i, c, a, decided{read: read, mode: mode, key: k, early: now.Before(quiet), keys: pressed})
			}
			if len(s.overlay) == 0 {
				return
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(rt, "ms")) * time.Millisecond)
		}
	})
}

// decided is how a decision came about.
type decided struct {
	read  bool
	mode  cardMode
	key   keys.Key
	early bool
	keys  []string
}

func checkDecision(t *rapid.T, i Intent, c *card, a core.Approval, how decided) {
	d, ok := i.(Decide)
	if !ok {
		return
	}
	if how.early {
		t.Fatalf("too early: %+v", how)
	}
	if how.key.Paste || how.mode == deciding && (how.key.Name == "enter" || how.key.Name == "space") {
		t.Fatalf("%s decided: %+v", how.key.Name, how)
	}
	if !d.Approve {
		return
	}
	if !how.read {
		t.Fatalf("approved unread: %+v", how)
	}
	high := a.Risk == core.RiskHigh || d.Answer != nil && d.Answer.Scripts
	if !high {
		return
	}
	// What was typed must be among the keys, in this order.
	want, at := c.rule.Wants(), 0
	for _, k := range how.keys {
		if at < len(want) && k == want[at:at+1] {
			at++
		}
	}
	if len(want) != 4 || at < 4 {
		t.Fatalf("approved without typing %q: %+v", want, how)
	}
	if a.Type == core.ApproveInDoubt && d.Answer == nil {
		t.Fatalf("nobody said how it goes on: %+v", how)
	}
}
