package screen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// edgedWorkflow is the fixture's workflow with what comes after what.
func edgedWorkflow() core.Workflow {
	w := fixtureWorkflow()
	w.Approvals[0].CallIDs = []string{"create_release"}
	after := map[string][]string{
		"summarize": {"git_log", "jira_query"}, "create_release": {"git_log", "jira_query"}, "notify": {"git_log"},
		"style_check": {"summarize"}, "gh_release": {"style_check", "create_release"}, "slack_post": {"style_check", "notify"},
	}
	for i := range w.Layers {
		for k := range w.Layers[i].Tasks {
			t := &w.Layers[i].Tasks[k]
			t.DependsOn = after[t.ID]
		}
	}
	return w
}

// unedgedWorkflow is the same of which it is not known what comes after what.
func unedgedWorkflow() core.Workflow {
	w := edgedWorkflow()
	for i := range w.Layers {
		for k := range w.Layers[i].Tasks {
			w.Layers[i].Tasks[k].DependsOn = nil
		}
	}
	return w
}

// manyTasks is a workflow of n tasks in layers of 20.
func manyTasks(n int) core.Workflow {
	w := fixtureWorkflow()
	w.Layers = nil
	for i := range n {
		if i%20 == 0 {
			w.Layers = append(w.Layers, core.Layer{Index: i / 20})
		}
		t := core.Task{ID: fmt.Sprintf("task_%04d", i), Tool: "s:t", State: core.TaskSuccess, DurationMS: 1200, Layer: i / 20}
		if i%50 == 7 {
			t.State = core.TaskError
		}
		for k := i - 27; i/20 > 0 && k <= i-20; k += 5 {
			t.DependsOn = append(t.DependsOn, fmt.Sprintf("task_%04d", max(k, 0)))
		}
		l := &w.Layers[i/20]
		l.Tasks = append(l.Tasks, t)
	}
	return w
}

// dagOf is a panel with a run selected and drawn once.
func dagOf(t testing.TB, w core.Workflow, width, height int) (*dagPanel, *Env, *paint.Canvas) {
	st := fixtureState()
	st.PutWorkflow(w)
	e := &Env{
		Now: fixtureNow, State: st, Keys: newKeys(t), Sel: &Selection{Run: w.ID},
		Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false),
	}
	p, c := newDAG(), paint.NewCanvas(width, height, e.Theme)
	p.draw(c.Area(), e, true)
	return p, e, c
}

// TestDAG_Low: where one row of boxes has room the tasks are listed, so that none is cut in
// half; the key shows boxes all the same.
func TestDAG_Low(t *testing.T) {
	t.Parallel()
	for height, boxes := range map[int]bool{11: false, 30: true} {
		p, e, c := dagOf(t, edgedWorkflow(), 100, height)
		text := c.Plain()
		if p.asBoxes() != boxes || !boxes && (!strings.Contains(text, "✓ git_log") || !strings.Contains(text, "✓ jira_query")) {
			t.Errorf("%d rows:\n%s", height, text)
		}
		p.do(keys.Graph, e)
		p.draw(c.Area(), e, true)
		if p.asBoxes() == boxes {
			t.Errorf("%d rows: the key does nothing", height)
		}
	}
}

func TestDAG_Golden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		w    core.Workflow
		size [2]int
		acts []keys.Action
	}{
		{"boxes", edgedWorkflow(), [2]int{110, 22}, nil},
		{"compact", edgedWorkflow(), [2]int{90, 22}, nil},
		{"narrow", edgedWorkflow(), [2]int{60, 16}, []keys.Action{keys.Graph, keys.Right, keys.Right}},
		{"list", edgedWorkflow(), [2]int{78, 20}, nil},
		{"folded", edgedWorkflow(), [2]int{78, 20}, []keys.Action{keys.Fold, keys.Right}},
		{"unedged", unedgedWorkflow(), [2]int{110, 20}, nil},
		{"many", manyTasks(200), [2]int{120, 34}, []keys.Action{keys.Right}},
		{"unfolded", manyTasks(200), [2]int{120, 34}, []keys.Action{keys.Unfold, keys.Right, keys.Last}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, e, canvas := dagOf(t, c.w, c.size[0], c.size[1])
			for _, act := range c.acts {
				if _, ok := p.do(act, e); !ok {
					t.Errorf("%s is not handled", act)
				}
				canvas.Clear()
				p.draw(canvas.Area(), e, true)
			}
			checkFrame(t, canvas.Plain(), c.size[0], c.size[1])
			checkGolden(t, "graph/"+c.name+".txt", canvas.Plain()+"\n")
		})
	}
}

