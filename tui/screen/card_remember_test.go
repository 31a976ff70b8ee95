package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/state"
)

func TestCard_Pin(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.s.NeedPin(true)
	p.press("G", "a", "enter", `"`+fixtureSecret+`"`)
	p.sees("PIN: " + strings.Repeat("*", len(fixtureSecret)))
	p.key(keys.Key{Name: "x", Text: "x", Paste: true})
	p.wants()
	if strings.Contains(p.frame(), fixtureSecret) {
		t.Error("the PIN is on the screen")
	}
	p.press("enter")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Approve: true, Pin: fixtureSecret})

	p = atCard(t, apTool, 80, 24)
	p.s.NeedPin(true)
	p.press("d")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}})

	p = atCard(t, apTool, 80, 24)
	p.s.NeedPin(true)
	p.press("G", "a", `"1234"`)
	p.change(apTool, func(a *core.Approval) { a.State = core.ApprovalSuperseded })
	p.press("enter")
	p.wants()
}

// TestCard_PinLost: what stands against a decision may come up while the PIN is
// being typed.
func TestCard_PinLost(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.s.NeedPin(true)
	p.press("G", "a", `"1234"`)
	p.st.Links.Client.State = state.LinkLost
	p.press("enter")
	p.wants()
	p.sees("nothing is queued")
	p.st.Links.Client.State = state.LinkLive
	p.press("enter")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Approve: true, Pin: "1234"})
}

func TestCard_Rule(t *testing.T) {
	t.Parallel()
	rule := api.Rule{Approval: apTool, List: "allow", Pattern: "gh:create_release", Change: api.Change{
		File: "/home/ada/src/shop/.pml.json", Diff: "@@ line 3 @@\n   \"allow\": [\n+    \"gh:create_release\"\n   ]\n", Digest: "sha256:1",
	}}
	p := atCard(t, apTool, 80, 24)
	a := p.approval(apTool)
	p.press("G", "A", "w", "a")
	p.wants(AskRule{Approval: a})
	p.got = nil
	p.s.ShowRule(api.Rule{Approval: apHook}, nil, p.now) // of another question
	p.press("a")
	p.wants()
	p.s.ShowRule(rule, nil, p.now)
	p.sees(`permissions.allow gets "gh:create_release"`)
	p.sees("+    \"gh:create_release\"")
	checkGolden(t, "card/rule_80x24.txt", p.frame())
	p.press("enter", "space", "a")
	p.wants()
	p.wait(decide.Quiet)
	p.press("a")
	p.wants(Remember{Approval: a, Rule: rule})

	p = atCard(t, apTool, 80, 24)
	p.press("G", "A", "w")
	p.got = nil
	p.s.ShowRule(api.Rule{}, core.Errorf(core.CodePermissionDenied, "a rule\x1b stands against it"), p.now)
	p.sees(`no rule: a rule\x1b stands against it`)
	p.wait(decide.Quiet)
	p.press("A", "w")
	p.got = nil
	p.s.ShowRule(api.Rule{}, core.Errorf(core.CodePermissionDenied, "a rule that allows gh:create_release would decide nothing: \"gh:*\" in permissions.deny stands against it"), p.now)
	p.sees("stands against it") // in the next line
	p.press("a", "esc")
	p.wants()
}

// TestCard_LongRule: a rule is not written before all of it was on screen.
func TestCard_LongRule(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	p.press("G", "A", "w")
	p.got = nil
	p.s.ShowRule(api.Rule{Approval: apTool, List: "allow", Change: api.Change{File: "f", Diff: strings.Repeat("+ x\n", 60)}}, nil, p.now)
	p.wait(decide.Quiet)
	p.press("a")
	p.wants()
	p.press("G", "a")
	p.wants()
	p.readAll()
	p.press("a")
	if len(p.got) != 1 {
		t.Errorf("%#v", p.got)
	}
}

// TestCard_RuleOwned: no rule is offered for a run of somebody's API key, whose decision
// writes none.
func TestCard_RuleOwned(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 100, 30)
	a := p.approval(apTool)
	a.ID, a.Owner = "a9000000-0000-4000-8000-000000000000", "ana"
	p.st.PutApprovals(a)
	p.s.overlay.open(cardOf(a.ID, p.s.env(p.now)))
	p.wait(decide.Quiet)
	p.readAll()
	p.press("A")
	if got := p.frame(); strings.Contains(got, "write a rule") || !strings.Contains(got, "r this run") {
		t.Errorf("\n%s", got)
	}
	p.press("w")
	p.wants()
	p.sees("the run is one of ana")
}

// TestCard_RememberHigh: who wants to remember a permission of high risk types its characters
// and then says for how long; no key has to be pressed twice for it.
func TestCard_RememberHigh(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 100, 30)
	p.change(apTool, func(a *core.Approval) { a.Risk = core.RiskHigh })
	p.s.overlay.open(cardOf(apTool, p.s.env(p.now)))
	p.wait(decide.Quiet)
	p.readAll()
	p.press("A")
	p.wait(decide.Quiet)
	p.sees(", then say for how long")
	for _, c := range p.approval(apTool).RunID.Short()[:4] {
		p.press(string(c))
	}
	p.wait(decide.Quiet)
	p.press("r")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Approve: true, Answer: &core.Answer{Remember: core.RememberRun}})
}

// TestCard_RuleSaysWhatItAnswers: before a rule is written the card lists the calls that wait
// and that it answers, and those that it leaves; one that comes meanwhile is to be read first.
func TestCard_RuleSaysWhatItAnswers(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 100, 30)
	list := writes(p, runNotes, core.RiskMedium, "docs/a.md", "docs/b.md", "other.md")
	writes(p, runNotes, core.RiskHigh, "own.yml")
	writes(p, runETL, core.RiskHigh, ".github/ci.yml")
	p.s.overlay.open(cardOf(list[0].ID, p.s.env(p.now)))
	p.wait(decide.Quiet)
	p.readAll()
	p.press("A", "w")
	p.got = nil
	p.s.ShowRule(api.Rule{Approval: list[0].ID, List: "allow", Pattern: "fs:write_file"}, nil, p.now)
	p.sees("also answers, where a process still runs it: docs/b.md, other.md, own.yml (high)")
	p.sees("still asked: .github/ci.yml (high)")
	p.wait(decide.Quiet)
	writes(p, runETL, core.RiskMedium, "late.md")
	p.press("a")
	p.wants()
	p.sees("late.md")
	p.press("a")
	if len(p.got) != 1 {
		t.Errorf("%#v", p.got)
	}
}
