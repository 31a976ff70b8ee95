package screen

import (
	"cmp"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
)

// newApproveCard opens the card of an approval for somebody who wants to approve it.
func newApproveCard(id core.ID, e *Env) *card {
	c := cardOf(id, e)
	c.eager = true
	return c
}

// newDenyCard opens the card of an approval for somebody who wants to deny it.
func newDenyCard(id core.ID, e *Env) *card {
	c := cardOf(id, e)
	if c.rule.Ended(e.Now) == "" {
		c.say(Note, keyOf(e, keys.Deny)+" denies it, "+keyOf(e, keys.Message)+" says why as well")
	}
	return c
}

// newMessageCard opens the card of an approval where the next thing to do is to
// say why it is denied.
func newMessageCard(id core.ID, e *Env) *card {
	c := cardOf(id, e)
	if c.rule.Ended(e.Now) == "" {
		c.mode = messaging
	}
	return c
}

// cardFor opens the card of an approval for what somebody wants to do with it.
func cardFor(act keys.Action, id core.ID, e *Env) *card {
	switch act {
	case keys.Approve:
		return newApproveCard(id, e)
	case keys.Deny:
		return newDenyCard(id, e)
	case keys.Message:
		return newMessageCard(id, e)
	default:
		return cardOf(id, e)
	}
}

func cardOf(id core.ID, e *Env) *card {
	a, known := e.State.Approval(id)
	c := &card{id: id, rule: decide.Open(a, e.Now), told: e.flash.count}
	c.rule.Update(a, known, linkLost(a.Side, e), e.Now)
	c.rule.RunIs(runState(a, e))
	return c
}

// runState is what the run of an approval is in; empty where it is not known.
func runState(a core.Approval, e *Env) core.RunState {
	run, _ := e.State.Run(a.RunID)
	return run.State
}

// became says what became of an approval that waits no more, also of the one that asks
// the same again; own reports whether it was this person who decided.
func (c *card) became(e *Env) (text string, own bool) {
	a := c.rule.Approval()
	own = e.own[a.ID] == ownCounted
	if a.StateAt(e.Now) != core.ApprovalExpired {
		if own && a.DecidedBy != nil {
			return decidedHere(a, e.Now), true
		}
		return c.rule.Ended(e.Now), false
	}
	next := a
	for range 100 { // as often as it can have been asked
		n, known := e.State.Approval(next.RenewedBy)
		if !known {
			break
		}
		next, own = n, own || e.own[n.ID] == ownCounted
	}
	text = c.rule.Ended(e.Now)
	if next.ID == a.ID {
		return text, false
	}
	text = "expired, and asked again as " + next.ID.Short()
	switch state := next.StateAt(e.Now); {
	case state == core.ApprovalOpen:
		return text + ", which waits", false
	case next.DecidedBy != nil && own:
		return text + ": " + decidedHere(next, e.Now), true
	}
	last := decide.Open(next, e.Now)
	last.RunIs(runState(next, e))
	return text + ": " + cmp.Or(last.Ended(e.Now), "that has expired, too"), false
}