// steps carries actions out and returns the selected task after each.
func steps(p *dagPanel, e *Env, c *paint.Canvas, acts ...keys.Action) string {
	var out []string
	for _, act := range acts {
		p.do(act, e)
		p.draw(c.Area(), e, true)
		out = append(out, e.Sel.Task)
	}
	return strings.Join(out, " ")
}

func TestDAG_MoveBoxes(t *testing.T) {
	t.Parallel()
	p, e, c := dagOf(t, edgedWorkflow(), 110, 22)
	if e.Sel.Task != "create_release" {
		t.Fatalf("what waits is selected first, not %s", e.Sel.Task)
	}
	got := steps(p, e, c, keys.Left, keys.Up, keys.Right, keys.Right, keys.Right, keys.Right, keys.Down, keys.First)
	if want := "jira_query git_log notify style_check slack_post slack_post gh_release slack_post"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDAG_MoveBoxes_On: below the last task of a layer down goes on with the next layer, and up goes back.
func TestDAG_MoveBoxes_On(t *testing.T) {
	t.Parallel()
	p, e, c := dagOf(t, edgedWorkflow(), 110, 22)
	e.Sel.Task = "git_log"
	down := slices.Repeat([]keys.Action{keys.Down}, len(p.boxes.Layout.Boxes))
	seen := strings.Fields(steps(p, e, c, down...))
	slices.Sort(seen)
	if seen = slices.Compact(seen); len(seen) != len(p.boxes.Layout.Boxes)-1 {
		t.Errorf("down goes to %q of %d boxes", seen, len(p.boxes.Layout.Boxes))
	}
	if got := strings.Fields(steps(p, e, c, slices.Repeat([]keys.Action{keys.Up}, len(down))...)); got[len(got)-1] != "git_log" {
		t.Errorf("up ends at %s", got[len(got)-1])
	}
}

func TestDAG_MoveList(t *testing.T) {
	t.Parallel()
	p, e, c := dagOf(t, edgedWorkflow(), 60, 22)
	got := steps(p, e, c, keys.First, keys.Down, keys.Down, keys.Down, keys.Down)
	if want := "git_log git_log jira_query summarize summarize"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rows := len(p.rows.list)
	steps(p, e, c, keys.Left, keys.Left)
	if n := len(p.rows.list); n != rows-3 {
		t.Errorf("%d rows, the layer of three is closed and there were %d", n, rows)
	}
	steps(p, e, c, keys.Open)
	if n := len(p.rows.list); n != rows {
		t.Errorf("%d rows after it was opened", n)
	}
	steps(p, e, c, keys.Fold)
	if n := len(p.rows.list); n != 4 {
		t.Errorf("%d rows, all folded", n)
	}
	p.query = "gh_rel"
	if steps(p, e, c, keys.NextMatch); e.Sel.Task != "gh_release" || p.rows.closed[3] || p.rows.header != 0 {
		t.Errorf("the search went to %s, in a layer that is closed: %v", e.Sel.Task, p.rows.closed[3])
	}
}

func TestDAG_Intents(t *testing.T) {
	t.Parallel()
	p, e, _ := dagOf(t, edgedWorkflow(), 110, 22)
	one := func(act keys.Action) Intent {
		t.Helper()
		list, ok := p.do(act, e)
		if !ok || len(list) != 1 {
			t.Fatalf("%s: %v %v", act, list, ok)
		}
		return list[0]
	}
	if i, ok := one(keys.Open).(openPanel); !ok || i.id != PanelTask {
		t.Error("enter opens the task")
	}
	if _, ok := one(keys.Approve).(openOverlay); !ok {
		t.Error("a opens the card of what waits")
	}
	if i, ok := one(keys.CopyID).(Copy); !ok || i.Text != "create_release" {
		t.Error("y copies the id")
	}
	e.Sel.Task = "git_log"
	if _, ok := one(keys.Approve).(say); !ok {
		t.Error("nothing waits here")
	}
	e.Now = fixtureNow.Add(1e15)
	e.Sel.Task = "create_release"
	if _, ok := one(keys.Approve).(say); !ok {
		t.Error("it has expired")
	}
}

// Layers that are read again keep the selection; another run has its own.
func TestDAG_Settle(t *testing.T) {
	t.Parallel()
	p, e, c := dagOf(t, edgedWorkflow(), 110, 22)
	steps(p, e, c, keys.Left, keys.Up)
	w := edgedWorkflow()
	w.Layers[0].Tasks[0].State = core.TaskRunning
	e.State.PutWorkflow(w)
	p.draw(c.Area(), e, true)
	if e.Sel.Task != "git_log" || p.model.tasks[0].State != core.TaskRunning {
		t.Errorf("%s is selected, and %s", e.Sel.Task, p.model.tasks[0].State)
	}
	other := manyTasks(30)
	other.ID = "00000000-0000-4000-8000-000000000000"
	other.Run.ID = other.ID
	e.State.PutWorkflow(other)
	e.Sel.Run = other.ID
	if p.draw(c.Area(), e, true); e.Sel.Task != "task_0007" {
		t.Errorf("%s is selected, the failed one is task_0007", e.Sel.Task)
	}
	e.Sel.Run = "none"
	if p.draw(c.Area(), e, true); e.Sel.Task != "" || len(p.model.tasks) != 0 {
		t.Errorf("%q is selected of a run that is not known", e.Sel.Task)
	}
}

// A gate before a layer is shown where it stands, and what waits behind it can
// be opened from there.
func TestDAG_Gate(t *testing.T) {
	t.Parallel()
	w := edgedWorkflow()
	a := w.Approvals[0]
	a.ID, a.Type, a.Subject, a.CallIDs, a.Tool = "gate", core.ApproveLayer, "layer:2", nil, ""
	w.Approvals = append(w.Approvals, a)
	p, e, c := dagOf(t, w, 110, 22)
	if got := c.Plain(); !strings.Contains(got, "asks before layer 3, "+leftText(a, e)) || !strings.Contains(got, "! asks first") {
		t.Errorf("no gate in\n%s", got)
	}
	e.Sel.Task = "style_check"
	if id, ok := p.model.approval(p.at(e), e); !ok || id != "gate" {
		t.Errorf("%s %v", id, ok)
	}
}

// TestDAG_AskedOfServer: a call that a question about its server holds up waits, though the
// question names no call.
func TestDAG_AskedOfServer(t *testing.T) {
	t.Parallel()
	w := layerWorkflow()
	w.Layers = []core.Layer{
		{Index: 0, Tasks: []core.Task{{ID: "fetch", Tool: "std:fetch", State: core.TaskQueued}, {ID: "dump", Tool: "db:dump", State: core.TaskQueued}}},
		{Index: 1, Tasks: []core.Task{{ID: "later", Tool: "std:fetch", State: core.TaskQueued, Layer: 1}}},
	}
	ask := fixtureApprovals()[0]
	ask.RunID, ask.Tool, ask.Subject = w.ID, "std", "std"
	w.Approvals = []core.Approval{ask}
	_, _, c := dagOf(t, w, 60, 20)
	frame := c.Plain()
	wantWords(t, frame, "! 0/2 waiting", "waiting integrity", "waiting 1", "○ 0/1 queued")
	if strings.Count(frame, "waiting integrity") != 2 { // the row and what is said of the selected one
		t.Errorf("not one task waits:\n%s", frame)
	}
}

// Whatever a run is called and however large the panel is, frames are exact and
// hold no control character, and the selection is on screen.
func TestDAG_Frames(t *testing.T) {
	t.Parallel()
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab:_ \n\x1b\u202e漢é")))
	rapid.Check(t, func(rt *rapid.T) {
		w := fixtureWorkflow()
		w.Layers = nil
		var ids []string
		for i := range rapid.IntRange(0, 4).Draw(rt, "layers") {
			l := core.Layer{Index: i}
			for range rapid.IntRange(0, 15).Draw(rt, "tasks") {
				id := text.Draw(rt, "id") + strconv.Itoa(len(ids))
				task := core.Task{ID: id, Tool: text.Draw(rt, "tool"), State: core.TaskSuccess, Layer: i, Predicted: rapid.Bool().Draw(rt, "predicted")}
				if len(ids) > 0 {
					task.DependsOn = []string{rapid.SampledFrom(ids).Draw(rt, "after")}
				}
				ids = append(ids, id)
				l.Tasks = append(l.Tasks, task)
			}
			w.Layers = append(w.Layers, l)
		}
		width, height := rapid.IntRange(4, 170).Draw(rt, "width"), rapid.IntRange(2, 50).Draw(rt, "height")
		p, e, c := dagOf(t, w, width, height)
		acts := []keys.Action{keys.Graph, keys.Left, keys.Right, keys.Up, keys.Down, keys.First, keys.Last, keys.Fold, keys.Unfold, keys.Open, keys.PageDown, keys.HalfUp}
		for range 20 {
			p.do(rapid.SampledFrom(acts).Draw(rt, "act"), e)
			c.Clear()
			p.draw(c.Area(), e, true)
			checkFrame(t, c.Plain(), width, height)
			if len(ids) > 0 && width > 20 && height > 12 && !strings.Contains(c.Plain(), e.Theme.Glyph.Cursor) {
				rt.Fatalf("no cursor in\n%s", c.Plain())
			}
		}
		p.click(rapid.IntRange(0, width).Draw(rt, "x"), rapid.IntRange(0, height).Draw(rt, "y"), e)
	})
}

func TestDAG_Empty(t *testing.T) {
	t.Parallel()
	e := &Env{Now: fixtureNow, State: state.New(10), Keys: newKeys(t), Sel: &Selection{}, Theme: paint.NewTheme(paint.Ansi, paint.NoColor, false)}
	c := paint.NewCanvas(60, 8, e.Theme)
	p := newDAG()
	e.State.SetLoaded()
	p.draw(c.Area(), e, true)
	if !strings.Contains(c.Plain(), "No run is selected") {
		t.Error(c.Plain())
	}
	for _, act := range []keys.Action{keys.Down, keys.Open, keys.Approve, keys.Fold, keys.Graph, keys.CopyID, keys.NextMatch} {
		p.do(act, e)
	}
}

func benchDAG(b *testing.B, acts ...keys.Action) {
	p, e, c := dagOf(b, manyTasks(1000), 160, 45)
	for _, act := range acts {
		p.do(act, e)
		p.draw(c.Area(), e, true)
	}
	for b.Loop() {
		c.Clear()
		p.draw(c.Area(), e, true)
	}
}

func BenchmarkDAG_Boxes1000(b *testing.B) { benchDAG(b, keys.Right) }
func BenchmarkDAG_Unfolded1000(b *testing.B) {
	benchDAG(b, keys.Unfold, keys.Right, keys.Right, keys.Right)
}
func BenchmarkDAG_List1000(b *testing.B) { benchDAG(b, keys.Graph, keys.Last) }

func BenchmarkDAG_First1000(b *testing.B) {
	w := manyTasks(1000)
	for b.Loop() {
		p, e, c := dagOf(b, w, 160, 45)
		p.do(keys.Unfold, e)
		p.draw(c.Area(), e, true)
	}
}

// TestDAG_Skipped: a layer of which nothing ran is not done.
func TestDAG_Skipped(t *testing.T) {
	t.Parallel()
	w := fixtureWorkflow()
	for l, states := range map[int][]core.TaskState{0: {core.TaskSkipped, core.TaskSkipped}, 2: {core.TaskSuccess}} {
		for i, st := range states {
			w.Layers[l].Tasks[i].State, w.Layers[l].Tasks[i].StartedAt, w.Layers[l].Tasks[i].EndedAt = st, nil, nil
		}
	}
	for _, width := range []int{78, 120} {
		_, _, c := dagOf(t, w, width, 30)
		for _, want := range []string{"- 2/2 skipped", "✓ 1/1"} {
			if !strings.Contains(c.Plain(), want) {
				t.Errorf("%q is not shown:\n%s", want, c.Plain())
			}
		}
	}
}

// TestDAG_Progress: a bar says how much of what was planned has ended as it should; what
// a script has still to call nobody knows.
func TestDAG_Progress(t *testing.T) {
	t.Parallel()
	w := layerWorkflow()
	w.State, w.Approvals = core.RunFailed, nil
	w.Layers = []core.Layer{
		{Index: 0, Tasks: []core.Task{{ID: "a", Tool: "s:a", State: core.TaskSuccess}, {ID: "b", Tool: "s:b", State: core.TaskFailedSafe}}},
		{Index: 1, Tasks: []core.Task{{ID: "c", Tool: "s:c", State: core.TaskError, Layer: 1}, {ID: "d", Tool: "s:d", State: core.TaskSkipped, Layer: 1}}},
	}
	_, _, c := dagOf(t, w, 110, 20)
	wantWords(t, c.Plain(), "█░", " 1/4  elapsed ", "failed 1  failed safe 1  skipped 1", "~ 2/2 failed_safe")

	w.Kind, w.State, w.TotalLayers, w.CurrentLayer = core.KindCode, core.RunRunning, 41, 40
	_, _, c = dagOf(t, w, 110, 20)
	wantWords(t, c.Plain(), "progress  step 41  elapsed ")
	if strings.Contains(c.Plain(), "█") {
		t.Errorf("a bar for a script:\n%s", c.Plain())
	}
}

// TestDAG_Arguments: what a call is made with is found, and stands in the boxes of a loop.
func TestDAG_Arguments(t *testing.T) {
	t.Parallel()
	w := layerWorkflow()
	w.Kind, w.Approvals, w.Layers = core.KindCode, nil, nil
	for i := range 3 {
		args := raw(map[string]any{"path": "p/" + strconv.Itoa(36+i), "why": "page " + strconv.Itoa(36+i)})
		w.Layers = append(w.Layers, core.Layer{Index: i, Tasks: []core.Task{{ID: "c" + strconv.Itoa(i), Tool: "std:fetch_one_page", State: core.TaskSuccess, Layer: i, Arguments: args}}})
	}
	p, e, c := dagOf(t, w, 110, 20)
	wantWords(t, c.Plain(), "… p/36", "… p/37", "… p/38")
	for i := range w.Layers {
		w.Layers[i].Tasks[0].Arguments = raw(map[string]any{"path": "out/pages/page-" + strconv.Itoa(36+i) + ".txt"})
	}
	_, _, c = dagOf(t, w, 110, 20)
	wantWords(t, c.Plain(), "✓ …es/page-36.txt", "✓ …es/page-37.txt", "✓ …es/page-38.txt")
	if p.query = "Page 37"; !p.jump(true, e) || e.Sel.Task != "c1" {
		t.Errorf("at %s", e.Sel.Task)
	}
	if p.query = "page 40"; p.jump(true, e) {
		t.Errorf("found at %s", e.Sel.Task)
	}
}

// TestDAG_End: why a run ended is on the panel, whatever the panel's size and
// the error's, and nothing of it acts on the terminal.
func TestDAG_End(t *testing.T) {
	t.Parallel()
	long := "ocr\u202e: exit 1\n" + strings.Repeat("line of it\t", 100)
	for name, change := range map[string]func(*core.Workflow){
		"tool_failed: ocr": func(w *core.Workflow) { w.State, w.Error = core.RunFailed, core.Errorf(core.CodeToolFailed, "ocr") },
		"aborted by ada": func(w *core.Workflow) {
			w.State, w.Abort = core.RunAborted, &core.AbortRequest{By: core.Actor{Who: "ada"}}
		},
		"by ada: too slow": func(w *core.Workflow) {
			w.State, w.Abort = core.RunAborted, &core.AbortRequest{By: core.Actor{Who: "ada"}, Reason: "too slow"}
		},
		"expired: too late": func(w *core.Workflow) {
			w.State, w.Error = core.RunExpired, &core.Error{Code: "expired", Message: "too late"}
		},
		`ocr\u{202e}: exit 1`: func(w *core.Workflow) {
			w.State, w.Error = core.RunFailed, core.Errorf(core.CodeToolFailed, "%s", long)
		},
	} {
		for _, size := range [][2]int{{60, 11}, {78, 20}, {120, 30}} {
			for _, empty := range []bool{true, false} {
				w := fixtureWorkflow()
				if change(&w); empty {
					w.Layers = nil
				}
				_, _, c := dagOf(t, w, size[0], size[1])
				checkFrame(t, c.Plain(), size[0], size[1])
				if !strings.Contains(c.Plain(), name) {
					t.Errorf("%q is not shown at %v:\n%s", name, size, c.Plain())
				}
			}
		}
	}
	w := fixtureWorkflow()
	w.State, w.Error = core.RunFailed, core.Errorf(core.CodeToolFailed, "%s", long)
	_, _, c := dagOf(t, w, 60, 30)
	if got := strings.Count(c.Plain(), "line of it"); got == 0 || got > 5*6 || !strings.Contains(c.Plain(), "…") {
		t.Errorf("%d times:\n%s", got, c.Plain())
	}
	w.State = core.RunRunning
	if _, _, c := dagOf(t, w, 60, 30); strings.Contains(c.Plain(), "line of it") {
		t.Error("the error of an attempt is shown while the run goes on")
	}
}

// runScript is a run that runs.
const runScript core.ID = "7f3a80f0-0000-4000-8000-000000000004"

// scriptOf is a script that runs, with so many calls; the last one is under way.
func scriptOf(n int) core.Workflow {
	w := core.Workflow{}
	for _, r := range fixtureRuns() {
		if r.ID == runScript {
			w.Run = r
		}
	}
	w.Kind, w.CurrentLayer, w.TotalLayers = core.KindCode, n-1, n
	for i := range n {
		st := core.TaskSuccess
		if i == n-1 {
			st = core.TaskRunning
		}
		w.Layers = append(w.Layers, core.Layer{Index: i, Tasks: []core.Task{{ID: "c" + itoa(i+1), Tool: "db:copy", State: st, Layer: i, Attempt: 1}}})
	}
	return w
}

// TestDAG_Follow: a script that runs opens at the call that runs, and goes on with it until the person
// moves the cursor; F goes on again, G goes to the end, and both say what they do.
func TestDAG_Follow(t *testing.T) {
	t.Parallel()
	for name, width := range map[string]int{"boxes": 100, "list": 50} {
		p, e, c := dagOf(t, scriptOf(14), width, 30)
		grow := func(n int) {
			e.State.PutWorkflow(scriptOf(n))
			c.Clear()
			p.draw(c.Area(), e, true)
		}
		at := func(want, when string) {
			t.Helper()
			if e.Sel.Task != want {
				t.Errorf("%s: %s %s, want %s\n%s", name, when, e.Sel.Task, want, c.Plain())
			}
		}
		at("c14", "opens at")
		if !strings.Contains(c.Plain(), "following") {
			t.Errorf("%s: it does not say so\n%s", name, c.Plain())
		}
		grow(17)
		at("c17", "goes to")
		p.do(keys.First, e)
		p.do(keys.First, e)
		at("c1", "g goes to")
		grow(20)
		at("c1", "the cursor goes to")
		p.do(keys.Last, e)
		at("c20", "G goes to")
		grow(22)
		at("c20", "behind G it goes to")
		if said, _ := p.do(keys.Follow, e); len(said) != 1 || said[0] != (say{Note, "the cursor goes with what runs"}) {
			t.Errorf("F: %#v", said)
		}
		at("c22", "F goes to")
		grow(40)
		at("c40", "it follows to")
	}
	w := scriptOf(3)
	w.State = core.RunComplete
	p, e, _ := dagOf(t, w, 100, 30)
	if said, _ := p.do(keys.Follow, e); len(said) != 1 || !strings.Contains(said[0].(say).text, "nothing to follow: the run is complete") {
		t.Errorf("F at the end: %#v", said)
	}
}

// TestDAG_Urgent: a graph opens at what waits, its layer included, else at what failed, else at what
// runs; a cursor that nobody has moved goes there when the run stops for it.
func TestDAG_Urgent(t *testing.T) {
	t.Parallel()
	graph := func(run core.RunState, states ...core.TaskState) core.Workflow {
		w := core.Workflow{Run: core.Run{ID: runNotes, Kind: core.KindDAG, State: run}}
		for i, st := range states {
			w.Layers = append(w.Layers, core.Layer{Index: i, Tasks: []core.Task{{ID: "t" + itoa(i+1), Tool: "a:b", Layer: i, State: st}}})
		}
		return w
	}
	gated := graph(core.RunWaiting, core.TaskSuccess, core.TaskSuccess, core.TaskQueued)
	gated.Approvals = []core.Approval{{ID: apLayer, RunID: runNotes, Type: core.ApproveLayer, Subject: "layer:2", State: core.ApprovalOpen}}
	for name, c := range map[string]struct {
		w    core.Workflow
		want string
	}{
		"Waits": {graph(core.RunWaiting, core.TaskSuccess, core.TaskError, core.TaskWaiting), "t3"},
		"Layer": {gated, "t3"},
		"Fails": {graph(core.RunFailed, core.TaskSuccess, core.TaskError, core.TaskSkipped), "t2"},
		"Runs":  {graph(core.RunInterrupted, core.TaskSuccess, core.TaskRunning, core.TaskQueued), "t2"},
		"Ended": {graph(core.RunComplete, core.TaskSuccess, core.TaskSuccess), "t1"},
	} {
		if _, e, _ := dagOf(t, c.w, 100, 30); e.Sel.Task != c.want {
			t.Errorf("%s: it opens at %s", name, e.Sel.Task)
		}
	}
	p, e, c := dagOf(t, graph(core.RunRunning, core.TaskRunning, core.TaskQueued, core.TaskQueued), 100, 30)
	gated.Layers = slices.Clone(gated.Layers)
	e.State.PutWorkflow(gated)
	if p.draw(c.Area(), e, true); e.Sel.Task != "t3" {
		t.Errorf("it stays at %s", e.Sel.Task)
	}
}

// TestEndText: a run that a no has ended says who denied, in plain words.
func TestEndText(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"aborted by ann via tui: " + core.RejectedApproval: "denied by ann via tui",
		"aborted: " + core.RejectedApproval:                "denied",
		"aborted by ann via tui: too risky":                "aborted by ann via tui: too risky",
	} {
		run := core.Run{State: core.RunAborted, Error: core.Errorf(core.CodeAborted, "%s", message)}
		if got := endText(run); got != want {
			t.Errorf("%q: %q", message, got)
		}
		_, reason, _ := strings.Cut(message, ": ")
		if got := eventWhat(&core.Event{Type: core.EventWorkflowAbort, Message: reason, Error: run.Error}, ""); got != want {
			t.Errorf("an event of %q says %q", message, got)
		}
	}
	ann := core.Actor{Who: "ann", Via: core.ViaTUI}
	run := core.Run{State: core.RunAborted, Error: core.Errorf(core.CodeAborted, "aborted by ann via tui: too risky")}
	denied := core.Approval{Type: core.ApproveLayer, State: core.ApprovalDenied, DecidedBy: &core.DecidedBy{Actor: ann, Reason: "too risky"}}
	if got := endText(run, denied); got != "denied by ann via tui: too risky" {
		t.Errorf("with a reason: %q", got)
	}
}

// TestDAG_GateNext: a run that stopped between two layers is asked before the one that has not begun.
func TestDAG_GateNext(t *testing.T) {
	t.Parallel()
	e := hiddenEnv(t)
	for state, want := range map[core.TaskState]string{core.TaskQueued: "(before layer 2)", core.TaskSuccess: "(before layer 3)"} {
		w := core.Workflow{Run: core.Run{ID: "r", State: core.RunWaiting, CurrentLayer: 1, TotalLayers: 3, Options: core.RunOptions{PerLayer: true}}, Layers: []core.Layer{
			{Index: 0, Tasks: []core.Task{{ID: "a", Tool: "x:y", State: core.TaskSuccess}}},
			{Index: 1, Tasks: []core.Task{{ID: "b", Tool: "x:y", State: state, Layer: 1}}},
		}}
		p := &dagPanel{model: newDAGModel(&w)}
		if got := p.gateText(w.Run, e); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q", state, got)
		}
	}
}
