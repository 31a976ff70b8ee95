package screen

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
)

// ownDecision is what has become of a decision that was taken on this screen.
type ownDecision int

const (
	ownUnknown ownDecision = iota // none was taken here
	ownSent                       // it is being carried out
	ownCounted                    // it is the one that counts
)

// onItsWay is what a key that decides does where a decision was just taken.
const onItsWay = "your decision is being carried out"

// sent notes decisions that leave the screen.
func (s *Screen) sent(i Intent) {
	switch i := i.(type) {
	case Decide:
		for _, a := range i.Approvals {
			s.own[a.ID] = ownSent
		}
	case Remember:
		s.own[i.Approval.ID] = ownSent
	}
}

// Decided says that a decision of this screen is no longer under way, and
// whether it is the one that counts.
func (s *Screen) Decided(id core.ID, counts bool) {
	delete(s.own, id)
	if counts {
		s.own[id] = ownCounted
	}
}

// decidedHere is what a card says of an approval that this person has decided.
func decidedHere(a core.Approval, now time.Time) string {
	text := "you have " + string(a.State) + " it"
	if d := a.DecidedBy; d != nil {
		text += " at " + d.At.In(now.Location()).Format(time.TimeOnly)
	}
	return text
}

// over reports whether an overlay is a card whose question is over: there it
// needs no keys but those that read it.
func over(o overlay, e *Env) bool {
	c, ok := o.(*card)
	if !ok {
		return false
	}
	c.sync(e) // what was begun ends with the question
	return c.mode == deciding && c.rule.Ended(e.Now) != ""
}

// toPanel reports whether one of some actions goes to a panel.
func toPanel(acts []keys.Action) bool {
	return slices.ContainsFunc(acts, func(a keys.Action) bool { return slices.Contains(panelKeys[:], a) })
}
