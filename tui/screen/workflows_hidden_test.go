package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
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
		for _, v := range newPalette(focus, e).(*palette).offers(e) {
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
