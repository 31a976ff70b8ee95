// Package layout lays text out for a terminal: columns by display width, JSON and
// YAML, durations, and arguments as a shell reads them. It is pure.
package layout

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Align pads all columns but the last. A limit above 0 cuts each line.
func Align(rows [][]string, limit int) string {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-Width(cell)+2))
			}
		}
		b.WriteString(strings.TrimRight(Cut(line.String(), limit), " "))
		b.WriteByte('\n')
	}
	return b.String()
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
