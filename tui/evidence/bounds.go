package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// What a table of calls shows at most. The bounds bind, not the table.
const (
	maxCalls = 50
	maxCell  = 200 // characters of a value
)

// Bounds shows what a yes to the calls of a loop permits, in so many columns: the bounds, their
// digest, and the calls that wait now, with those that are asked about all the same. Times are
// of a zone.
func Bounds(s core.Shape, loop []core.Approval, columns int, in *time.Location) []widget.Line {
	p := &proof{}
	p.head("A yes permits the calls within these bounds, and no others:")
	for _, words := range approval.ShapeWords(s, loop, in) {
		p.add("", words, paint.Style{})
	}
	again := "the call after these is asked about as before"
	if s.Max == 1 {
		again = "the call after this one is asked about as before"
	}
	p.add("", again+", and so is one outside the bounds", paint.Style{})
	digest, err := s.Digest()
	if err != nil {
		digest = "cannot be made: " + err.Error()
	}
	p.text("digest", digest)
	p.blank()
	names, calls := approval.LoopTable(s, loop)
	asks := 0
	for _, c := range calls {
		if c.Asks != "" {
			asks++
		}
	}
	head := fmt.Sprintf("%d calls wait now", len(calls))
	if len(calls) == 1 {
		head = "1 call waits now"
	}
	if asks > 0 {
		head += fmt.Sprintf(", %d of them asked about all the same", asks)
	}
	p.head(head)
	p.calls(names, calls, columns)
	return p.lines
}

// BoundsText is Bounds as lines of text, safe to print, each value of a call behind its name.
func BoundsText(s core.Shape, loop []core.Approval, in *time.Location) []string {
	return textOf(Bounds(s, loop, 0, in))
}

// within says within which bounds an approval was given, and how many calls these have
// permitted so far.
func (p *proof) within(a core.Approval) {
	s := a.Shape()
	if s == nil {
		return
	}
	at := time.UTC
	if s.Until != nil {
		at = s.Until.Location()
	}
	for _, words := range approval.ShapeWords(*s, nil, at) {
		p.text("bounds", words)
	}
	p.text("permitted", fmt.Sprintf("%d of %d calls so far", len(a.CallIDs), s.Max))
}

// calls adds a row for each call, in columns; where these would be too narrow, each value
// stands behind its name instead.
func (p *proof) calls(names []string, calls []approval.LoopCall, columns int) {
	more := max(len(calls)-maxCalls, 0)
	calls = calls[:len(calls)-more]
	head, cells := []string{}, [][]string{}
	for _, name := range names {
		head = append(head, core.Visible(name, 40, false))
	}
	for _, c := range calls {
		var row []string
		for _, v := range c.Values {
			row = append(row, core.Visible(v, maxCell, false))
		}
		cells = append(cells, row)
	}
	const id = len("41d2e07b  ")
	widths := cellWidths(head, cells, columns-id)
	if widths != nil {
		p.lines = append(p.lines, widget.Line{Label: "call      " + beside(head, widths)[0]})
	}
	for i, c := range calls {
		style, label := paint.Style{}, c.ID.Short()+"  "
		if c.Asks != "" {
			style.Role = paint.Muted
		}
		rows := []string{behind(head, cells[i])}
		if widths != nil {
			rows = beside(cells[i], widths)
		}
		for _, row := range rows {
			p.lines = append(p.lines, widget.Line{Label: label, Text: row, Style: style})
			label = strings.Repeat(" ", id)
		}
		if c.Asks != "" {
			p.lines = append(p.lines, widget.Line{Label: label, Text: "asks: " + c.Asks, Style: paint.Style{Role: paint.Warn}})
		}
	}
	if more > 0 {
		p.prose(fmt.Sprintf("… %d more", more))
	}
}

// minCell is how narrow a column of a table may get.
const minCell = 12

// cellWidths are the widths of the columns of a table within so many; nil where they would
// be too narrow, or there are none.
func cellWidths(head []string, cells [][]string, columns int) []int {
	if len(head) == 0 {
		return nil
	}
	widths, all := make([]int, len(head)), 2*(len(head)-1)
	for i := range head {
		widths[i] = paint.Width(head[i])
		for _, row := range cells {
			widths[i] = max(widths[i], paint.Width(row[i]))
		}
		all += widths[i]
	}
	for ; all > columns; all-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= minCell {
			return nil
		}
		widths[widest]--
	}
	return widths
}

// beside lays texts out beside each other, each wrapped in its column.
func beside(texts []string, widths []int) (rows []string) {
	for i, text := range texts {
		for n, part := range paint.Wrap(text, widths[i]) {
			if n == len(rows) {
				rows = append(rows, "")
			}
			at := 0
			for _, w := range widths[:i] {
				at += w + 2
			}
			rows[n] += strings.Repeat(" ", max(at-paint.Width(rows[n]), 0)) + part
		}
	}
	if len(rows) == 0 {
		return []string{""}
	}
	return rows
}

// behind puts each value behind its name.
func behind(names, values []string) string {
	var out []string
	for i, v := range values {
		if v != "" {
			out = append(out, names[i]+" "+v)
		}
	}
	return strings.Join(out, "  ")
}
