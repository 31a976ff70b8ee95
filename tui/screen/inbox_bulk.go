package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// bulk decides several approvals of one type together, after all of each was on
// screen. What becomes of one of them while it is open closes all ways to
// approve.
type bulk struct {
	shown []core.Approval
	of    []*core.Layer // of the run of each, as known when the lines were made
	wait  bool          // for the arguments of what runs next
	apart func()        // gives each a row of its own, so that it can be decided by itself; nil: it has one
	guard decide.Guard
	pager widget.Pager
	note  string
	gone  string // which were taken out, because somebody else has decided them
	over  bool   // none of them waits any more
	mode  bulkMode
	text  widget.Input // of the modes that take one
}

// bulkMode is what the keys of a list of approvals are for.
type bulkMode int

const (
	choosing  bulkMode = iota
	reasoning          // why all of them are denied
	unlocking          // the PIN, for an approval
)

func newBulk(list []core.Approval, e *Env) *bulk {
	b := &bulk{shown: list}
	b.guard.Disturb(e.Now)
	b.build(e)
	return b
}

// newBulkFor opens the list for what somebody wants to do with it.
func newBulkFor(act keys.Action, list []core.Approval, e *Env) *bulk {
	b := newBulk(list, e)
	if act == keys.Message && b.lock(e) == "" {
		b.mode = reasoning
	}
	return b
}

// settle takes out what waits no more, as long as something is left: that is shown anew, and has to
// be looked at again.
func (b *bulk) settle(e *Env) {
	gone := ""
	left := slices.DeleteFunc(slices.Clone(b.shown), func(a core.Approval) bool {
		now, known := e.State.Approval(a.ID)
		c := decide.Open(a, e.Now)
		c.Update(now, known, linkLost(a.Side, e), e.Now)
		ended := c.Ended(e.Now)
		if ended != "" {
			gone = a.ID.Short() + " " + ended
		}
		return ended != ""
	})
	n := len(b.shown) - len(left)
	switch {
	case n == 0 || b.over:
		return
	case len(left) == 0:
		b.end(e)
		return
	}
	if n > 1 {
		gone = fmt.Sprintf("%d of these wait no more", n)
	}
	b.gone = fmt.Sprintf("the %d that are left. %s", len(left), gone)
	if len(left) == 1 {
		b.gone = "the one that is left. " + gone
	}
	b.shown, b.of, b.pager = left, nil, widget.Pager{}
	b.mode, b.text = choosing, widget.Input{}
	b.guard.Disturb(e.Now)
}

// end shows what became of all that is left, which somebody else has decided.
func (b *bulk) end(e *Env) {
	b.shown = slices.Clone(b.shown)
	for i, a := range b.shown {
		if now, known := e.State.Approval(a.ID); known {
			b.shown[i] = now
		}
	}
	b.over, b.gone, b.of, b.pager = true, "", nil, widget.Pager{}
	b.mode, b.text = choosing, widget.Input{}
}

// build makes the lines, when more is known of the runs or fewer wait. What was not there
// before must be read.
func (b *bulk) build(e *Env) {
	b.settle(e)
	of, wait := make([]*core.Layer, len(b.shown)), false
	for i, a := range b.shown {
		first, more := layersOf(a, e)
		of[i], wait = first, wait || more
	}
	if b.of != nil && slices.Equal(of, b.of) && wait == b.wait {
		return
	}
	b.of, b.wait = of, wait
	several := slices.ContainsFunc(b.shown, func(a core.Approval) bool { return a.RunID != b.shown[0].RunID })
	var lines, first []widget.Line
	for i, a := range b.shown {
		title := fmt.Sprintf("%d of %d  %s  %s  %s  %s", i+1, len(b.shown), riskWord(a.Risk), typeName(a.Type), subjectOf(a), a.ID.Short())
		if several { // of one run the frame says it
			title += " of the run " + e.State.Name(a.RunID)
		}
		lines = append(lines, widget.Line{Text: title, Style: paint.Style{Role: paint.Accent}.Bold()})
		all := evidence.Of(a, tasksOf(a, e))
		if i == 0 {
			first = all
		}
		lines = append(lines, evidence.Unlike(all, first, i > 0)...)
		lines = append(lines, widget.Line{})
	}
	b.pager.SetLines(lines)
}

// runs are those that must be read for what is shown.
func (b *bulk) runs() []core.ID {
	out := make([]core.ID, len(b.shown))
	for i := range b.shown {
		out[i] = b.shown[i].RunID
	}
	return out
}

func (b *bulk) typing() bool { return b.mode != choosing }

// why says why the approvals cannot be approved; empty when they can.
func (b *bulk) why(e *Env) string {
	if why := b.lock(e); why != "" {
		return why
	}
	if why := decide.Together(b.shown, e.Now); why != "" {
		return why
	}
	switch {
	case b.wait:
		return readingArguments
	case !b.pager.AtEnd():
		return moreLines(&b.pager) + " Approve unlocks page by page."
	}
	return ""
}

