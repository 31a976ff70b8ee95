package screen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// cardMode is what the keys of a card are for.
type cardMode int

const (
	deciding    cardMode = iota // actions
	confirming                  // the characters of an approval of high risk
	messaging                   // why it is denied
	resulting                   // the result that a call in doubt is given
	pinning                     // the PIN
	aborting                    // whether the run is to be aborted: y or esc
	remembering                 // for how long: r, s or w
	ruling                      // the rule that was shown: approve or esc
)

// card is one approval, all that a decision on it binds, and the ways to
// decide. Which of them are open is decide.Card's to say; the card is where its
// rules meet keys and what was drawn.
type card struct {
	id   core.ID
	rule decide.Card
	mode cardMode
	text widget.Input // of the modes that take text
	// pending is what was decided and waits for the PIN.
	pending func(pin string) Intent

	pager widget.Pager
	built core.Approval // what the pager's lines were made from
	of    *core.Layer   // of its run, as known then
	wait  bool          // for the arguments of what runs next
	// edited are the arguments that the person has put in the place of those asked about.
	edited *cardEdit
	// bounds are shown in place of the question, for the calls of its loop.
	bounds *cardBounds
	made   boundsMade
	raw    bool               // it is shown as JSON
	asRaw  bool               // the pager's lines are that
	chosen core.InDoubtAnswer // what their head says
	note   string             // what a key could not do, and why
	level  Level

	asked *api.Rule    // the rule that was shown, nil while it is being asked for
	rules widget.Pager // shows it

	buttons []button
	focus   int  // the button that is selected
	moved   bool // it was selected by the person
	full    bool // the whole window, also where half would do
	w, h    int  // as drawn last
	x, y    int  // of the card in the window
	drawn   bool
	then    decide.Verb // what the characters that are being typed are for
	eager   bool        // the key that opened it was to approve: what must be typed is asked for at once
	covers  bool        // also the line below the panels where messages stand
	last    string      // the key that was the last of the characters
	lastAt  time.Time   // and when
	told    int         // the messages that had come when a key was pressed last
}

// linkLost says why what is known of a half may be out of date; empty when it
// is live.
func linkLost(side core.Side, e *Env) string {
	if side == "" {
		side = core.SideClient
	}
	link := e.State.Links.Of(side)
	switch {
	case link.State == state.LinkLive, link.State == state.LinkNone && side == core.SideClient:
		return ""
	case side == core.SideServer:
		return "the server cannot be reached"
	}
	return "pml's own half cannot be reached"
}

// sync takes over what became of the approval. What changes what is shown ends
// everything that was begun.
func (c *card) sync(e *Env) {
	a, known := e.State.Approval(c.id)
	before := c.rule.Ended(e.Now)
	was := c.edited
	a = c.asEdited(a)
	changed := c.rule.Update(a, known, linkLost(c.rule.Approval().Side, e), e.Now)
	c.rule.RunIs(runState(a, e))
	ended := c.rule.Ended(e.Now)
	if changed || ended != "" && (before == "" || c.mode != deciding) {
		c.leave()
	}
	bounded := c.bounds != nil
	c.syncBounds(e)
	switch {
	case changed && bounded:
		c.say(Bad, "what is asked has changed, and the bounds are gone: read it again")
	case changed && c.edited != nil:
		c.say(Note, "changed: read what will be sent instead")
	case changed && was != nil:
		c.say(Bad, "what is asked has changed, and your change is gone: read it again")
	case changed:
		c.say(Bad, "what is asked has changed: read it again")
	case c.rule.Lost() == "" && strings.HasSuffix(c.note, nothingQueued), c.note == tooSmall && c.shows(): // no longer true
		c.note = ""
	}
}

// leave goes back to deciding and forgets what was begun.
func (c *card) leave() {
	c.mode, c.text, c.pending, c.asked = deciding, widget.Input{}, nil, nil
}

func (c *card) say(level Level, text string) { c.level, c.note = level, text }

// typing reports whether keys are text.
func (c *card) typing() bool {
	switch c.mode {
	case confirming, messaging, resulting, pinning:
		return true
	case deciding, aborting, remembering, ruling:
	}
	return false
}

// key handles a key press. Pasted text goes into the message and the result
// alone: it never decides and never confirms.
func (c *card) key(k keys.Key, e *Env) (intents []Intent, closed bool) {
	c.sync(e)
	c.build(e) // what came since the last frame was not read
	c.note, c.told = "", e.flash.count
	if k.Paste && c.mode != messaging && c.mode != resulting {
		c.keyPaste(k, e)
		return nil, false
	}
	switch c.mode {
	case confirming:
		c.keyConfirm(k, e)
	case messaging, resulting, pinning:
		intents, closed = c.keyText(k, e)
	case aborting:
		intents, closed = c.keyAbort(k, e)
	case remembering:
		intents, closed = c.keyRemember(k, e)
	case ruling:
		intents, closed = c.keyRule(k, e)
	case deciding:
		if !repeatsLast(c, k, e) {
			intents, closed = c.keyDecide(k, e)
		}
	}
	return intents, closed
}

