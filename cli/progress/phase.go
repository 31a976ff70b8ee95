package progress

import (
	"strings"
	"time"
)

// phaseEvery is how often a phase has a line where nothing is redrawn.
const phaseEvery = 10 * time.Second

// phase is a step that says how far it is: "installing 37 of 104 packages: x@1".
type phase struct {
	now, text string // what is shown in place, and what was said last
	line      string // the last line, where nothing is redrawn
	lineAt    time.Time
}

// step is the verb that a text begins with: what follows changes on the way.
func step(text string) string {
	verb, _, _ := strings.Cut(text, " ")
	return verb
}

// due reports whether a text deserves a line: a new step does at once, how far it
// is only now and then.
func (p *phase) due(text string, now time.Time) bool {
	if p.line != "" && step(text) == step(p.line) && now.Sub(p.lineAt) < phaseEvery {
		return false
	}
	p.line, p.lineAt = text, now
	return true
}

// covers reports whether a message tells of the step that is shown already.
func (p *phase) covers(message string) bool { return p.text != "" && step(message) == step(p.text) }
