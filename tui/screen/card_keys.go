package screen

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
)

// What keys do on a card only. They have no binding of their own.
const (
	cardScripts  keys.Action = "card_scripts"   // s
	cardRunAgain keys.Action = "card_run_again" // r
	cardSkip     keys.Action = "card_skip"      // s
)

// moreTime is what one press of a key adds to an approval.
const moreTime = 5 * time.Minute

// keyDecide handles a key where it is an action.
func (c *card) keyDecide(k keys.Key, e *Env) (intents []Intent, closed bool) {
	for _, act := range e.Keys.Actions(k) {
		if intents, closed, handled := c.do(act, e); handled {
			return intents, closed
		}
	}
	switch t := c.rule.Approval().Type; {
	case k.Name == "J" && c.bounds != nil:
		c.say(Note, "the call stands as JSON on its card: esc, then J")
	case k.Name == "J":
		c.raw = !c.raw
	case k.Name == "s" && t == core.ApproveDependency:
		return c.press(cardScripts, e)
	case k.Name == "s" && t == core.ApproveInDoubt:
		return c.press(cardSkip, e)
	case k.Name == "r" && t == core.ApproveInDoubt:
		return c.press(cardRunAgain, e)
	}
	return nil, false
}

// do carries an action out that is no decision, or presses the button that is.
func (c *card) do(act keys.Action, e *Env) (intents []Intent, closed, handled bool) {
	a := c.rule.Approval()
	one := func(i Intent) ([]Intent, bool, bool) { return []Intent{i}, false, true }
	if c.bounds != nil {
		if intents, closed, handled = c.doBounds(act, e); handled || act == keys.MoreTime { // its key counts calls here
			return intents, closed, handled
		}
	}
	switch act {
	case keys.Back:
		return nil, true, true
	case keys.Bounds:
		c.showBounds(e)
	case keys.Open:
		if next, ok := successor(a, e); ok && c.rule.Ended(e.Now) != "" {
			return []Intent{openOverlay{cardOf(next, e)}}, true, true
		}
		c.say(Note, "enter decides nothing: press the letter of a button")
	case keys.Mark:
		c.pager.Do(keys.PageDown)
	case keys.NextPanel, keys.Right:
		c.move(1)
	case keys.PreviousPanel, keys.Left:
		c.move(-1)
	case keys.Zoom:
		c.full = !c.full
	case keys.Trail:
		return []Intent{openOverlay{newTrail(a.ID)}, LoadAudit{}}, false, true
	case keys.CopyID, keys.CopyCommand:
		return one(c.copyCommand(e))
	case keys.CopyAll:
		return one(copyJSON(a))
	case keys.Edit:
		if a.Type == core.ApproveTool && c.rule.Ended(e.Now) == "" {
			return c.edit(e), false, true
		}
		return one(View{Name: "approval-" + a.ID.Short() + ".txt", Text: plainEvidence(a, tasksOf(a, e))})
	case keys.Save:
		url := authURL(a)
		if url == "" {
			return nil, false, false
		}
		return one(OpenURL{URL: url})
	case keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message, keys.Abort, keys.Replan, keys.MoreTime, keys.Again:
		intents, closed = c.press(act, e)
		return intents, closed, true
	default:
		return nil, false, c.pager.Do(act)
	}
	return nil, false, true
}

// click selects a button; a second click on the same presses it.
func (c *card) click(x, y int, e *Env) (intents []Intent, closed bool) {
	c.sync(e)
	c.build(e)
	for i, b := range c.buttons {
		if y != c.y+b.y || x < c.x+b.x || x >= c.x+b.x+b.w {
			continue
		}
		if c.mode != deciding {
			return nil, false
		}
		if c.focus != i || !c.moved {
			c.focus, c.moved = i, true
			return nil, false
		}
		c.note = ""
		return c.press(b.act, e)
	}
	return nil, false
}

