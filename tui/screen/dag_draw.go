package screen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/graph"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// taskLook is the glyph of a task's state, and the style of glyph and word.
func taskLook(s core.TaskState, t *paint.Theme) (glyph string, style paint.Style) {
	g := &t.Glyph
	switch s {
	case core.TaskQueued:
		return g.Queued, paint.Style{Role: paint.Muted}
	case core.TaskRunning:
		return g.Running, paint.Style{Role: paint.Info}
	case core.TaskWaiting:
		return g.Waiting, paint.Style{Role: paint.Warn}
	case core.TaskSuccess:
		return g.Done, paint.Style{Role: paint.OK}
	case core.TaskError:
		return g.Failed, paint.Style{Role: paint.Danger}
	case core.TaskFailedSafe:
		return g.FailedSafe, paint.Style{Role: paint.Warn}
	case core.TaskSkipped:
		return g.Skipped, paint.Style{Role: paint.Muted}
	}
	return "?", paint.Style{}
}

// visibleName makes the name of a task or a tool safe, and short enough that a
// long one costs nothing.
func visibleName(s string) string { return core.Visible(s, 200, false) }

// tookText is how long something took, from milliseconds.
func tookText(ms float64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 1:
		return "<1 ms"
	}
	return durationText(ms)
}

// taskText says how long a task took or may wait, and what it is in, in words.
func (p *dagPanel) taskText(task int, e *Env) (when, what string) {
	t := p.model.tasks[task]
	when, what = tookText(t.DurationMS), string(p.model.states[task])
	switch {
	case t.Predicted:
		what = "predicted"
	case mayHaveRun(t):
		what = mayHaveRunText
	case t.State == core.TaskRunning && t.StartedAt != nil:
		when = ageText(e.Now.Sub(*t.StartedAt))
	}
	if a, ok := p.waitsFor(task, e); ok {
		when, what = leftText(a, e), "waiting "+typeName(a.Type)
	} else if p.inVain(task, e) {
		when, what = "", expiredText(e)
	}
	return when, what
}

// mayHaveRunText is what a task is in whose process ended while it was under way.
const mayHaveRunText = "may have run"

// mayHaveRun reports whether a task was under way when its process ended. It
// waits for somebody who lets the run go on.
func mayHaveRun(t *core.Task) bool {
	return t.State == core.TaskWaiting && t.Error != nil && t.Error.Code == core.CodeCancelled
}

// waitsFor is the open approval of a task.
func (p *dagPanel) waitsFor(task int, e *Env) (core.Approval, bool) { return p.model.waitsFor(task, e) }

func (m *dagModel) waitsFor(task int, e *Env) (core.Approval, bool) {
	id, ok := m.asked[task]
	if !ok {
		return core.Approval{}, false
	}
	a, ok := e.State.Approval(id)
	return a, ok && a.StateAt(e.Now) == core.ApprovalOpen
}

// inVain reports whether a task waits for an approval that has expired.
func (p *dagPanel) inVain(task int, e *Env) bool {
	a, ok := e.State.Approval(p.model.asked[task])
	return ok && p.model.states[task] == core.TaskWaiting && a.RenewedBy == "" && a.StateAt(e.Now) == core.ApprovalExpired
}

// leftText is how much time an approval has left.
func leftText(a core.Approval, e *Env) string {
	if a.ExpiresAt == nil {
		return "no limit"
	}
	return ttlText(a.ExpiresAt.Sub(e.Now))
}

// layerText is what a layer is in.
func (p *dagPanel) layerText(l *dagLayer, e *Env) (string, paint.Style) {
	state := l.counts.state()
	glyph, style := taskLook(state, e.Theme)
	done := l.counts.done
	if state == core.TaskError { // beside what failed, skipped tasks would read as done
		done = l.counts.well()
	}
	text := fmt.Sprintf("%s %d/%d", glyph, done, l.counts.total)
	if state != core.TaskSuccess {
		text += " " + string(state)
	}
	if l.took > 0 {
		text += " " + tookText(float64(l.took)/float64(time.Millisecond))
	}
	if id, ok := p.model.gates[l.number]; ok {
		if a, known := e.State.Approval(id); known && a.StateAt(e.Now) == core.ApprovalOpen {
			return e.Theme.Glyph.Waiting + " asks first " + leftText(a, e), paint.Style{Role: paint.Warn}
		}
	}
	return text, style
}

