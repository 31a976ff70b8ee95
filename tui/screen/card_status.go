package screen

import (
	"fmt"

	"github.com/casys-ai/pml/core"
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
	case ended != "" && e.own[ap.ID] == ownCounted:
		return e.Theme.Glyph.Done + " " + decidedHere(ap, e.Now), paint.Style{Role: paint.OK}
	case ended != "":
		return mark + ended, bad
	case e.own[ap.ID] == ownSent:
		return onItsWay, paint.Style{Role: paint.Warn}
	case c.rule.Lost() != "":
		return mark + c.rule.Lost() + nothingQueued, bad
	case c.mode == ruling && c.asked != nil && !c.rules.AtEnd():
		return mark + moreLines(&c.rules) + " Writing it unlocks page by page.", paint.Style{Role: paint.Warn}
	case !c.shows():
		return mark + tooSmall, paint.Style{Role: paint.Warn}
	case c.wait && c.pager.AtEnd():
		return mark + readingArguments, paint.Style{Role: paint.Warn}
	case !c.rule.HasRead() && c.w < 60:
		return mark + "read on: " + moreLines(&c.pager), paint.Style{Role: paint.Warn}
	case !c.rule.HasRead():
		return mark + moreLines(&c.pager) + " Approve unlocks page by page.", paint.Style{Role: paint.Warn}
	}
	if want := c.rule.Wants(); want != "" && !c.rule.Confirmed() {
		return "Risk HIGH: to approve press a, type " + want + ", press a again", bad
	}
	if expired := c.rule.Expired(e.Now); expired != "" && c.w < 60 {
		return "expired: the gates are asked again", paint.Style{Role: paint.Warn}
	} else if expired != "" {
		return expired + " (approvals.ttl): a decision asks the gates again first", paint.Style{Role: paint.Warn}
	}
	if c.rule.Answer() == nil && ap.Type == core.ApproveInDoubt {
		return "say how it goes on: r or s", paint.Style{Role: paint.Warn}
	}
	if text, style := e.found.of(ap.ID); text != "" && c.h < 16 { // there is no other line for it
		return text, style
	}
	return "all was shown; enter and space decide nothing", paint.Style{Role: paint.Muted}
}

// news is the message that the last key brought about, where the card covers the
// line in which messages stand.
func (c *card) news(e *Env) string {
	if !c.covers || e.flash.count <= c.told {
		return ""
	}
	return e.flash.text
}

// moreLines counts the rows below the view.
func moreLines(p *widget.Pager) string {
	n := p.Unread()
	text := fmt.Sprintf("%d more lines not shown yet.", n)
	if n == 1 {
		text = "1 more line not shown yet."
	}
	if p.Below() == 0 && n > 0 {
		text += " space goes there."
	}
	return text
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
