package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/graph"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// dagPanel shows the layers of a run: as boxes with lines between them where
// there is room, else as a list by layer that folds.
type dagPanel struct {
	model *dagModel
	view  dagView
	inner int  // columns inside of the frame, as drawn last
	low   bool // one row of the boxes at most has room there, and there are more
	rows  dagRows
	boxes dagBoxes
	query string
	// put is the task that the panel itself has selected; as long as that is the selected one, the
	// cursor goes on with a run that runs. Empty: the person has moved it.
	put string
}

// dagView is how layers are shown.
type dagView int

// The views. By its width: boxes where there is room, for more than one row of several, too.
const (
	byWidth dagView = iota
	asList
	asBoxes
)

// boxesFrom is how wide the inside must be to show boxes by itself, and
// boxesLeast how wide to show them at all.
const (
	boxesFrom  = 66
	boxesLeast = 36
)

func newDAG() *dagPanel { return &dagPanel{model: &dagModel{}} }

// settle takes up the layers that were read last, and keeps a task selected.
func (p *dagPanel) settle(e *Env) {
	w, ok := e.State.Workflow(e.Sel.Run)
	switch {
	case !ok:
		if p.model.run != e.Sel.Run || len(p.model.tasks) > 0 {
			p.model = &dagModel{run: e.Sel.Run}
			p.rows, p.boxes = dagRows{}, dagBoxes{unfolded: p.boxes.unfolded}
			e.Sel.Task = ""
		}
		return
	case p.model.current(&w) && p.model.byID != nil:
		if _, ok := p.model.byID[e.Sel.Task]; ok {
			return
		}
	default:
		if p.model.run != w.ID {
			p.rows, p.boxes, e.Sel.Task = dagRows{}, dagBoxes{unfolded: p.boxes.unfolded}, ""
		}
		goesOn := e.Sel.Task != "" && e.Sel.Task == p.put
		if goesOn && w.State == core.RunRunning {
			e.Sel.Task = ""
		}
		p.model = newDAGModel(&w)
		p.rows.stale, p.boxes.Layout = true, nil
		if id, ok := p.model.urgent(); ok && goesOn { // the run has stopped there
			e.Sel.Task, p.put = id, id
		}
	}
	if _, ok := p.model.byID[e.Sel.Task]; !ok {
		p.goTo(w.State == core.RunRunning, e)
	}
}

// goTo selects the task to look at, and goes on with it while the run runs.
func (p *dagPanel) goTo(runs bool, e *Env) {
	e.Sel.Task, p.put = p.model.start(), ""
	if runs {
		e.Sel.Task = p.model.underWay()
		p.put = e.Sel.Task
	}
}

// follows reports whether the cursor goes on with what the run does.
func (p *dagPanel) follows(run core.Run, e *Env) bool {
	return p.put != "" && p.put == e.Sel.Task && run.State == core.RunRunning
}

// stay ends that: the person has moved the cursor, or looks at one task.
func (p *dagPanel) stay() { p.put = "" }

// follow begins or ends it.
func (p *dagPanel) follow(e *Env) []Intent {
	run, _ := e.State.Run(e.Sel.Run)
	switch {
	case run.State != core.RunRunning:
		return []Intent{say{Note, "nothing to follow: the run is " + string(run.State) + "; " + keyOf(e, keys.Last) + " goes to the end"}}
	case p.follows(run, e):
		p.stay()
		return []Intent{say{Note, "the cursor stays here"}}
	case len(p.model.tasks) > 0:
		p.goTo(true, e)
		p.rows.reveal(p.model, p.model.layer[p.at(e)])
	}
	return []Intent{say{Note, "the cursor goes with what runs"}}
}

// asBoxes reports whether boxes are shown.
func (p *dagPanel) asBoxes() bool {
	if p.model.steps != nil { // the steps of an agent are no graph
		return false
	}
	return p.view == asBoxes && p.inner >= boxesLeast || p.view == byWidth && p.inner >= boxesFrom && !p.low
}

// at is the index of the selected task, or -1.
func (p *dagPanel) at(e *Env) int {
	if i, ok := p.model.byID[e.Sel.Task]; ok {
		return i
	}
	return -1
}

func (p *dagPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	switch act {
	case keys.Graph:
		if p.asBoxes() {
			p.view = asList
		} else {
			p.view = asBoxes
		}
		return nil, true
	case keys.Fold, keys.Unfold:
		p.boxes.unfolded, p.boxes.Layout = act == keys.Unfold, nil
		p.rows.foldAll(p.model, act == keys.Fold)
		return nil, true
	case keys.Filter:
		return []Intent{openOverlay{p.searchPrompt()}}, true
	case keys.NextMatch, keys.PreviousMatch:
		p.jump(act == keys.NextMatch, e)
		return nil, p.query != ""
	default:
	}
	if act == keys.Follow {
		return p.follow(e), true
	}
	if p.asBoxes() && p.boxes.move(act, p.model, e) || !p.asBoxes() && p.rows.move(act, p.model, e) {
		p.stay()
		return nil, true
	}
	return p.doTask(act, e)
}

