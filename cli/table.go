package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/casys-ai/pml/core"
)

// tableOf lays items out in columns aligned by display width. On a terminal
// lines are cut to its width, except with -o wide; in a pipe nothing is cut.
func tableOf[T any](a *app, items []T, cols []column[T]) string {
	wide := a.format() == formatWide
	var rows [][]string
	var head []string
	for _, c := range cols {
		if wide || !c.wide {
			head = append(head, c.title)
		}
	}
	rows = append(rows, head)
	for _, it := range items {
		var row []string
		for _, c := range cols {
			if wide || !c.wide {
				row = append(row, core.Visible(c.get(it), 0, false))
			}
		}
		rows = append(rows, row)
	}
	limit := 0
	if a.StdoutTTY && !wide {
		limit = a.Width()
	}
	return alignRows(rows, limit)
}

// alignRows pads all columns but the last. A limit above 0 cuts each line.
func alignRows(rows [][]string, limit int) string {
	var widths []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-width(cell)+2))
			}
		}
		b.WriteString(strings.TrimRight(cut(line.String(), limit), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// cut shortens text to a display width, ending in … when something is gone.
func cut(s string, limit int) string {
	if limit <= 0 || width(s) <= limit {
		return s
	}
	w := 0
	for i, r := range s {
		rw := runeWidth(r)
		if w+rw > limit-1 {
			return s[:i] + "…"
		}
		w += rw
	}
	return s
}

// width is the number of columns that text takes on a terminal.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// wideRanges are the runes that take two columns: East Asian wide and full
// width forms, and emoji that are shown as pictures by default.
var wideRanges = [][2]rune{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
	{0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x267f, 0x267f}, {0x2693, 0x2693}, {0x26a1, 0x26a1},
	{0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce}, {0x26d4, 0x26d4}, {0x26ea, 0x26ea},
	{0x26f2, 0x26f3}, {0x26f5, 0x26f5}, {0x26fa, 0x26fa}, {0x26fd, 0x26fd}, {0x2705, 0x2705}, {0x270a, 0x270b},
	{0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755}, {0x2757, 0x2757}, {0x2795, 0x2797},
	{0x27b0, 0x27b0}, {0x27bf, 0x27bf}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55}, {0x2e80, 0x303e},
	{0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xa000, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3},
	{0xf900, 0xfaff}, {0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18cff},
	{0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a},
	{0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca},
	{0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440},
	{0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567}, {0x1f57a, 0x1f57a},
	{0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc},
	{0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6d7}, {0x1f6dc, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc},
	{0x1f7e0, 0x1f7eb}, {0x1f7f0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff},
	{0x1fa70, 0x1faff}, {0x20000, 0x2fffd}, {0x30000, 0x3fffd},
}

// runeWidth is the number of columns of a rune.
func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	lo, hi := 0, len(wideRanges)
	for lo < hi {
		mid := (lo + hi) / 2
		if wideRanges[mid][1] < r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(wideRanges) && wideRanges[lo][0] <= r {
		return 2
	}
	return 1
}

// ago is how long ago a time was, in its largest unit.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := a.now().Sub(t)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// left is the time until an expiry, as m:ss.
func (a *app) left(t *time.Time) string {
	if t == nil {
		return "never"
	}
	d := t.Sub(a.now())
	if d <= 0 {
		return "expired"
	}
	s := int((d + time.Second - 1) / time.Second)
	switch {
	case s >= 48*3600:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	case s >= 3600:
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// stamp is a time for a screen.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// millis is a duration in milliseconds for a screen.
func millis(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 1000:
		return fmt.Sprintf("%.0fms", max(ms, 1))
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}
