package widget

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/paint"
)

// row is a part of a line that is drawn as one row.
type row struct {
	start, end int
	line       int32
}

// rowIndex is where the lines and rows of a text begin, for one width.
type rowIndex struct {
	stale  bool
	w      int
	cut    bool
	starts []int // of lines
	rows   []row
	widest int // columns of the widest line, with cut
	widths map[rune]uint8
}

// drop forgets the rows of a text that is gone.
func (x *rowIndex) drop() { x.starts, x.rows, x.widest, x.w = x.starts[:0], x.rows[:0], 0, 0 }

// indent is how many columns the mark of a row takes that goes on from the row
// before, in a view of w columns.
func indent(w int) int {
	if w < 12 {
		return 0
	}
	return 2
}

// build finds the rows of a text. What it knows of the beginning of the same
// text stays: only the last line may have grown.
func (x *rowIndex) build(text string, w int, cut bool) {
	from := 0
	if n := len(x.starts); x.w == w && x.cut == cut && n > 0 {
		from = x.starts[n-1]
		x.starts = x.starts[:n-1]
		for len(x.rows) > 0 && x.rows[len(x.rows)-1].start >= from {
			x.rows = x.rows[:len(x.rows)-1]
		}
	} else {
		x.drop()
	}
	x.w, x.cut, x.stale = w, cut, false
	if text == "" {
		return
	}
	for from <= len(text) {
		end := len(text)
		if i := strings.IndexByte(text[from:], '\n'); i >= 0 {
			end = from + i
		}
		x.starts = append(x.starts, from)
		x.addLine(text, from, end)
		from = end + 1
	}
}

// addLine adds the rows of the newest line.
func (x *rowIndex) addLine(text string, from, end int) {
	n := int32(len(x.starts) - 1)
	if x.cut {
		x.widest = max(x.widest, x.width(text[from:end]))
		x.rows = append(x.rows, row{from, end, n})
		return
	}
	room := x.w
	for {
		stop, _ := x.skip(text, from, end, room)
		if stop == from && from < end { // not even one rune fits
			_, size := runeAt(text, from)
			stop = from + size
		}
		stop = atBlank(text, from, stop, end)
		x.rows = append(x.rows, row{from, stop, n})
		if stop == end {
			return
		}
		from, room = stop, x.w-indent(x.w)
	}
}

// atBlank is where a row ends that cannot hold the rest of a line: behind a
// blank, which may stand outside of the view, unless that leaves more than half
// of the row empty.
func atBlank(text string, from, stop, end int) int {
	if stop == end {
		return stop
	}
	if text[stop] == ' ' {
		return stop + 1
	}
	if i := strings.LastIndexByte(text[from:stop], ' ') + 1; i > (stop-from)/2 {
		return from + i
	}
	return stop
}

// skip returns how far a part of a text can be drawn in a number of columns,
// and how many it takes.
func (x *rowIndex) skip(text string, from, end, columns int) (at, used int) {
	marks := 0
	for at = from; at < end; {
		if c := text[at]; c >= ' ' && c <= '~' {
			if used == columns {
				break
			}
			at, used, marks = at+1, used+1, 0
			continue
		}
		r, size := runeAt(text, at)
		w := x.runeWidth(r, size)
		// Marks belong to the letter before them, as long as they are few.
		if marks++; marks < 8 && at > from && unicode.Is(unicode.Mn, r) && r != 0xfe0f {
			w = 0
		} else {
			marks = 0
		}
		if used+w > columns {
			break
		}
		at, used = at+size, used+w
	}
	return at, used
}

// width is how many columns a part of a line takes, at most.
func (x *rowIndex) width(s string) int {
	_, n := x.skip(s, 0, len(s), int(^uint(0)>>1))
	return n
}

// runeWidth is how many columns a rune takes as it is shown.
func (x *rowIndex) runeWidth(r rune, size int) int {
	switch {
	case r == utf8.RuneError && size == 1:
		return len(`\xff`)
	case r == '\t':
		return 4
	}
	if w, ok := x.widths[r]; ok {
		return int(w)
	}
	w := paint.Width(core.Visible(string(r), 0, false))
	if x.widths == nil || len(x.widths) > maxWidths {
		x.widths = map[rune]uint8{}
	}
	x.widths[r] = uint8(w)
	return w
}

// maxWidths bounds how many runes' widths are kept.
const maxWidths = 1 << 16

// offset is where a row begins in the text.
func (x *rowIndex) offset(r int) int {
	if r < 0 || r >= len(x.rows) {
		return 0
	}
	return x.rows[r].start
}

// rowAt is the row that holds a place of the text.
func (x *rowIndex) rowAt(offset int) int {
	return max(sort.Search(len(x.rows), func(i int) bool { return x.rows[i].start > offset })-1, 0)
}

// lineText is the text of a line.
func (x *rowIndex) lineText(text string, n int) string {
	end := len(text)
	if n+1 < len(x.starts) {
		end = x.starts[n+1] - 1
	}
	return text[x.starts[n]:end]
}