// doTask carries out what is about the selected task, or its run.
func (p *dagPanel) doTask(act keys.Action, e *Env) ([]Intent, bool) {
	run, ok := e.State.Run(e.Sel.Run)
	i := p.at(e)
	if !ok {
		return nil, false
	}
	switch act {
	case keys.Abort, keys.Again, keys.Replan:
		return doOneRun(act, run, e), true
	case keys.RunResult:
		return runResult(run, e), true
	case keys.Back:
		return nil, p.up(run, e)
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml workflows show " + string(run.ID)}}, true
	default:
	}
	if i < 0 {
		return nil, false
	}
	t := p.model.tasks[i]
	switch act {
	case keys.Open:
		if child := p.model.child(i); child != "" {
			e.Sel.Run, e.Sel.Task = child, ""
			return nil, true
		}
		return []Intent{openPanel{PanelTask}}, true
	case keys.Approve, keys.Deny:
		id, ok := p.model.approval(i, e)
		if !ok {
			var below core.Approval
			below, ok = waitsBelow(p.model.child(i), e)
			id = below.ID
		}
		return decideTask(act, id, ok, e), true
	case keys.FlowLink:
		return []Intent{FindFlowRuns{Run: run.ID, Call: t.ID}}, true
	case keys.CopyID:
		return []Intent{Copy{What: "an id", Text: t.ID}}, true
	case keys.CopyAll:
		return []Intent{Copy{What: "a task", Text: indented(t)}}, true
	case keys.Edit:
		return []Intent{View{Name: "task-" + fileName(t.ID) + ".json", Text: indented(t)}}, true
	default:
		return nil, false
	}
}

// up goes from a run that an agent has started to the agent, and reports whether there
// is one.
func (p *dagPanel) up(run core.Run, e *Env) bool {
	parent, known := e.State.Run(run.ParentID)
	if !known || !run.Below() {
		return false
	}
	e.Sel.Run, e.Sel.Task = parent.ID, ""
	if w, ok := e.State.Workflow(parent.ID); ok {
		for _, s := range core.AgentSteps(w) {
			for _, c := range s.Runs {
				if c.ID == run.ID {
					p.settle(e)
					e.Sel.Task = c.Task.ID
				}
			}
		}
	}
	return true
}

// doOneRun carries out what is about one run as a whole.
func doOneRun(act keys.Action, run core.Run, e *Env) []Intent {
	switch act {
	case keys.Abort:
		if run.State.Final() {
			return []Intent{say{Note, "it has ended already, there is nothing to abort"}}
		}
		return []Intent{openOverlay{abortPrompt([]core.Run{run}, func() {})}}
	case keys.Replan:
		return replan(run)
	default:
	}
	return again([]core.Run{run}, e)
}

// decideTask opens the card of what a task waits for, where it waits.
func decideTask(act keys.Action, id core.ID, waits bool, e *Env) []Intent {
	if !waits {
		return []Intent{say{Note, waitsForNobody}}
	}
	return []Intent{openOverlay{cardFor(act, id, e)}}
}

// waitsForNobody says that there is nothing to approve.
const waitsForNobody = "this task waits for nobody"

// approval is what a task waits for, or else the layer that it is in.
func (m *dagModel) approval(task int, e *Env) (core.ID, bool) {
	id, ok := m.asked[task]
	if !ok {
		id, ok = m.gates[m.layers[m.layer[task]].number]
	}
	if !ok {
		return "", false
	}
	a, known := e.State.Approval(id)
	return id, known && a.StateAt(e.Now) == core.ApprovalOpen
}

// fileName makes a name out of foreign text that is one everywhere.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, s)
	return s[:min(len(s), 60)]
}

// searchPrompt asks for words of the name of a task, its tool or its arguments.
func (p *dagPanel) searchPrompt() *prompt {
	ask := newPrompt("/ task, tool or argument:", p.query)
	ask.done = func(text string, e *Env) []Intent {
		if p.query = text; text != "" && !p.jump(true, e) {
			return []Intent{say{Note, "no task has " + core.Visible(text, 60, false)}}
		}
		return nil
	}
	return ask
}

// jump selects the next or the previous task that matches the query.
func (p *dagPanel) jump(next bool, e *Env) bool {
	n := len(p.model.tasks)
	if p.query == "" || n == 0 {
		return false
	}
	words, by := strings.Fields(strings.ToLower(p.query)), n-1
	if next {
		by = 1
	}
	for k := 1; k <= n; k++ {
		i := (max(p.at(e), 0) + k*by) % n
		t := p.model.tasks[i]
		if matchesAll(strings.ToLower(strings.Join([]string{t.ID, p.model.name(i), t.Tool, string(t.Arguments)}, "\n")), words) {
			p.selectTask(i, e)
			return true
		}
	}
	return false
}

