package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/widget"
)

// inboxView is which rows of the inbox are in view: above those that wait, and
// below, in the lines that these leave, what is over with its heading. Whatever
// is over takes no line from what waits but the one of the cursor.
type inboxView struct {
	first  int // the line of the panel where the rows begin
	height int // of all rows
	wait   widget.Scroll
	over   widget.Scroll // of lines: the heading is the first of them
}

// headingLines are the empty line and the heading above what is over.
const headingLines = 2

// arrange brings a row into view.
func (v *inboxView) arrange(selected int, r *inboxRows) {
	v.height = max(v.height, 0)
	n, lines := len(r.waiting), 0
	if len(r.resolved) > 0 {
		lines = len(r.resolved) + headingLines
	}
	shown, at, line := min(n, v.height), selected, 0
	if selected >= n {
		shown, at, line = min(n, max(v.height-1, 0)), 0, selected-n+headingLines
	}
	v.wait.Show(at, n, shown)
	v.over.Show(line, lines, v.height-shown)
}

// rowAt is the row in a line of the view, -1 in one that has none.
func (v *inboxView) rowAt(y int, r *inboxRows) int {
	if y < 0 || y >= v.height {
		return -1
	}
	if y < v.wait.Height {
		return v.wait.Top + y
	}
	row := len(r.waiting) + v.over.Top + y - v.wait.Height - headingLines
	if row < len(r.waiting) || row >= r.len() {
		return -1
	}
	return row
}

// isHeading reports whether the heading stands in a line of the view, with a row
// below it.
func (v *inboxView) isHeading(y int, r *inboxRows) bool {
	return y >= v.wait.Height && v.over.Top+y-v.wait.Height == headingLines-1 && v.rowAt(y+1, r) >= 0
}

// inboxFilter makes a test of words that must all occur in what a row shows of
// an approval; one that begins with "!" must not. It ignores case.
func inboxFilter(text string) func(core.Approval, *Env) bool {
	words := strings.Fields(strings.ToLower(text))
	return func(a core.Approval, e *Env) bool {
		if len(words) == 0 {
			return true
		}
		hay := strings.ToLower(strings.Join([]string{
			typeName(a.Type), string(a.Type), a.Tool, a.Subject, "risk:" + string(a.Risk), "state:" + string(a.StateAt(e.Now)),
			a.Description, string(a.ID), string(a.RunID), e.State.Name(a.RunID),
		}, "\n"))
		for _, w := range words {
			w, not := strings.CutPrefix(w, "!")
			if w != "" && strings.Contains(hay, w) == not {
				return false
			}
		}
		return true
	}
}

// filterPrompt asks for a filter, which works while it is typed. Esc brings the
// one before back.
func (p *inboxPanel) filterPrompt(_ *Env) *prompt {
	before := p.filter
	set := func(text string) { p.filter, p.rows.made = text, false }
	q := newPrompt("filter approvals", before)
	q.hint = "words that must occur: type, tool, run, risk:high, id; !word must not. enter keeps it, esc does not"
	q.changed = func(text string) error { set(text); return nil }
	q.done = func(text string, _ *Env) []Intent { set(text); return nil }
	q.cancelled = func() { set(before) }
	return q
}
