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

// StyleOf is the style of a word for a state, an outcome or a risk: green for what
// is well, yellow for what waits for somebody, red for what went wrong or may.
func StyleOf(word string) Style {
	word, _, _ = strings.Cut(word, " ")
	switch strings.TrimRight(word, ":") {
	case "complete", "success", "approved", "ok", "ready", "connected", "running", "low", "trusted":
		return Good
	case "waiting", "paused", "open", "needs", "not_trusted", "warn", "warning", "medium", "interrupted", "approval_required", "uncertain", "halted":
		return Warn
	case "failed", "error", "denied", "blocked", "timeout", "refused", "broken", "fail", "high", "aborted":
		return Bad
	case "expired", "superseded", "stopped", "skipped", "pending", "cancelled":
		return Dim
	}
	return Plain
}
