package screen

import (
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
	return c
}
