package widget

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// Scroll is which rows of a list are in view. Row 0 is the first of the list.
type Scroll struct{ Top, Height int }

// Show moves the view as little as it takes to have a row in it, and never
// past the end of n rows.
func (s *Scroll) Show(row, n, height int) {
	s.Height = max(height, 0)
	s.Top = max(min(s.Top, n-s.Height), 0)
	if row < 0 {
		return
	}
	s.Top = max(min(s.Top, row), row-s.Height+1, 0)
}

// Move returns the row that an action goes to from a row of n, and whether it
// is one that moves.
func (s *Scroll) Move(act keys.Action, row, n int) (to int, ok bool) {
	page := max(s.Height-1, 1)
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
		row -= max(s.Height/2, 1)
	case keys.HalfDown:
		row += max(s.Height/2, 1)
	case keys.PageUp:
		row -= page
	case keys.PageDown:
		row += page
	default:
		return row, false
	}
	return max(min(row, n-1), 0), true
}

// Column is a column of a table.
type Column struct {
	Title string
	Width int // columns; the least where grow is set
	Grow  bool
	Drop  int // columns with a higher number go first where there is no room; 0: never
	X     int // where it is, as placed
	Here  bool
}

// PlaceColumns says where columns are in w columns, with one of air between
// them: those that do not fit are left out, and those that grow get the rest.
func PlaceColumns(cols []Column, x, w int) []Column {
	for i := range cols {
		cols[i].Here = true
	}
	for {
		need, worst := 0, -1
		for i, c := range cols {
			if !c.Here {
				continue
			}
			need += c.Width + 1
			if c.Drop > 0 && (worst < 0 || c.Drop > cols[worst].Drop) {
				worst = i
			}
		}
		if need-1 <= w || worst < 0 {
			return spread(cols, x, w-need+1)
		}
		cols[worst].Here = false
	}
}

// spread gives what is left to the columns that grow, most to the first.
func spread(cols []Column, x, left int) []Column {
	growing := 0
	for _, c := range cols {
		if c.Here && c.Grow {
			growing++
		}
	}
	for i := range cols {
		c := &cols[i]
		if !c.Here {
			continue
		}
		if c.Grow && left > 0 {
			share := (left + growing - 1) / growing
			c.Width += share
			left, growing = left-share, growing-1
		}
		c.X = x
		x += c.Width + 1
	}
	return cols
}

// DrawTitles draws the titles of columns into a row.
func DrawTitles(a paint.Area, y int, cols []Column) {
	for _, c := range cols {
		if c.Here {
			a.Text(c.X, y, c.Width, paint.Style{Role: paint.Muted}, c.Title)
		}
	}
}

// Text writes into a column, when it is there.
func (c *Column) Text(a paint.Area, y int, style paint.Style, text string) {
	if c.Here {
		a.Text(c.X, y, c.Width, style, text)
	}
}

// DrawCursor marks a row as the selected one: with the focus it is one bar of one
// colour, whatever the colours of its texts.
func DrawCursor(a paint.Area, y int, focus bool) {
	style := paint.Style{Role: paint.Accent}.Bold()
	a.Put(0, y, style, a.Theme().Glyph.Cursor)
	if focus {
		a.Style(y, func(paint.Style) paint.Style { return paint.Style{}.Selected() })
	}
}
