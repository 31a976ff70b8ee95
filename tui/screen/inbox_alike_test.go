package screen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/paint"
)

// writes adds calls of write_file that wait in one run.
func writes(p *person, run core.ID, risk core.Risk, files ...string) (out []core.Approval) {
	for i, f := range files {
		a := p.approval(apTool)
		a.ID = core.ID(fmt.Sprintf("b7%s%d%d-0000-4000-8000-000000000000", string(run[:4]), len(risk), i))
		a.RunID, a.Tool, a.Risk, a.Digest = run, "fs:write_file", risk, "sha256:"+f
		a.Context = raw(map[string]any{"arguments": map[string]any{"path": f, "content": "x"}})
		a.ExpiresAt = in(time.Duration(20+i+len(p.st.Waiting(p.now))) * time.Second)
		out = append(out, a)
	}
	p.st.PutApprovals(out...)
	p.s.Changed(p.now)
	return out
}

// TestInbox_Alike: what asks the same of one run is one row that says what its parts
// have in common. It opens as a list, and decides all of it; = gives each a row.
func TestInbox_Alike(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 100, 30)
	list := writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/once.md", "docs/two.md")
	writes(p, runNotes, core.RiskHigh, "docs/index.md")
	other := writes(p, runETL, core.RiskMedium, "docs/a.md", "docs/b.md")
	p.wait(decide.Quiet)
	p.press("g")
	p.sees("3 × write_file docs/*.md (fs)")
	p.sees("= one row each")
	p.sees("2 × write_file docs/*.md (fs)")
	p.sees("write_file docs/index.md (fs)")
	p.press("a")
	p.sees("Decide 3 together?")
	p.sees("release-notes, medium risk, 0:28 left")
	p.sees("docs/one.md")
	if strings.Contains(p.frame(), "too early") {
		t.Error("it says too early, and no key was pressed")
	}
	p.press("d")
	p.sees("too early: it had only just appeared; press again")
	p.wait(decide.Quiet)
	p.press("space", "space", "space", "space", "space", "A")
	p.sees("together they are approved once, with a; A on one alone asks what to remember")
	p.press("a")
	p.wants(Decide{Approvals: list, Approve: true})

	p.press("g", "enter", "=")
	p.sees("write_file docs/one.md")
	p.sees("write_file docs/once.md")
	p.sees("write_file docs/two.md")
	p.sees("2 × write_file docs/*.md (fs)")
	if p.open() {
		t.Error("the list is still open")
	}
	p.press("?")
	p.sees("alike in one row")
	p.press("esc", "=")
	p.sees("3 × write_file docs/*.md (fs)")
	p.s.Resize(40, 10) // where enter and d are about all of them, too
	p.press("g")
	for range 8 {
		if strings.Contains(p.frame(), "3 × write_file docs/*.md") {
			break
		}
		p.press("j")
	}
	p.sees("3 × write_file docs/*.md")
	p.s.Resize(100, 30)
	p.frame()
	p.press("g")

	p.press("j", "j")
	for p.selected() != other[0].ID {
		p.press("k")
	}
	p.press("space")
	if got := p.marks(); len(got) != 2 {
		t.Errorf("marked %v", got)
	}
	p.press("space", "y")
	if got := p.marks(); len(got) != 0 {
		t.Errorf("marked %v", got)
	}
	p.sees("these are 2 approvals")
}

// TestFitPath: what differs from the rows beside it stays, then the first folder and the
// name of the file; the server goes before these.
func TestFitPath(t *testing.T) {
	t.Parallel()
	theme := paint.NewTheme(paint.Ansi, paint.NoColor, false)
	call := func(n string) string {
		return "write_file src/components/dashboard/" + n + "/widgets/deep/index.tsx (fs)"
	}
	beside := func() []string {
		return []string{call("alpha2"), call("alpha3"), "write_file README.md (fs)", "send ada (mail)"}
	}
	for w, want := range map[int]string{
		80: call("alpha1"),
		64: "write_file src/…/dashboard/alpha1/widgets/deep/index.tsx (fs)",
		44: "write_file src/…/alpha1/…/index.tsx (fs)",
		38: "write_file …/alpha1/…/index.tsx (fs)",
		33: "write_file …/alpha1/…/index.tsx",
		24: "write_file …/alpha1/…",
	} {
		got := fitPath(call("alpha1"), w, beside, theme)
		if got != want {
			t.Errorf("%d columns: %q, want %q", w, got, want)
		}
	}
	if got := fitPath("write_file a/very/long/folder/name.ts", 24, func() []string { return nil }, theme); got != "write_file a/…/name.ts" {
		t.Errorf("alone: %q", got)
	}
}

