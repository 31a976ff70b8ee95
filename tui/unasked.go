package tui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// unaskedWithin is how long after a decision what becomes of the other questions of its run
// is told as its consequence.
const unaskedWithin = 20 * time.Second

// unasked finds questions that nobody has decided and that vanish because their run has
// ended after a decision that was made here about another one.
type unasked map[core.ID]decidedOne // by run

// decidedOne is the last decision about a run, and the questions that it left open.
type decidedOne struct {
	text  string // what was decided, for people
	at    time.Time
	other []core.ID
}

// leftOpen are the questions of the runs of some approvals that a decision about these
// does not answer.
func leftOpen(m *model, decided []core.Approval, now time.Time) map[core.ID][]core.ID {
	out := map[core.ID][]core.ID{}
	for _, a := range decided {
		if _, seen := out[a.RunID]; seen {
			continue
		}
		var other []core.ID
		for _, o := range m.state.Undecided(a.RunID, now) {
			if !slices.ContainsFunc(decided, func(d core.Approval) bool { return d.ID == o.ID }) {
				other = append(other, o.ID)
			}
		}
		out[a.RunID] = other
	}
	return out
}

// noteLeft notes what decisions that count have left open: leftOpen of before.
func noteLeft(m *model, done []verdict, word string, left map[core.ID][]core.ID, now time.Time) {
	for _, v := range done {
		if other := left[v.approval.RunID]; v.err == nil && v.other == nil && len(other) > 0 {
			m.unasked[v.approval.RunID] = decidedOne{text: cmp.Or(whatOf(v.approval), nameOf(v.approval)) + ": " + word, at: now, other: other}
		}
	}
}

// vanished says that the run of a decision has ended and its other questions with it; empty
// where there is nothing new to say.
func (u unasked) vanished(s *state.State, now time.Time) (text string) {
	for id, d := range u {
		run, known := s.Run(id)
		switch {
		case !known || now.Sub(d.at) > unaskedWithin:
			delete(u, id)
			continue
		case !run.State.Final():
			continue
		}
		states := map[core.ApprovalState]int{}
		for _, o := range d.other {
			a, _ := s.Approval(o)
			states[a.StateAt(now)]++
		}
		if states[core.ApprovalOpen] > 0 { // their end is still to be read
			continue
		}
		delete(u, id)
		if n := states[core.ApprovalSuperseded]; n > 0 {
			text = fmt.Sprintf("%s; the run %s, so %s not asked", d.text, endedAs(run.State), more(n))
		}
	}
	return text
}

// more are so many other questions, as the subject of a sentence that a narrow window shows.
func more(n int) string {
	if n == 1 {
		return "1 more is"
	}
	return fmt.Sprintf("%d more are", n)
}

// endedAs is how a run has ended, as a verb.
func endedAs(s core.RunState) string {
	if verb := map[core.RunState]string{
		core.RunFailed: "failed", core.RunAborted: "was aborted", core.RunComplete: "is complete", core.RunExpired: "has expired",
	}[s]; verb != "" {
		return verb
	}
	return "has ended"
}
