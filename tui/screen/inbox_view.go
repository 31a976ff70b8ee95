package screen

import (
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