// TestInbox_Distinct: rows whose paths differ in a folder in their middle can be told
// apart at every width, waiting and resolved, and say their run.
func TestInbox_Distinct(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {110, 30}, {160, 45}} {
		p := atInbox(t, size[0], size[1])
		list := writes(p, runNotes, core.RiskMedium, "src/components/dashboard/alpha1/widgets/index.tsx", "src/components/dashboard/alpha2/widgets/index.tsx")
		p.wait(decide.Quiet)
		p.press("g", "=")
		p.sees("alpha1")
		p.sees("alpha2")
		if size[0] > 80 { // what is over has a line or two there
			continue
		}
		for _, a := range list {
			p.change(a.ID, func(a *core.Approval) {
				a.State, a.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: core.Actor{Who: "ada", Via: core.ViaTUI}, At: p.now}
			})
		}
		p.press("G", "G")
		p.sees("alpha1")
		p.sees("alpha2")
		if frame := p.frame(); strings.Count(frame, "release-not") < 3 {
			t.Errorf("%v: whose calls were they?\n%s", size, frame)
		}
	}
}

// TestAudit_Narrow: 80 columns say what type a decision was of, and whose calls were halted.
func TestAudit_Narrow(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	halt := func(seq int64, side core.Side) core.AuditRow {
		return core.AuditRow{Seq: seq, Side: side, At: fixtureNow, By: core.Actor{Who: "ada", Via: core.ViaTUI}, Outcome: core.ApprovalDenied, Reason: core.HaltedAll}
	}
	st.SetAudit(append(fixtureAudit(), halt(90, core.SideClient), halt(91, core.SideServer)))
	s := newScreen(t, st, 80, 24)
	press(s, "6")
	wantShown(t, s, "TYPE", "tool perm", "WHAT", "BY", "RUN", "here: halted", "server: halted")
}

// TestInbox_AlikeHigh: a group of high risk says that it can only be denied together,
// and offers nothing else.
func TestInbox_AlikeHigh(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	list := writes(p, runNotes, core.RiskHigh, "docs/one.md", "docs/two.md")
	p.wait(decide.Quiet)
	p.press("g", "enter")
	p.wait(decide.Quiet)
	p.sees("high risk is denied together, but approved one by one")
	p.sees("[d] Deny all 2   [=] one by one   [m] why   esc back")
	if strings.Contains(p.frame(), "Approve all") {
		t.Error("it offers what cannot be done")
	}
	p.press("a")
	p.wants()
	p.press("d")
	p.wants(Decide{Approvals: list})
}

// TestInbox_AlikeArrives: what comes to a group while its list is open is not in it.
func TestInbox_AlikeArrives(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	list := writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/two.md")
	p.wait(decide.Quiet)
	p.press("g", "enter")
	writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/two.md", "docs/three.md")
	p.wait(decide.Quiet)
	p.press("space", "space", "space", "a")
	p.wants(Decide{Approvals: list, Approve: true})
}

// TestInbox_AlikeAcross: marks may reach across runs and risks, and their list says so.
func TestInbox_AlikeAcross(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 100, 30)
	writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/two.md")
	writes(p, runETL, core.RiskLow, "docs/a.md", "docs/b.md")
	p.wait(decide.Quiet)
	p.press("g", "space", "j", "space", "A")
	p.sees("Decide 4 together?")
	p.sees("of 2 runs, medium and low risk")
}

// TestInbox_FilterByWhatItShows: a filter finds what the rows show, of those that wait and of
// those that are over.
func TestInbox_FilterByWhatItShows(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 100, 30)
	list := writes(p, runNotes, core.RiskMedium, "docs/report.md", "docs/other.md")
	p.change(list[0].ID, func(a *core.Approval) { a.State = core.ApprovalApproved })
	p.press("/", `"report"`, "enter")
	p.sees("write_file docs/report.md (fs)")
	p.press("esc", "/", `"docs/other"`, "enter")
	p.sees("1 of ")
	p.sees("write_file docs/other.md (fs)")
}

// TestInbox_AlikeDecidedElsewhere: where somebody else decides all that an open list is about, one after
// another, it says so, and so does the count of the inbox.
func TestInbox_AlikeDecidedElsewhere(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	list := writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/two.md")
	waiting := len(p.st.Waiting(p.now))
	p.wait(decide.Quiet)
	p.press("g", "enter")
	p.sees("Decide 2 together?")
	for i, want := range []string{"the one that is left", "Nothing is left to decide"} {
		p.change(list[i].ID, func(a *core.Approval) {
			a.State, a.DecidedBy = core.ApprovalApproved, &core.DecidedBy{Actor: core.Actor{Who: "bob", Via: core.ViaTUI}, At: p.now}
		})
		p.sees(want)
		p.sees(fmt.Sprintf("%d waiting  sort", waiting-1-i))
		if i == 0 { // the row is about what is left
			p.sees("1 left of 2 × write_file")
		}
	}
	p.sees("already approved by bob via tui")
	p.sees("what was approved")
	hidden(t, p, "what will be sent")
	hidden(t, p, "the one that is left")
	p.press("a", "d")
	p.wants()
}

// TestInbox_AlikeSame: what asks the very same as the first has one line.
func TestInbox_AlikeSame(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 100, 30)
	writes(p, runNotes, core.RiskMedium, "docs/one.md", "docs/one.md", "docs/two.md")
	p.wait(decide.Quiet)
	p.press("g", "a")
	p.sees("2 of 3")
	p.sees("exactly as the first one, with the same digest")
	if n := strings.Count(p.frame(), "exactly as the first one"); n != 1 {
		t.Errorf("%d are said to be the same:\n%s", n, p.frame())
	}
}
