package screen

import (
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
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
		case c.rules.do(act):
			return nil, false
		}
	}
	return nil, false
}

// agree writes the rule that was shown, and approves.
func (c *card) agree(e *Env) (intents []Intent, closed bool) {
	if !c.rules.atEnd() {
		c.say(Bad, "not all of the rule was on screen yet")
		return nil, false
	}
	if !c.can(decide.Remember, e) {
		return nil, false
	}
	want := Remember{Approval: c.rule.Approval(), Rule: *c.asked}
	return c.withPin(func(pin string) Intent { want.Pin = pin; return want }, e)
}

// ruleLines shows what a rule says and what it changes in which file.
func ruleLines(r api.Rule) []line {
	out := []line{
		{text: "This rule would be written, and then the call approved:", style: paint.Style{Role: paint.Accent}.Bold()},
		{},
		{label: fmt.Sprintf("%-*s", labelWidth, "rule"), text: fmt.Sprintf("permissions.%s gets %q", r.List, r.Pattern)},
		{label: fmt.Sprintf("%-*s", labelWidth, "file"), text: r.Change.File},
		{},
	}
	if r.Change.Diff == "" {
		out = append(out, line{text: "The file stays as it is: the rule stands there already."})
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(r.Change.Diff, "\n"), "\n") {
		if r.Change.Diff != "" {
			out = append(out, line{text: l, style: diffStyle(l)})
		}
	}
	for _, note := range r.Change.Notes {
		out = append(out, line{label: fmt.Sprintf("%-*s", labelWidth, "note"), text: note})
	}
	return out
}
