package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// Loop is the part of a card that approves the calls of a loop as one, within bounds.
type Loop struct {
	Shape core.Shape      // what is shown, and approved with Token
	Known []core.Approval // those that wait, the card's own first
	Typed LoopTyped
	// Wrong is all that is wrong with what was typed. Then no bounds are shown, and
	// none can be approved.
	Wrong []string
	Token string
	Open  bool // somebody has asked for it
}

// LoopTyped are the bounds as they stand in the fields of a form.
type LoopTyped struct{ Max, Until, Lines string }

// What of the bounds stands in a form, which must not be too long to be sent: one line of
// shownLine bytes, and all of shownLines.
const (
	shownLine  = 1000
	shownLines = 12_000
)

// TypedOf are the fields that say what bounds are. A value that is long stands there with
// its name alone, and stays as it is.
func TypedOf(s core.Shape) LoopTyped {
	var b strings.Builder
	list := approval.ShapeLines(s)
	for i, line := range list[2:] {
		if len(line) > shownLine || b.Len()+len(line) > shownLines {
			line = "# " + core.Visible(s.Fields[i].Name, 60, false) + " stays as it is: it is too long for this field"
		}
		b.WriteString(line + "\n")
	}
	return LoopTyped{Max: strings.TrimPrefix(list[0], "max "), Until: strings.TrimPrefix(list[1], "until "), Lines: b.String()}
}

// Edit is what was typed, as approval.EditShape reads it.
func (t LoopTyped) Edit() []string {
	until := strings.TrimSpace(t.Until)
	if until == "" {
		until = "run"
	}
	return append([]string{"max " + t.Max, "until " + until}, strings.Split(t.Lines, "\n")...)
}

// loopRows is how many of the calls that wait the table has, and loopRunes how much of a value.
const (
	loopRows  = 50
	loopRunes = 80
)

// loopView is a Loop as the template wants it, of the approval ID and with what its form
// asks for.
type loopView struct {
	Loop
	ID             string
	Form           *Form
	Digest, Yes    string
	Words, Columns []string
	Waits          string
	Rows           []loopRow
	More           int
}

type loopRow struct {
	ID, Asks string
	Values   []string
}

func (l *Loop) view(id core.ID, f *Form) *loopView {
	if l == nil || f == nil {
		return nil
	}
	v := &loopView{Loop: *l, ID: string(id), Form: f}
	if v.Wrong = visible(l.Wrong); len(v.Wrong) > 0 {
		return v
	}
	v.Words = approval.ShapeWords(l.Shape, l.Known, time.UTC)
	v.Digest, _ = l.Shape.Digest() // without one nothing of it is approved
	v.Yes = fmt.Sprintf("Approve up to %d calls within these bounds", l.Shape.Max)
	if l.Shape.Max == 1 {
		v.Yes = "Approve 1 call within these bounds"
	}
	columns, calls := approval.LoopTable(l.Shape, l.Known)
	v.Columns = visible(columns)
	asks := 0
	for i, c := range calls {
		if c.Asks != "" {
			asks++
		}
		if i >= loopRows {
			v.More++
			continue
		}
		row := loopRow{ID: c.ID.Short(), Asks: shown(c.Asks)}
		for _, value := range c.Values {
			row.Values = append(row.Values, core.Visible(value, loopRunes, false))
		}
		v.Rows = append(v.Rows, row)
	}
	v.Waits = fmt.Sprintf("%d calls wait now, of which %d would still be asked about", len(calls), asks)
	if len(calls) == 1 {
		v.Waits = "1 call waits now; the next ones are not known yet"
	}
	return v
}

func visible(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, core.Visible(t, 300, false))
	}
	return out
}

// boundsGiven are the facts about an approval that permits the calls of a loop.
func boundsGiven(a core.Approval) (out []Fact) {
	s := a.Shape()
	if s == nil {
		return nil
	}
	for _, words := range approval.ShapeWords(*s, nil, time.UTC) {
		out = append(out, Fact{"bounds", words})
	}
	return append(out, Fact{"permitted", strconv.Itoa(len(a.CallIDs)) + " of " + strconv.Itoa(s.Max) + " calls"})
}
