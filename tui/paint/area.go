package paint

import "strings"

// Area is a rectangle of a canvas. What is drawn outside of it is clipped. The
// zero area draws nothing.
type Area struct {
	c    *Canvas
	X, Y int // of its first cell on the canvas
	W, H int
}

// Theme returns the theme that the area is drawn with.
func (a Area) Theme() *Theme { return a.c.theme }

// Sub returns a part of the area, as far as it lies inside.
func (a Area) Sub(x, y, w, h int) Area {
	x, y = max(x, 0), max(y, 0)
	return Area{c: a.c, X: a.X + x, Y: a.Y + y, W: max(min(w, a.W-x), 0), H: max(min(h, a.H-y), 0)}
}

// Put writes text at a column of a row and returns the columns that it used.
func (a Area) Put(x, y int, style Style, text string) int {
	if a.c == nil || y < 0 || y >= a.H || x >= a.W {
		return 0
	}
	return a.c.put(a.X+x, a.Y+y, a.X, a.X+a.W, style, text)
}

// Text writes text into w columns of a row, cut with an ellipsis where it is
// longer, and returns the columns that it used.
func (a Area) Text(x, y, w int, style Style, text string) int {
	if w = min(w, a.W-x); w <= 0 {
		return 0
	}
	return a.Put(x, y, style, Clip(text, w, a.c.theme.Glyph.More))
}

// Right writes text so that it ends at the last column of w columns.
func (a Area) Right(x, y, w int, style Style, text string) {
	text = Clip(text, w, a.c.theme.Glyph.More)
	a.Put(x+w-Width(text), y, style, text)
}

// Style sets the style of the cells of a row, and leaves their text.
func (a Area) Style(y int, f func(Style) Style) {
	if a.c == nil || y < 0 || y >= a.H {
		return
	}
	at := (a.Y+y)*a.c.w + a.X
	for i := at; i < at+a.W && i < len(a.c.cells); i++ {
		a.c.cells[i].style = f(a.c.cells[i].style)
	}
}

// Blank makes all cells of the area blank.
func (a Area) Blank() {
	if a.c == nil || a.W <= 0 {
		return
	}
	for y := a.Y; y < a.Y+a.H; y++ {
		row := a.c.cells[y*a.c.w : (y+1)*a.c.w]
		cut(row, a.X, a.X+a.W)
		blank(row[a.X : a.X+a.W])
	}
}

// Title is what stands in the frame of a box.
type Title struct {
	Left, Right string // in the top line
	Foot        string // at the right of the bottom line
	Focus       bool   // a heavy frame
	Style       Style  // of Left
}

// Frame draws a box around the area and returns what is inside of it, with a
// column of air on both sides. The inside is blank.
func (a Area) Frame(t Title) Area {
	if a.W < 4 || a.H < 2 {
		return Area{c: a.c}
	}
	a.Blank()
	g := &a.c.theme.Glyph
	box, style := g.Thin, Style{Role: Border}
	if t.Focus {
		box, style = g.Heavy, Style{Role: BorderFocus}
	}
	line := strings.Repeat(box.Top, a.W-2)
	a.Put(0, 0, style, box.TopLeft+line+box.TopRight)
	for y := 1; y < a.H-1; y++ {
		a.Put(0, y, style, box.Left)
		a.Put(a.W-1, y, style, box.Left)
	}
	a.Put(0, a.H-1, style, box.BottomLeft+line+box.BottomRight)
	room := a.W - 4
	if w := Width(t.Right); t.Right != "" && w+2 <= room {
		a.Put(a.W-4-w, 0, Style{Role: Muted}, " "+t.Right+" ")
		room -= w + 3
	}
	if t.Left != "" && room > 4 {
		a.Text(2, 0, room, t.Style.Bold(), " "+Clip(t.Left, room-2, g.More)+" ")
	}
	if w := Width(t.Foot); t.Foot != "" && w+2 <= a.W-4 {
		a.Put(a.W-4-w, a.H-1, Style{Role: Muted}, " "+t.Foot+" ")
	}
	return a.Sub(2, 1, a.W-4, a.H-2)
}

// Rule draws a line across a row, with a text in it.
func (a Area) Rule(y int, text string) {
	a.Put(0, y, Style{Role: Border}, strings.Repeat(a.c.theme.Glyph.Thin.Top, max(a.W, 0)))
	if text != "" {
		w := min(Width(text), max(a.W-6, 0))
		a.Text((a.W-w-2)/2, y, w+2, Style{Role: Muted}, " "+text+" ")
	}
}

// Bar draws a bar of w columns of which a fraction is full.
func (a Area) Bar(x, y, w int, style Style, fraction float64) {
	g := &a.c.theme.Glyph
	full := int(fraction*float64(w) + 0.5)
	full = max(0, min(full, w))
	a.Put(x, y, style, strings.Repeat(g.BarFull, full))
	a.Put(x+full, y, Style{Role: Muted}, strings.Repeat(g.BarEmpty, w-full))
}

// Wrap breaks a text into lines of at most w columns, at blanks where there are
// some. Newlines stay; nothing is left out.
func Wrap(text string, w int) []string {
	w = max(w, 1)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, wrapLine(line, w)...)
	}
	return out
}

func wrapLine(line string, w int) []string {
	var out []string
	for Width(line) > w {
		head := Clip(line, w, "")
		if head == "" { // a wide character in a narrow column
			break
		}
		if i := strings.LastIndexByte(head, ' '); i > 0 && len(head) < len(line) && line[len(head)] != ' ' {
			head = head[:i]
		}
		out = append(out, head)
		line = strings.TrimPrefix(line[len(head):], " ")
	}
	return append(out, line)
}
