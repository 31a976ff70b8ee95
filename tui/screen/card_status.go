package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// status is what stands against a decision, or the last thing that was said.
func (c *card) status(ap core.Approval, e *Env) (string, paint.Style) {
	bad := paint.Style{Role: paint.Danger}
	mark := e.Theme.Glyph.Waiting + " "
	switch ended := c.rule.Ended(e.Now); {
	case c.note != "" && ended == "":
		return c.note, c.level.style()
	case c.news(e) != "" && ended == "" && c.rule.Lost() == "":
		return c.news(e), e.flash.level.style()
	case ended != "":
		text, own := became(&c.rule, e)
		if own != "" {
			glyph, style := approvalLook(own, e.Theme)
			return glyph + " " + text, style
		}
		return mark + text, bad
	case e.own[ap.ID] == ownSent:
		return onItsWay, paint.Style{Role: paint.Warn}
	case c.rule.Lost() != "":
		return mark + c.rule.Lost() + nothingQueued, bad
	case c.mode == ruling && c.asked != nil && !c.rules.AtEnd():
		return mark + moreLines(&c.rules) + " Writing it unlocks page by page.", paint.Style{Role: paint.Warn}
	case c.mode == ruling && c.asked != nil:
		return "all of the rule was shown; enter and space decide nothing", paint.Style{Role: paint.Muted}
	case !c.shows():
		return mark + tooSmall, paint.Style{Role: paint.Warn}
	case c.wait && c.pager.AtEnd():
		return mark + readingArguments, paint.Style{Role: paint.Warn}
	case !c.rule.HasRead() && c.w < 60:
		return mark + "read on: " + shortMore(&c.pager), paint.Style{Role: paint.Warn}
	case !c.rule.HasRead():
		return mark + moreLines(&c.pager) + " Approve unlocks page by page.", paint.Style{Role: paint.Warn}
	}
	if c.rule.Answer() == nil && ap.Type == core.ApproveInDoubt {
		return "Risk HIGH: first say how it goes on, r or s; or deny it", bad
	}
	if want := c.rule.Wants(); want != "" && !c.rule.Confirmed() {
		switch {
		case c.mode == confirming && c.then == decide.Remember:
			return "Risk HIGH: type " + want + ", then say for how long", bad
		case c.mode == confirming:
			return "Risk HIGH: type " + want + ", then press a", bad
		}
		return "Risk HIGH: to approve press a, type " + want + ", press a again", bad
	}
	if want := c.rule.Wants(); want != "" && c.mode == remembering {
		return want + " is right: say for how long", paint.Style{Role: paint.OK}
	} else if want != "" {
		return want + " is right: " + keyOf(e, keys.Approve) + " approves", paint.Style{Role: paint.OK}
	}
	if expired := c.rule.Expired(e.Now); expired != "" && c.w < 60 {
		return "expired: pml checks it again first", paint.Style{Role: paint.Warn}
	} else if expired != "" {
		return expired + " (" + approval.TimeSetting(ap) + "): pml checks it again first", paint.Style{Role: paint.Warn}
	}
	if text, style := e.found.of(ap.ID); text != "" && c.h < 16 { // there is no other line for it
		return text, style
	}
	if c.bounds != nil && c.bounds.news > 0 {
		return plural(c.bounds.news, "more call") + " of this line has come since: " + keyOf(e, keys.Bounds) + " shows all", paint.Style{Role: paint.Warn}
	}
	return wasShown(&c.pager) + "; enter and space decide nothing", paint.Style{Role: paint.Muted}
}

// became says what became of an approval that waits no more, also of the one that asks
// the same again; own is what this person has decided, empty where it was somebody else.
func became(rule *decide.Card, e *Env) (text string, own core.ApprovalState) {
	a := rule.Approval()
	if a.StateAt(e.Now) != core.ApprovalExpired {
		return becameSettled(rule, e)
	}
	mine, next := e.own[a.ID] == ownCounted, a
	for range 100 { // as often as it can have been asked
		n, known := e.State.Approval(next.RenewedBy)
		if !known {
			break
		}
		next, mine = n, mine || e.own[n.ID] == ownCounted
	}
	text = rule.Ended(e.Now)
	if next.ID == a.ID {
		return text, ""
	}
	text = "expired, and asked again as " + next.ID.Short()
	switch state := next.StateAt(e.Now); {
	case state == core.ApprovalOpen:
		return text + ", which waits: " + keyOf(e, keys.Open) + " shows it", ""
	case next.DecidedBy != nil && mine:
		return text + ": " + decidedHere(next, e.Now), state
	}
	last := decide.Open(next, e.Now)
	last.RunIs(runState(next, e))
	return text + ": " + cmp.Or(last.Ended(e.Now), "that has expired, too"), ""
}

