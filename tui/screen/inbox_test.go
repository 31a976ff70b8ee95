package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// selected is the row of the inbox with the cursor.
func (p *person) selected() core.ID { return p.s.sel.Approval }

func atInbox(t *testing.T, w, h int) *person {
	t.Helper()
	p := newPerson(t, w, h)
	p.press("2")
	p.wait(decide.Quiet)
	return p
}

// TestInbox_NoDecision: no key decides from a row.
func TestInbox_NoDecision(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a", "A", "d", "m", "x", "enter", "space", "v", "s"} {
		p := atInbox(t, 80, 24)
		p.press("j", key)
		p.wants()
		if opens := strings.Contains("aAdmxenter", key); opens != p.open() {
			t.Errorf("%s: a card is open: %v", key, p.open())
		}
	}
}

func TestInbox_Keys(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	p.press("j", "+")
	p.wants(Extend{ID: apTool, By: 5 * time.Minute})
	p.got = nil
	p.press("y")
	p.wants(Copy{What: "the command that approves", Text: "pml continue 7f3a77e1 --approve --approval a1000002 --expect-digest " + p.approval(apTool).Digest})
	p.got = nil
	p.press("x")
	p.wait(decide.Quiet)
	p.press("y")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Abort: true})
	p.s.Decided(apTool, false)
	p.got = nil
	p.press("m", `"no"`)
	p.wait(decide.Quiet)
	p.press("enter")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apTool)}, Reason: "no"})
	p.got = nil
	p.press("G", "G", "k", "k", "k", "R")
	p.wants(Renew{ID: "a2000003-0000-4000-8000-000000000000"})
	p.got = nil
	p.press("i")
	p.sees("Audit trail a2000003")
	p.wants(LoadAudit{}) // it shows rows that were never asked for
	p.got = nil
	p.press("esc")
	p.press("Y")
	if c, ok := p.got[0].(Copy); !ok || !strings.Contains(c.Text, `"checkpoint_id": "a2000003`) {
		t.Errorf("%#v", p.got)
	}
}

// TestInbox_Selection: it stays on its approval when rows come and go, and goes
// to the next when that is decided; then decisions wait for a moment.
func TestInbox_Selection(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	p.press("j", "j")
	if p.selected() != apDependency {
		t.Fatalf("selected %s", p.selected())
	}
	sooner := p.approval(apKeys)
	sooner.ID, sooner.Tool, sooner.ExpiresAt = "a1000000-0000-4000-8000-000000000000", "other", in(10*time.Second)
	p.st.PutApprovals(sooner)
	p.wait(0)
	if p.selected() != apDependency {
		t.Fatalf("a new row moved the selection to %s", p.selected())
	}
	p.press("+")
	p.change(apDependency, func(a *core.Approval) { a.State = core.ApprovalApproved })
	p.frame()
	if p.selected() != apKeys {
		t.Fatalf("after it was decided: %s", p.selected())
	}
	p.got = nil
	p.press("a", "d", "x")
	if p.open() {
		t.Error("a card was opened by a key that was meant for another row")
	}
	p.wait(decide.Quiet)
	p.press("a")
	p.sees("TAVILY_API_KEY")
	p.wants()
}

// TestInbox_Frozen: while a card is open no row moves.
func TestInbox_Frozen(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 160, 45)
	p.press("j", "enter")
	rows := func() string {
		var b strings.Builder
		for l := range strings.SplitSeq(p.frame(), "\n") {
			if cells := []rune(l); len(cells) > 20 {
				b.WriteString(string(cells[6:17]))
			}
		}
		return b.String()
	}
	before := rows()
	sooner := p.approval(apKeys)
	sooner.ID, sooner.ExpiresAt = "a1000000-0000-4000-8000-000000000000", in(10*time.Second)
	p.st.PutApprovals(sooner)
	p.change(apTool, func(a *core.Approval) { a.ExpiresAt = in(time.Hour) })
	p.wait(time.Second)
	if after := rows(); after != before {
		t.Errorf("rows moved:\n%s", p.frame())
	}
	p.press("esc")
	if after := rows(); after == before {
		t.Error("they never move again")
	}
	if p.selected() != apTool {
		t.Errorf("selected %s", p.selected())
	}
}