func (p *dagPanel) draw(a paint.Area, e *Env, focus bool) {
	p.settle(e)
	run, known := e.State.Run(e.Sel.Run)
	in := a.Frame(p.title(run, known, focus, e))
	p.inner = in.W
	if len(p.model.tasks) == 0 {
		in.Text(0, 0, in.W, paint.Style{Role: paint.Muted}, p.emptyText(run, known, e))
		y := 2
		for _, l := range endLines(run, in.W, min(in.H-2, maxEndLines), e) {
			in.Text(0, y, in.W, paint.Style{Role: paint.Danger}, l)
			y++
		}
		if known {
			drawFacts(in.Sub(0, min(y+1, in.H), in.W, in.H-y-1), run, e)
		}
		return
	}
	foot := p.footLines(run, in, e)
	for len(foot) > 0 && len(foot)*3 > in.H {
		foot = foot[1:]
	}
	body := in.Sub(0, 0, in.W, in.H-len(foot))
	if p.low = false; p.asBoxes() {
		p.boxes.fit(p.model, body.W)
		rows := body.H - columnHead
		p.low = rows < 2*graph.BoxH && rows < p.boxes.Layout.H
	}
	if p.asBoxes() {
		if used := columnHead + p.boxes.Layout.H + 1; body.H-used >= leastBelow {
			p.drawBelow(body.Sub(0, used, body.W, body.H-used), e)
			body = body.Sub(0, 0, body.W, used-1)
		}
		p.drawBoxes(body, e, focus)
	} else {
		p.drawRows(body, e, focus)
	}
	for i, f := range foot {
		f(in.Sub(0, in.H-len(foot)+i, in.W, 1))
	}
}

// leastBelow is how many rows must be free below the boxes to list the tasks there: a rule
// and two of them.
const leastBelow = 3

// drawBelow lists the tasks around the selected one, with all that boxes have no room for.
func (p *dagPanel) drawBelow(a paint.Area, e *Env) {
	a.Rule(0, "")
	rows, at := a.Sub(0, 1, a.W, a.H-1), p.at(e)
	first := max(min(at-rows.H/2, len(p.model.tasks)-rows.H), 0)
	cols := dagColumns(rows.W)
	for y := 0; y < rows.H && first+y < len(p.model.tasks); y++ {
		p.drawTask(rows, y, cols, first+y, e)
		if first+y == at {
			widget.DrawCursor(rows, y, false)
		}
	}
}

// title is what stands in the frame.
func (p *dagPanel) title(run core.Run, known, focus bool, e *Env) paint.Title {
	t := paint.Title{Left: "3 DAG", Focus: focus}
	if !known {
		return t
	}
	glyph, style := runLook(run.State, e.Theme)
	t.Left += "  " + fullName(run.ID, e)
	t.Right = glyph + " " + string(run.State)
	if run.Agent != nil {
		t.Right = fmt.Sprintf("%d of %d iterations  %s  ", run.Agent.Iterations, run.Agent.MaxIterations, run.Agent.Cost()) + t.Right
	} else if n := max(run.TotalLayers, len(p.model.layers)); n > 0 {
		layer := e.State.LayerOf(run)
		at := fmt.Sprintf("at L%d of %s", min(layer, n), plural(n, "layer"))
		switch {
		case run.Kind == core.KindCode:
			at = layerText(run)
		case run.State == core.RunComplete || layer == 0:
			at = plural(n, "layer")
		}
		t.Right = at + "  " + t.Right
	}
	t.Style = paint.Style{Role: style.Role}
	if i := p.at(e); i >= 0 {
		t.Foot = fmt.Sprintf("task %d/%d", i+1, len(p.model.tasks))
		if p.model.critical > 0 {
			t.Foot = "critical path " + tookText(p.model.critical) + "  " + t.Foot
		}
	}
	if p.follows(run, e) {
		t.Foot = "following  " + t.Foot
	}
	if stale := staleText(run.Side, e); stale != "" {
		t.Foot = stale
	}
	return t
}

// emptyText says why there is nothing to see, and what to do.
func (p *dagPanel) emptyText(run core.Run, known bool, e *Env) string {
	_, loaded := e.State.Workflow(run.ID)
	switch {
	case !known && e.State.Loaded:
		return "No run is selected. 1 goes to the list."
	case !known || !loaded:
		return "reading the layers" + e.Theme.Glyph.More
	case run.State.Final():
		return "It ended without calling a tool."
	}
	return "No task yet. Tasks appear here as the code calls tools."
}