// keyPaste takes a paste where none is wanted. What a terminal calls a paste
// never confirms. Letters that only came at once are the characters asked for,
// all that are left and nothing else, or nothing: they are text in any case, and
// approving takes a key some time behind them.
func (c *card) keyPaste(k keys.Key, e *Env) {
	switch {
	case !k.Burst:
		c.say(Note, "pasted text decides nothing")
	case c.mode == confirming && strings.EqualFold(c.rule.Typed()+k.Text, c.rule.Wants()):
		c.rule.Type(k.Text)
		c.confirmed()
		c.rule.Disturb(e.Now) // what is read right behind it may be of the same paste
	case c.typing():
		c.say(Note, "that came all at once, as a paste does: type it, one character at a time")
	default:
		c.say(Note, "letters that come all at once decide nothing: one key at a time")
	}
}

// confirmed goes on once all is typed that had to be, and reports whether it is.
func (c *card) confirmed() bool {
	if c.mode != confirming || !c.rule.Confirmed() {
		return false
	}
	if c.mode = deciding; c.then == decide.Remember {
		c.mode = remembering
	} else {
		c.say(Good, "right. Now approve")
		toApprove(c)
	}
	c.then = decide.Approve
	return true
}

// keyConfirm types the characters that approve what is of high risk. They
// approve nothing by themselves.
func (c *card) keyConfirm(k keys.Key, e *Env) {
	switch {
	case k.Name == "esc":
		c.leave()
		return
	case k.Name == "backspace":
		c.rule.Erase()
	case k.Text == "" || k.Name == "enter" || k.Name == "space":
	case !c.rule.Ready(e.Now):
		c.say(Note, "too early: it had only just appeared; type it now")
	case utf8.RuneCountInString(k.Text) > 1: // a paste that the terminal did not mark
		c.say(Note, "type it, one character at a time")
	case !c.rule.Type(k.Text):
		c.say(Bad, "that was not "+c.rule.Wants()+": type it again")
	}
	if !c.confirmed() {
		return
	}
	c.last, c.lastAt = k.Name, e.Now
}

// repeatsLast reports whether a key is the last of the characters, held a moment too long: it would
// decide. Any other key decides at once.
func repeatsLast(c *card, k keys.Key, e *Env) bool {
	if c.last == "" || k.Name != c.last || e.Now.Sub(c.lastAt) >= decide.Quiet {
		return false
	}
	c.say(Note, codeRight(c, e))
	return true
}

// codeRight says that the characters are typed, where a key came too early behind them.
func codeRight(c *card, e *Env) string {
	if c.mode == remembering {
		return c.rule.Wants() + " is right; that key came too soon behind it: press it again"
	}
	return c.rule.Wants() + " is right; that key came too soon behind it: " + keyOf(e, keys.Approve) + " approves"
}

// keyText types a message, a result or the PIN.
func (c *card) keyText(k keys.Key, e *Env) (intents []Intent, closed bool) {
	switch {
	case k.Paste:
	case k.Name == "esc":
		c.leave()
		return nil, false
	case k.Name == "enter" && c.mode == messaging:
		return c.send(decide.Deny, c.text.Text, nil, e)
	case k.Name == "enter" && c.mode == resulting:
		c.chooseResult()
		return nil, false
	case k.Name == "enter":
		return c.sendPin(e)
	}
	c.text.Key(k)
	return nil, false
}

// chooseResult takes the result that a call in doubt is given.
func (c *card) chooseResult() {
	if !c.rule.ChooseInDoubt(core.SkipResult, json.RawMessage(c.text.Text)) {
		c.say(Bad, "the result is JSON: a text stands in quotes; nothing is null")
		return
	}
	c.leave()
	c.say(Note, "it will be skipped. Now approve, which asks for the code")
}

// keyAbort asks whether the run is to end: that is never one key.
func (c *card) keyAbort(k keys.Key, e *Env) (intents []Intent, closed bool) {
	switch k.Name {
	case "y":
		return c.send(decide.Abort, "", nil, e)
	case "esc", "n":
		c.leave()
	default:
		c.say(Note, "y aborts the run, esc does not")
	}
	return nil, false
}

// send takes a decision, if nothing stands against it. An approval asks for the
// PIN first where there is one.
func (c *card) send(v decide.Verb, reason string, answer *core.Answer, e *Env) (intents []Intent, closed bool) {
	if !c.can(v, e) {
		return nil, false
	}
	d := Decide{Approvals: []core.Approval{c.about(v != decide.Deny && v != decide.Abort)}, Reason: reason, Abort: v == decide.Abort}
	if v == decide.Deny || v == decide.Abort {
		return []Intent{d}, true
	}
	d.Approve, d.Answer = true, answer
	return c.withPin(func(pin string) Intent { d.Pin = pin; return d }, e)
}

