package screen

import (
	"fmt"
	"slices"

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
	var lines []widget.Line
	for i, a := range b.shown {
		title := fmt.Sprintf("%d of %d  %s  %s  %s", i+1, len(b.shown), typeName(a.Type), a.Tool, a.ID.Short())
		lines = append(lines, widget.Line{Text: title, Style: paint.Style{Role: paint.Accent}.Bold()})
		lines = append(lines, evidence.Of(a, tasksOf(a, e))...)
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

// lock says why nothing can be decided at all.
func (b *bulk) lock(e *Env) string {
	if e.Now.Before(e.QuietUntil) || !b.guard.Ready(e.Now) {
		return "too early: it had only just appeared; press again"
	}
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
			if b.note = b.lock(e); b.note != "" {
				return nil, false
			}
			return []Intent{Decide{Approvals: b.shown}}, true
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
	if b.note = b.why(e); b.note != "" {
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
		if b.note = b.why(e); b.note == "" {
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
	box := a.Frame(paint.Title{Left: fmt.Sprintf("Decide %d together?", len(b.shown)), Focus: true})
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
		text, style = "all was shown", paint.Style{Role: paint.Muted}
	}
	box.Text(0, box.H-2, box.W, style, text)
	line := fmt.Sprintf("[%s] Deny all %d   [%s] Approve all %d once   esc back", keyOf(e, keys.Deny), len(b.shown), keyOf(e, keys.Approve), len(b.shown))
	if b.pinning {
		x := box.Put(0, box.H-1, paint.Style{Role: paint.Accent}.Bold(), "PIN: ")
		n := len(b.pin.Text)
		in := widget.Input{Text: stars(n), At: n}
		in.Draw(box, x, box.H-1, box.W-x, paint.Style{})
		return
	}
	box.Text(0, box.H-1, box.W, paint.Style{}.Bold(), line)
}