// drawFacts says what is known of a run that has no task to show.
func drawFacts(in paint.Area, run core.Run, e *Env) {
	y := 0
	fact := func(label, text string) {
		if text != "" && y < in.H {
			labelled(label, text, paint.Style{})(in.Sub(0, y, in.W, 1))
			y++
		}
	}
	fact("run", fullName(run.ID, e))
	fact("from", core.Visible(run.RequestedBy.Origin(), 100, false))
	fact("folder", core.Visible(run.Workspace, 200, false))
	fact("started", clockText(run.CreatedAt, e)+", "+ageText(e.Now.Sub(run.CreatedAt))+" ago")
	if a, ok := e.State.WaitingOf(run.ID, e.Now); ok {
		fact("waits for", whatText(a)+", "+leftText(a, e))
	}
}

// footLines are what stands below, the first to go first where there is no room.
func (p *dagPanel) footLines(run core.Run, in paint.Area, e *Env) []func(paint.Area) {
	out := p.saidLines(in, e)
	if run.Agent != nil {
		out = append(out, labelled("used", run.Agent.Text(), paint.Style{}))
	}
	if text := p.gateText(run, e); text != "" {
		out = append(out, labelled("gate", text, paint.Style{}))
	}
	if i := p.at(e); i >= 0 {
		t := p.model.tasks[i]
		if text := p.edgesText(t); text != "" {
			out = append(out, labelled("after", text, paint.Style{}))
		}
		when, what := p.taskText(i, e)
		state := p.stateNow(i, e)
		if state != p.model.states[i] {
			what = string(state)
		}
		glyph, style := taskLook(state, e.Theme)
		text := strings.TrimSpace(fmt.Sprintf("%s  %s  %s %s %s", p.model.name(i), p.model.tool(i), glyph, what, when))
		out = append(out, labelled("selected", text, style))
	}
	label := "error"
	for _, l := range endLines(run, in.W-10, min(in.H/3-1, maxEndLines), e) {
		out = append(out, labelled(label, l, paint.Style{Role: paint.Danger}))
		label = ""
	}
	return append(out, func(a paint.Area) { p.drawProgress(a, run, e) })
}

// labelled draws a text behind its name.
func labelled(label, text string, style paint.Style) func(paint.Area) {
	return func(a paint.Area) {
		a.Put(0, 0, paint.Style{Role: paint.Muted}, label)
		a.Text(10, 0, a.W-10, style, text)
	}
}

// edgesText names what a task comes after and what comes after it.
func (p *dagPanel) edgesText(t *core.Task) string {
	after, before := p.model.someNames(t.DependsOn), p.model.someNames(p.model.users[t.ID])
	switch {
	case after == "" && before == "" && len(p.model.edges) == 0:
		return ""
	case after == "":
		after = "nothing"
	}
	if before == "" {
		return after
	}
	return after + "   before  " + before
}

// someNames lists up to four names of tasks.
func (m *dagModel) someNames(list []string) string {
	var out []string
	for i, s := range list {
		if i == 4 {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(list)-i)
		}
		out = append(out, m.nameOf(s))
	}
	return strings.Join(out, ", ")
}

// gateText says before which layers a person is asked.
func (p *dagPanel) gateText(run core.Run, e *Env) string {
	for _, n := range slices.Sorted(maps.Keys(p.model.gates)) {
		id := p.model.gates[n]
		if a, ok := e.State.Approval(id); ok && a.StateAt(e.Now) == core.ApprovalOpen {
			return fmt.Sprintf("asks before layer %d, %s left", n+1, leftText(a, e))
		}
	}
	switch {
	case run.State.Final():
		return ""
	case run.Options.HIL == core.HILAlways:
		return "asks before every layer"
	case run.Options.PerLayer:
		next := run.CurrentLayer + 2
		if run.State == core.RunWaiting && run.CurrentLayer > 0 && !p.model.begun(run.CurrentLayer) {
			next-- // its process has ended before somebody was asked
		}
		return fmt.Sprintf("asks before each next layer (before layer %d)", next)
	case run.Options.HIL == core.HILSideEffects:
		return "asks before layers that change something"
	}
	return ""
}