// becameSettled is became for an approval that has not expired.
func becameSettled(rule *decide.Card, e *Env) (text string, own core.ApprovalState) {
	a := rule.Approval()
	next, asked := successor(a, e)
	switch {
	case e.own[a.ID] == ownCounted && a.DecidedBy != nil:
		return decidedHere(a, e.Now), a.State
	case asked:
		return "the plan has changed: asked anew as " + next.Short() + ", which waits: " + keyOf(e, keys.Open) + " shows it", ""
	case a.State == core.ApprovalSuperseded && a.Type == core.ApproveLayer && !runState(a, e).Final():
		return "taken back: the plan has changed, or the run went on without it", ""
	}
	if by, ok := permittedBy(a, e); ok && by.Shape() != nil {
		return "permitted by the approval " + by.ID.Short() + ", within its bounds", ""
	} else if ok {
		return "permitted by the approval " + by.ID.Short() + ", which counts for all calls of the tool", ""
	}
	return rule.Ended(e.Now), ""
}

// successor is the question that waits in the place of one that waits no more: the same, asked
// again, or that about a layer whose plan has changed.
func successor(a core.Approval, e *Env) (core.ID, bool) {
	if a.State == core.ApprovalSuperseded && a.Type == core.ApproveLayer {
		for _, o := range e.State.Waiting(e.Now) {
			if o.RunID == a.RunID && o.Type == a.Type {
				return o.ID, true
			}
		}
	}
	next := a
	for range 100 {
		n, known := e.State.Approval(next.RenewedBy)
		if !known {
			break
		}
		next = n
	}
	return next.ID, next.ID != a.ID && next.StateAt(e.Now) == core.ApprovalOpen
}

// maxPermits is how many approvals of a run are looked through for the yes that has answered one
// of them: each row of a list looks.
const maxPermits = 200

// permittedBy is the yes of the same run because of which nobody had to answer a question.
func permittedBy(a core.Approval, e *Env) (core.Approval, bool) {
	if a.State != core.ApprovalSuperseded {
		return core.Approval{}, false
	}
	w, _ := e.State.Workflow(a.RunID)
	if len(w.Approvals) > maxPermits {
		return core.Approval{}, false
	}
	for _, o := range w.Approvals {
		now, _ := e.State.Approval(o.ID)
		for _, o := range []core.Approval{now, o} { // the newer one may not have the calls yet that its bounds let on
			if o.Permits(a) {
				return o, true
			}
		}
	}
	return core.Approval{}, false
}

// wasShown says how much of a text has been in view once a decision is unlocked: what
// only identifies it may still be below.
func wasShown(p *widget.Pager) string {
	if p.Whole() {
		return "all was shown"
	}
	return "all but digest and folder was shown"
}

// news is the message that the last key brought about, where the card covers the
// line in which messages stand.
func (c *card) news(e *Env) string {
	if !c.covers || e.flash.count <= c.told {
		return ""
	}
	return e.flash.text
}

// moreLines counts the rows that were not in view, and says which key goes to them.
func moreLines(p *widget.Pager) string {
	if p.Below() == 0 && p.Skipped() > 0 {
		return "jumped over " + plural(p.Skipped(), "line") + ": space goes back there."
	}
	return plural(p.Unread(), "more line") + " not shown: space pages on."
}

// shortMore says where there is little room how many lines are left; pages that were shown
// before, in a larger window say, are counted as well, so that each space makes it less.
func shortMore(p *widget.Pager) string {
	return plural(p.Left(), "more line") + ", at space"
}

// readingArguments says why a layer cannot be approved yet.
const readingArguments = "reading the arguments of what runs next: approve unlocks when they were shown"

// layersOf names what is known of the layers of an approval's run: another
// pointer, another reading. wait says that it is a layer that is approved, and
// that the arguments of its tasks are still to be read, or to be read again: the
// run has another plan by now.
func layersOf(a core.Approval, e *Env) (of *core.Layer, wait bool) {
	if a.Type != core.ApproveLayer {
		return nil, false
	}
	w, ok := e.State.Workflow(a.RunID)
	if !ok {
		return nil, true
	}
	return firstLayer(&w), e.State.OldPlan(a.RunID)
}

// tasksOf are the tasks of an approval's run, for the arguments of a layer; nil
// when they were not read yet.
func tasksOf(a core.Approval, e *Env) []core.Task {
	w, ok := e.State.Workflow(a.RunID)
	if _, wait := layersOf(a, e); wait || !ok || a.Type != core.ApproveLayer {
		return nil
	}
	out := []core.Task{}
	for _, l := range w.Layers {
		out = append(out, l.Tasks...)
	}
	return out
}

