package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// shownValue is how many characters of a value that an argument has are shown.
const shownValue = 300

// What is said of the values that an argument has had.
const (
	seenValues = 3
	seenValue  = 40 // characters of one
)

// ShapeWords says what a shape permits, one bound in each line: what is not said there is not
// permitted. Times are of a zone. Where a bound is no single value, it adds which values the
// known calls of the loop have had; these are an example, and permit nothing.
func ShapeWords(s core.Shape, loop []core.Approval, in *time.Location) []string {
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
		out = append(out, named(b.Name)+boundWords(b)+seenWords(b, loop))
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

// seenWords says which values an argument has had, and the folder that all of them are in.
func seenWords(b core.Bound, loop []core.Approval) string {
	var seen []string
	for _, v := range valuesOf(loop, b.Name) {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		if !slices.Contains(seen, text) {
			seen = append(seen, text)
		}
	}
	if b.Is != nil || len(seen) == 0 {
		return ""
	}
	var shown []string
	for _, text := range seen[:min(len(seen), seenValues)] {
		shown = append(shown, cmp.Or(core.OneLine(text, seenValue), core.Visible(strconv.Quote(text), seenValue, false)))
	}
	out := "; its value so far: "
	if len(seen) > 1 {
		out = fmt.Sprintf("; its %d values so far: ", len(seen))
	}
	out += strings.Join(shown, ", ")
	if more := len(seen) - len(shown); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
		if dir := folderOf(seen); len(dir) > 1 {
			out += ", all in " + core.OneLine(dir, seenValue)
		}
	}
	return out
}

// folderOf is the deepest folder that all of some paths are in, empty where there is none.
func folderOf(paths []string) string {
	dir := paths[0]
	for _, p := range paths {
		for !strings.HasPrefix(p, dir) || !strings.HasSuffix(dir, "/") {
			dir = strings.TrimSuffix(dir, "/")
			dir = dir[:strings.LastIndex(dir, "/")+1]
			if dir == "" {
				return ""
			}
		}
	}
	return dir
}

// boundWords says what an argument may be, to stand right behind its name.
func boundWords(b core.Bound) string {
	out := ""
	switch {
	case b.Is != nil:
		out = " is " + core.Visible(string(b.Is), shownValue, false)
	case b.Matches != "":
		out = fmt.Sprintf(" matches %s, up to %s characters", core.Visible(strconv.Quote(b.Matches), 0, false), Thousands(b.Size))
	default:
		var types []string
		for _, t := range b.Types {
			types = append(types, shapeTypes[t])
		}
		out = fmt.Sprintf(": %s, up to %s characters", strings.Join(types, " or "), Thousands(b.Size))
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
