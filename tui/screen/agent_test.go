package screen

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// Ids of the runs that the agent of the tests has started.
const (
	childDone  core.ID = "c0000001-0000-4000-8000-000000000001"
	childWaits core.ID = "c0000002-0000-4000-8000-000000000002"
)

// agentWorkflow is an agent with two answers, of which the second waits for one of its runs.
func agentWorkflow() core.Workflow {
	w := core.Workflow{Run: fixtureRuns()[0]}
	w.ID, w.Kind, w.Name, w.State = "aa000000-0000-4000-8000-000000000001", core.KindAgent, "tidy the notes", core.RunRunning
	task := func(id, tool string, layer int, st core.TaskState, args, out any) core.Layer {
		at := ago(9000)
		t := core.Task{ID: id, Tool: tool, State: st, Layer: layer, StartedAt: &at, Arguments: raw(args)}
		if out != nil {
			t.Output, t.EndedAt, t.DurationMS = raw(out), &fixtureNow, 1200
		}
		return core.Layer{Index: layer, Tasks: []core.Task{t}}
	}
	type obj = map[string]any
	w.Layers = []core.Layer{
		task("m1", core.ModelTool, 0, core.TaskSuccess, obj{}, obj{"text": "I look\x1b[2J first.", "model": "m-1", "usage": obj{"input": 90, "output": 10}}),
		task("m1.t1", core.RunTool, 1, core.TaskSuccess, obj{"workflow_id": childDone, "intent": "list them"}, obj{"calls": 2}),
		task("m2", core.ModelTool, 2, core.TaskSuccess, obj{}, obj{"model": "m-1", "usage": obj{"input": 190, "output": 10}}),
		task("m2.t1", core.RunTool, 3, core.TaskRunning, obj{"workflow_id": childWaits, "intent": "write one"}, nil),
	}
	spent := core.SpentBy(core.AgentSpec{Iterations: 5, Budget: core.AgentBudget{USD: 1}, Price: &core.AgentPrice{Input: 10, Output: 100}}, w)
	w.Agent = &spent
	return w
}

// TestDAG_Agent: an agent is drawn step by step, with what each answer used, its runs, and
// the totals; a run of it opens, and back leads to the agent.
func TestDAG_Agent(t *testing.T) {
	t.Parallel()
	w := agentWorkflow()
	p, e, c := dagOf(t, w, 120, 24)
	ask := fixtureApprovals()[1]
	ask.ID, ask.RunID, ask.Path = "a1000099-0000-4000-8000-000000000099", childWaits, []string{"tidy the notes", "iteration 2", "write one"}
	e.State.PutApprovals(ask)
	c.Clear()
	p.draw(c.Area(), e, true)
	got := c.Plain()
	for _, want := range []string{
		"1  m-1  90+10 tokens  $0.0019", "✓ model  “I look", "✓ list them  c0000001  2 calls", "2  m-1  190+10 tokens  $0.0029", "! write one  c0000002",
		"2 of 5 iterations, 2 calls, 300 tokens, $0.0048 of $1.00", "2 of 5 iterations  $0.0048",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the panel lacks %q:\n%s", want, got)
		}
	}
	e.Sel.Task = "m2.t1"
	c.Clear()
	p.draw(c.Area(), e, true)
	if got := c.Plain(); !strings.Contains(got, "progress  iter 2  elapsed 12s  waiting 1") || !strings.Contains(got, "selected  m2.t1  pml:run  ! waiting") {
		t.Errorf("a run that waits for people does not wait:\n%s", got)
	}
	intents, _ := p.do(keys.Approve, e)
	if len(intents) != 1 {
		t.Fatalf("what the run waits for is not opened: %+v", intents)
	}
	if o, ok := intents[0].(openOverlay); !ok || o.overlay.(*card).rule.Approval().ID != ask.ID {
		t.Errorf("%+v", intents[0])
	}
	p.do(keys.Open, e)
	if e.Sel.Run != childWaits {
		t.Fatalf("the run does not open: %s", e.Sel.Run)
	}
	p.draw(c.Area(), e, true)
	if _, back := p.do(keys.Back, e); !back || e.Sel.Run != w.ID || e.Sel.Task != "m2.t1" {
		t.Errorf("back leads to %s %s", e.Sel.Run, e.Sel.Task)
	}
	if _, back := p.do(keys.Back, e); back {
		t.Error("there is nothing above the agent")
	}
}

