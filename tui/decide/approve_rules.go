// Package decide holds the rules by which a person at a terminal can decide:
// what must have been on screen before, what has to be typed, and when a key
// press is too early to have been meant. It is pure; the screen asks it.
package decide

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// Quiet is how long a decision key does nothing after what is under it changed
// by itself, something popped up, or the terminal got the focus back.
const Quiet = 425 * time.Millisecond

// Verb is what a person wants with an approval.
type Verb string

// The verbs.
const (
	Approve  Verb = "approve"
	Remember Verb = "remember" // approve, and remember as Answer says
	Deny     Verb = "deny"
	Abort    Verb = "abort" // deny, and end the run
)

// Guard knows until when a key press is too early. The zero Guard lets all
// through.
type Guard struct{ until time.Time }

// Disturb begins a quiet period: what is under the keys changed by itself.
func (g *Guard) Disturb(now time.Time) { g.until = now.Add(Quiet) }

// Ready reports whether a decision at a time can have been meant.
func (g Guard) Ready(now time.Time) bool { return !now.Before(g.until) }

// NeedsReading reports whether the end of the payload must have been on screen
// before the approval can be approved. That is so for all: a short one is read
// as soon as it is shown.
func NeedsReading(core.Approval) bool { return true }

// OutlivesRun reports whether the process that asked lives on when the run is
// done. A command of its own is over then, and with it its session.
func OutlivesRun(a core.Approval) bool {
	return a.RequestedBy.Via != "" && a.RequestedBy.Via != core.ViaCLI
}

// InBulk reports whether marked approvals of the type can be decided together.
func InBulk(t core.ApprovalType) bool { return !approval.TypeOf(t).Single }

// Together says why approvals cannot be approved together, and nothing where
// they can: they are of one type, open, and each is one that a single key may
// approve.
func Together(list []core.Approval, now time.Time) string {
	if len(list) == 0 {
		return "nothing is marked"
	}
	for _, a := range list {
		switch {
		case !InBulk(a.Type):
			return "changed hashes are decided one by one"
		case a.Type != list[0].Type:
			return "only approvals of one type are decided together"
		case a.Type == core.ApproveInDoubt:
			return "each call in doubt needs an answer of its own"
		case approval.High(a, false):
			return "high risk is denied together, but approved one by one (" + a.ID.Short() + ")"
		case a.StateAt(now) != core.ApprovalOpen && a.StateAt(now) != core.ApprovalExpired, a.RenewedBy != "":
			return a.ID.Short() + " waits no more"
		}
	}
	return ""
}

// Why says why a decision cannot be taken at a time, in words for the person;
// empty when it can.
func (c *Card) Why(v Verb, now time.Time) string {
	if why := c.lock(v, now); why != "" {
		return why
	}
	if approves(v) && !c.Confirmed() {
		return "high risk: type " + c.Wants() + " first"
	}
	return ""
}

// Asks reports whether nothing stands against a decision but the characters
// that must be typed.
func (c *Card) Asks(v Verb, now time.Time) bool {
	return approves(v) && c.lock(v, now) == "" && !c.Confirmed()
}

// WillAsk is Asks once a card that has only just appeared has stood for a moment.
func (c *Card) WillAsk(v Verb, now time.Time) bool {
	later := *c
	later.quiet = Guard{}
	return later.Asks(v, now)
}

// Ready reports whether a key press at a time can have been meant for the card.
func (c *Card) Ready(now time.Time) bool { return c.quiet.Ready(now) }

// lock is Why but for what must be typed.
func (c *Card) lock(v Verb, now time.Time) string {
	if why := c.Ended(now); why != "" {
		return why
	}
	if c.lost != "" {
		return c.lost + ": decisions are off, nothing is queued"
	}
	if !c.quiet.Ready(now) {
		return "too early: it had only just appeared; press again"
	}
	if why := c.lockBounds(v, now); why != "" || !approves(v) {
		return why
	}
	switch {
	case v == Remember && c.a.Type != core.ApproveTool:
		return "only the permission of a tool can be remembered"
	case v == Remember && c.a.Once:
		return "this is asked about each time: it cannot be remembered"
	case !c.HasRead():
		return "not read to its end yet (space pages on): it unlocks page by page"
	case c.a.Type == core.ApproveInDoubt && c.inDoubt == nil:
		return "first say how: r runs it again, s skips it with a result"
	}
	return ""
}
