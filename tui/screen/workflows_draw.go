package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// The columns of the list of runs.
const (
	colStatus = iota
	colName
	colID
	colLayer
	colTasks
	colAge
	colNext
	colFrom
)

// nameWidth is the least width of the name of a run: other columns go before it gets
// narrow.
func nameWidth(w int) int { return max(12, min(20, w/4)) }

// nextWidth is the width of what comes next, which never goes.
func nextWidth(w int) int {
	if w < 56 {
		return 12
	}
	return 17
}

// runColumns are the columns of the list, in a new slice.
func runColumns(w int) []widget.Column {
	return widget.PlaceColumns([]widget.Column{
		colStatus: {Title: "STATUS", Width: 13},
		colName:   {Title: "NAME", Width: nameWidth(w), Grow: true},
		colID:     {Title: "ID", Width: 8, Drop: 3},
		colLayer:  {Title: "LAYER", Width: 9, Drop: 4},
		colTasks:  {Title: "TASKS", Width: 9, Drop: 5},
		colAge:    {Title: "AGE", Width: 5, Drop: 2},
		colNext:   {Title: "NEXT", Width: nextWidth(w)},
		colFrom:   {Title: "FROM", Width: 22, Drop: 6},
	}, 3, w-3)
}

func (p *workflowsPanel) draw(a paint.Area, e *Env, focus bool) {
	ids := p.ids(e)
	row := p.row(ids, e)
	title := p.title(a.W, len(ids), row, focus, e)
	in := a.Frame(title)
	below := p.below(in)
	p.seen = p.seen[:0]
	if len(ids) == 0 {
		if p.filter.Empty() && first(e) {
			p.first.draw(in, e, focus)
			return
		}
		p.drawEmpty(in, e)
		return
	}
	height := in.H - 1 - below
	p.scroll.Show(row, len(ids), height)
	if n := p.newer(ids, e); n > 0 {
		title.Left += fmt.Sprintf("  %s %d newer", e.Theme.Glyph.ArrowUp, n)
		in = a.Frame(title)
	}
	cols := runColumns(in.W)
	widget.DrawTitles(in, 0, cols)
	p.next.update(e)
	p.seen = append(p.seen, ids[p.scroll.Top:min(p.scroll.Top+max(height, 0), len(ids))]...)
	p.folders = severalFolders(len(p.seen), func(i int) string { r, _ := e.State.Run(p.seen[i]); return r.Workspace })
	for y, id := range p.seen {
		p.drawRun(in, 1+y, cols, id, e)
		if p.scroll.Top+y == row {
			widget.DrawCursor(in, 1+y, focus)
		}
	}
	p.drawBelow(in, below, e)
}

// newer is how many runs above the view began after the newest that was in it, where the newest
// stand first.
func (p *workflowsPanel) newer(ids []core.ID, e *Env) (n int) {
	if p.sort != state.SortAge || p.reverse {
		return 0
	}
	began := func(row int) time.Time {
		r, _ := e.State.Run(ids[row])
		return r.CreatedAt
	}
	if first := began(0); p.newest.IsZero() || p.scroll.Top == 0 && first.After(p.newest) {
		p.newest = first
	}
	for n < p.scroll.Top && began(n).After(p.newest) {
		n++
	}
	return n
}

// orderText says which runs stand first: an arrow would mean another thing for an age than for a name.
func orderText(k state.SortKey, reverse bool) string {
	words := map[state.SortKey][2]string{
		state.SortAge: {"newest first", "oldest first"}, state.SortUpdated: {"last changed first", "longest unchanged first"},
		state.SortStatus: {"running first", "running last"}, state.SortName: {"a to z", "z to a"},
		state.SortLayer: {"furthest first", "furthest last"},
	}[k]
	if reverse {
		return words[1]
	}
	return words[0]
}

func (p *workflowsPanel) title(w, n, row int, focus bool, e *Env) paint.Title {
	all := e.State.CountRuns()
	right := strconv.Itoa(all)
	if !p.filter.Empty() {
		right = fmt.Sprintf("%d of %d", n, all)
	}
	right += fmt.Sprintf("  sort %s, %s", p.sort, orderText(p.sort, p.reverse))
	if stale := staleLists(e); stale != "" {
		if right = stale + "  " + right; w < 64 {
			right = stale
		}
	}
	t := paint.Title{Left: "1 Runs", Right: right, Focus: focus}
	if n > 0 {
		t.Foot = fmt.Sprintf("%d/%d", row+1, n)
	}
	if len(p.marked) > 0 {
		t.Foot = fmt.Sprintf("%d marked  %s", len(p.marked), t.Foot)
		if p.marked[p.anchor] && p.anchor != e.Sel.Run {
			t.Foot = keyOf(e, keys.MarkRange) + " marks to here  " + t.Foot
		}
	}
	return t
}

