// Package layout lays text out for a terminal: columns by display width, JSON and
// YAML, durations, and arguments as a shell reads them. It is pure.
package layout

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Cell is a text in a table and how it looks.
type Cell struct {
	Text  string
	Style Style
}

// Align pads all columns but the last. A limit above 0 cuts each line.
func Align(rows [][]string, limit int) string {
	cells := make([][]Cell, len(rows))
	for i, r := range rows {
		cells[i] = make([]Cell, len(r))
		for k, text := range r {
			cells[i][k].Text = text
		}
	}
	return AlignCells(cells, limit, false)
}

// maxPad is how wide a column is padded where lines are not cut: a cell that is wider pushes
// the rest of its own row only.
const maxPad = 60

// AlignCells is Align of text with styles, which show with colour only.
func AlignCells(rows [][]Cell, limit int, colour bool) string {
	widths := Widths(rows)
	if limit <= 0 {
		for i, w := range widths {
			widths[i] = min(w, maxPad)
		}
	}
	var b strings.Builder
	for _, r := range rows {
		at, pad := 0, 0
		for i, cell := range r {
			text := cell.Text
			if limit > 0 {
				text = Cut(text, max(limit-at-pad, 1))
			}
			if text != "" && (limit <= 0 || at+pad < limit) {
				b.WriteString(strings.Repeat(" ", pad))
				b.WriteString(cell.Style.On(text, colour))
				at, pad = at+pad+Width(text), 0
			}
			pad += max(widths[i]-Width(text), 0) + 2
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Widths are the widths of the columns of a table.
func Widths(rows [][]Cell) []int {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell.Text))
		}
	}
	return widths
}

// Wrap breaks text at spaces so that no line is wider than limit; a word that is
// wider is broken, and nothing is lost. 0 does not break.
func Wrap(text string, limit int) []string {
	if limit <= 0 || Width(text) <= limit {
		return []string{text}
	}
	var out []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		for {
			joined := word
			if line != "" {
				joined = line + " " + word
			}
			if Width(joined) <= limit {
				line = joined
				break
			}
			if line != "" {
				out, line = append(out, line), ""
				continue
			}
			head := strings.TrimSuffix(Cut(word, limit+1), "…")
			if head == "" || len(head) >= len(word) {
				line = word
				break
			}
			out, word = append(out, head), word[len(head):]
		}
	}
	return append(out, line)
}

// Cut shortens text to a display width, ending in … when something is gone.
func Cut(s string, limit int) string {
	if limit <= 0 || Width(s) <= limit {
		return s
	}
	w, at := 0, 0
	for state := -1; at < len(s); {
		cluster, _, columns, next := uniseg.FirstGraphemeClusterInString(s[at:], state)
		if w += columns; w > limit-1 {
			return s[:at] + "…"
		}
		at, state = at+len(cluster), next
	}
	return s
}

// Width is the number of columns that text takes on a terminal.
func Width(s string) int {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return uniseg.StringWidth(s)
		}
	}
	return len(s)
}
