package screen

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/widget"
)

// EditArguments opens the person's editor on the arguments that an approval asks about;
// what they leave is judged anew and given to Edited.
type EditArguments struct {
	Approval  core.Approval
	Arguments string
}

func (EditArguments) intent() {}

// cardEdit are arguments that the person has put in the place of those asked about.
type cardEdit struct {
	of   core.Approval // as it was asked
	now  core.Approval // as it would be asked with them
	args json.RawMessage
}

// edit opens the editor on the arguments, or says why it cannot be.
func (c *card) edit(e *Env) []Intent {
	if !c.can(decide.Deny, e) { // over, lost, or too early
		return nil
	}
	args := argumentsOf(c.rule.Approval())
	if c.edited != nil {
		args = c.edited.args
	}
	var text bytes.Buffer
	if json.Indent(&text, args, "", "  ") != nil {
		c.say(Bad, "its arguments cannot be edited: they are no JSON")
		return nil
	}
	of := c.rule.Approval()
	if c.edited != nil {
		of = c.edited.of
	}
	return []Intent{EditArguments{Approval: of, Arguments: text.String() + "\n"}}
}

func argumentsOf(a core.Approval) json.RawMessage {
	var asks struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(a.Context, &asks) != nil || len(asks.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return asks.Arguments
}

// Edited puts the changed arguments of an approval onto its card, where they are to be
// read like what was asked first; err says why they cannot be sent.
func (s *Screen) Edited(of, now core.Approval, args json.RawMessage, err error, at time.Time) {
	for _, o := range s.overlay {
		c, ok := o.(*card)
		if !ok || c.id != of.ID {
			continue
		}
		c.rule.Disturb(at)
		switch {
		case err != nil:
			c.say(Bad, "not changed: "+core.Visible(err.Error(), 400, false))
		case now.Digest == of.Digest:
			c.edited = nil
			c.say(Note, "nothing is changed")
		default:
			c.edited = &cardEdit{of: of, now: now, args: args}
			c.say(Note, "changed: read what will be sent instead")
		}
	}
}

// asEdited is an approval as the changed arguments ask it, as long as it is still the
// question that they were made from.
func (c *card) asEdited(a core.Approval) core.Approval {
	if c.edited == nil {
		return a
	}
	if a.Digest != c.edited.of.Digest || !bytes.Equal(a.Context, c.edited.of.Context) {
		c.edited = nil
		return a
	}
	now := c.edited.now
	a.Risk, a.Description, a.Context, a.Digest, a.Once = now.Risk, now.Description, now.Context, now.Digest, now.Once
	return a
}

// answer is what an approval would say beyond yes.
func (c *card) answer() *core.Answer {
	if c.edited != nil {
		return &core.Answer{Arguments: c.edited.args}
	}
	return c.rule.Answer()
}

// about is the approval that a decision is about: a yes to what was changed, anything
// else to what was asked.
func (c *card) about(approve bool) core.Approval {
	if c.edited != nil && !approve {
		return c.edited.of
	}
	return c.rule.Approval()
}

// changesOf says what was changed, before all that will be sent.
func (c *card) changesOf() []widget.Line {
	if c.edited == nil {
		return nil
	}
	return evidence.Changes(asked.Changes(argumentsOf(c.edited.of), argumentsOf(c.edited.now)))
}