// drawEmpty says why there are no rows, and what to do.
func (p *workflowsPanel) drawEmpty(in paint.Area, e *Env) {
	text, style := "", paint.Style{Role: paint.Muted}
	link := e.State.Links.Client
	switch {
	case !p.filter.Empty():
		text = fmt.Sprintf("0 of %d match %s. esc clears the filter.", e.State.CountRuns(), core.Visible(p.filter.String(), 200, false))
	case link.State == state.LinkLost:
		text = fmt.Sprintf("%s cannot read the runs: %s. It is tried again by itself; pml doctor says more.", e.Theme.Glyph.Failed, core.Visible(link.Err, 300, false))
		style.Role = paint.Danger
	case !e.State.Loaded:
		text = "Reading the runs."
	default:
		text = "No runs yet."
	}
	for i, line := range paint.Wrap(text, in.W) {
		in.Put(0, 1+i, style, line)
	}
}

func (p *workflowsPanel) drawRun(in paint.Area, y int, cols []widget.Column, id core.ID, e *Env) {
	r, ok := e.State.Run(id)
	if !ok {
		return
	}
	if p.marked[id] {
		in.Put(1, y, paint.Style{Role: paint.Accent}.Bold(), e.Theme.Glyph.Mark)
	}
	muted := paint.Style{Role: paint.Muted}
	glyph, style := runLook(r.State, e.Theme)
	n := in.Put(cols[colStatus].X, y, style, glyph)
	in.Text(cols[colStatus].X+n+1, y, cols[colStatus].Width-2, style, string(r.State))
	name := e.State.Name(id)
	if n := e.State.RunsBelow(id); n > 0 {
		name = "(" + plural(n, "run") + ") " + name
	}
	if p.folders && !cols[colFrom].Here {
		name = inFolder(r.Workspace, name)
	}
	cols[colName].Text(in, y, paint.Style{}, name)
	cols[colID].Text(in, y, muted, r.ID.Short())
	cols[colLayer].Text(in, y, paint.Style{}, layerRow(r, e))
	if c := &cols[colTasks]; c.Here && r.Agent != nil {
		c.Text(in, y, paint.Style{}, plural(r.Agent.Calls, "call"))
	} else if c.Here && r.Kind != core.KindCode { // of a script each step is a task
		if w, ok := e.State.Workflow(id); ok {
			done, all := taskCounts(w)
			c.Text(in, y, paint.Style{}, itoa(done)+"/"+itoa(all))
		}
	}
	cols[colAge].Text(in, y, muted, ageText(e.Now.Sub(r.CreatedAt)))
	if c := &cols[colFrom]; c.Here {
		c.Text(in, y, muted, e.State.From(id))
	}
	if c := &cols[colNext]; c.Here {
		text, look := p.nextText(r, e)
		c.Text(in, y, look, text)
	}
}

// doingText is what a run does now: the call that it makes, or the server that was
// approved for it and is not there yet.
func doingText(run core.ID, e *Env) string {
	const most = 200 // tasks that are looked at, the last first
	w, _ := e.State.Workflow(run)
	looked, name, others := 0, "", 0
	for _, l := range slices.Backward(w.Layers) {
		for i := len(l.Tasks) - 1; i >= 0 && looked < most; i-- {
			if looked++; l.Tasks[i].State != core.TaskRunning {
				continue
			}
			if name != "" {
				others++
			}
			name = cmp.Or(l.Tasks[i].Tool, l.Tasks[i].ID)
		}
	}
	if name == "" {
		if a, ok := e.State.LastDecided(run); ok && a.Type == core.ApproveDependency && a.State == core.ApprovalApproved {
			return "installs " + core.Visible(a.Subject, 40, false)
		}
		return ""
	}
	if _, tool, ok := core.SplitTool(name); ok {
		name = tool
	}
	name = core.Visible(name, 40, false)
	if others > 0 {
		name = "+" + itoa(others) + " " + name
	}
	return name
}

// taskCounts are how many tasks of a run have ended as they should, and how many there are.
func taskCounts(w core.Workflow) (done, all int) {
	for _, l := range w.Layers {
		for i := range l.Tasks {
			if all++; l.Tasks[i].State == core.TaskSuccess {
				done++
			}
		}
	}
	return done, all
}

// below is how many lines below the rows are taken by the filter and by what is
// told of the selected run.
func (p *workflowsPanel) below(in paint.Area) int {
	n := 0
	if !p.filter.Empty() {
		n = 2
	}
	if in.W >= 70 && in.H >= 16 && in.H < 30 {
		n += 3
	}
	return n
}