// press does what a button says.
func (c *card) press(act keys.Action, e *Env) (intents []Intent, closed bool) {
	if c.bounds != nil && act != keys.Approve {
		intents, closed, _ = c.doBounds(act, e)
		return intents, closed
	}
	switch act {
	case keys.Approve:
		return c.approve(e)
	case keys.Bounds:
		c.showBounds(e)
	case keys.ApproveRemember:
		if c.edited != nil {
			c.say(Note, "what you have changed is approved for this call only: a")
			return nil, false
		}
		c.remember(e)
	case keys.Deny:
		return c.send(decide.Deny, "", nil, e)
	case keys.Message:
		c.begin(messaging, decide.Deny, e)
	case keys.Abort:
		c.begin(aborting, decide.Abort, e)
	case cardScripts:
		c.toggleScripts()
	case cardRunAgain:
		c.rule.ChooseInDoubt(core.RunAgain, nil)
		c.say(Note, "it will run again. Now approve, which asks for the code")
	case cardSkip:
		c.begin(resulting, decide.Deny, e)
	case keys.Save:
		return []Intent{OpenURL{URL: authURL(c.rule.Approval())}}, false
	default:
		return c.keep(act, e)
	}
	return nil, false
}

// nothingQueued is what a lost link means.
const nothingQueued = ": decisions are off, nothing is queued"

// keep does what decides nothing: more time, asking again, another plan.
func (c *card) keep(act keys.Action, e *Env) (intents []Intent, closed bool) {
	a := c.rule.Approval()
	why := c.rule.Lost()
	switch {
	case why != "":
		why += nothingQueued
	case c.rule.Ended(e.Now) != "" && (act != keys.Again || a.StateAt(e.Now) == core.ApprovalExpired):
		why = nothingLeft
	}
	switch {
	case why != "":
		c.say(Bad, why)
	case act == keys.Replan:
		run, _ := e.State.Run(a.RunID)
		if no, refused := replan(run)[0].(say); refused {
			c.say(no.level, no.text)
			return nil, false
		}
		return []Intent{Replan{Run: a.RunID}}, false
	case act == keys.MoreTime && c.rule.Expired(e.Now) != "":
		c.say(Note, "it has expired: decide it all the same, or "+keyOf(e, keys.Again)+" asks again")
	case act == keys.MoreTime && a.ExpiresAt == nil:
		c.say(Note, "it has no limit")
	case act == keys.MoreTime:
		return []Intent{Extend{ID: a.ID, By: moreTime}}, false
	case act == keys.Again && a.StateAt(e.Now) == core.ApprovalExpired:
		return []Intent{Renew{ID: a.ID}}, true
	case act == keys.Again:
		c.say(Note, "only what has expired can be asked again")
	}
	return nil, false
}

// begin goes to a mode, if the decision that it leads to can be taken.
func (c *card) begin(mode cardMode, v decide.Verb, e *Env) {
	if c.can(v, e) {
		c.leave()
		c.mode = mode
	}
}

// approve approves once, or asks for what must be typed first.
func (c *card) approve(e *Env) (intents []Intent, closed bool) {
	if c.asks(decide.Approve, e) {
		return nil, false
	}
	return c.send(decide.Approve, "", c.answer(), e)
}

// asks begins to ask for the characters to type, where only they are missing.
func (c *card) asks(v decide.Verb, e *Env) bool {
	if e.Now.Before(e.QuietUntil) || e.own[c.id] == ownSent || !c.shows() || !c.rule.Asks(v, e.Now) {
		return false
	}
	c.leave()
	c.mode, c.then = confirming, v
	return true
}

// askAtOnce asks for the characters, or for how long, as soon as all that is approved has been
// drawn, on a card that was opened to approve. One that must be paged through waits for its key.
func (c *card) askAtOnce(e *Env) {
	if !c.eager || !c.drawn || c.wait {
		return
	}
	c.eager = false
	remember := c.then == decide.Remember
	switch {
	case c.mode != deciding || e.own[c.id] == ownSent || !c.shows():
	case c.rule.WillAsk(cmp.Or(c.then, decide.Approve), e.Now):
		c.mode = confirming
		return
	case remember && c.rule.Approval().Type == core.ApproveTool && !c.rule.Approval().Once && c.rule.HasRead() && c.rule.Wants() == "" && c.rule.Ended(e.Now) == "" && c.rule.Lost() == "":
		c.mode = remembering
	}
	c.then = decide.Approve
}