// early is what a key that decides is told that comes too soon to have been meant.
func (b *bulk) early(e *Env) string {
	if e.Now.Before(e.QuietUntil) || !b.guard.Ready(e.Now) {
		e.typed.Disturb(e.Now)
		return "too early: it had only just appeared; press again"
	}
	return ""
}

// lock says why nothing can be decided at all.
func (b *bulk) lock(e *Env) string {
	for _, a := range b.shown {
		now, known := e.State.Approval(a.ID)
		c := decide.Open(a, e.Now)
		switch changed := c.Update(now, known, linkLost(a.Side, e), e.Now); {
		case c.Ended(e.Now) != "":
			return a.ID.Short() + " " + c.Ended(e.Now) + ": " + nothingLeft
		case c.Lost() != "":
			return c.Lost() + nothingQueued
		case changed:
			return a.ID.Short() + " has changed: mark them anew"
		}
	}
	return ""
}

func (b *bulk) key(k keys.Key, e *Env) (intents []Intent, closed bool) {
	b.note, b.gone = "", ""
	b.build(e) // what came since the last frame was not read
	switch {
	case b.typing():
		return b.keyText(k, e)
	case k.Paste:
		return nil, false
	}
	for _, act := range e.Keys.Actions(k) {
		switch act {
		case keys.Back:
			return nil, true
		case keys.Approve:
			return b.approve(e)
		case keys.ApproveRemember:
			b.note = "together they are approved once, with " + keyOf(e, keys.Approve) + "; " + keyOf(e, keys.ApproveRemember) + " on one alone asks what to remember"
			return nil, false
		case keys.Deny:
			return b.deny("", e)
		case keys.Message:
			if b.note = cmp.Or(b.early(e), b.lock(e)); b.note == "" {
				b.mode, b.text = reasoning, widget.Input{}
			}
			return nil, false
		case keys.Alike:
			if b.apart != nil {
				b.apart()
				return nil, true
			}
		case keys.Bounds:
			if b.bounds(e) {
				return []Intent{openOverlay{newBoundsCard(b.shown[0].ID, e)}}, true
			}
		case keys.Mark:
			b.pager.Do(keys.PageDown)
			return nil, false
		default:
			if b.pager.Do(act) {
				return nil, false
			}
		}
	}
	return nil, false
}

// deny denies all of them, with one reason or none.
func (b *bulk) deny(reason string, e *Env) (intents []Intent, closed bool) {
	if b.note = cmp.Or(b.early(e), b.lock(e)); b.note != "" {
		return nil, false
	}
	return []Intent{Decide{Approvals: b.shown, Reason: reason}}, true
}

func (b *bulk) approve(e *Env) (intents []Intent, closed bool) {
	if b.note = cmp.Or(b.early(e), b.why(e)); b.note != "" {
		return nil, false
	}
	if e.NeedPin {
		b.mode, b.text = unlocking, widget.Input{}
		return nil, false
	}
	return []Intent{Decide{Approvals: b.shown, Approve: true}}, true
}

// keyText types the reason or the PIN.
func (b *bulk) keyText(k keys.Key, e *Env) (intents []Intent, closed bool) {
	switch {
	case k.Paste && b.mode == unlocking:
		b.note = "pasted text decides nothing"
	case !k.Paste && k.Name == "esc":
		b.mode, b.text = choosing, widget.Input{}
	case !k.Paste && k.Name == "enter" && b.mode == reasoning:
		return b.deny(b.text.Text, e)
	case k.Name == "enter" && b.text.Text == "":
		b.note = "no PIN was typed"
	case k.Name == "enter":
		if b.note = cmp.Or(b.early(e), b.why(e)); b.note == "" {
			return []Intent{Decide{Approvals: b.shown, Approve: true, Pin: b.text.Text}}, true
		}
	default:
		b.text.Key(k)
	}
	return nil, false
}

func (b *bulk) draw(window paint.Area, e *Env) {
	b.build(e)
	a := window
	if modeOf(a.W, a.H) == dashboard {
		a = a.Sub(leftWidth(a.W), head, a.W-leftWidth(a.W), a.H-head-foot)
	}
	title := fmt.Sprintf("Decide %d together?", len(b.shown))
	if b.over {
		title = "Nothing is left to decide"
	}
	box := a.Frame(paint.Title{Left: title, Right: b.across(e), Focus: true})
	if box.H < 4 {
		return
	}
	b.pager.Draw(box.Sub(0, 0, box.W, box.H-3))
	box.Rule(box.H-3, b.pager.Position())
	text := cmp.Or(b.gone, b.note, b.why(e))
	style := paint.Style{Role: paint.Warn}
	if text == "" {
		text, style = wasShown(&b.pager), paint.Style{Role: paint.Muted}
	}
	box.Text(0, box.H-2, box.W, style, text)
	label, in := "", b.text
	switch b.mode {
	case choosing:
		box.Text(0, box.H-1, box.W, paint.Style{}.Bold(), b.ways(box.W, e))
		return
	case reasoning:
		label = "deny " + b.all() + ", because (enter denies): "
	case unlocking:
		n := len(b.text.Text)
		label, in = "PIN: ", widget.Input{Text: stars(n), At: n}
	}
	x := box.Put(0, box.H-1, paint.Style{Role: paint.Accent}.Bold(), label)
	in.Draw(box, x, box.H-1, box.W-x, paint.Style{})
}

