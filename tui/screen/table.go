package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// scroll is which rows of a list are in view. Row 0 is the first of the list.
type scroll struct{ top, height int }

// show moves the view as little as it takes to have a row in it, and never
// past the end of n rows.
func (s *scroll) show(row, n, height int) {
	s.height = max(height, 0)
	s.top = max(min(s.top, n-s.height), 0)
	if row < 0 {
		return
	}
	s.top = max(min(s.top, row), row-s.height+1, 0)
}

// move returns the row that an action goes to from a row of n, and whether it
// is one that moves.
func (s *scroll) move(act keys.Action, row, n int) (to int, ok bool) {
	page := max(s.height-1, 1)
	switch act {
	case keys.Up:
		row--
	case keys.Down:
		row++
	case keys.First:
		row = 0
	case keys.Last:
		row = n - 1
	case keys.HalfUp:
		row -= max(s.height/2, 1)
	case keys.HalfDown:
		row += max(s.height/2, 1)
	case keys.PageUp:
		row -= page
	case keys.PageDown:
		row += page
	default:
		return row, false
	}
	return max(min(row, n-1), 0), true
}

// column is a column of a table.
type column struct {
	title string
	width int // columns; the least where grow is set
	grow  bool
	drop  int // columns with a higher number go first where there is no room; 0: never
	x     int // where it is, as placed
	here  bool
}

// placeColumns says where columns are in w columns, with one of air between
// them: those that do not fit are left out, and those that grow get the rest.
func placeColumns(cols []column, x, w int) []column {
	for i := range cols {
		cols[i].here = true
	}
	for {
		need, worst := 0, -1
		for i, c := range cols {
			if !c.here {
				continue
			}
			need += c.width + 1
			if c.drop > 0 && (worst < 0 || c.drop > cols[worst].drop) {
				worst = i
			}
		}
		if need-1 <= w || worst < 0 {
			return spread(cols, x, w-need+1)
		}
		cols[worst].here = false
	}
}

// spread gives what is left to the columns that grow, most to the first.
func spread(cols []column, x, left int) []column {
	growing := 0
	for _, c := range cols {
		if c.here && c.grow {
			growing++
		}
	}
	for i := range cols {
		c := &cols[i]
		if !c.here {
			continue
		}
		if c.grow && left > 0 {
			share := (left + growing - 1) / growing
			c.width += share
			left, growing = left-share, growing-1
		}
		c.x = x
		x += c.width + 1
	}
	return cols
}

// drawTitles draws the titles of columns into a row.
func drawTitles(a paint.Area, y int, cols []column) {
	for _, c := range cols {
		if c.here {
			a.Text(c.x, y, c.width, paint.Style{Role: paint.Muted}, c.title)
		}
	}
}

// text writes into a column, when it is there.
func (c *column) text(a paint.Area, y int, style paint.Style, text string) {
	if c.here {
		a.Text(c.x, y, c.width, style, text)
	}
}

// drawCursor marks a row as the selected one.
func drawCursor(a paint.Area, y int, focus bool) {
	style := paint.Style{Role: paint.Accent}.Bold()
	a.Put(0, y, style, a.Theme().Glyph.Cursor)
	if focus {
		a.Style(y, paint.Style.Selected)
	}
}
