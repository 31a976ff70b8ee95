// Package paint draws text onto a grid of cells.
//
// Everything that reaches the terminal goes through a Canvas: it has exactly as
// many rows and columns as the window, clips what does not fit, and lets no
// control character through. So what a screen draws can be wrong, but never
// break the terminal.
package paint

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// cell is one column of a row: a grapheme, or the right half of a wide one. It has
// no pointer, so nothing but its eight bytes is written when it changes.
type cell struct {
	char  rune // negative: the number of a cluster, from -1 down
	style Style
}

// half is the right half of the cell before it.
const half rune = 0

// Canvas is a grid of cells. It is used by one goroutine.
type Canvas struct {
	w, h     int
	theme    *Theme
	cells    []cell
	clusters []string // graphemes of several characters
	out      []byte   // of the last frame
}

// NewCanvas returns an empty canvas of a size, at least 1 x 1.
func NewCanvas(w, h int, theme *Theme) *Canvas {
	c := &Canvas{w: max(w, 1), h: max(h, 1), theme: theme}
	c.cells = make([]cell, c.w*c.h)
	c.Clear()
	return c
}

// Clear makes all cells blank.
func (c *Canvas) Clear() {
	blank(c.cells)
	c.clusters = c.clusters[:0]
}

func blank(cells []cell) {
	for i := range cells {
		cells[i] = cell{char: ' '}
	}
}

// Area returns the whole canvas as an area.
func (c *Canvas) Area() Area { return Area{c: c, W: c.w, H: c.h} }

// Plain returns the rows without any style, each exactly as wide as the canvas.
func (c *Canvas) Plain() string {
	return c.frame(func(b []byte, row []cell) []byte {
		for _, cell := range row {
			b = c.append(b, cell.char)
		}
		return b
	})
}

// String returns the rows with the theme's escape sequences.
func (c *Canvas) String() string { return c.frame(c.styled) }

func (c *Canvas) frame(row func([]byte, []cell) []byte) string {
	c.out = c.out[:0]
	for y := range c.h {
		if y > 0 {
			c.out = append(c.out, '\n')
		}
		c.out = row(c.out, c.cells[y*c.w:(y+1)*c.w])
	}
	return string(c.out)
}

func (c *Canvas) styled(b []byte, row []cell) []byte {
	var on Style
	suffix := ""
	for _, cell := range row {
		if cell.style != on {
			b = append(b, suffix...)
			var prefix string
			prefix, suffix = c.theme.escapes(cell.style)
			b = append(b, prefix...)
			on = cell.style
		}
		b = c.append(b, cell.char)
	}
	return append(b, suffix...)
}

// append appends what a cell shows.
func (c *Canvas) append(b []byte, char rune) []byte {
	switch {
	case char < 0:
		return append(b, c.clusters[-1-char]...)
	case char == half:
		return b
	case char < utf8.RuneSelf:
		return append(b, byte(char))
	}
	return utf8.AppendRune(b, char)
}

// char returns what a cell has for a grapheme that safe has let through.
func (c *Canvas) char(cluster string) rune {
	if r, n := utf8.DecodeRuneInString(cluster); n == len(cluster) {
		return r
	}
	c.clusters = append(c.clusters, cluster)
	return -rune(len(c.clusters)) //nolint:gosec // somewhat more than cells at most
}

// put writes text at a column of a row, between two columns, and returns the
// columns that it used. A wide character that does not fit is left out.
func (c *Canvas) put(x, y, left, right int, style Style, text string) int {
	if y < 0 || y >= c.h {
		return 0
	}
	begin := x
	row := c.cells[y*c.w : (y+1)*c.w]
	for state := -1; text != ""; {
		if n := plain(text); n > 0 {
			r, _ := utf8.DecodeRuneInString(text)
			set(row, x, left, right, cell{r, style}, 1)
			x, text, state = x+1, text[n:], -1
		} else {
			var cluster string
			var width int
			cluster, text, width, state = uniseg.FirstGraphemeClusterInString(text, state)
			cluster, width = safe(c.theme.drawn(cluster), width)
			set(row, x, left, right, cell{c.char(cluster), style}, width)
			x += width
		}
		if x >= right {
			break
		}
	}
	return min(x, right) - begin
}