// selectTask puts the cursor on a task, and opens its layer.
func (p *dagPanel) selectTask(i int, e *Env) {
	p.stay()
	e.Sel.Task = p.model.tasks[i].ID
	p.rows.reveal(p.model, p.model.layer[i])
}

func (p *dagPanel) click(x, y int, e *Env) []Intent {
	if p.asBoxes() {
		if i := p.boxes.Hit(x-2, y-1); i >= 0 {
			p.selectTask(p.boxes.Layout.Boxes[i].Nodes[0], e)
		}
		return nil
	}
	p.rows.click(y-1, p.model, e)
	return nil
}

func (p *dagPanel) hints(e *Env) []keys.Action {
	hints := []keys.Action{keys.Left, keys.Down, keys.Open, keys.Graph, keys.Unfold}
	if i := p.at(e); i >= 0 {
		_, own := p.model.approval(i, e)
		if _, below := waitsBelow(p.model.child(i), e); own || below {
			hints = append([]keys.Action{keys.Approve, keys.Deny}, hints...)
		}
	}
	run, known := e.State.Run(e.Sel.Run)
	if _, none := again([]core.Run{run}, e)[0].(say); known && !none && run.Imported == nil {
		hints = append([]keys.Action{keys.Again}, hints...)
	}
	if run.State.Final() {
		hints = append(hints, keys.RunResult)
	} else if run.State == core.RunRunning {
		hints = append(hints, keys.Follow)
	}
	return append(hints, keys.Fold, keys.Filter, keys.CopyID, keys.Zoom)
}

// dagBoxes is the view of boxes.
type dagBoxes struct {
	widget.Boxes
	boxW     int
	of       []int // the box of each task
	unfolded bool
	room     int // columns there are
}

// fit lays the boxes out for a width: narrow ones where wide ones do not fit.
func (b *dagBoxes) fit(m *dagModel, w int) {
	if b.Layout != nil && b.room == w {
		return
	}
	o := graph.Options{BoxW: 20}
	if b.unfolded {
		o.Fold = max(len(m.tasks), 1)
	}
	if b.Layout == nil || b.boxW == 16 != (b.Layout.W > w) {
		l := m.layout(o)
		if b.boxW = 20; l.W > w {
			o.BoxW, b.boxW = 16, 16
			l = m.layout(o)
		}
		b.take(l, m)
	}
	b.room = w
}

// take keeps a layout and which box each task is in.
func (b *dagBoxes) take(l *graph.Layout, m *dagModel) {
	b.Layout, b.of = l, make([]int, len(m.tasks))
	for i := range b.of {
		b.of[i] = -1
	}
	for i := range l.Boxes {
		for _, n := range l.Boxes[i].Nodes {
			b.of[n] = i
		}
	}
}

// box is the box of the selected task, or -1.
func (b *dagBoxes) box(m *dagModel, e *Env) int {
	i, ok := m.byID[e.Sel.Task]
	if !ok || b.Layout == nil || i >= len(b.of) {
		return -1
	}
	return b.of[i]
}

// move goes from box to box. A box of many opens by unfolding all.
func (b *dagBoxes) move(act keys.Action, m *dagModel, e *Env) bool {
	at := b.box(m, e)
	if act == keys.Open && at >= 0 && b.Layout.Boxes[at].Group {
		b.unfolded, b.Layout = true, nil
		return true
	}
	to, ok := b.Move(act, at)
	switch next := at + map[keys.Action]int{keys.Down: 1, keys.Up: -1}[act]; {
	case to != at || at < 0 || next < 0 || next >= len(b.Layout.Boxes):
	default: // nothing is below it, or above: on with the next layer, as in a list
		to = next
	}
	if to != at {
		e.Sel.Task = m.tasks[b.Layout.Boxes[to].Nodes[0]].ID
	}
	return ok
}

// boxStyle is how the frame of a box looks.
func boxStyle(s core.TaskState, style paint.Style) paint.Style {
	switch s {
	case core.TaskWaiting, core.TaskError, core.TaskRunning:
		return style
	case core.TaskQueued, core.TaskSuccess, core.TaskFailedSafe, core.TaskSkipped:
	}
	return paint.Style{Role: paint.Border}
}

// boxName is the name of a task in its box. Where the call of a script has no room, its
// tool is cut before the argument, whose end tells it from the other calls of its loop.
func (p *dagPanel) boxName(box *graph.Box, e *Env) string {
	task, more := box.Nodes[0], e.Theme.Glyph.More
	name, room := p.model.name(task), box.W-5
	tool, arg, ok := strings.Cut(name, " ")
	left := room - paint.Width(arg) - 1
	switch {
	case !p.model.code || !ok || paint.Width(name) <= room:
		return name
	case left >= 3:
		return paint.Clip(tool, left, more) + " " + arg
	case p.model.uses[p.model.tasks[task].Tool] > 1:
		end := []rune(arg)
		for len(end) > 0 && paint.Width(more+string(end)) > room {
			end = end[1:]
		}
		return more + string(end)
	}
	return name
}
