package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// TestOwn_UnderWay: while a decision is being carried out, its keys neither decide
// again nor open the card; afterwards the card says that it was this person.
func TestOwn_UnderWay(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	a := p.approval(apHook)
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{a}, Approve: true})
	p.got = nil
	p.press("2")
	p.s.sel.Approval = apHook
	p.wait(decide.Quiet)
	p.press("a")
	if p.wants(); p.open() {
		t.Error("the key that decides opened the card of what was just decided")
	}
	p.sees(onItsWay)
	p.press("enter")
	p.wait(decide.Quiet)
	p.press("a", "d")
	p.wants()
	p.sees(onItsWay)
	p.change(apHook, func(a *core.Approval) {
		a.State = core.ApprovalApproved
		a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}, At: p.now}
	})
	p.s.Decided(apHook, true)
	p.sees("you have approved it at")
}

// TestCard_DoubtAnswered: of a call in doubt that was decided the card says the answer, and
// nothing of what will be sent.
func TestCard_DoubtAnswered(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]core.Answer{
		`skipped; its result is {"ok":true}`: {InDoubt: core.SkipResult, Result: []byte(`{"ok":true}`)},
		"it runs again":                      {InDoubt: core.RunAgain},
	} {
		p := atCard(t, apInDoubt, 80, 24)
		p.sees("what may have been sent")
		p.change(apInDoubt, func(a *core.Approval) {
			a.State, a.Answer = core.ApprovalApproved, &answer
			a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}, At: p.now}
		})
		p.s.overlay.open(cardOf(apInDoubt, p.s.env(p.now)))
		p.sees(want)
		hidden(t, p, "what will be sent")
		hidden(t, p, "what may have been sent")
	}
}

// TestOwn_Refused: what did not count can be decided again, and what somebody else
// has decided is said to be theirs.
func TestOwn_Refused(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	a := p.approval(apHook)
	p.press("a")
	p.s.Decided(apHook, false)
	p.s.overlay.open(cardOf(apHook, p.s.env(p.now)))
	p.wait(decide.Quiet)
	p.press("a")
	yes := Decide{Approvals: []core.Approval{a}, Approve: true}
	p.wants(yes, yes)
	p.change(apHook, func(a *core.Approval) {
		a.State = core.ApprovalDenied
		a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaCLI}, At: p.now}
	})
	p.s.Decided(apHook, false)
	p.s.overlay.open(cardOf(apHook, p.s.env(p.now)))
	p.sees("already denied by bob via cli")
}

// TestExpired_Over: a row that has expired and was asked again, or whose run has ended, offers
// no key that decides, and says what became of it: never that somebody has expired it.
func TestExpired_Over(t *testing.T) {
	t.Parallel()
	const later core.ID = "a9000000-0000-4000-8000-000000000000"
	by := &core.DecidedBy{Actor: core.Actor{Who: "ann", Via: core.ViaTUI}}
	for name, c := range map[string]struct {
		next core.ApprovalState // of what asks again; empty: nothing does
		run  core.RunState
		own  bool
		sees string
	}{
		"Waits":    {core.ApprovalOpen, core.RunWaiting, false, "asked again as a9000000, which waits"},
		"Approved": {core.ApprovalApproved, core.RunComplete, false, "asked again as a9000000: already approved by ann"},
		"Own":      {core.ApprovalApproved, core.RunComplete, true, "asked again as a9000000: you have approved it at"},
		"Expired":  {core.ApprovalExpired, core.RunWaiting, false, "asked again as a9000000: that has expired, too"},
		"Ended":    {"", core.RunComplete, false, "expired, and its run has ended: it is complete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := atInbox(t, 100, 30)
			old := p.approval(apHook)
			if c.next != "" {
				next := old
				next.ID, next.State = later, c.next
				if c.next == core.ApprovalApproved {
					by := *by
					by.At = p.now
					next.DecidedBy = &by
				}
				p.st.PutApprovals(next)
			}
			p.change(apHook, func(a *core.Approval) {
				if a.State = core.ApprovalExpired; c.next != "" {
					a.RenewedBy = later
				}
			})
			run, _ := p.st.Run(old.RunID)
			run.State = c.run
			run.Epoch++
			p.st.PutRuns(run)
			if c.own {
				p.s.Decided(apHook, true)
			}
			p.s.sel.Approval = apHook
			p.s.Changed(p.now)
			p.wait(decide.Quiet)
			foot := strings.Split(strings.TrimRight(p.frame(), "\n"), "\n")
			if last := foot[len(foot)-1]; strings.Contains(last, "a approve") || strings.Contains(last, "ask again") || strings.Contains(last, "d deny") {
				t.Errorf("offered: %s", last)
			}
			for _, key := range []string{"a", "d", "R"} {
				p.press(key)
				p.sees(c.sees)
				p.wait(decide.Quiet)
				p.press(key)
				p.wants()
				if strings.Contains(p.frame(), "you have expired") {
					t.Error("nobody expires anything")
				}
				p.press("esc")
			}
		})
	}
}

