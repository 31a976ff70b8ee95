package screen

import (
	"strings"

	"github.com/casys-ai/pml/core"
)

// inboxFilter makes a test of words that must all occur in what a row shows of
// an approval; one that begins with "!" must not. It ignores case.
func inboxFilter(text string) func(core.Approval, *Env) bool {
	words := strings.Fields(strings.ToLower(text))
	return func(a core.Approval, e *Env) bool {
		if len(words) == 0 {
			return true
		}
		hay := strings.ToLower(strings.Join([]string{
			typeName(a.Type), string(a.Type), a.Tool, a.Subject, "risk:" + string(a.Risk), "state:" + string(a.StateAt(e.Now)),
			a.Description, string(a.ID), string(a.RunID), e.State.Name(a.RunID),
		}, "\n"))
		for _, w := range words {
			w, not := strings.CutPrefix(w, "!")
			if w != "" && strings.Contains(hay, w) == not {
				return false
			}
		}
		return true
	}
}

// filterPrompt asks for a filter, which works while it is typed. Esc brings the
// one before back.
func (p *inboxPanel) filterPrompt(_ *Env) *prompt {
	before := p.filter
	set := func(text string) { p.filter, p.rows.made = text, false }
	q := newPrompt("filter approvals", before)
	q.hint = "words that must occur: type, tool, run, risk:high, id; !word must not. enter keeps it, esc does not"
	q.changed = func(text string) error { set(text); return nil }
	q.done = func(text string, _ *Env) []Intent { set(text); return nil }
	q.cancelled = func() { set(before) }
	return q
}