func (p *workflowsPanel) drawBelow(in paint.Area, n int, e *Env) {
	muted := paint.Style{Role: paint.Muted}
	if !p.filter.Empty() {
		in.Text(0, in.H-1, in.W, paint.Style{Role: paint.Accent}, "/ filter: "+core.Visible(p.filter.String(), 200, false)+"   (esc clears)")
		n -= 2
	}
	r, ok := e.State.Run(e.Sel.Run)
	if n < 3 || !ok {
		return
	}
	y := in.H - n + 1
	if !p.filter.Empty() {
		y -= 2
	}
	x := in.Text(0, y, in.W/2, paint.Style{}.Bold(), e.State.Name(r.ID))
	by := fmt.Sprintf("  started %s by %s", clockText(r.CreatedAt, e), core.Visible(r.RequestedBy.Origin(), 80, false))
	if r.Side == core.SideServer {
		by += " on the server"
	}
	if r.Workspace != "" {
		by += " in "
		by += endOfPath(core.Visible(r.Workspace, 200, false), in.W-x-paint.Width(by), e.Theme.Glyph.More)
	}
	in.Text(x, y, in.W-x, muted, by)
	if r.Error != nil {
		w, _ := e.State.Workflow(r.ID)
		in.Text(0, y+1, in.W, paint.Style{Role: paint.Danger}, core.Visible(core.ShownAbort(r.Error.Message, w.Approvals...), 300, false))
	} else if r.Agent != nil {
		in.Text(0, y+1, in.W, paint.Style{}, r.Agent.Text())
	} else if w, ok := e.State.Workflow(r.ID); ok {
		in.Text(0, y+1, in.W, paint.Style{}, layersText(w, e.Theme))
	}
}

// layersText is a run in one line: "L1 ✓✓  L2 ✓!".
func layersText(w core.Workflow, t *paint.Theme) string {
	const most = 40 // tasks of a layer
	asked := askedAbout(w)
	var b strings.Builder
	for _, l := range w.Layers {
		fmt.Fprintf(&b, "L%d ", l.Index+1)
		for i := range l.Tasks {
			if i == most {
				b.WriteString(t.Glyph.More)
				break
			}
			st := l.Tasks[i].State
			if st == core.TaskQueued && asked[l.Tasks[i].ID] {
				st = core.TaskWaiting
			}
			b.WriteString(taskGlyph(st, t))
		}
		b.WriteString("  ")
	}
	return b.String()
}

// askedAbout are the tasks of a run that a person is asked about.
func askedAbout(w core.Workflow) map[string]bool {
	asked := map[string]bool{}
	for i := range w.Approvals {
		if a := &w.Approvals[i]; a.State == core.ApprovalOpen {
			for _, id := range a.CallIDs {
				asked[id] = true
			}
			asked[a.Planned()] = true
		}
	}
	return asked
}

// taskGlyph is the glyph of a task's state.
func taskGlyph(s core.TaskState, t *paint.Theme) string {
	g := &t.Glyph
	switch s {
	case core.TaskQueued:
		return g.Queued
	case core.TaskRunning:
		return g.Running
	case core.TaskWaiting:
		return g.Waiting
	case core.TaskSuccess:
		return g.Done
	case core.TaskError:
		return g.Failed
	case core.TaskFailedSafe:
		return g.FailedSafe
	case core.TaskSkipped:
		return g.Skipped
	}
	return "?"
}

// nextApprovals finds the approval of each run that expires first.
type nextApprovals struct {
	of_     *state.State
	version [2]int64 // of approvals and runs: news of anything else change nothing here
	waiting int
	byRun   map[core.ID]core.ID
}

// update looks again when something changed or has expired.
func (n *nextApprovals) update(e *Env) {
	waiting := e.State.Waiting(e.Now)
	version := [2]int64{e.State.ApprovalsVersion(), e.State.RunsVersion()}
	if n.of_ == e.State && n.version == version && n.waiting == len(waiting) {
		return
	}
	n.of_, n.version, n.waiting = e.State, version, len(waiting)
	n.byRun = make(map[core.ID]core.ID, len(waiting))
	for i := range waiting {
		for _, id := range []core.ID{waiting[i].RunID, e.State.Root(waiting[i].RunID)} {
			if _, known := n.byRun[id]; !known {
				n.byRun[id] = waiting[i].ID
			}
		}
	}
}

func (n *nextApprovals) of(run core.ID, e *Env) (core.Approval, bool) {
	id, ok := n.byRun[run]
	if !ok {
		return core.Approval{}, false
	}
	return e.State.Approval(id)
}

// endOfPath is a path without as many folders at its front as it takes to fit.
func endOfPath(path string, w int, more string) string {
	for short := path; ; {
		if paint.Width(short) <= w {
			return short
		}
		_, rest, ok := strings.Cut(strings.TrimPrefix(short, more+"/"), "/")
		if !ok {
			return path
		}
		short = more + "/" + rest
	}
}