func (c *card) toggleScripts() {
	switch {
	case !c.rule.ToggleScripts():
		c.say(Note, "it has no install scripts")
	case c.rule.ScriptsAllowed():
		c.say(Bad, "its install scripts may run: that is of high risk, and approving asks for the code")
	default:
		c.say(Good, "its install scripts will not run")
	}
}

// copyCommand copies the command line that does the same.
func (c *card) copyCommand(e *Env) Intent {
	a := c.rule.Approval()
	if c.rule.Ended(e.Now) != "" {
		return Copy{What: "the command that shows it", Text: decide.Shell([]string{"pml", "approvals", "show", a.ID.Short()})}
	}
	if c.edited != nil {
		return Copy{What: "the command that changes and approves", Text: decide.Shell([]string{"pml", "approve", a.ID.Short(), "--edit"})}
	}
	verb, what := decide.Approve, "the command that approves"
	if c.moved && c.focus < len(c.buttons) {
		switch c.buttons[c.focus].act {
		case keys.Deny, keys.Message:
			verb, what = decide.Deny, "the command that denies"
		case keys.Abort:
			verb, what = decide.Abort, "the command that aborts the run"
		default:
		}
	}
	return Copy{What: what, Text: decide.Line(a, decide.Choice{Verb: verb, Answer: c.rule.Answer()})}
}

// copyJSON copies an approval as programs see it.
func copyJSON(a core.Approval) Intent {
	raw, err := json.MarshalIndent(a, "", "  ")
	if err != nil { // a context that is no JSON
		raw = []byte(core.Visible(string(a.Context), 0, true))
	}
	return Copy{What: "the approval as JSON", Text: string(raw)}
}

// authURL is the address where a person signs in, empty where there is none.
func authURL(a core.Approval) string {
	var c struct {
		URL string `json:"auth_url"`
	}
	if a.Type != core.ApproveOAuth || json.Unmarshal(a.Context, &c) != nil {
		return ""
	}
	return c.URL
}

// plainEvidence is the evidence as a text, safe to open in an editor that runs
// in the terminal.
func plainEvidence(a core.Approval, tasks []core.Task) string {
	var b strings.Builder
	for _, l := range evidence.Of(a, tasks) {
		b.WriteString(core.Visible(l.Label+l.Text, 0, false))
		b.WriteByte('\n')
	}
	return b.String()
}

// remember asks for how long the permission is to be remembered.
func (c *card) remember(e *Env) {
	if !c.asks(decide.Remember, e) {
		c.begin(remembering, decide.Remember, e)
	}
}

// keyRemember chooses for how long.
func (c *card) keyRemember(k keys.Key, e *Env) (intents []Intent, closed bool) {
	a := c.rule.Approval()
	switch k.Name {
	case "r":
		return c.send(decide.Remember, "", &core.Answer{Remember: core.RememberRun}, e)
	case "s":
		if !decide.OutlivesRun(a) {
			c.say(Note, "the command that asked ends with the run, and its session with it")
			return nil, false
		}
		return c.send(decide.Remember, "", &core.Answer{Remember: core.RememberSession}, e)
	case "w":
		if a.Owner != "" {
			c.say(Note, "no rule: it would hold for everybody who uses this workspace, and the run is one of "+core.Visible(a.Owner, 60, false))
			return nil, false
		}
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
	setRule(c, e) // what has come since was not read
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

// newApproveCard opens the card of an approval for somebody who wants to approve it.
func newApproveCard(id core.ID, e *Env) *card {
	c := cardOf(id, e)
	c.eager = true
	return c
}

// newRememberCard opens the card of an approval for somebody who wants to approve it for longer.
func newRememberCard(id core.ID, e *Env) *card {
	c := newApproveCard(id, e)
	c.then = decide.Remember
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
	case keys.ApproveRemember:
		return newRememberCard(id, e)
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
