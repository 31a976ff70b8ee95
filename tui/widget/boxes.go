package widget

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/tui/graph"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// Boxes shows the part of a graph that fits, scrolled by whole columns so that the
// selected box is in it.
type Boxes struct {
	Layout    *graph.Layout
	Left, Top int // of the layout, in view
	w, h      int // of the view
	y         int // where the view begins in the area
}

// Box is what stands in a box. Its texts are safe to show.
type Box struct {
	Glyph, Name, Foot string
	Style             paint.Style // of glyph and foot
	Border            paint.Style
	Faint             bool // dotted: it may not come to it
}

// Move returns the box that an action goes to from another one.
func (b *Boxes) Move(act keys.Action, at int) (to int, ok bool) {
	if at < 0 || b.Layout == nil {
		return at, false
	}
	col := b.Layout.Column(at)
	c := b.Layout.Columns[col]
	page := max(b.h/graph.BoxH, 1)
	switch act {
	case keys.Up:
		return max(at-1, c.First), true
	case keys.Down:
		return min(at+1, c.Last-1), true
	case keys.HalfUp, keys.PageUp:
		return max(at-page, c.First), true
	case keys.HalfDown, keys.PageDown:
		return min(at+page, c.Last-1), true
	case keys.First: // of the column, and from there of all
		if at == c.First {
			return 0, true
		}
		return c.First, true
	case keys.Last:
		if at == c.Last-1 {
			return len(b.Layout.Boxes) - 1, true
		}
		return c.Last - 1, true
	case keys.Left, keys.Right:
		return b.beside(at, col, act == keys.Right), true
	default:
		return at, false
	}
}

// beside is the box of the next column that is nearest to a row.
func (b *Boxes) beside(at, col int, right bool) int {
	next := col - 1
	if right {
		next = col + 1
	}
	if next < 0 || next >= len(b.Layout.Columns) {
		return at
	}
	best := -1
	y := b.Layout.Boxes[at].Y
	far := func(i int) int { return max(b.Layout.Boxes[i].Y-y, y-b.Layout.Boxes[i].Y) }
	for i := b.Layout.Columns[next].First; i < b.Layout.Columns[next].Last; i++ {
		if best < 0 || far(i) < far(best) {
			best = i
		}
	}
	return best
}

// Hit is the box at a place of the area that was drawn last, or -1.
func (b *Boxes) Hit(x, y int) int {
	if b.Layout == nil || y < b.y || y >= b.y+b.h || x < 0 || x >= b.w {
		return -1
	}
	x, y = x+b.Left, y-b.y+b.Top
	for i := range b.Layout.Boxes {
		if o := &b.Layout.Boxes[i]; x >= o.X && x < o.X+o.W && y >= o.Y && y < o.Y+o.H {
			return i
		}
	}
	return -1
}

// reveal scrolls so that a box is in view: by whole columns.
func (b *Boxes) reveal(box int) {
	if box < 0 {
		return
	}
	o := &b.Layout.Boxes[box]
	b.Top = max(min(b.Top, o.Y), o.Y+o.H-b.h, 0)
	b.Top = min(b.Top, max(b.Layout.H-b.h, 0))
	if o.X < b.Left {
		b.Left = o.X
	}
	for _, c := range b.Layout.Columns {
		if o.X+o.W <= b.Left+b.w {
			break
		}
		if c.X > b.Left {
			b.Left = min(c.X, o.X)
		}
	}
	if b.Layout.W <= b.w {
		b.Left = 0
	}
}

// Draw draws the graph below head rows, with one box selected, -1: none. What stands
// above a column column draws, what is in a box text says.
func (b *Boxes) Draw(a paint.Area, head, at int, focus bool, column func(a paint.Area, x int, c graph.Column), text func(*graph.Box) Box) {
	b.w, b.h, b.y = a.W, max(a.H-head, 0), head
	b.reveal(at)
	view := a.Sub(0, head, a.W, a.H-head)
	b.drawLines(view, at)
	for _, c := range b.Layout.Columns {
		x := c.X - b.Left
		if x+c.W <= 0 || x >= a.W {
			continue
		}
		if column != nil {
			column(a, x, c)
		}
		for k := c.First; k < c.Last; k++ {
			if box := &b.Layout.Boxes[k]; box.Y+box.H > b.Top && box.Y < b.Top+view.H {
				b.drawBox(view, box, text(box), k == at, focus)
			}
		}
	}
	b.drawBeyond(a)
}

