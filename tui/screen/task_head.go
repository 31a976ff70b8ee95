package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// drawHead says what became of the task, and returns the rows that it took. Why nobody was asked
// stands below that where one line has no room for both: it must be readable.
func (p *taskPanel) drawHead(a paint.Area, t *core.Task, e *Env) int {
	muted := paint.Style{Role: paint.Muted}
	text, style := p.stateText(t, e)
	x := a.Put(0, 0, style, text) + 2
	facts, why, rows := taskFacts(t, e), "", 1
	if t.AllowedBy != "" {
		why = core.Visible(core.ShownAllowedBy(t.AllowedBy), 300, false)
	}
	tool := visibleName(t.Tool) // last, where there is no room for all: the DAG has it, too
	if all := spaced(append(facts, why, tool)); x+paint.Width(all) <= a.W || why == "" || a.H < 5 {
		a.Text(x, 0, a.W-x, muted, all)
	} else {
		a.Text(x, 0, a.W-x, muted, spaced(append(facts, tool)))
		for _, line := range paint.Wrap(why, a.W) {
			if rows > a.H-4 {
				break
			}
			a.Put(0, rows, muted, line)
			rows++
		}
	}
	if a.H < 5 {
		return rows
	}
	a.Rule(rows, "")
	return rows + 1
}

// spaced are the texts that say something, beside each other.
func spaced(texts []string) string {
	var out []string
	for _, s := range texts {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "  ")
}

// stateText is what a task is in, and for how long yet it waits for a person.
func (p *taskPanel) stateText(t *core.Task, e *Env) (string, paint.Style) {
	ap, waits := p.waitsFor(t, e)
	st := t.State
	if i, ok := p.model.byID[t.ID]; ok {
		st = p.model.states[i]
	}
	glyph, style := taskLook(st, e.Theme)
	text := glyph + " " + string(st)
	if mayHaveRun(t) {
		text = glyph + " " + mayHaveRunText
	}
	if t.Predicted && st != core.TaskWaiting {
		text += ", predicted"
	}
	if waits {
		text += " " + typeName(ap.Type) + " " + leftText(ap, e)
	}
	return text, style
}

// taskFacts are how long a task took, when it was started, and which attempt it is.
func taskFacts(t *core.Task, e *Env) (facts []string) {
	if took := tookText(t.DurationMS); took != "" {
		facts = append(facts, took)
	}
	if t.StartedAt != nil {
		facts = append(facts, "started "+t.StartedAt.In(e.Now.Location()).Format("15:04:05.000"))
	}
	if t.Attempt > 1 {
		facts = append(facts, "attempt "+itoa(t.Attempt))
	}
	return facts
}

// waitsFor is the open approval that the task waits for, the same one as in the DAG.
func (p *taskPanel) waitsFor(t *core.Task, e *Env) (core.Approval, bool) {
	i, ok := p.model.byID[t.ID]
	if !ok {
		return core.Approval{}, false
	}
	return p.model.waitsFor(i, e)
}