// drawProgress draws how far the run is.
func (p *dagPanel) drawProgress(a paint.Area, run core.Run, e *Env) {
	c := p.countsNow(e)
	end := e.Now
	if run.EndedAt != nil {
		end = *run.EndedAt
	}
	a.Put(0, 0, paint.Style{Role: paint.Muted}, "progress")
	text, w := restText(ageText(end.Sub(run.CreatedAt)), &c), 0
	if p.model.code || p.model.steps != nil { // nobody knows how many calls are to come
		text = strings.TrimPrefix(layerText(run)+"  ", "  ") + text
	} else {
		text = fmt.Sprintf("%d/%d  ", c.well(), c.total) + text
		w = max(min(20, a.W-len(text)-11), 0)
		a.Bar(10, 0, w, paint.Style{Role: barRole(run, &c)}, float64(c.well())/float64(max(c.total, 1)))
	}
	x := 10 + w + min(w, 1)
	a.Text(x, 0, a.W-x, paint.Style{}, text)
}

// restText says how long a run has taken, and what is not or not well behind it.
func restText(elapsed string, c *dagCounts) string {
	text := "elapsed " + elapsed
	for _, part := range []struct {
		word string
		n    int
	}{{"running", c.running}, {"waiting", c.waiting}, {"failed", c.failed}, {"failed safe", c.safe}, {"skipped", c.skipped}} {
		if part.n > 0 {
			text += fmt.Sprintf("  %s %d", part.word, part.n)
		}
	}
	return text
}

// barRole is how the bar of a run looks: green is for what has gone well.
func barRole(run core.Run, c *dagCounts) paint.Role {
	switch run.State {
	case core.RunFailed:
		return paint.Danger
	case core.RunAborted, core.RunExpired:
		return paint.Muted
	case core.RunRunning, core.RunWaiting, core.RunInterrupted, core.RunComplete:
	}
	if c.failed > 0 {
		return paint.Danger
	}
	return paint.OK
}

// columnHead is how many rows stand above the boxes of a layer.
const columnHead = 2

// drawBoxes draws the part of the layout that is in view.
func (p *dagPanel) drawBoxes(a paint.Area, e *Env, focus bool) {
	b := &p.boxes
	head := func(a paint.Area, x int, c graph.Column) {
		if l := p.model.layerOf(c.Layer); l >= 0 {
			p.drawColumnHead(a, x, c.W, l, e)
		}
	}
	b.Draw(a, columnHead, b.box(p.model, e), focus, head, func(box *graph.Box) widget.Box {
		name, when, word, state, predicted := p.boxText(box, e)
		glyph, style := taskLook(state, e.Theme)
		return widget.Box{Glyph: glyph, Name: name, Foot: boxFoot(word, when, box.W-4), Style: style, Border: boxStyle(state, style), Faint: predicted}
	})
}

// drawColumnHead draws what stands above the boxes of a layer.
func (p *dagPanel) drawColumnHead(a paint.Area, x, w, layer int, e *Env) {
	l := &p.model.layers[layer]
	a.Text(x+1, 0, w-1, paint.Style{}.Bold(), "L"+itoa(l.number+1))
	text, style := p.layerText(l, e)
	a.Text(x+1, 1, w-1, style, text)
}

// boxFoot is what stands in the lower line of a box: the state, and how long it
// took where there is room.
func boxFoot(word, when string, w int) string {
	if when == "" || len(word)+1+len(when) > w {
		return word
	}
	return word + " " + when
}

// boxText is what stands in a box.
func (p *dagPanel) boxText(box *graph.Box, e *Env) (name, when, word string, state core.TaskState, predicted bool) {
	t := p.model.tasks[box.Nodes[0]]
	if !box.Group {
		when, word = p.taskText(box.Nodes[0], e)
		if a, ok := p.waitsFor(box.Nodes[0], e); ok { // what is short goes first
			when, word = "", leftText(a, e)+" "+typeName(a.Type)
		}
		return p.boxName(box, e), when, word, p.model.states[box.Nodes[0]], t.Predicted && p.model.states[box.Nodes[0]] != core.TaskWaiting
	}
	var c dagCounts
	for _, n := range box.Nodes {
		c.add(p.model.states[n])
	}
	return fmt.Sprintf("%d/%d", c.done, c.total), "", plural(c.total, "task") + ", = opens", c.state(), false
}
