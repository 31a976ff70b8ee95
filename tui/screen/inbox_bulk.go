package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
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
	// pin is being typed, for an approval.
	pinning bool
	pin     widget.Input
}

func newBulk(list []core.Approval, e *Env) *bulk {
	b := &bulk{shown: list}
	b.guard.Disturb(e.Now)
	b.build(e)
	return b
}

// build makes the lines, when more is known of the runs. What was not there
// before must be read.
func (b *bulk) build(e *Env) {
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

func (b *bulk) typing() bool { return b.pinning }

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
			return a.ID.Short() + " " + c.Ended(e.Now) + ": mark them anew"
		case c.Lost() != "":
			return c.Lost() + nothingQueued
		case changed:
			return a.ID.Short() + " has changed: mark them anew"
		}
	}
	return ""
}

func (b *bulk) key(k keys.Key, e *Env) (intents []Intent, closed bool) {
	b.build(e) // what came since the last frame was not read
	b.note = ""
	switch {
	case b.pinning:
		return b.keyPin(k, e)
	case k.Paste:
		return nil, false
	}
	for _, act := range e.Keys.Actions(k) {
		switch act {
		case keys.Back:
			return nil, true
		case keys.Approve, keys.ApproveRemember:
			return b.approve(e)
		case keys.Deny:
			if b.note = cmp.Or(b.early(e), b.lock(e)); b.note != "" {
				return nil, false
			}
			return []Intent{Decide{Approvals: b.shown}}, true
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

func (b *bulk) approve(e *Env) (intents []Intent, closed bool) {
	if b.note = cmp.Or(b.early(e), b.why(e)); b.note != "" {
		return nil, false
	}
	if e.NeedPin {
		b.pinning = true
		return nil, false
	}
	return []Intent{Decide{Approvals: b.shown, Approve: true}}, true
}

func (b *bulk) keyPin(k keys.Key, e *Env) (intents []Intent, closed bool) {
	switch {
	case k.Paste:
		b.note = "pasted text decides nothing"
	case k.Name == "esc":
		b.pinning, b.pin = false, widget.Input{}
	case k.Name == "enter" && b.pin.Text == "":
		b.note = "no PIN was typed"
	case k.Name == "enter":
		if b.note = cmp.Or(b.early(e), b.why(e)); b.note == "" {
			return []Intent{Decide{Approvals: b.shown, Approve: true, Pin: b.pin.Text}}, true
		}
	default:
		b.pin.Key(k)
	}
	return nil, false
}

func (b *bulk) draw(window paint.Area, e *Env) {
	b.build(e)
	a := window
	if modeOf(a.W, a.H) == dashboard {
		a = a.Sub(leftWidth(a.W), head, a.W-leftWidth(a.W), a.H-head-foot)
	}
	box := a.Frame(paint.Title{Left: fmt.Sprintf("Decide %d together?", len(b.shown)), Right: b.across(e), Focus: true})
	if box.H < 4 {
		return
	}
	b.pager.Draw(box.Sub(0, 0, box.W, box.H-3))
	box.Rule(box.H-3, b.pager.Position())
	text := b.note
	if text == "" {
		text = b.why(e)
	}
	style := paint.Style{Role: paint.Warn}
	if text == "" {
		text, style = wasShown(&b.pager), paint.Style{Role: paint.Muted}
	}
	box.Text(0, box.H-2, box.W, style, text)
	if b.pinning {
		x := box.Put(0, box.H-1, paint.Style{Role: paint.Accent}.Bold(), "PIN: ")
		n := len(b.pin.Text)
		in := widget.Input{Text: stars(n), At: n}
		in.Draw(box, x, box.H-1, box.W-x, paint.Style{})
		return
	}
	box.Text(0, box.H-1, box.W, paint.Style{}.Bold(), b.ways(box.W, e))
}

// ways are the keys that decide. What can only be denied together has no other.
func (b *bulk) ways(w int, e *Env) string {
	words := []string{fmt.Sprintf("[%s] Deny all %d", keyOf(e, keys.Deny), len(b.shown))}
	if decide.Together(b.shown, e.Now) == "" {
		words = append(words, fmt.Sprintf("[%s] Approve all %d once", keyOf(e, keys.Approve), len(b.shown)))
	}
	if b.apart != nil {
		words = append(words, fmt.Sprintf("[%s] one by one", keyOf(e, keys.Alike)))
	}
	if b.bounds(e) {
		words = append(words, fmt.Sprintf("[%s] loop", keyOf(e, keys.Bounds)))
	}
	words = append(words, "esc back")
	if line := strings.Join(words, "   "); paint.Width(line) <= w {
		return line
	}
	return strings.Join(words, "  ")
}

// bounds reports whether all is asked by one place of a script, so that bounds can be about it.
func (b *bulk) bounds(e *Env) bool {
	return loopLine(b.shown) > 0 && boundable(b.shown[0], e) && !slices.ContainsFunc(b.shown, func(a core.Approval) bool { return a.RunID != b.shown[0].RunID })
}

// across says of how many runs and of which risks the approvals are.
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
	return text
}

// mark marks an approval, or takes the mark away. All marks are of one type:
// the first mark of another begins anew.
func (p *inboxPanel) mark(a core.Approval) {
	p.span = markSpan{}
	if p.marked[a.ID] {
		delete(p.marked, a.ID)
		return
	}
	p.add(a)
}

// markGroup marks all of a row, or takes the marks away.
func (p *inboxPanel) markGroup(group []core.Approval) {
	p.span = markSpan{}
	all := !slices.ContainsFunc(group, func(a core.Approval) bool { return !p.marked[a.ID] })
	for _, a := range group {
		if p.add(a); all {
			delete(p.marked, a.ID)
		}
	}
}

// add marks an approval that waits and can be decided with others, and reports
// whether it did.
func (p *inboxPanel) add(a core.Approval) bool {
	if !decide.InBulk(a.Type) || !slices.Contains(p.rows.all, a.ID) {
		return false
	}
	if a.Type != p.markedType {
		clear(p.marked)
	}
	p.marked[a.ID], p.markedType = true, a.Type
	return true
}

// markSpan is a range of marks that is being made. It never reaches what did not
// wait in view when it began, and ends when its first row waits no more.
type markSpan struct {
	from  core.ID // empty: there is none
	rows  []core.ID
	ended bool // by itself, since the last key
}

// keep ends a range whose first row is gone from those that wait: without it
// nobody has said which rows are meant.
func (s *markSpan) keep(waiting []core.ID) {
	if s.from != "" && !slices.Contains(waiting, s.from) {
		*s = markSpan{ended: true}
	}
}

// markRange begins a range of marks at a row that waits, or ends it.
func (p *inboxPanel) markRange(a core.Approval, e *Env) {
	if p.span.from != "" {
		p.span = markSpan{}
		return
	}
	if !p.add(a) {
		return
	}
	for _, m := range p.members(a.ID, e) {
		p.add(m)
	}
	p.span = markSpan{from: a.ID, rows: slices.Clone(p.rows.all)}
}

// markTo marks what lies between the begin of the range and a row, as far as it
// is of the type with which the range began.
func (p *inboxPanel) markTo(a core.Approval, e *Env) {
	first, ok := e.State.Approval(p.span.from)
	from, to := p.rows.index(p.span.from), p.rows.index(a.ID)
	if from < 0 || to < 0 || !ok {
		p.span = markSpan{ended: true}
		return
	}
	clear(p.marked)
	for i := min(from, to); i <= max(from, to) && i < len(p.rows.waiting); i++ {
		for _, b := range p.members(p.rows.waiting[i], e) {
			if b.Type == first.Type && slices.Contains(p.span.rows, b.ID) {
				p.add(b)
			}
		}
	}
}

// markedList are the marked approvals in the order of the rows.
func (p *inboxPanel) markedList(e *Env) []core.Approval {
	var out []core.Approval
	for _, id := range p.rows.all {
		if a, ok := e.State.Approval(id); ok && p.marked[id] {
			out = append(out, a)
		}
	}
	return out
}

// decideMarked opens what shows all that is marked, to decide it at once; one alone has
// its card.
func (p *inboxPanel) decideMarked(act keys.Action, e *Env) []Intent {
	list := p.markedList(e)
	if len(list) == 1 {
		return []Intent{openOverlay{cardFor(act, list[0].ID, e)}}
	}
	return []Intent{openOverlay{newBulk(list, e)}}
}

// hintWord is what a key does here where that is not what it does elsewhere; empty where
// it is.
func (p *inboxPanel) hintWord(act keys.Action) string {
	switch {
	case act == keys.Again: // nothing is retried here
		return "ask again"
	case act == keys.ApproveRemember && len(p.marked) > 0:
		return "decide " + itoa(len(p.marked))
	}
	return ""
}

// decidesMarked says what the key does that decides what is marked.
func (p *inboxPanel) decidesMarked(e *Env) string {
	them := "them together"
	if len(p.marked) == 1 {
		them = "it"
	}
	return itoa(len(p.marked)) + " marked: " + keyOf(e, keys.ApproveRemember) + " decides " + them + ", esc clears"
}
