package evidence

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// Rule shows what a rule says and what it changes in which file.
// answers are the other calls that it lets through now, left those that stay asked.
func Rule(r api.Rule, answers, left []string) []widget.Line {
	out := []widget.Line{
		{Text: "This rule would be written, and then the call approved:", Style: paint.Style{Role: paint.Accent}.Bold()},
		{},
		{Label: fmt.Sprintf("%-*s", LabelWidth, "rule"), Text: fmt.Sprintf("permissions.%s gets %q", r.List, r.Pattern)},
		{Label: fmt.Sprintf("%-*s", LabelWidth, "file"), Text: r.Change.File},
		{},
	}
	if len(answers) > 0 {
		out = append(out, widget.Line{Text: "also answers, where a process still runs it: " + strings.Join(answers, ", ")})
	}
	if len(left) > 0 {
		out = append(out, widget.Line{Text: "still asked: " + strings.Join(left, ", ")})
	}
	if len(answers)+len(left) > 0 {
		out = append(out, widget.Line{})
	}
	if r.Change.Diff == "" {
		out = append(out, widget.Line{Text: "The file stays as it is: the rule stands there already."})
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(r.Change.Diff, "\n"), "\n") {
		if r.Change.Diff != "" {
			out = append(out, widget.Line{Text: l, Style: diffStyle(l)})
		}
	}
	for _, note := range r.Change.Notes {
		out = append(out, widget.Line{Label: fmt.Sprintf("%-*s", LabelWidth, "note"), Text: note})
	}
	return out
}
