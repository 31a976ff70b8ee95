package screen

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// apart gives all that waits a row of its own.
func (p *person) apart() {
	for _, a := range p.st.Waiting(p.now) {
		p.s.panels[PanelApprovals].(*inboxPanel).takeApart(a, true)
	}
}

// alike adds approvals of one type, each in its own row, that expire one after the other.
func (p *person) alike(n int) []core.ID {
	out := make([]core.ID, n)
	for i := range out {
		a := p.approval(apTool)
		a.ID = core.ID(fmt.Sprintf("b10000%02d-0000-4000-8000-000000000000", i))
		a.ExpiresAt = in(time.Duration(20+10*i) * time.Second)
		out[i] = a.ID
		p.st.PutApprovals(a)
	}
	p.apart()
	return out
}

func (p *person) marks() []core.ID {
	return slices.Sorted(maps.Keys(p.s.panels[PanelApprovals].(*inboxPanel).marked))
}

// TestInbox_MarksDecided: with marks the footer says how many are decided, and every key
// that decides is about them and not about the row that the cursor stands on.
func TestInbox_MarksDecided(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"A", "a", "d", "m"} {
		p := newPersonOf(t, emptyState(), 80, 24)
		p.st.PutRuns(fixtureRuns()...)
		p.st.PutApprovals(fixtureApprovals()[1])
		p.alike(4)
		p.press("2")
		p.wait(decide.Quiet)
		p.press("g", "v", "j", "j")
		p.sees("A decide 3")
		p.sees("3 marked: A decides them together")
		p.press(key)
		p.sees("Decide 3 together?")
	}
	p := newPersonOf(t, emptyState(), 80, 24)
	p.st.PutRuns(fixtureRuns()...)
	p.st.PutApprovals(fixtureApprovals()[1])
	list := p.alike(4)
	p.press("2")
	p.wait(decide.Quiet)
	p.press("g", "space", "j")
	p.sees("1 marked: A decides it")
	p.press("d")
	p.sees(list[0].Short())
	p.sees("d denies it")
}

// TestInbox_RangeEnds: a range whose first row was decided elsewhere, or has
// expired, marks nothing more.
func TestInbox_RangeEnds(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(p *person, first core.ID){
		"denied elsewhere": func(p *person, first core.ID) {
			p.change(first, func(a *core.Approval) { a.State = core.ApprovalDenied })
		},
		"expired": func(p *person, first core.ID) { p.wait(21 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPersonOf(t, emptyState(), 80, 24)
			p.st.PutRuns(fixtureRuns()...)
			p.st.PutApprovals(fixtureApprovals()[1])
			list := p.alike(6)
			p.press("2")
			p.wait(decide.Quiet)
			p.press("g", "v")
			gone(p, list[0])
			p.wait(decide.Quiet)
			p.press("j", "j")
			if got := p.marks(); len(got) > 0 {
				t.Errorf("marked %v", got)
			}
			p.sees("the range ended")
		})
	}
}

// TestInbox_RangeOwn: a decision of one's own ends a range, and nothing is said about that.
func TestInbox_RangeOwn(t *testing.T) {
	t.Parallel()
	p := newPersonOf(t, emptyState(), 80, 24)
	p.st.PutRuns(fixtureRuns()...)
	p.st.PutApprovals(fixtureApprovals()[1])
	list := p.alike(6)
	p.press("2")
	p.wait(decide.Quiet)
	p.press("g", "v", "d")
	p.readAll()
	p.wait(decide.Quiet)
	p.press("d")
	if len(p.got) == 0 {
		t.Fatalf("nothing was decided\n%s", p.frame())
	}
	p.change(list[0], func(a *core.Approval) { a.State = core.ApprovalDenied })
	p.s.Decided(list[0], true)
	p.wait(decide.Quiet)
	p.press("j", "j")
	hidden(t, p, "the range ended")
	if got := p.marks(); len(got) > 0 {
		t.Errorf("marked %v", got)
	}
}

// TestInbox_RangeArrivals: what came after the range began is not in it, and
// what was moved over stays marked when the first row goes.
func TestInbox_RangeArrivals(t *testing.T) {
	t.Parallel()
	p := newPersonOf(t, emptyState(), 80, 24)
	p.st.PutRuns(fixtureRuns()...)
	p.st.PutApprovals(fixtureApprovals()[1])
	list := p.alike(4)
	p.press("2")
	p.wait(decide.Quiet)
	p.press("g", "v", "j")
	late := p.approval(list[0])
	late.ID, late.ExpiresAt = "b2000000-0000-4000-8000-000000000000", in(25*time.Second)
	p.st.PutApprovals(late)
	p.press("j")
	if want := list[:3]; !slices.Equal(p.marks(), want) {
		t.Errorf("marked %v, want %v", p.marks(), want)
	}
	p.change(list[0], func(a *core.Approval) { a.State = core.ApprovalDenied })
	p.wait(decide.Quiet)
	p.press("G", "G")
	if want := list[1:3]; !slices.Equal(p.marks(), want) {
		t.Errorf("marked %v, want %v", p.marks(), want)
	}
}

// TestInbox_RangeOnlyMovedOver: whatever is decided, comes or expires meanwhile,
// a range holds only rows that the cursor stood on or moved over.
func TestInbox_RangeOnlyMovedOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		st := emptyState()
		st.PutRuns(fixtureRuns()...)
		p := newPersonOf(t, st, 80, 24)
		p.st.PutApprovals(fixtureApprovals()[1])
		list := p.alike(8)
		p.press("2")
		p.wait(decide.Quiet)
		p.press("g", "v")
		over := map[core.ID]bool{p.selected(): true}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				p.change(rapid.SampledFrom(list).Draw(rt, "which"), func(a *core.Approval) { a.State = core.ApprovalDenied })
			case 1:
				p.wait(10 * time.Second)
			default:
				p.press(rapid.SampledFrom([]string{"j", "k"}).Draw(rt, "key"))
			}
			over[p.selected()] = true
		}
		for _, id := range p.marks() {
			if !over[id] {
				rt.Fatalf("%s is marked and was not moved over", id)
			}
		}
	})
}

// TestInbox_RangeSays: while a range is being made its line says so, and what it leaves out because
// it is of another type; what it has marked is decided without another key.
func TestInbox_RangeSays(t *testing.T) {
	t.Parallel()
	p := newPersonOf(t, emptyState(), 100, 24)
	p.st.PutRuns(fixtureRuns()...)
	p.st.PutApprovals(fixtureApprovals()...)
	list := p.alike(3) // soonest of all but the third
	p.press("2")
	p.wait(decide.Quiet)
	p.press("g", "v", "j", "j")
	p.sees("range to here")
	p.press("j")
	if n := len(p.marks()); n != len(list) {
		t.Fatalf("%d marked", n)
	}
	p.press("G", "G")
	p.sees("of other types")
	p.press("A")
	p.sees("Decide 4 together?")
}

// TestWorkflows_RangeSays: in the list of runs the foot says which key marks the rows in between.
func TestWorkflows_RangeSays(t *testing.T) {
	t.Parallel()
	s := newScreen(t, fixtureState(), 80, 24)
	press(s, "g", "v", "j", "j")
	wantShown(t, s, "v marks to here  1 marked")
	press(s, "v")
	wantShown(t, s, "3 marked")
}