// plain returns the length of the first character of a text when that is certain
// to be a grapheme of one column, which most are: ASCII and the lines of boxes.
// It is 0 where it takes more to know.
func plain(text string) int {
	n := 0
	switch b := text[0]; {
	case b >= ' ' && b <= '~':
		n = 1
	case b == 0xE2 && boxLine(text):
		n = 3
	default:
		return 0
	}
	if len(text) == n || text[n] < utf8.RuneSelf || boxLine(text[n:]) {
		return n
	}
	return 0
}

// boxLine reports whether a text begins with a line or a block: U+2500 to
// U+259F.
func boxLine(text string) bool {
	return len(text) >= 3 && text[0] == 0xE2 && text[2] >= 0x80 && text[2] <= 0xBF && (text[1] == 0x94 || text[1] == 0x95 || text[1] == 0x96 && text[2] <= 0x9F)
}

// set writes one grapheme, and blanks the halves of wide ones that it cuts.
func set(row []cell, x, left, right int, one cell, width int) {
	if width == 0 || x < left || x+width > right || x < 0 || x+width > len(row) {
		return
	}
	cut(row, x, x+width)
	row[x] = one
	if width == 2 {
		row[x+1] = cell{half, one.style}
	}
}

// cut blanks the halves that stay of wide graphemes when the cells between them are
// written.
func cut(row []cell, begin, end int) {
	if row[begin].char == half && begin > 0 {
		row[begin-1].char = ' '
	}
	if end < len(row) && row[end].char == half {
		row[end].char = ' '
	}
}

// safe returns what is drawn for a grapheme: nothing that acts on a terminal,
// nothing without a width, nothing that would grow together with the cell beside
// it, and one or two columns.
func safe(cluster string, width int) (text string, columns int) {
	if width < 1 || clings(cluster) {
		return "?", 1
	}
	for _, r := range cluster {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != joiner || unicode.Is(unicode.Co, r) {
			return "?", 1
		}
	}
	return cluster, min(width, 2)
}

// joiner is the zero width joiner, which makes one emoji of two.
const joiner = 0x200D

// prepended are characters that make one grapheme with what comes after them,
// but for format characters, which are never drawn.
var prepended = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0D4E, Hi: 0x0D4E, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x111C2, Hi: 0x111C3, Stride: 1}, {Lo: 0x113D1, Hi: 0x113D1, Stride: 1}, {Lo: 0x1193F, Hi: 0x1193F, Stride: 1},
		{Lo: 0x11941, Hi: 0x11941, Stride: 1}, {Lo: 0x11A3A, Hi: 0x11A3A, Stride: 1}, {Lo: 0x11A84, Hi: 0x11A89, Stride: 1},
		{Lo: 0x11D46, Hi: 0x11D46, Stride: 1}, {Lo: 0x11F02, Hi: 0x11F02, Stride: 1},
	},
}

// clings reports whether a grapheme would be one with another that happens to be
// drawn before or after it: then both together are not as wide as two cells.
func clings(cluster string) bool {
	first, size := utf8.DecodeRuneInString(cluster)
	last, _ := utf8.DecodeLastRuneInString(cluster)
	switch {
	case unicode.Is(unicode.M, first), last == joiner, unicode.Is(prepended, last):
		return true
	case first >= 0x1F1E6 && first <= 0x1F1FF: // half a flag
		return size == len(cluster)
	}
	// Parts of a Hangul syllable: vowels and finals join the cell before, initials
	// the cell after.
	joinsBefore := first >= 0x1160 && first <= 0x11FF || first >= 0xD7B0 && first <= 0xD7FF
	joinsAfter := last >= 0x1100 && last <= 0x115F || last >= 0xA960 && last <= 0xA97F
	return joinsBefore || joinsAfter
}

// Width returns how many columns a text takes on a canvas.
func Width(text string) int {
	n := 0
	for state := -1; text != ""; {
		if size := plain(text); size > 0 {
			n, text, state = n+1, text[size:], -1
			continue
		}
		var cluster string
		var width int
		cluster, text, width, state = uniseg.FirstGraphemeClusterInString(text, state)
		_, width = safe(cluster, width)
		n += width
	}
	return n
}

// Clip returns as much of a text as fits into a number of columns, with an
// ellipsis where something is gone.
func Clip(text string, w int, more string) string {
	if w <= 0 {
		return ""
	}
	if len(text) <= w || Width(text) <= w {
		return text
	}
	room := w - Width(more)
	if room < 0 {
		return more[:0]
	}
	n, end := 0, 0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if _, width = safe(cluster, width); n+width > room {
			break
		}
		n, end = n+width, end+len(cluster)
	}
	return text[:end] + more
}