// drawMini draws one of several approvals where there is no room for panels,
// and which keys decide it. They open its card, or that of all that are alike: alike says
// what those are, and is empty where it is alone.
func drawMini(a paint.Area, e *Env, ap core.Approval, alike string, of int) {
	left, style := timeLeft(ap, e)
	in := a.Frame(paint.Title{Left: fmt.Sprintf("pml  %d waiting", of), Focus: true})
	a.Put(a.W-4-paint.Width(left), 0, style, " "+left+" ")
	if in.H < 6 {
		return
	}
	muted := paint.Style{Role: paint.Muted}
	x := in.Put(0, 0, paint.Style{}.Bold(), typeName(ap.Type)) + 2
	x += in.Put(x, 0, riskStyle(ap.Risk), riskWord(ap.Risk)) + 2
	in.Text(x, 0, in.W-x, paint.Style{}, subjectOf(ap))
	in.Text(0, 1, in.W, muted, fullName(ap.RunID, e))
	what := cmp.Or(alike, whatText(ap))
	if what == subjectOf(ap) && ap.Description != "" { // the first line says it already
		what = core.Visible(ap.Description, 200, false)
	}
	in.Text(0, 2, in.W, paint.Style{}, what)
	if why := linkLost(ap.Side, e); why != "" {
		in.Text(0, in.H-3, in.W, paint.Style{Role: paint.Danger}, why)
	}
	in.Text(0, in.H-2, in.W, muted, hintText(e, keys.Deny, keys.Down, keys.Open))
	text := hintText(e, keys.Abort, keys.Approve)
	if approval.High(ap, false) {
		text = "approve needs 60x15 (HIGH)"
	}
	in.Text(0, in.H-1, in.W, muted, text)
}

// keysFound is which of the keys that an approval asks for are there by now.
type keysFound struct {
	id   core.ID
	text string // for the card
	all  bool
}

// WatchedKeys is the approval whose missing keys somebody looks at now: the card
// that is open, or what is selected in the inbox. It is empty when there is none,
// or it has ended.
func (s *Screen) WatchedKeys(now time.Time) core.ID {
	id := core.ID("")
	for _, p := range s.places {
		if p.id == PanelApprovals {
			id = s.sel.Approval
		}
	}
	for _, o := range s.overlay {
		if c, ok := o.(*card); ok {
			id = c.id
		}
	}
	a, known := s.o.State.Approval(id)
	if !known || a.Type != core.ApproveKeys || a.StateAt(now) != core.ApprovalOpen {
		return ""
	}
	return id
}

// KeysFound takes the names of the missing keys of an approval that are there by
// now; nil where nobody can tell.
func (s *Screen) KeysFound(id core.ID, names []string) {
	a, known := s.o.State.Approval(id)
	var c struct {
		Keys []string `json:"missing_keys"`
	}
	if !known || names == nil || json.Unmarshal(a.Context, &c) != nil || len(c.Keys) == 0 {
		s.found = keysFound{}
		return
	}
	found := keysFound{id: id, all: true}
	words := make([]string, len(c.Keys))
	for i, name := range c.Keys {
		there := slices.Contains(names, name)
		found.all = found.all && there
		words[i] = core.Visible(name, 60, false) + ": " + map[bool]string{true: "yes", false: "no"}[there]
	}
	found.text = "found  " + strings.Join(words, "  ")
	if !found.all {
		found.text += ", watching .env of " + core.Visible(a.Workspace, 200, false)
	}
	s.found = found
}

// of is what to say of an approval; empty where nothing is known.
func (k keysFound) of(id core.ID) (string, paint.Style) {
	switch {
	case k.id != id:
		return "", paint.Style{}
	case k.all:
		return k.text, paint.Style{Role: paint.OK}
	}
	return k.text, paint.Style{Role: paint.Warn}
}

// ownDecision is what has become of a decision that was taken on this screen.
type ownDecision int

const (
	ownUnknown ownDecision = iota // none was taken here
	ownSent                       // it is being carried out
	ownCounted                    // it is the decision in force
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
// whether it is the one in force.
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
		text += " at " + d.At.In(now.Location()).Format(time.TimeOnly) + decide.Because(d)
	}
	return text
}

// over reports whether an overlay is only read: the output of a command, or a card whose
// question is over. It needs no keys but those that read it.
func over(o overlay, e *Env) bool {
	if _, ok := o.(*output); ok {
		return true
	}
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

// move selects another button. It presses nothing.
func (c *card) move(by int) {
	if n := len(c.buttons); n > 0 {
		c.focus, c.moved = (c.focus+by+n)%n, true
	}
}

// toApprove selects the button that approves, as the card was opened to, where the person has
// selected none.
func toApprove(c *card) {
	act := keys.Approve
	if c.eager && c.then == decide.Remember {
		act = keys.ApproveRemember
	}
	at := slices.IndexFunc(c.buttons, func(b button) bool { return b.act == act })
	if at >= 0 && !c.moved {
		c.focus = at
	}
}
