package runs

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// treeTasks is how many calls a tree shows at most: it must fit the smallest usual
// terminal, as what has scrolled away cannot be redrawn.
const treeTasks = 12

// tree is a run with its layers and calls that is redrawn in place on a terminal.
type tree struct {
	a     *app.App
	shown string

	mu    sync.Mutex // events come while the run is read
	begun core.Begun
}

// note takes in what an event says of a call.
func (t *tree) note(e *core.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun.Note(e)
}

// watchesTree reports whether a run that is watched is drawn as a tree: on a terminal
// that can redraw, for a person.
func watchesTree(a *app.App) bool {
	term, _ := a.Environ("TERM")
	return a.StdoutTTY && a.Human() && term != "" && term != "dumb"
}

// show draws the run over what was drawn of it before.
func (t *tree) show(w core.Workflow) {
	t.mu.Lock()
	t.begun.Show(&w)
	t.mu.Unlock()
	text := treeText(t.a, w)
	if text == t.shown {
		return
	}
	back := ""
	if n := strings.Count(t.shown, "\n"); n > 0 {
		back = fmt.Sprintf("\r\x1b[%dA\x1b[J", n)
	}
	t.shown = text
	_ = t.a.Write(back + text) // a terminal that is gone ends the command by its signal
}

// end draws how the run stands at last, and what it returned or waits for.
func (t *tree) end(w core.Workflow) error {
	t.show(w)
	switch w.State {
	case core.RunComplete:
		return t.a.PrintResult(resultOf(w))
	case core.RunWaiting:
		for _, p := range w.Approvals {
			switch {
			case p.StateAt(t.a.Now()) != core.ApprovalOpen:
			case approval.IsPause(w.Options, p): // which nobody has to decide
				t.a.SayNext("pml", "continue", w.ID.Short())
			default:
				t.a.SayNext("pml", "approve", p.ID.Short())
			}
		}
	case core.RunAborted:
		if w.Abort != nil {
			t.a.Say("%s", core.Visible(core.ShownAbort(w.Abort.Text()), 2000, false))
		}
	case core.RunRunning, core.RunInterrupted, core.RunFailed, core.RunExpired:
	}
	return nil
}

// treeText is a run as a tree. Calls that are over leave first where there are too many.
func treeText(a *app.App, w core.Workflow) string {
	var b strings.Builder
	styled := func(style layout.Style, text string) {
		if width := a.Width(); width > 1 {
			text = layout.Cut(text, width-1)
		}
		b.WriteString(a.Paint(style, text) + "\n")
	}
	line := func(text string) { styled(layout.Plain, text) }
	took := a.Now().Sub(w.CreatedAt)
	if w.EndedAt != nil {
		took = w.EndedAt.Sub(w.CreatedAt)
	}
	styled(layout.StyleOf(string(w.State)), core.Visible(fmt.Sprintf("%s  %s  %s  %s", w.Title(), w.State, layout.Millis(float64(took.Milliseconds())), w.ID.Short()), 0, false))
	if w.Kind == core.KindAgent {
		lines := agentLines(w, nil)
		if n := len(lines) - treeTasks; n > 0 {
			line(fmt.Sprintf("  %d earlier", n))
			lines = lines[n:]
		}
		for _, l := range lines {
			styled(l.Style, l.Text)
		}
		if w.Agent != nil {
			line("  used " + w.Agent.Text())
		}
	} else {
		treeTasksText(w, line, styled)
	}
	for _, p := range w.Approvals {
		switch {
		case p.StateAt(a.Now()) != core.ApprovalOpen:
		case approval.IsPause(w.Options, p):
			styled(layout.Warn, core.Visible(fmt.Sprintf("  ! pauses: %s, %s", strings.TrimSuffix(p.Description, "."), leftText(a, p)), 0, false))
		default:
			styled(layout.Warn, core.Visible(fmt.Sprintf("  ! waits for a person: %s, risk %s, %s", strings.TrimSuffix(cmp.Or(p.Description, p.Subject), "."), p.Risk, leftText(a, p)), 0, false))
		}
	}
	return b.String()
}

// treeTasksText is what a script or a DAG has called, by layer.
func treeTasksText(w core.Workflow, line func(string), styled func(layout.Style, string)) {
	over, total := 0, 0
	for _, l := range w.Layers {
		for i := range l.Tasks {
			if total++; l.Tasks[i].State == core.TaskSuccess {
				over++
			}
		}
	}
	skip := min(max(total-treeTasks, 0), over)
	if skip > 0 {
		line(fmt.Sprintf("  + %d of %d calls are done", over, total))
	}
	rest := treeTasks
	for _, l := range w.Layers {
		head := w.Kind != core.KindCode // of a script a layer is a step, and says nothing
		for _, task := range l.Tasks {
			if task.State == core.TaskSuccess && skip > 0 {
				skip--
				continue
			}
			if rest--; rest < 0 {
				continue
			}
			if head {
				head = false
				line(fmt.Sprintf("  layer %d of %d", l.Index+1, max(w.TotalLayers, len(w.Layers))))
			}
			style := layout.Plain
			if task.State != core.TaskSuccess {
				style = layout.StyleOf(taskWord(task, w.State))
			}
			styled(style, treeTask(task, w.State))
		}
	}
	if rest < 0 {
		line(fmt.Sprintf("  and %d more", -rest))
	}
}

// leftText says how long an approval can still be decided.
func leftText(a *app.App, p core.Approval) string {
	switch {
	case p.ExpiresAt == nil:
		return "no time limit"
	case !p.ExpiresAt.After(a.Now()):
		return "expired"
	}
	return layout.Left(a.Now(), p.ExpiresAt) + " left"
}

// treeTask is a call in one line: what it is in, what is called with what, how long it
// took, and why it failed.
func treeTask(t core.Task, run core.RunState) string {
	text := "  " + glyphs[t.State] + " " + core.CallName(t.Tool, t.Made())
	if t.DurationMS > 0 {
		text += "  " + layout.Millis(t.DurationMS)
	}
	if t.State != core.TaskSuccess {
		text += "  " + taskWord(t, run)
	}
	if t.Error != nil {
		text += ": " + layout.Joined(t.Error.Message)
	}
	return core.Visible(text, 0, false)
}
