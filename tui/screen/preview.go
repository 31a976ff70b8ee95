package screen

import (
	"bytes"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// preview shows what the selected approval asks for beside the inbox, while that has
// the focus. It decides nothing, and what was seen on it does not count as read: that
// is the card's.
type preview struct {
	of    core.Approval
	pager widget.Pager
}

// previews reports whether there is room beside the inbox for what it selects.
func (s *Screen) previews() bool {
	return s.focus == PanelApprovals && !s.zoomed && (s.mode() == columns || s.mode() == dashboard)
}

// previewAt is the panel in whose place the preview stands.
func (s *Screen) previewAt() PanelID {
	if s.mode() == columns {
		return s.right
	}
	return PanelDAG
}

// draw draws the preview, and reports whether there is one.
func (p *preview) draw(a paint.Area, e *Env) bool {
	ap, ok := e.State.Approval(e.Sel.Approval)
	if !ok {
		return false
	}
	if b := &p.of; b.ID != ap.ID || b.Digest != ap.Digest || b.Description != ap.Description || !bytes.Equal(b.Context, ap.Context) {
		p.of, p.pager = ap, widget.Pager{}
	}
	p.pager.SetLines(evidence.Of(ap, tasksOf(ap, e)))
	title := paint.Title{Left: aboutText(ap, "  "), Foot: keyOf(e, keys.Open) + " opens the card"}
	title.Style = riskStyle(ap.Risk)
	in := a.Frame(title)
	left, look := timeLeft(ap, e)
	x := in.Put(0, 0, riskStyle(ap.Risk), riskWord(ap.Risk)) + 2
	x += in.Text(x, 0, in.W-x-10, paint.Style{}, e.State.Name(ap.RunID)) + 2
	in.Text(x, 0, in.W-x-10, paint.Style{Role: paint.Muted}, "asked by "+core.Visible(ap.RequestedBy.Name(), 60, false)+" at "+clockText(ap.CreatedAt, e))
	in.Right(in.W-9, 0, 9, look, left)
	in.Rule(1, "")
	p.pager.Draw(in.Sub(0, 2, in.W, in.H-2))
	return true
}