// withPin hands an approval on, once the PIN was typed where one is needed.
func (c *card) withPin(intent func(pin string) Intent, e *Env) (intents []Intent, closed bool) {
	if !e.NeedPin {
		return []Intent{intent("")}, true
	}
	c.leave()
	c.mode, c.pending = pinning, intent
	return nil, false
}

// sendPin takes the decision that waited for the PIN. What stood against it may
// have come up while it was typed.
func (c *card) sendPin(e *Env) (intents []Intent, closed bool) {
	pin, pending := c.text.Text, c.pending
	switch {
	case pin == "":
		c.say(Bad, "no PIN was typed")
	case pending == nil:
		c.leave()
	case c.can(decide.Approve, e):
		return []Intent{pending(pin)}, true
	}
	return nil, false
}

// can reports whether a decision can be taken now, and says why not. What only
// lacks the characters to type asks for them.
func (c *card) can(v decide.Verb, e *Env) bool {
	if e.Now.Before(e.QuietUntil) {
		e.typed.Disturb(e.Now)
		c.say(Note, "too early: the window had only just come up; press again")
		return false
	}
	why := c.rule.Why(v, e.Now)
	approves := v == decide.Approve || v == decide.Remember
	early := !c.rule.Ready(e.Now)
	switch ended := c.rule.Ended(e.Now) != ""; {
	case ended:
		why, early = nothingLeft, false
	case e.own[c.id] == ownSent:
		why = onItsWay
	case approves:
		switch {
		case why != "" && c.rule.Wants() != "" && c.rule.Confirmed() && !c.rule.Ready(e.Now):
			why = codeRight(c, e)
		case c.wait:
			why = readingArguments
		case !c.shows():
			why = tooSmall
		}
	}
	if why == "" {
		return true
	}
	if early {
		e.typed.Disturb(e.Now)
	}
	c.say(Bad, why)
	return false
}

// nothingLeft is what a key that decides does where the question is over.
const nothingLeft = "nothing is left to decide here"

// tooSmall says why a window shows too little of what is of high risk.
const tooSmall = "approve needs 60x15 (HIGH)"

// shows reports whether the window is large enough for what is approved: a
// payload of high risk is not read through a slit.
func (c *card) shows() bool {
	return c.drawn && (c.w >= 60 && c.h >= 15 || !approval.High(c.rule.Approval(), c.rule.ScriptsAllowed()))
}

// showRule takes the rule that was asked for, or why there is none.
func (c *card) showRule(rule api.Rule, err error, now time.Time) {
	if c.mode != ruling || c.asked != nil || err == nil && rule.Approval != c.id {
		return
	}
	c.rule.Disturb(now)
	c.note = ""
	if err != nil {
		c.leave()
		c.say(Bad, "no rule: "+core.Visible(err.Error(), 400, false))
		return
	}
	c.asked, c.rules = &rule, widget.Pager{}
}

// runs are those that must be read for what is shown.
func (c *card) runs() []core.ID { return []core.ID{c.rule.Approval().RunID} }

// build makes the lines of the evidence, when what they are made from changed.
// What was not there before must be read.
func (c *card) build(e *Env) {
	a := c.rule.Approval()
	of, wait := layersOf(a, e)
	if wait {
		c.rule.Unread()
	}
	b, same := &c.built, of == c.of && wait == c.wait
	made := boundsMade{of: c.rule.Shape()}
	if made.of != nil {
		made.columns = columnsOf(c)
	}
	if c.raw != c.asRaw || (made.of == nil) != (c.made.of == nil) {
		c.asRaw, c.made = c.raw, made
		c.pager = widget.Pager{}
		c.built, c.of, c.wait = a, of, wait
		c.pager.SetLines(c.lines(e))
		return
	}
	if chosen := cmp.Or(c.rule.Answer(), &core.Answer{}).InDoubt; chosen != c.chosen { // it says nothing that was not read
		c.chosen = chosen
		c.pager.Reword(c.lines(e))
	}
	if same && made == c.made && a.ID == b.ID && a.Digest == b.Digest && a.State == b.State && a.Description == b.Description && bytes.Equal(a.Context, b.Context) {
		return
	}
	c.built, c.of, c.wait, c.made = a, of, wait, made
	if c.pager.SetLines(c.lines(e)) {
		c.rule.Unread()
	}
}

// lines are those of the evidence, laid out or as JSON.
func (c *card) lines(e *Env) []widget.Line {
	if c.bounds != nil {
		return c.bounds.lines(c, e)
	}
	if c.raw {
		return evidence.Raw(c.rule.Approval())
	}
	return evidence.Chosen(append(c.changesOf(), evidence.Of(c.rule.Approval(), tasksOf(c.rule.Approval(), e))...), c.rule.Answer())
}

// style is how the message of a card looks.
func (l Level) style() paint.Style {
	switch l {
	case Good:
		return paint.Style{Role: paint.OK}
	case Bad:
		return paint.Style{Role: paint.Danger}
	case Note:
	}
	return paint.Style{Role: paint.Warn}
}
