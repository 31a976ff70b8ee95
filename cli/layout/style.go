package layout

import "strings"

// Style is how a piece of text looks on a terminal with colour.
type Style int

// The styles. A terminal decides what the colours are.
const (
	Plain Style = iota
	Bold
	Dim
	Good
	Warn
	Bad
	Ident // what is typed into a next command
)

var styles = [...]string{Plain: "", Bold: "1", Dim: "2", Good: "32", Warn: "33", Bad: "31", Ident: "36"}

// On is text in the style, as it is without colour.
func (s Style) On(text string, colour bool) string {
	if !colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + styles[s] + "m" + text + "\x1b[0m"
}

// Diff is text in which lines that come are green and those that go red, at whatever
// indent; what else there is stays.
func Diff(text string, colour bool) string {
	if !colour {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimRight(line, "\n")
		style := Plain
		switch said := strings.TrimLeft(bare, " "); {
		case strings.HasPrefix(said, "+"):
			style = Good
		case strings.HasPrefix(said, "-"):
			style = Bad
		}
		b.WriteString(style.On(bare, true) + line[len(bare):])
	}
	return b.String()
}

// StyleOf is the style of a word for a state, an outcome or a risk: green for what
// is well, yellow for what waits for somebody, red for what went wrong or may.
func StyleOf(word string) Style {
	word, _, _ = strings.Cut(word, " ")
	switch strings.TrimRight(word, ":") {
	case "complete", "success", "approved", "ok", "ready", "connected", "running", "low", "trusted", "on":
		return Good
	case "waiting", "paused", "open", "needs", "not_trusted", "warn", "warning", "medium", "interrupted", "approval_required", "uncertain", "halted", "audit", "not":
		return Warn
	case "failed", "error", "denied", "blocked", "timeout", "refused", "broken", "fail", "high", "aborted", "faults":
		return Bad
	case "expired", "superseded", "stopped", "skipped", "pending", "cancelled", "off":
		return Dim
	}
	return Plain
}