// TestWorkflows_Agent: the runs of an agent are folded into its row, with their number and
// what they wait for, and are not counted.
func TestWorkflows_Agent(t *testing.T) {
	t.Parallel()
	st := fixtureState()
	before := st.CountRuns()
	w := agentWorkflow()
	st.PutWorkflow(w)
	ask := fixtureApprovals()[1]
	ask.ID, ask.RunID = "a1000099-0000-4000-8000-000000000099", childWaits
	st.PutApprovals(ask)
	if n := st.CountRuns(); n != before+1 || st.RunsBelow(w.ID) != 2 || st.Root(childWaits) != w.ID {
		t.Errorf("%d runs are counted, %d before; %d below", n, before, st.RunsBelow(w.ID))
	}
	for _, id := range st.Runs() {
		if id == childDone || id == childWaits {
			t.Errorf("%s is listed by itself", id)
		}
	}
	if r, ok := st.Run(childDone); !ok || r.State != core.RunComplete || r.Name != "tidy the notes › list them" {
		t.Errorf("%+v", r)
	}
	e := &Env{Now: fixtureNow, State: st, Keys: newKeys(t), Sel: &Selection{Run: w.ID}, Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false)}
	c := paint.NewCanvas(120, 30, e.Theme)
	newWorkflows().draw(c.Area(), e, true)
	got := c.Plain()
	row := ""
	for line := range strings.Lines(got) {
		if strings.Contains(line, "(2 runs) tidy") {
			row = line
		}
	}
	if !strings.Contains(row, "tool perm 3:06") {
		t.Errorf("the row of the agent is %q:\n%s", row, got)
	}
	st.DropRun(childDone)
	if st.RunsBelow(w.ID) != 1 || st.CountRuns() != before+1 {
		t.Errorf("%d below, %d runs", st.RunsBelow(w.ID), st.CountRuns())
	}
}

// TestDAG_Writes: what the model writes is seen while it writes, in the step and at the
// end of the panel, cleaned; once the answer is there the answer is shown.
func TestDAG_Writes(t *testing.T) {
	t.Parallel()
	w := agentWorkflow()
	at := ago(2000)
	w.Layers = append(w.Layers[:3:3], core.Layer{Index: 3, Tasks: []core.Task{{ID: "m3", Tool: core.ModelTool, State: core.TaskRunning, Layer: 3, StartedAt: &at}}})
	p, e, c := dagOf(t, w, 100, 30)
	write := func(offset int, text string) string {
		e.State.PutPiece(core.Event{Type: core.EventAgentText, RunID: w.ID, TaskID: "m3", Message: text, Data: raw(core.AgentPiece{Offset: offset})})
		c.Clear()
		p.draw(c.Area(), e, true)
		return c.Plain()
	}
	write(0, "The first line.\nThe se")
	got := write(22, "cond\x1b[2J one\n")
	for _, want := range []string{"writes    The first line.", "          The second", "● model  The second"} {
		if !strings.Contains(got, want) {
			t.Errorf("the panel lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("foreign text acts on the terminal: %q", got)
	}
	if got := write(0, "Again."); strings.Contains(got, "The first") || !strings.Contains(got, "writes    Again.") {
		t.Errorf("the second attempt does not begin anew:\n%s", got)
	}
	w.Layers[3].Tasks[0].State, w.Layers[3].Tasks[0].Output = core.TaskSuccess, raw(map[string]any{"text": "All is said.", "model": "m-1"})
	p, e, c = dagOf(t, w, 100, 30)
	if got := write(0, "Again."); strings.Contains(got, "Again.") || !strings.Contains(got, "All is said.") {
		t.Errorf("the answer is not what is shown:\n%s", got)
	}
}
