package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// ? on a card says what the card's keys do, not those of the panel below; esc leads back
// to the card.
func TestCard_Help(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("?")
	frame := p.frame()
	for _, want := range []string{"Help  card", "Approve once", "Deny, say why", "space pgdown", "next page", "as JSON"} {
		if !strings.Contains(frame, want) {
			t.Errorf("help lacks %q:\n%s", want, frame)
		}
	}
	for _, not := range []string{"mark a range", "sort"} {
		if strings.Contains(frame, not) {
			t.Errorf("help has %q of the panel:\n%s", not, frame)
		}
	}
	if strings.Contains(frame, "…") {
		t.Errorf("help is cut:\n%s", frame)
	}
	p.press("esc")
	if frame := p.frame(); strings.Contains(frame, "Help  card") || !strings.Contains(frame, "Approve tool permission?") {
		t.Errorf("esc does not lead back to the card:\n%s", frame)
	}
}

// enter in the help over a card leads back to the card, and nothing then says that esc does:
// there it would leave the card.
func TestCard_HelpEnter(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("?", "enter")
	if frame := p.frame(); strings.Contains(frame, "Help  card") || strings.Contains(frame, "esc leads back") || !strings.Contains(frame, "Approve tool permission?") {
		t.Errorf("enter does not lead back to the card:\n%s", frame)
	}
}

// A card that is longer than its view names the key that shows the rest.
func TestCard_NamesKey(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {40, 10}} {
		p := atCard(t, apTool, size[0], size[1])
		p.change(apTool, func(a *core.Approval) {
			a.Context = raw(map[string]any{"arguments": map[string]any{"body": strings.Repeat("line\n", 200)}})
		})
		p.press("J", "J") // whatever was said about the change
		p.sees("space")
		if size[0] == 80 {
			p.sees("space pages on. Approve unlocks page by page.")
			p.wait(decide.Quiet)
			p.press("a")
			p.sees("space pages on")
		}
	}
}

// TestBulkHelp: the help over a list of approvals lists what keys do there, and a page that was
// jumped over is not said to come.
func TestBulkHelp(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	writes(p, runNotes, core.RiskMedium, "docs/1.md", "docs/2.md", "docs/3.md", "docs/4.md", "docs/5.md", "docs/6.md")
	p.wait(decide.Quiet)
	p.press("g", "enter", "?")
	for _, want := range []string{"deny all 6", "deny all 6, with one reason", "approve all 6 once", "space pgdown", "one by one"} {
		p.sees(want)
	}
	hidden(t, p, "mark a range")
	p.press("esc", "G")
	p.sees("jumped over 2 lines: space goes back there")
}

// TestCard_ApproveLabel: only where a yes is about the call that asks does the card say "once".
func TestCard_ApproveLabel(t *testing.T) {
	t.Parallel()
	for id, want := range map[core.ID]string{
		apTool: "[a] Approve once", apHook: "[a] Approve once", apIntegrity: "[a] Approve from now on", apInDoubt: "[a] Approve: choose r or s first",
		apDependency: "[a] Approve ", apKeys: "[a] Approve ", apOAuth: "[a] Approve ", apLayer: "[a] Approve ",
	} {
		p := atCard(t, id, 120, 40)
		p.sees(want)
		if strings.HasSuffix(want, " ") {
			hidden(t, p, "Approve once")
		}
	}
}

// TestCard_Once: what is asked about each time has no button that remembers.
func TestCard_Once(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 120, 40)
	p.sees("[A] Approve, remember")
	p.change(apTool, func(a *core.Approval) { a.Once, a.Digest = true, "sha256:another" })
	p.sees("[a] Approve once")
	hidden(t, p, "[A]")
	p.press("esc")
	p.s.overlay.open(newRememberCard(apTool, p.s.env(p.now)))
	p.sees("[a] Approve once")
	hidden(t, p, "remember for:")
}

// The help of a card whose question is over has only what can be done with it.
func TestCard_HelpOver(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.change(apTool, func(a *core.Approval) {
		a.State, a.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: core.Actor{Who: "ada", Via: core.ViaTUI}, At: p.now}
	})
	p.press("?")
	p.sees("look at it in $EDITOR")
	p.sees("enter and esc lead back to the card")
	for _, not := range []string{"change the arguments", "5 more minutes", "ask again", "approve unlocks", "next button"} {
		if strings.Contains(p.frame(), not) {
			t.Errorf("help of what is over has %q:\n%s", not, p.frame())
		}
	}
}

// The search of the help finds keys of other panels and of cards, by their names and by
// what they do, and says where they work.
func TestHelp_FindsAll(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"restart": "start a server anew (servers)", "rule": "write a rule, shown first (card)",
		"reason": "say the reason to the agent (card)", "new flow": "new flow from a template (flows)",
		"colours": "--theme NAME", "color": "--theme NAME", "notif": "--notify HOW", "theme": `under "tui" in config.json`,
	} {
		s := newScreen(t, fixtureState(), 100, 30)
		press(s, "?", `"`+word+`"`)
		wantShown(t, s, want)
		wantHidden(t, s, "no key does that")
	}
}
