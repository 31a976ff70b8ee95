package screen

import (
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// nextText is what a run waits for or does, or which key goes on with it.
func (p *workflowsPanel) nextText(r core.Run, e *Env) (string, paint.Style) {
	muted := paint.Style{Role: paint.Muted}
	if a, ok := p.next.of(r.ID, e); ok {
		text := typeName(a.Type)
		if a.ExpiresAt != nil {
			text += " " + ttlText(a.ExpiresAt.Sub(e.Now))
		}
		return text, paint.Style{Role: paint.Warn}
	}
	switch word := againWord(r, e); {
	case stopped(r, e):
		return "halted, " + keyOf(e, keys.Halt) + " resumes", paint.Style{Role: paint.Danger} // what goes on then is not known here
	case word == askAgain:
		return expiredText(e), paint.Style{Role: paint.Danger}
	case word != "" && (r.Agent == nil || r.State == core.RunInterrupted):
		return keyOf(e, keys.Again) + " " + word, muted
	case r.State == core.RunRunning:
		return doingText(r.ID, e), muted
	}
	return "", muted
}

// stopped reports whether a run makes no call before a person lets calls go on: also one
// whose process has ended while they are halted.
func stopped(r core.Run, e *Env) bool {
	switch r.State {
	case core.RunWaiting:
		return r.Halted != nil
	case core.RunInterrupted:
		return slices.ContainsFunc(e.State.Halts, func(h core.Halt) bool { return (h.Side == core.SideServer) == (r.Side == core.SideServer) })
	default:
		return false
	}
}

// askAgain is what the key does that asks again what has expired.
const askAgain = "again"

// expiredText says that a run waits for what has expired, and which key helps.
func expiredText(e *Env) string { return "expired, " + keyOf(e, keys.Again) + " " + askAgain }

// againWord is what the key of Again does with a run, in the same words in its row and in
// the footer; empty where it does nothing.
func againWord(r core.Run, e *Env) string {
	switch {
	case len(expiredOf(r, e)) > 0:
		return askAgain
	case r.State == core.RunInterrupted && !stopped(r, e):
		return "goes on"
	case r.State == core.RunFailed && !r.FaultOfProgram():
		return "retries"
	}
	return ""
}

// againHint is the word of the footer for the key of Again: that of the runs that it is
// about, where all say the same.
func againHint(act keys.Action, runs []core.Run, e *Env) (word string) {
	if act != keys.Again {
		return ""
	}
	for _, r := range runs {
		switch w := againWord(r, e); {
		case w == "" || w == word:
		case word != "":
			return "" // they differ
		default:
			word = w
		}
	}
	return word
}

// hintWord implements wording.
func (p *workflowsPanel) hintWord(act keys.Action, e *Env) string {
	return againHint(act, p.chosen(e), e)
}

// hintWord implements wording.
func (*dagPanel) hintWord(act keys.Action, e *Env) string {
	run, _ := e.State.Run(e.Sel.Run)
	return againHint(act, []core.Run{run}, e)
}
