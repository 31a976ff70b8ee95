package screen

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
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
	why := "" // never too early: it decides nothing
	switch {
	case c.rule.Ended(e.Now) != "":
		why = nothingLeft
	case e.own[c.id] == ownSent:
		why = onItsWay
	case c.rule.Lost() != "":
		why = c.rule.Lost() + nothingQueued
	}
	if why != "" {
		c.say(Bad, why)
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

// EditBounds opens the person's editor on the bounds that a card shows, as lines; what they
// leave is given to BoundsEdited.
type EditBounds struct {
	Approval core.Approval
	Text     string
}

func (EditBounds) intent() {}

// cardBounds is what a card knows besides the bounds that it shows in place of its question.
type cardBounds struct {
	loop   []core.Approval // the calls that waited when they were shown; that which is asked about first
	whole  bool            // the question is shown below them: it was not read before
	direct bool            // nothing was shown before: esc closes the card
	mine   bool            // the person has changed them
	at     int64           // the version of the approvals that was looked at last
	news   int             // calls that have come since
}

// boundsMade is what the lines of bounds were made from.
type boundsMade struct {
	of      *core.Shape
	columns int
}

// newBoundsCard opens the card of an approval where it shows the bounds for its loop.
func newBoundsCard(id core.ID, e *Env) *card {
	c := cardOf(id, e)
	c.showBounds(e)
	if c.bounds != nil {
		c.bounds.direct = true
	}
	return c
}

// boundable reports whether bounds can be about the calls like that of an approval.
func boundable(a core.Approval, e *Env) bool {
	c := cardOf(a.ID, e).rule
	return c.Ended(e.Now) == "" && approval.InLoop(a)
}

// noBounds says why there are none.
const noBounds = "bounds are for the calls of one line of a script; this one has no line, or is asked about each time"

// showBounds shows the bounds that are proposed for the loop of the call, or those that are
// shown with the calls that have come since.
func (c *card) showBounds(e *Env) {
	loop := loopOf(c.rule.Approval(), e)
	s, ok := approval.Propose(loop)
	switch {
	case c.rule.Ended(e.Now) != "":
		c.say(Bad, nothingLeft)
	case c.edited != nil:
		c.say(Note, "what you have changed is approved for this call only: a")
	case !ok:
		c.say(Note, noBounds)
	case c.bounds == nil:
		c.bounds = &cardBounds{loop: loop, whole: !c.rule.HasRead(), at: e.State.ApprovalsVersion()}
		c.bind(s, e)
	default:
		if c.bounds.mine {
			s = *c.rule.Shape()
		}
		c.bounds.loop, c.bounds.news, c.bounds.at = loop, 0, e.State.ApprovalsVersion()
		c.bind(s, e)
	}
}

// loopOf are the calls of the loop of an approval as they are known now.
func loopOf(a core.Approval, e *Env) []core.Approval {
	return approval.Loop(a, e.State.Undecided(a.RunID, e.Now), e.Now)
}

// bind shows bounds, which have to be read.
func (c *card) bind(s core.Shape, e *Env) {
	c.rule.Bind(&s)
	c.rule.Disturb(e.Now)
	c.moved = false
}

// unbind shows the question again.
func (c *card) unbind() {
	c.bounds, c.moved = nil, false
	c.rule.Bind(nil)
}

// syncBounds takes the bounds away with the question that they were for, and counts the
// calls that have come since: those that are shown never change under a person.
func (c *card) syncBounds(e *Env) {
	switch v := e.State.ApprovalsVersion(); {
	case c.bounds == nil:
	case c.rule.Shape() == nil || c.rule.Ended(e.Now) != "":
		c.unbind()
	case v != c.bounds.at:
		c.bounds.at, c.bounds.news = v, 0
		for _, a := range loopOf(c.rule.Approval(), e) {
			if !slices.ContainsFunc(c.bounds.loop, func(o core.Approval) bool { return o.ID == a.ID }) {
				c.bounds.news++
			}
		}
	}
}

// doBounds carries out what a key means while bounds are shown.
func (c *card) doBounds(act keys.Action, e *Env) (intents []Intent, closed, handled bool) {
	switch act {
	case keys.Back:
		direct := c.bounds.direct
		c.unbind()
		return nil, direct, true
	case keys.Bounds:
		c.showBounds(e)
	case keys.MoreCalls:
		c.bounds.count(c, decide.MoreCalls, e)
	case keys.FewerCalls:
		c.bounds.count(c, decide.FewerCalls, e)
	case keys.Edit:
		return c.bounds.edit(c), false, true
	case keys.Deny, keys.Message, keys.Abort, keys.Replan, keys.Again, keys.ApproveRemember:
		c.say(Note, "esc leaves the bounds: the call itself is decided on its card")
	default:
		return nil, false, false
	}
	return nil, false, true
}

// count changes for how many calls the bounds are.
func (b *cardBounds) count(c *card, to func(int) int, e *Env) {
	s := *c.rule.Shape()
	n := to(s.Max)
	if n == s.Max {
		c.say(Note, "bounds are for 1 to "+approval.Thousands(approval.MaxShapeCalls)+" calls")
		return
	}
	s.Max, b.mine = n, true
	c.bind(s, e)
}

// edit opens the editor on the bounds, or says why it cannot be.
func (*cardBounds) edit(c *card) []Intent {
	if why := c.rule.Lost(); why != "" {
		c.say(Bad, why+nothingQueued)
		return nil
	}
	return []Intent{EditBounds{Approval: c.rule.Approval(), Text: strings.Join(approval.ShapeLines(*c.rule.Shape()), "\n") + "\n"}}
}

// BoundsEdited puts the bounds that a person has changed onto the card that shows them,
// where they are to be read. It returns what is wrong with the lines, which then change nothing;
// open is false where the card is not there any more.
func (s *Screen) BoundsEdited(i EditBounds, text string, now time.Time) (wrong []string, open bool) {
	e := s.env(now)
	for _, o := range s.overlay {
		c, ok := o.(*card)
		if !ok || c.id != i.Approval.ID {
			continue
		}
		if c.sync(e); c.bounds == nil || c.rule.Approval().Digest != i.Approval.Digest {
			continue
		}
		before := *c.rule.Shape()
		after, wrong := approval.EditShape(before, c.bounds.loop, strings.Split(text, "\n"), now)
		if len(wrong) > 0 {
			return wrong, true
		}
		if slices.Equal(approval.ShapeLines(before), approval.ShapeLines(after)) {
			c.rule.Disturb(now)
			c.say(Note, "nothing is changed")
			return nil, true
		}
		c.bounds.mine = true
		c.bind(after, e)
		c.say(Note, "changed: read the bounds again")
		return nil, true
	}
	return nil, false
}

// lines are those of the bounds, and of the question where it was not read before.
func (b *cardBounds) lines(c *card, e *Env) []widget.Line {
	out := evidence.Bounds(*c.rule.Shape(), b.loop, columnsOf(c), e.Now.Location())
	if b.whole {
		out = append(out, widget.Line{}, widget.Line{Text: "The call that is asked about:", Style: paint.Style{Role: paint.Accent}.Bold()})
		out = append(out, evidence.Of(c.rule.Approval(), nil)...)
	}
	return out
}

// columnsOf is how many columns there are within the frame of the card.
func columnsOf(c *card) int {
	if c.w == 0 {
		return 76
	}
	return c.w - 4
}

// setRule says what the rule of a card is, and which of the calls that wait it would answer.
func setRule(c *card, e *Env) {
	if c.asked == nil {
		return
	}
	var answers, left []string
	for _, o := range e.State.Waiting(e.Now) {
		if a := c.rule.Approval(); o.Side != a.Side || o.Workspace != a.Workspace || !approval.AskedAlike(a, o) {
			continue
		}
		why := approval.RuleLeaves(c.rule.Approval(), o)
		if why == "" && runState(o, e) == core.RunInterrupted {
			why = "nobody runs it"
		}
		switch name := tellingArgument(o); {
		case why != "":
			left = append(left, name+" ("+why+")")
		case approval.High(o, false):
			answers = append(answers, name+" (high)")
		default:
			answers = append(answers, name)
		}
	}
	c.rules.SetLines(evidence.Rule(*c.asked, answers, left))
}

// tellingArgument is what tells a call from others of its tool: the argument that says most.
func tellingArgument(a core.Approval) string {
	name := core.CallName(a.Tool, argumentsOf(a))
	if _, told, ok := strings.Cut(name, " "); ok {
		return core.Visible(told, 200, false)
	}
	return a.ID.Short()
}
