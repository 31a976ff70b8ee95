package tui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/state"
)

// consequenceWithin is how long after a decision pml tui takes for its consequence what becomes
// of the other questions of the run.
const consequenceWithin = 20 * time.Second

// consequences are the decisions that were made here and what they may do to the other questions
// of their runs, which nobody decides then: answer them as well, or end the run.
type consequences map[core.ID]decidedOne // by run

// decidedOne is the last decision about a run, the questions that it left open, and those
// of them that it answers as well: a yes for the run, say.
type decidedOne struct {
	text    string // what was decided, for people
	at      time.Time
	other   []core.ID
	permits []core.ID
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

// noteLeft notes what decisions that count have left open: leftOpen of before. answer is what
// they said beyond yes or no.
func noteLeft(m *model, done []verdict, word string, answer *core.Answer, left map[core.ID][]core.ID, now time.Time) {
	for _, v := range done {
		if v.err != nil || v.other != nil {
			continue
		}
		d := decidedOne{text: cmp.Or(whatOf(v.approval), nameOf(v.approval)) + ": " + word, at: now}
		for _, id := range left[v.approval.RunID] {
			o, _ := m.state.Approval(id)
			switch permitted := permits(v.approval, answer, o); {
			case !permitted:
				d.other = append(d.other, id)
			case answer.Remember != core.RememberRule: // who has written a rule is told how many it answers
				d.permits = append(d.permits, id)
			}
		}
		// What an earlier decision has left open is answered now, or is about this one.
		if delete(m.others, v.approval.RunID); len(d.other)+len(d.permits) > 0 {
			m.others[v.approval.RunID] = d
		}
	}
}

// permits reports whether an answer to a question counts for another one of its run, too.
func permits(a core.Approval, answer *core.Answer, other core.Approval) bool {
	a.State, a.Answer = core.ApprovalApproved, answer
	return a.Permits(other) || answer != nil && answer.Shape != nil && other.Type == a.Type && other.Tool == a.Tool && !other.Once
}

// vanished says what became of the other questions of a run after a decision: that it has
// answered them as well, or that the run has ended without them; empty where there is nothing
// new to say.
func (u consequences) vanished(s *state.State, now time.Time) (text string) {
	for id, d := range u {
		run, known := s.Run(id)
		if !known || now.Sub(d.at) > consequenceWithin {
			delete(u, id)
			continue
		}
		failed := run.State.Final() && run.State != core.RunComplete
		if failed { // what it had permitted was not made any more, as far as anybody knows
			d.other, d.permits = append(d.other, d.permits...), nil
		}
		if n, open := superseded(s, d.permits, now); !open && n > 0 {
			text = fmt.Sprintf("%s; %d more approved by it", d.text, n)
			d.permits = nil
		}
		u[id] = d
		if n, open := superseded(s, d.other, now); run.State.Final() && !open { // else their end is still to be read
			if delete(u, id); n > 0 {
				text = fmt.Sprintf("%s; the run %s, so %s not asked", cmp.Or(text, d.text), endedAs(run.State), moreAre(n))
			}
		}
	}
	return text
}

// superseded is how many of some questions nobody has decided and that wait no more; open
// reports whether one still waits.
func superseded(s *state.State, ids []core.ID, now time.Time) (n int, open bool) {
	for _, id := range ids {
		a, _ := s.Approval(id)
		switch a.StateAt(now) {
		case core.ApprovalOpen:
			open = true
		case core.ApprovalSuperseded:
			n++
		case core.ApprovalApproved, core.ApprovalDenied, core.ApprovalExpired:
		}
	}
	return n, open
}

// moreAre are so many other questions, as the subject of a sentence that a narrow window shows.
func moreAre(n int) string {
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
