package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// dagRows is the view as a list: a row for each layer, and below it its tasks.
type dagRows struct {
	stale  bool
	closed map[int]bool // layers by number
	list   []dagRow
	ofTask []int // the row of each task; -1: its layer is closed
	ofHead []int // the row of each layer
	header int   // the layer that the cursor is on, counted from 1; 0: on a task
	scroll widget.Scroll
	y      int // of the first row in the panel
}

// dagRow is a task of a layer, or the layer itself with task -1.
type dagRow struct{ layer, task int }

// refresh lists the rows again after layers were read or folded.
func (r *dagRows) refresh(m *dagModel) {
	if !r.stale && len(r.ofTask) == len(m.tasks) {
		return
	}
	r.stale = false
	r.list, r.ofHead, r.ofTask = r.list[:0], r.ofHead[:0], make([]int, len(m.tasks))
	for i, l := range m.layers {
		r.ofHead = append(r.ofHead, len(r.list))
		r.list = append(r.list, dagRow{i, -1})
		for t := l.first; t < l.last; t++ {
			if r.ofTask[t] = -1; !r.closed[l.number] {
				r.ofTask[t] = len(r.list)
				r.list = append(r.list, dagRow{i, t})
			}
		}
	}
	if r.header > len(m.layers) {
		r.header = 0
	}
}

// at is the row of the cursor, or -1.
func (r *dagRows) at(m *dagModel, e *Env) int {
	r.refresh(m)
	t, ok := m.byID[e.Sel.Task]
	switch {
	case r.header > 0:
		return r.ofHead[r.header-1]
	case !ok:
		return -1
	case r.ofTask[t] < 0:
		return r.ofHead[m.layer[t]]
	}
	return r.ofTask[t]
}

// fold opens or closes a layer.
func (r *dagRows) fold(m *dagModel, layer int, closed bool) {
	if r.closed == nil {
		r.closed = map[int]bool{}
	}
	r.closed[m.layers[layer].number], r.stale = closed, true
}

func (r *dagRows) foldAll(m *dagModel, closed bool) {
	for i := range m.layers {
		r.fold(m, i, closed)
	}
}

// reveal opens a layer and takes the cursor off a header.
func (r *dagRows) reveal(m *dagModel, layer int) {
	r.header = 0
	if r.closed[m.layers[layer].number] {
		r.fold(m, layer, false)
	}
}

// move moves the cursor and folds. Opening a task is not for it.
func (r *dagRows) move(act keys.Action, m *dagModel, e *Env) bool {
	at := r.at(m, e)
	if at < 0 {
		return false
	}
	if to, ok := r.scroll.Move(act, at, len(r.list)); ok {
		r.put(to, m, e)
		return true
	}
	row := r.list[at]
	switch {
	case act == keys.Left && row.task >= 0:
		r.header = row.layer + 1
	case act == keys.Left:
		r.fold(m, row.layer, true)
	case act == keys.Right && row.task < 0:
		r.fold(m, row.layer, false)
	case act == keys.Right:
	case act == keys.Open && row.task < 0:
		r.fold(m, row.layer, !r.closed[m.layers[row.layer].number])
	default:
		return false
	}
	if row.task < 0 {
		r.header = row.layer + 1
	}
	return true
}

// put puts the cursor on a row.
func (r *dagRows) put(row int, m *dagModel, e *Env) {
	if row < 0 || row >= len(r.list) {
		return
	}
	to := r.list[row]
	if r.header = 0; to.task < 0 {
		r.header = to.layer + 1
		if l := m.layers[to.layer]; l.first < l.last {
			e.Sel.Task = m.tasks[l.first].ID
		}
		return
	}
	e.Sel.Task = m.tasks[to.task].ID
}

// click puts the cursor on what is at a row of the panel; a layer folds.
func (r *dagRows) click(y int, m *dagModel, e *Env) {
	row := r.scroll.Top + y - r.y
	if y < r.y || y >= r.y+r.scroll.Height || row >= len(r.list) {
		return
	}
	if to := r.list[row]; to.task < 0 && r.header == to.layer+1 {
		r.move(keys.Open, m, e)
		return
	}
	r.put(row, m, e)
}