// TestInbox_Together: marked approvals of one type are decided at once, after
// all of each was on screen.
func TestInbox_Together(t *testing.T) {
	t.Parallel()
	more := func(p *person, n int, t core.ApprovalType, risk core.Risk) []core.Approval {
		var out []core.Approval
		for i := range n {
			a := p.approval(apTool)
			a.ID, a.Type, a.Risk = core.ID(fmt.Sprintf("b100000%d-0000-4000-8000-000000000000", i)), t, risk
			a.ExpiresAt = in(time.Duration(20+i) * time.Second)
			out = append(out, a)
		}
		p.st.PutApprovals(out...)
		p.apart()
		p.wait(decide.Quiet)
		p.press("g")
		return out
	}
	p := atInbox(t, 80, 24)
	list := more(p, 3, core.ApproveTool, core.RiskMedium)
	p.press("space", "j", "space", "j", "space", "A")
	p.sees("Decide 3 together?")
	p.wait(decide.Quiet)
	p.press("a", "enter", "space")
	p.wants()
	p.press("G", "G", "a")
	p.wants(Decide{Approvals: list, Approve: true})

	p = atInbox(t, 80, 24)
	list = more(p, 3, core.ApproveTool, core.RiskMedium)
	p.press("v", "j", "j", "v", "A", "G")
	p.wait(decide.Quiet)
	p.change(list[1].ID, func(a *core.Approval) { a.State = core.ApprovalDenied })
	p.sees("the 2 that are left. b1000001 already denied")
	p.sees("Decide 2 together?")
	p.sees("[d] Deny all 2")
	p.press("d")
	p.wants()
	p.wait(decide.Quiet)
	p.press("a") // not read yet
	p.wants()
	p.press("G", "G", "a", "d")
	p.wants(Decide{Approvals: []core.Approval{list[0], list[2]}, Approve: true})

	p = atInbox(t, 80, 24)
	list = more(p, 3, core.ApproveTool, core.RiskMedium)
	p.press("space", "j", "space", "j", "space", "A")
	p.wait(decide.Quiet)
	p.press("m", `"not today"`)
	p.sees("deny all 3, because (enter denies): not today")
	p.press("enter")
	p.wants(Decide{Approvals: list, Reason: "not today"})

	p = atInbox(t, 80, 24)
	list = more(p, 2, core.ApproveTool, core.RiskMedium)
	p.press("space", "j", "space", "A")
	for _, a := range list {
		p.change(a.ID, func(a *core.Approval) { a.State = core.ApprovalDenied })
	}
	p.wait(decide.Quiet)
	p.press("d")
	p.wants()
	p.sees(nothingLeft)
	hidden(t, p, "[d] Deny")

	for name, c := range map[string]struct {
		kind core.ApprovalType
		risk core.Risk
		sees string
	}{
		"High":      {core.ApproveTool, core.RiskHigh, "high risk"},
		"InDoubt":   {core.ApproveInDoubt, core.RiskHigh, "answer of its own"},
		"Integrity": {core.ApproveIntegrity, core.RiskHigh, "Approve integrity change?"},
	} {
		p := atInbox(t, 80, 24)
		more(p, 2, c.kind, c.risk)
		p.press("space", "j", "space", "A", "G")
		p.wait(decide.Quiet)
		p.press("a")
		if name != "Integrity" { // that cannot be marked: its card opens
			p.sees(c.sees)
		}
		p.wants()
	}
}

// TestInbox_MarksOfOneType: a mark on another type begins anew.
func TestInbox_MarksOfOneType(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	p.press("j", "space", "j", "j", "space")
	p.sees("1 marked")
	p.press("A", "G")
	p.wait(decide.Quiet)
	p.press("a")
	p.wants(Decide{Approvals: []core.Approval{p.approval(apKeys)}, Approve: true})
}

func TestInbox_Filter(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	p.press("/", `"risk:high !integ"`, "enter")
	p.sees("2 of 8 waiting")
	if n := p.s.panels[PanelApprovals].(*inboxPanel).rows.waiting; len(n) != 2 {
		t.Errorf("%v", n)
	}
	p.press("esc")
	if n := p.s.panels[PanelApprovals].(*inboxPanel).rows.waiting; len(n) != 8 {
		t.Errorf("%v", n)
	}
}

func TestInbox_Mouse(t *testing.T) {
	t.Parallel()
	p := atInbox(t, 80, 24)
	for y, l := range strings.Split(p.frame(), "\n") {
		if strings.Contains(l, "TAVILY_API_KEY") {
			p.s.Mouse(10, y, Click, p.now)
		}
	}
	if p.selected() != apKeys || p.open() {
		t.Errorf("selected %s", p.selected())
	}
}

// TestInbox_TTL: wherever a row is, so is the time that it has left.
func TestInbox_TTL(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w, h := rapid.IntRange(40, 200).Draw(rt, "w"), rapid.IntRange(10, 60).Draw(rt, "h")
		s := newScreen(t, overflowState(rapid.SampledFrom([]string{"x", "a-long-name-that-is-too-long", "日本語の名前"}).Draw(rt, "name")), w, h)
		s.Plain(fixtureNow)
		press(s, "2")
		frame := s.Plain(fixtureNow)
		checkFrame(t, frame, w, h)
		for l := range strings.SplitSeq(frame, "\n") {
			if strings.Contains(l, "! integrity ") && modeOf(w, h) != mini && !strings.Contains(l, "0:48") {
				rt.Fatalf("no time in %dx%d: %s", w, h, l)
			}
		}
	})
}

// manyApprovals adds approvals to a state.
func manyApprovals(st *state.State, n int) {
	list := make([]core.Approval, n)
	for i := range list {
		list[i] = fixtureApprovals()[1]
		list[i].ID = core.ID(fmt.Sprintf("%08x-1000-4000-8000-000000000000", i))
		list[i].ExpiresAt = in(time.Duration(i+10) * time.Second)
	}
	st.PutApprovals(list...)
}

