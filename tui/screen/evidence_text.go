package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
)

// Evidence returns all that a decision on an approval binds as lines of text,
// safe to print and whole; tasks are those of its run, for the arguments of a
// layer.
func Evidence(a core.Approval, tasks []core.Task) []string {
	var out []string
	for _, l := range evidence(a, tasks) {
		text := core.Visible(l.label, 0, false) + core.Visible(l.text, 0, false)
		out = append(out, strings.TrimRight(text, " "))
	}
	return out
}