// all is what a decision is about.
func (b *bulk) all() string {
	if len(b.shown) == 1 {
		return "the one"
	}
	return "all " + itoa(len(b.shown))
}

// ways are the keys that decide. What can only be denied together has no other. Where there is little
// room the last go first: the help has all of them.
func (b *bulk) ways(w int, e *Env) string {
	var words []string
	if b.lock(e) == "" {
		words = b.offers(e)
	}
	words = append(words, "esc back")
	if line := strings.Join(words, "   "); paint.Width(line) <= w {
		return line
	}
	for len(words) > 1 && paint.Width(strings.Join(words, "  ")) > w {
		words = words[:len(words)-1]
	}
	return strings.Join(words, "  ")
}

// offers are the decisions, and the ways to others, with their keys.
func (b *bulk) offers(e *Env) []string {
	words := []string{fmt.Sprintf("[%s] Deny %s", keyOf(e, keys.Deny), b.all())}
	if decide.Together(b.shown, e.Now) == "" {
		words = append(words, fmt.Sprintf("[%s] %s", keyOf(e, keys.Approve), b.approveLabel()))
	}
	if b.apart != nil {
		words = append(words, fmt.Sprintf("[%s] one by one", keyOf(e, keys.Alike)))
	}
	if b.bounds(e) {
		words = append(words, fmt.Sprintf("[%s] loop", keyOf(e, keys.Bounds)))
	}
	return append(words, fmt.Sprintf("[%s] why", keyOf(e, keys.Message)))
}

// approveLabel is what a yes does: once, where it is about the calls that ask.
func (b *bulk) approveLabel() string {
	text := "Approve " + b.all()
	if approval.TypeOf(b.shown[0].Type).PerCall {
		text += " once"
	}
	return text
}

// bounds reports whether all is asked by one place of a script, so that bounds can be about it.
func (b *bulk) bounds(e *Env) bool {
	return loopLine(b.shown) > 0 && boundable(b.shown[0], e) && !slices.ContainsFunc(b.shown, func(a core.Approval) bool { return a.RunID != b.shown[0].RunID })
}

// across says of how many runs and of which risks the approvals are, and how long the first of them to expire waits.
func (b *bulk) across(e *Env) string {
	var runs []core.ID
	var risks []string
	for _, a := range b.shown {
		if !slices.Contains(runs, a.RunID) {
			runs = append(runs, a.RunID)
		}
		if risk := string(a.Risk); risk != "" && !slices.Contains(risks, risk) {
			risks = append(risks, risk)
		}
	}
	text := "of " + plural(len(runs), "run")
	if len(runs) == 1 {
		text = e.State.Name(runs[0])
	}
	if len(risks) > 0 {
		text += ", " + strings.Join(risks, " and ") + " risk"
	}
	left, _ := timeLeft(b.soonest(e), e)
	if strings.Contains(left, ":") {
		left += " left"
	}
	return text + ", " + left
}

// soonest is the approval that expires first, as it is now.
func (b *bulk) soonest(e *Env) (first core.Approval) {
	for i, a := range b.shown {
		if now, known := e.State.Approval(a.ID); known {
			a = now
		}
		if i == 0 || a.ExpiresAt != nil && (first.ExpiresAt == nil || a.ExpiresAt.Before(*first.ExpiresAt)) {
			first = a
		}
	}
	return first
}

// decideMarked opens what shows all that is marked, to decide it at once; one alone has
// its card.
func (p *inboxPanel) decideMarked(act keys.Action, e *Env) []Intent {
	list := p.markedList(e)
	if len(list) == 1 {
		return []Intent{openOverlay{cardFor(act, list[0].ID, e)}}
	}
	return []Intent{openOverlay{newBulkFor(act, list, e)}}
}

// hintWord is what a key does here where that is not what it does elsewhere; empty where
// it is.
func (p *inboxPanel) hintWord(act keys.Action, e *Env) string {
	switch {
	case act == keys.Again: // nothing is retried here
		return "ask again"
	case act == keys.CopyID:
		return "copy command"
	case act == keys.Alike && p.tookApart(e):
		return "alike in one row"
	case act == keys.Alike:
		return "one row each"
	case act == keys.ApproveRemember && len(p.marked) > 0:
		return "decide " + itoa(len(p.marked))
	}
	return ""
}

// decidesMarked says what the key does that decides what is marked, and of a range that is being
// made what it leaves out.
func (p *inboxPanel) decidesMarked(e *Env) string {
	them := "them together"
	if len(p.marked) == 1 {
		them = "it"
	}
	text := itoa(len(p.marked)) + " marked: " + keyOf(e, keys.ApproveRemember) + " decides " + them + ", esc clears"
	switch {
	case p.span.from == "":
		return text
	case p.span.left > 0:
		return "range to here, but " + itoa(p.span.left) + " of other types  " + text
	}
	return "range to here  " + text
}
