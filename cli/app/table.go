package app

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
)

// minFlex is how wide a column that is cut stays.
const minFlex = 12

// How much place is kept for a column that takes the rest: columns with Drop above 1 make
// way for the first, all of them for the second.
const (
	wantRest = 30
	minRest  = 6
)

// Always is the style of a whole column.
func Always[T any](s layout.Style) func(T) layout.Style { return func(T) layout.Style { return s } }

// Colour reports whether what is written to standard output has colours: on a
// terminal only, which wants them.
func (a *App) Colour() bool { return a.StdoutTTY && a.wantsColour() }

// ColourErr is Colour of standard error.
func (a *App) ColourErr() bool { return a.StderrTTY && a.wantsColour() }

func (a *App) wantsColour() bool {
	no, _ := a.Environ("NO_COLOR")
	term, _ := a.Environ("TERM")
	return !a.Flags.NoColor && no == "" && term != "" && term != "dumb"
}

// Paint is text for standard output in a style.
func (a *App) Paint(s layout.Style, text string) string { return s.On(text, a.Colour()) }

// PaintErr is text for standard error in a style.
func (a *App) PaintErr(s layout.Style, text string) string { return s.On(text, a.ColourErr()) }

// table is a table on its way to the screen.
type table[T any] struct {
	items []T
	cols  []Column[T]
	below []Column[T]
	limit int
	rest  int // what is kept for the last column, where it has Rest
}

// tableOf lays items out in columns aligned by display width. On a terminal
// the table is made to fit; with -o wide nothing is left out, and a table that is too wide
// has a line for each field. In a pipe nothing is left out.
func tableOf[T any](a *App, items []T, cols []Column[T]) string {
	wide := a.Format() == formatWide
	t := &table[T]{items: items}
	for _, c := range cols {
		if wide || !c.Wide {
			t.cols = append(t.cols, c)
		}
	}
	if t.limit = a.Width(); wide && a.StdoutTTY && t.over() > 0 {
		return t.records(a.Colour())
	}
	t.limit = a.LineLimit()
	t.fit()
	limit := t.limit
	if n := len(t.cols); len(t.below) > 0 && (n == 0 || !t.cols[n-1].Rest) {
		limit = 0 // who lists what decides has nothing cut
	}
	lines := strings.SplitAfter(layout.AlignCells(t.cells(), limit, a.Colour()), "\n")
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		if i > 0 && i <= len(items) {
			t.writeBelow(&b, items[i-1], a.Colour())
		}
	}
	return b.String()
}

func (t *table[T]) cells() [][]layout.Cell {
	head := make([]layout.Cell, len(t.cols))
	for i, c := range t.cols {
		head[i] = layout.Cell{Text: c.Title, Style: layout.Dim}
	}
	rows := [][]layout.Cell{head}
	for _, it := range t.items {
		row := make([]layout.Cell, len(t.cols))
		for i, c := range t.cols {
			row[i].Text = core.Visible(c.Get(it), 0, false)
			if c.Style != nil {
				row[i].Style = c.Style(it)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// records has each item as a block with a line for each field that says something, whole, so
// that it can be copied.
func (t *table[T]) records(colour bool) string {
	rows := t.cells()
	head, titles := rows[0], 0
	for _, title := range head {
		titles = max(titles, layout.Width(title.Text))
	}
	var b strings.Builder
	for n, row := range rows[1:] {
		if n > 0 {
			b.WriteByte('\n')
		}
		for i, cell := range row {
			if cell.Text == "" || cell.Text == "-" {
				continue
			}
			label := head[i]
			b.WriteString(label.Style.On(label.Text, colour) + strings.Repeat(" ", titles-layout.Width(label.Text)+2) + cell.Style.On(cell.Text, colour) + "\n")
		}
	}
	return b.String()
}

// over is by how much the table is too wide.
func (t *table[T]) over() int {
	if t.limit <= 0 {
		return 0
	}
	sum := -2
	for i, w := range layout.Widths(t.cells()) {
		if t.cols[i].Rest {
			w = min(w, t.rest)
		}
		sum += w + 2
	}
	return sum - t.limit
}

func (t *table[T]) fit() {
	t.rest = minRest
	t.moveBelow(1)
	t.rest = wantRest
	t.drop(2)
	t.rest = minRest
	t.drop(1)
	t.moveBelow(2)
	for i, c := range t.cols {
		over := t.over()
		if over <= 0 {
			return
		}
		if c.Flex {
			width := max(minFlex, layout.Widths(t.cells())[i]-over)
			t.cols[i].Get = func(v T) string { return layout.Cut(core.Visible(c.Get(v), 0, false), width) }
		}
	}
}

// moveBelow takes columns out of a table that is too wide, for the lines under its
// rows.
func (t *table[T]) moveBelow(level int) {
	if t.over() <= 0 {
		return
	}
	t.cols = slices.DeleteFunc(t.cols, func(c Column[T]) bool {
		if c.Below == level {
			t.below = append(t.below, c)
		}
		return c.Below == level
	})
}

// drop leaves columns out, from one level of Drop on, until the table fits.
func (t *table[T]) drop(level int) {
	for t.over() > 0 {
		at := -1
		for i, c := range t.cols {
			if c.Drop >= level && (at < 0 || c.Drop > t.cols[at].Drop) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		t.cols = slices.Delete(t.cols, at, at+1)
	}
}

// writeBelow writes what has no column under its row.
func (t *table[T]) writeBelow(b *strings.Builder, it T, colour bool) {
	for _, c := range t.below {
		text := core.Visible(c.Get(it), 0, false)
		if text == "" {
			continue
		}
		for _, line := range layout.Wrap(strings.ToLower(c.Title)+": "+text, t.limit-2) {
			b.WriteString("  " + layout.Dim.On(strings.TrimRight(line, " "), colour) + "\n")
		}
	}
}