// dagColumns are the columns of tasks in the list.
func dagColumns(w int) []widget.Column {
	return widget.PlaceColumns([]widget.Column{
		{Width: 10, Grow: true},
		{Width: 10, Grow: true, Drop: 2},
		{Width: 7, Drop: 1},
		{Width: 20},
	}, 6, w-6)
}

// drawRows draws the list.
func (p *dagPanel) drawRows(a paint.Area, e *Env, focus bool) {
	r := &p.rows
	at := r.at(p.model, e)
	r.scroll.Show(at, len(r.list), a.H)
	cols := dagColumns(a.W)
	for y := 0; y < a.H && r.scroll.Top+y < len(r.list); y++ {
		row := r.list[r.scroll.Top+y]
		if row.task < 0 {
			p.drawLayer(a, y, row.layer, e)
		} else {
			p.drawTask(a, y, cols, row.task, e)
		}
		if r.scroll.Top+y == at {
			widget.DrawCursor(a, y, focus)
		}
	}
}

// drawLayer draws the row of a layer.
func (p *dagPanel) drawLayer(a paint.Area, y, layer int, e *Env) {
	l := &p.model.layers[layer]
	fold := e.Theme.Glyph.Open
	if p.rows.closed[l.number] {
		fold = e.Theme.Glyph.Closed
	}
	x := 2 + a.Put(2, y, paint.Style{Role: paint.Accent}, fold+" ")
	if p.model.steps != nil {
		x += a.Put(x, y, paint.Style{}.Bold(), itoa(l.number+1)) + 2
		a.Text(x, y, a.W-x, paint.Style{}, p.model.steps[layer].UsedText(p.model.price))
		return
	}
	x += a.Put(x, y, paint.Style{}.Bold(), "L"+itoa(l.number+1)) + 2
	text, style := p.layerText(l, e)
	a.Text(x, y, a.W-x, style, text)
}

// drawTask draws the row of a task.
func (p *dagPanel) drawTask(a paint.Area, y int, cols []widget.Column, task int, e *Env) {
	if p.model.steps != nil {
		p.drawStepTask(a, y, task, e)
		return
	}
	t := p.model.tasks[task]
	glyph, style := taskLook(p.model.states[task], e.Theme)
	a.Put(4, y, style, glyph)
	name := paint.Style{}
	if t.Predicted {
		name.Role = paint.Muted
	}
	cols[0].Text(a, y, name, p.model.name(task))
	cols[1].Text(a, y, paint.Style{Role: paint.Muted}, p.model.tool(task))
	when, what := p.taskText(task, e)
	cols[2].Text(a, y, style, when)
	cols[3].Text(a, y, style, what)
}

const (
	// maxEndLines bounds how much room an error takes on the panel, maxEndText
	// how much of it is looked at, in bytes. The whole of it is in the output of
	// pml workflows show.
	maxEndLines = 5
	maxEndText  = 2000
)

// endText says why a run ended without its result, as it came; empty for any
// other run.
func endText(run core.Run, asked ...core.Approval) string {
	switch run.State {
	case core.RunFailed, core.RunAborted, core.RunExpired:
	case core.RunRunning, core.RunWaiting, core.RunInterrupted, core.RunComplete:
		return ""
	}
	switch {
	case run.Error != nil && run.Error.Message != "":
		if text := core.ShownAbort(run.Error.Message, asked...); run.Error.Code == core.CodeAborted { // which it says
			return text
		}
		return string(run.Error.Code) + ": " + run.Error.Message
	case run.Error != nil:
		return string(run.Error.Code)
	case run.Abort != nil:
		return core.ShownAbort(run.Abort.Text(), asked...)
	}
	return ""
}

// endLines is endText in at most n lines of w columns; an ellipsis says that
// there is more.
func endLines(run core.Run, w, n int, e *Env) []string {
	read, _ := e.State.Workflow(run.ID)
	text := endText(run, read.Approvals...)
	if text == "" || n <= 0 || w <= 0 {
		return nil
	}
	text = strings.ReplaceAll(core.Visible(strings.TrimSpace(text), maxEndText, true), "\t", "    ")
	lines := paint.Wrap(text, w)
	if len(lines) <= n {
		return lines
	}
	last := &lines[n-1]
	more := e.Theme.Glyph.More
	*last = paint.Clip(*last, w-paint.Width(more), "") + more
	return lines[:n]
}