func BenchmarkInbox_Frame(b *testing.B) {
	st := fixtureState()
	manyApprovals(st, 1000)
	s := newScreen(b, st, 160, 45)
	p := s.panels[PanelApprovals]
	canvas := paint.NewCanvas(160, 45, s.o.Theme)
	e := s.env(fixtureNow)
	for b.Loop() {
		s.settle(e)
		p.draw(canvas.Area(), e, true)
	}
}

func BenchmarkInbox_FrameAfterChange(b *testing.B) {
	st := fixtureState()
	manyApprovals(st, 1000)
	s := newScreen(b, st, 160, 45)
	p := s.panels[PanelApprovals]
	canvas := paint.NewCanvas(160, 45, s.o.Theme)
	e := s.env(fixtureNow)
	list := fixtureApprovals()
	for i := 0; b.Loop(); i++ {
		list[1].ExpiresAt = in(time.Duration(i%600+30) * time.Second)
		st.PutApprovals(list[1])
		s.settle(e)
		p.draw(canvas.Area(), e, true)
	}
}

// BenchmarkCard_Frame is a card with 1 MiB of arguments.
func BenchmarkCard_Frame(b *testing.B) {
	st := fixtureState()
	a, _ := st.Approval(apTool)
	a.Context = raw(map[string]any{"tool": a.Tool, "arguments": map[string]any{"body": strings.Repeat("lorem ipsum ", 90_000)}})
	st.PutApprovals(a)
	s := newScreen(b, st, 160, 45)
	e := s.env(fixtureNow)
	c := cardOf(apTool, e)
	canvas := paint.NewCanvas(160, 45, s.o.Theme)
	for b.Loop() {
		c.draw(canvas.Area(), e)
	}
}

// TestInbox_FrozenByAnyCard: rows stay put while a card is open, wherever it was
// opened, and while several are decided together.
func TestInbox_FrozenByAnyCard(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(p *person){
		"DAG": func(p *person) {
			p.s.sel.Run = runNotes
			p.press("3", "a")
		},
		"Task": func(p *person) {
			p.s.sel.Run = runNotes
			p.press("3", "4", "a")
		},
		"Together": func(p *person) { p.s.overlay.open(newBulk([]core.Approval{p.approval(apTool)}, p.s.env(p.now))) },
	} {
		p := newPerson(t, 160, 45)
		open(p)
		if len(p.s.overlay) != 1 {
			t.Errorf("%s: nothing is open", name)
			continue
		}
		box, ok := p.s.panels[PanelApprovals].(*inboxPanel)
		if !ok {
			t.Fatal("no inbox")
		}
		before := slices.Clone(box.rows.waiting)
		sooner := p.approval(apKeys)
		sooner.ID, sooner.ExpiresAt = "a1000000-0000-4000-8000-000000000000", in(10*time.Second)
		p.st.PutApprovals(sooner)
		p.wait(time.Second)
		if !slices.Equal(box.rows.waiting, before) {
			t.Errorf("%s: rows moved to %v", name, box.rows.waiting)
		}
		p.press("esc")
		p.frame()
		if slices.Equal(box.rows.waiting, before) {
			t.Errorf("%s: they never move again", name)
		}
	}
}

// TestInbox_Heading: the heading of what is resolved stands above a row of it,
// or is not there.
func TestInbox_Heading(t *testing.T) {
	t.Parallel()
	for h := 15; h <= 60; h++ {
		for _, w := range []int{80, 160} {
			s := newScreen(t, fixtureState(), w, h)
			press(s, "2")
			lines := strings.Split(s.Plain(fixtureNow), "\n")
			for y, l := range lines {
				if strings.Contains(l, "expired or resolved") && !strings.Contains(lines[y+1], "dependency") {
					t.Errorf("nothing is below the heading at %dx%d:\n%s", w, h, strings.Join(lines, "\n"))
				}
			}
		}
	}
}

// TestInbox_Folders: what is asked in several folders says in which; in one folder nobody
// has to be told.
func TestInbox_Folders(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	s := newScreen(t, st, 160, 45)
	press(s, "2")
	if frame := s.Plain(fixtureNow); strings.Contains(frame, "shop: ") {
		t.Errorf("there is one folder:\n%s", frame)
	}
	other := fixtureApprovals()[0]
	other.ID, other.Workspace = "a1000099-0000-4000-8000-000000000000", "/home/ada/src/blog"
	st.PutApprovals(other)
	s.Changed(fixtureNow)
	wantShown(t, s, "blog: checkout", "shop: release-n", "shop: checkout-sync  asked by")
}

// TestInbox_ExpiredHint: the footer says of an expired row what its key does.
func TestInbox_ExpiredHint(t *testing.T) {
	t.Parallel()
	st := emptyState()
	expired := fixtureResolved()[2]
	st.PutRuns(fixtureRuns()...)
	st.PutApprovals(expired)
	s := newScreen(t, st, 80, 24)
	press(s, "2")
	wantShown(t, s, "a approve  d deny  R ask again")
}
