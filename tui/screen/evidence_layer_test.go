package screen

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
)

// unreadLayer takes away what was read of the layers of the run whose layer
// waits.
func unreadLayer(p *person) core.Workflow {
	p.t.Helper()
	w := layerWorkflow()
	p.st.DropRun(w.ID)
	p.st.PutRuns(w.Run)
	p.st.PutApprovals(w.Approvals...)
	return w
}

// TestCard_LayerIsReadFirst: a layer is not approved before the arguments of
// its tasks were on screen, and the card asks for them before all else.
func TestCard_LayerIsReadFirst(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{40, 10}, {80, 24}, {160, 45}} {
		p := newPerson(t, size[0], size[1])
		manyRuns(p.st, 100)
		w := unreadLayer(p)
		p.s.overlay.open(cardOf(apLayer, p.s.env(p.now)))
		if got := p.s.Wants(); got[0] != runLayer {
			t.Errorf("%v: wanted first is %s", size, got[0])
		}
		p.wait(decide.Quiet)
		p.press("G")
		p.wait(decide.Quiet)
		p.press("a")
		p.wants()
		p.sees("reading the arguments")

		p.st.PutWorkflow(w)
		p.wait(decide.Quiet)
		if c, ok := p.s.overlay[0].(*card); ok && size[1] < 20 && c.rule.HasRead() {
			t.Errorf("%v: what came just now counts as read", size)
		}
		p.readAll()
		p.wait(decide.Quiet)
		if size[1] >= 24 {
			p.sees(`drop  true`)
		}
		p.press("a")
		p.wants(Decide{Approvals: []core.Approval{p.approval(apLayer)}, Approve: true})
	}
}

// TestCard_LayerIsReadAgain: other arguments are to be read, the same ones are
// not, and those of an older plan do not count.
func TestCard_LayerIsReadAgain(t *testing.T) {
	t.Parallel()
	p := atCard(t, apLayer, 80, 24)
	p.press("G")
	c, ok := p.s.overlay[0].(*card)
	if !ok || !c.rule.HasRead() {
		t.Fatal("the end was on screen and does not count")
	}
	env := p.s.env(p.now)
	w := layerWorkflow()
	p.st.PutWorkflow(w)
	if c.build(env); !c.rule.HasRead() {
		t.Error("the same is to be read again")
	}
	w = layerWorkflow()
	w.Layers[1].Tasks[0].Arguments = raw("all of it")
	p.st.PutWorkflow(w)
	if c.build(env); c.rule.HasRead() {
		t.Error("other arguments count as read")
	}
	p.sees("all of it")
	newer := w.Run
	newer.DAGVersion++
	p.st.PutRuns(newer)
	p.wait(decide.Quiet)
	p.press("a")
	p.wants()
	p.sees("reading the arguments")
}

// TestEvidence_LayerArguments: it is said why there are no arguments.
func TestEvidence_LayerArguments(t *testing.T) {
	t.Parallel()
	a := fixtureApprovals()[5]
	for want, tasks := range map[string][]core.Task{
		"were not read yet":            nil,
		"recorded only when it starts": {},
		"without arguments":            {{ID: "migrate"}},
		`"its own"`:                    {{ID: "migrate", Arguments: json.RawMessage(`"its own"`)}},
	} {
		if text := strings.Join(evidence.Text(a, tasks), "\n"); !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
	a.Context = json.RawMessage(`{"next":[{"id":"migrate","tool":"db:migrate","arguments":{"asked":1}}]}`)
	for _, tasks := range [][]core.Task{nil, {{ID: "migrate", Arguments: json.RawMessage(`{"planned":1}`)}}} {
		if text := strings.Join(evidence.Text(a, tasks), "\n"); !strings.Contains(text, "asked  1") || strings.Contains(text, "planned") {
			t.Errorf("not the arguments in the question are shown:\n%s", text)
		}
	}
}

// TestEvidence_Newline: a newline is told from a backslash and an n.
func TestEvidence_Newline(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, value := range []string{"a\nb", `a\nb`, `a\\nb`, "a", `"a"`, `"a\nb"`} {
		text := evidence.PlainValue(raw(value))
		if other, twice := seen[text]; twice {
			t.Errorf("%q and %q both look like %s", value, other, text)
		}
		seen[text] = value
		if strings.Contains(text, "\n") {
			t.Errorf("%q begins a line of its own", value)
		}
	}
}

// TestBulk_LayersAreReadFirst: what came of the runs while it is open is shown,
// and must be read.
func TestBulk_LayersAreReadFirst(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	w := unreadLayer(p)
	other := p.approval(apLayer)
	other.ID, other.RunID = "a1000016-0000-4000-8000-000000000006", "0000aaaa-0000-4000-8000-000000000006"
	p.st.PutApprovals(other)
	both := []core.Approval{p.approval(apLayer), other}
	p.s.overlay.open(newBulk(both, p.s.env(p.now)))
	if got := p.s.Wants(); !slices.Equal(got[:2], []core.ID{runLayer, other.RunID}) {
		t.Errorf("wanted are %v", got)
	}
	p.wait(decide.Quiet)
	p.press("G", "a")
	p.sees("reading the arguments")
	p.st.PutWorkflow(w)
	p.wait(decide.Quiet)
	p.press("G", "a")
	p.wants()
	w.ID, w.Approvals = other.RunID, nil
	p.st.PutWorkflow(w)
	p.wait(decide.Quiet)
	if b, ok := p.s.overlay[0].(*bulk); !ok || b.pager.Find(`drop  true`) == 0 {
		t.Error("the arguments are not there")
	}
	p.press("G")
	p.wait(decide.Quiet)
	p.press("a")
	p.wants(Decide{Approvals: both, Approve: true})
}

// TestScreen_WantsSelectedLayer: the run of the layer that the cursor is on
// comes before the selected run in the inbox, and behind it elsewhere.
func TestScreen_WantsSelectedLayer(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 80, 24)
	p.s.sel.Approval, p.s.sel.Run = apLayer, runNotes
	for focus, want := range map[PanelID][]core.ID{PanelApprovals: {runLayer, runNotes}, PanelDAG: {runNotes, runLayer}} {
		p.s.panes.focus = focus
		if got := p.s.Wants(); len(got) < 2 || !slices.Equal(got[:2], want) {
			t.Errorf("in panel %d wanted are %v", focus, got)
		}
	}
}
