package screen

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
)

// remember asks for how long the permission is to be remembered.
func (c *card) remember(e *Env) {
	if !c.asks(decide.Remember, e) {
		c.begin(remembering, decide.Remember, e)
	}
}

// outlives reports whether the process that asked lives on when the run is
// done. A command of its own is over then, and with it its session.
func outlives(a core.Approval) bool {
	return a.RequestedBy.Via != "" && a.RequestedBy.Via != core.ViaCLI
}

// keyRemember chooses for how long.
func (c *card) keyRemember(k keys.Key, e *Env) (intents []Intent, closed bool) {
	a := c.rule.Approval()
	switch k.Name {
	case "r":
		return c.send(decide.Remember, "", &core.Answer{Remember: core.RememberRun}, e)
	case "s":
		if !outlives(a) {
			c.say(Note, "the command that asked ends with the run, and its session with it")
			return nil, false
		}
		return c.send(decide.Remember, "", &core.Answer{Remember: core.RememberSession}, e)
	case "w":
		if !c.can(decide.Remember, e) {
			return nil, false
		}
		c.leave()
		c.mode = ruling
		return []Intent{AskRule{Approval: a}}, false
	case "esc":
		c.leave()
	}
	return nil, false
}

// keyRule agrees to the rule that is shown, once all of it was.
func (c *card) keyRule(k keys.Key, e *Env) (intents []Intent, closed bool) {
	for _, act := range e.Keys.Actions(k) {
		switch {
		case act == keys.Back:
			c.leave()
			return nil, false
		case c.asked == nil:
			c.say(Note, "the rule is being worked out; esc leaves it")
			return nil, false
		case act == keys.Approve:
			return c.agree(e)
		case act == keys.Mark: // space
			c.rules.Do(keys.PageDown)
			return nil, false
		case c.rules.Do(act):
			return nil, false
		}
	}
	return nil, false
}

// agree writes the rule that was shown, and approves.
func (c *card) agree(e *Env) (intents []Intent, closed bool) {
	if !c.rules.AtEnd() {
		c.say(Bad, "not all of the rule was on screen yet")
		return nil, false
	}
	if !c.can(decide.Remember, e) {
		return nil, false
	}
	want := Remember{Approval: c.rule.Approval(), Rule: *c.asked}
	return c.withPin(func(pin string) Intent { want.Pin = pin; return want }, e)
}
