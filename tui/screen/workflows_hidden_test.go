package screen

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// TestWorkflows_Hidden: a run that a filter hides is not acted on; the first key
// only shows where the cursor is.
func TestWorkflows_Hidden(t *testing.T) {
	t.Parallel()
	p, e := newWorkflows(), hiddenEnv(t)
	p.settle(e)
	hidden := e.Sel.Run
	ask := p.filterPrompt(e).(*prompt)
	for _, c := range "status:expired" {
		ask.key(keys.Key{Name: string(c), Text: string(c)}, e)
	}
	if r, _ := e.State.Run(hidden); string(r.State) == "expired" {
		t.Fatal("the fixture begins with an expired run")
	}
	if intents, handled := p.do(keys.Again, e); !handled || len(intents) != 0 {
		t.Errorf("%v %v", intents, handled)
	}
	if e.Sel.Run == hidden {
		t.Error("the cursor is still on the hidden run")
	}
	e.Sel.Run = hidden
	ask.key(keys.Key{Name: "enter"}, e)
	if r, _ := e.State.Run(e.Sel.Run); r.State != "expired" {
		t.Errorf("after enter the cursor is on a run that is %s", r.State)
	}
}

// TestPalette_RunOfApproval: where approvals have the focus the palette is about
// the run of the one under the cursor.
func TestPalette_RunOfApproval(t *testing.T) {
	t.Parallel()
	e := hiddenEnv(t)
	waiting := e.State.Waiting(e.Now)
	e.Sel.Approval = waiting[0].ID
	for _, id := range e.State.Runs() {
		if id != waiting[0].RunID {
			e.Sel.Run = id
			break
		}
	}
	about := func(focus PanelID) string {
		var b strings.Builder
		for _, v := range newPalette(focus, newServers(), e).(*palette).offers(e) {
			b.WriteString(v.line + "\n")
		}
		return b.String()
	}
	if text := about(PanelApprovals); !strings.Contains(text, "abort "+waiting[0].RunID.Short()) || strings.Contains(text, e.Sel.Run.Short()) {
		t.Errorf("in approvals:\n%s", text)
	}
	if text := about(PanelWorkflows); !strings.Contains(text, "abort "+e.Sel.Run.Short()) {
		t.Errorf("in workflows:\n%s", text)
	}
}

func hiddenEnv(t *testing.T) *Env {
	t.Helper()
	return &Env{Now: fixtureNow, State: fixtureState(), Keys: newKeys(t), Sel: &Selection{}, Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false)}
}

// Where all that was asked has expired, and runs wait on, nothing says that nothing waits.
func TestBanner_Expired(t *testing.T) {
	t.Parallel()
	e := hiddenEnv(t)
	e.State = state.New(10_000)
	e.State.Loaded = true
	if got := idleSpans(e)[0].text; got != "nothing is waiting for you" {
		t.Error(got)
	}
	e.State.PutRuns(core.Run{ID: "stopped", State: core.RunInterrupted, CreatedAt: fixtureNow})
	if got := idleSpans(e)[0].text; got != "nothing to decide; 1 run interrupted: R goes on" {
		t.Error(got)
	}
	e.State.PutRuns(core.Run{ID: "alone", State: core.RunWaiting, CreatedAt: fixtureNow, UpdatedAt: fixtureNow.Add(-time.Minute)})
	if got := idleSpans(e)[0].text; got != "nothing to decide; 2 runs stopped: R goes on" {
		t.Error(got)
	}
	e.State.DropRun("alone")
	early, late := fixtureNow.Add(-time.Hour), fixtureNow.Add(-time.Minute)
	for i, name := range []core.ID{"a", "b", "done"} {
		r := core.Run{ID: name, State: core.RunWaiting, CreatedAt: early, UpdatedAt: early}
		if name == "done" {
			r.State = core.RunFailed
		}
		e.State.PutRuns(r)
		e.State.PutApprovals(core.Approval{ID: core.ID(rune('p' + i)), RunID: name, State: core.ApprovalOpen, CreatedAt: early, ExpiresAt: &late})
	}
	if got := bannerSpans(e, 80)[0].text; got != "! 2 runs wait for what has expired: R asks again" {
		t.Errorf("%q", got)
	}
	// Beside what is open it is counted, and it leads what is over in the inbox.
	soon := fixtureNow.Add(time.Minute)
	e.State.PutApprovals(core.Approval{ID: "open", RunID: "a", State: core.ApprovalOpen, CreatedAt: early, ExpiresAt: &soon},
		core.Approval{ID: "over", RunID: "b", State: core.ApprovalDenied, CreatedAt: early, DecidedBy: &core.DecidedBy{At: fixtureNow}})
	if got := bannerSpans(e, 100)[0].text; !strings.Contains(got, "1 approval waiting, 2 expired") {
		t.Errorf("%q", got)
	}
	p := newInbox()
	p.refresh(e)
	if n := len(p.rows.resolved); n != 4 || !slices.Contains(p.rows.resolved[:2], "p") || !slices.Contains(p.rows.resolved[:2], "q") || p.rows.overTitle(e) != "expired or resolved" {
		t.Errorf("%v", p.rows.resolved)
	}
}