// drawBeyond says that there is more at the sides.
func (b *Boxes) drawBeyond(a paint.Area) {
	style, more := paint.Style{Role: paint.Accent}, a.Theme().Glyph.More
	if b.Left > 0 {
		a.Put(0, 0, style, more)
	}
	if b.Left+b.w < b.Layout.W {
		a.Put(a.W-1, 0, style, more)
	}
	if b.Layout.Hidden > 0 {
		a.Right(0, 0, a.W-2, paint.Style{Role: paint.Muted}, fmt.Sprintf(" %d long lines are left out", b.Layout.Hidden))
	}
}

// lineGlyphs are the characters of lines by their directions.
func lineGlyphs(g *paint.Glyphs) [16]string {
	h, v := g.Thin.Top, g.Thin.Left
	const u, d, l, r = graph.Up, graph.Down, graph.Left, graph.Right
	return [16]string{
		l: h, r: h, l | r: h, u: v, d: v, u | d: v,
		l | d: g.CornerDown, l | u: g.CornerUp, r | u: g.JoinUp, r | d: g.Thin.TopLeft,
		l | r | d: g.BranchDown, l | r | u: g.BranchUp, u | d | r: g.BranchRight, u | d | l: g.JoinLeft,
		u | d | l | r: g.Cross,
	}
}

// drawLines draws the lines in view, those of the selected box over the others.
func (b *Boxes) drawLines(a paint.Area, at int) {
	g := &a.Theme().Glyph
	glyphs := lineGlyphs(g)
	all := graph.NewGrid(b.Left, b.Top, a.W, a.H)
	b.Layout.Lines(all)
	put := func(style paint.Style) func(x, y int, d graph.Dirs) {
		return func(x, y int, d graph.Dirs) {
			if d&graph.Arrow != 0 {
				a.Put(x, y, style, g.ArrowRight)
				return
			}
			a.Put(x, y, style, glyphs[d])
		}
	}
	all.Each(put(paint.Style{Role: paint.Border}))
	if at >= 0 {
		own := graph.NewGrid(b.Left, b.Top, a.W, a.H)
		b.Layout.LinesOf(at, own)
		own.Each(func(x, y int, _ graph.Dirs) { put(paint.Style{Role: paint.Accent})(x, y, all.At(x, y)) })
	}
	for _, l := range b.Layout.Labels {
		a.Put(l.X-b.Left, l.Y-b.Top, paint.Style{Role: paint.Info}, l.Text)
	}
}

// drawBox draws a box.
func (b *Boxes) drawBox(a paint.Area, box *graph.Box, text Box, selected, focus bool) {
	g := &a.Theme().Glyph
	frame, look, border, mark := g.Thin, paint.Style{}, text.Border, " "
	if text.Faint {
		frame.Top = g.Dot
		look.Role = paint.Muted
	}
	if selected {
		frame, mark = g.Heavy, g.Cursor
		border = paint.Style{Role: paint.BorderFocus}
		if focus {
			look = look.Selected()
		}
	}
	x, y, w := box.X-b.Left, box.Y-b.Top, box.W
	line := strings.Repeat(frame.Top, w-2)
	a.Put(x, y, border, frame.TopLeft+line+frame.TopRight)
	a.Put(x, y+1, border, frame.Left)
	a.Put(x+w-1, y+1, border, frame.Left)
	a.Put(x, y+2, border, frame.BottomLeft+line+frame.BottomRight)
	a.Put(x+1, y+1, look, mark)
	a.Put(x+2, y+1, text.Style, text.Glyph+" ")
	a.Put(x+4, y+1, look, paint.Clip(text.Name, w-5, g.More))
	a.Put(x+1, y+2, text.Style, " "+paint.Clip(text.Foot, w-4, g.More)+" ")
}
