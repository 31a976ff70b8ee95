package approval

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// shownValue is how many characters of a value that an argument has are shown.
const shownValue = 300

// ShapeWords says what a shape permits, one bound in each line: what is not said there is not
// permitted. Times are of a zone.
func ShapeWords(s core.Shape, in *time.Location) []string {
	calls := "calls"
	if s.Max == 1 {
		calls = "call"
	}
	risk := "risk at most " + string(s.Risk)
	if s.Leaves {
		risk += ", also beyond the workspace"
	}
	out := []string{
		fmt.Sprintf("at most %d %s of %s from line %s, %s", s.Max, calls, core.Visible(s.Tool, 120, false), Line(s.Place), UntilWords(s, in)),
		risk,
	}
	for _, b := range s.Fields {
		out = append(out, named(b.Name)+" "+BoundWords(b))
	}
	if len(s.Fields) == 0 {
		out = append(out, "no arguments")
	}
	return out
}

// UntilWords says until when a shape permits calls.
func UntilWords(s core.Shape, in *time.Location) string {
	if s.Until == nil {
		return "as long as this run lasts"
	}
	return "in this run until " + s.Until.In(in).Format("2006-01-02 15:04:05 MST")
}

// Line is a place in a script, with its column.
func Line(at core.Position) string { return fmt.Sprintf("%d:%d", at.Line, at.Column) }

// BoundWords says what an argument may be.
func BoundWords(b core.Bound) string {
	out := ""
	switch {
	case b.Is != nil:
		out = "is " + core.Visible(string(b.Is), shownValue, false)
	case b.Matches != "":
		out = fmt.Sprintf("matches %s, up to %s characters", core.Visible(strconv.Quote(b.Matches), 0, false), Thousands(b.Size))
	default:
		var types []string
		for _, t := range b.Types {
			types = append(types, shapeTypes[t])
		}
		out = fmt.Sprintf("%s, up to %s characters", strings.Join(types, " or "), Thousands(b.Size))
	}
	if b.Optional {
		out += ", or left out"
	}
	return out
}

// Thousands writes a number with a comma between thousands.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
