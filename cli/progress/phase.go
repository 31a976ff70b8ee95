package progress

import (
	"strings"
	"time"
)

// phaseEvery is how often a phase has a line where nothing is redrawn.
const phaseEvery = 10 * time.Second

// phase is a step that says how far it is: "installing 37 of 104 packages: x@1".
type phase struct {
	now, text string // what goes on, and what did last
	line      string // the last line, where nothing is redrawn
	lineAt    time.Time
}

// step is the verb that a text begins with: what follows changes on the way.
func step(text string) string {
	verb, _, _ := strings.Cut(text, " ")
	return verb
}

// due reports whether a text deserves a line: the first does at once, after that one
// does now and then, whatever begins meanwhile.
func (p *phase) due(text string, now time.Time) bool {
	p.now = text
	if p.line != "" && now.Sub(p.lineAt) < phaseEvery {
		return false
	}
	p.line, p.lineAt = text, now
	return true
}

// begin has the next text told at once: it is a step of its own.
func (p *phase) begin() { p.line = "" }

// late is what is still going on and came too soon after a line to have its own; empty
// where nothing is due.
func (p *phase) late(now time.Time) string {
	if p.now == "" || p.now == p.line || !p.due(p.now, now) {
		return ""
	}
	return p.now
}

// covers reports whether a message tells of the step that is shown already.
func (p *phase) covers(message string) bool { return p.text != "" && step(message) == step(p.text) }