// TestCard_OverMakesWay: the key of a panel leaves a card whose question is over,
// and no other.
func TestCard_OverMakesWay(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	if p.press("1"); !p.open() {
		t.Error("the key of a panel has closed a card that waits")
	}
	p.change(apHook, func(a *core.Approval) { a.State = core.ApprovalApproved })
	if p.press("1"); p.open() || p.s.panes.focus != PanelWorkflows {
		t.Errorf("the card is still there, or the focus is on panel %d:\n%s", p.s.panes.focus+1, p.frame())
	}
	p.wants()
}

// TestEvidence_LongLabel: a label that fills its column stays apart from the value.
func TestEvidence_LongLabel(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	p.change(apHook, func(a *core.Approval) { a.Context = []byte(`{"leaves_workspace":false,"exactly_twelv":"x"}`) })
	p.sees("leaves workspace false")
	p.sees("exactly twelv x")
}

// TestCard_Permitted: a question that nobody had to answer because of a yes for the run says
// which that was.
func TestCard_Permitted(t *testing.T) {
	t.Parallel()
	const other core.ID = "a9000000-0000-4000-8000-000000000000"
	for name, c := range map[string]struct {
		answer *core.Answer
		sees   string
	}{
		"Run":  {&core.Answer{Remember: core.RememberRun}, "permitted by the approval a9000000"},
		"Once": {nil, "not needed any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := atCard(t, apTool, 100, 40)
			yes := p.approval(apTool)
			yes.ID, yes.State, yes.Answer = other, core.ApprovalApproved, c.answer
			w := edgedWorkflow()
			w.Approvals = append(w.Approvals, yes)
			p.st.PutWorkflow(w)
			p.change(apTool, func(a *core.Approval) { a.State = core.ApprovalSuperseded })
			p.sees(c.sees)
		})
	}
}

// TestCard_Because: a card that is over says why it was decided so; one's own no is no success.
func TestCard_Because(t *testing.T) {
	t.Parallel()
	p := atCard(t, apHook, 80, 24)
	no := func(who string) func(a *core.Approval) {
		return func(a *core.Approval) {
			a.State = core.ApprovalDenied
			a.DecidedBy = &core.DecidedBy{Actor: core.Actor{Who: who, Via: core.ViaCLI}, At: p.now, Reason: "not before the release of the other half, which somebody has to test\x1b[2J"}
		}
	}
	p.change(apHook, no("bob"))
	p.sees("already denied by bob via cli at")
	p.sees("because: not before the")
	p.sees("to test")

	p = atCard(t, apHook, 100, 30)
	p.press("d")
	p.change(apHook, no("ann"))
	p.s.Decided(apHook, true)
	p.s.overlay.open(cardOf(apHook, p.s.env(p.now)))
	p.sees("✗ you have denied it at")
	p.sees("because: not before")
	hidden(t, p, "✓ you have denied")
}

// TestCard_PlanChanged: the card of a layer whose plan has changed says so, and leads to the
// question that stands in its place.
func TestCard_PlanChanged(t *testing.T) {
	t.Parallel()
	const later core.ID = "a9000000-0000-4000-8000-000000000000"
	p := atCard(t, apLayer, 80, 24)
	p.press("?")
	p.sees("add tasks to the plan of its run")
	p.press("esc")
	next := p.approval(apLayer)
	p.change(apLayer, func(a *core.Approval) { a.State = core.ApprovalSuperseded })
	p.sees("taken back: the plan has changed, or the run went on without it")
	next.ID, next.Digest = later, "sha256:new"
	p.st.PutApprovals(next)
	p.sees("the plan has changed: asked anew as a9000000, which waits: enter shows it")
	p.press("enter")
	p.sees("Start the next layer?")
	p.sees("id a9000000")
}

// TestCard_ReplanRefused: a script has no plan that can be changed, and no editor opens for it.
func TestCard_ReplanRefused(t *testing.T) {
	t.Parallel()
	p := atCard(t, apTool, 80, 24)
	run, _ := p.st.Run(runNotes)
	run.Kind = core.KindCode
	run.Epoch++
	p.st.PutRuns(run)
	p.press("p")
	p.sees("only a DAG can be replanned")
	p.wants()
}

// TestCard_CodeHolds: as long as the characters of a high risk are right the card says so.
func TestCard_CodeHolds(t *testing.T) {
	t.Parallel()
	p := atCard(t, apIntegrity, 100, 40)
	p.press("a", `"9f04"`)
	p.sees("right. Now approve")
	p.wait(decide.Quiet)
	p.press("1")
	p.sees("9f04 is right: a approves")
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apIntegrity)}, Approve: true})
}
