package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// inboxPanel shows approvals.
type inboxPanel struct{}

func newInbox() *inboxPanel { return &inboxPanel{} }

func (p *inboxPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "Inbox", Focus: focus})
}

func (p *inboxPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *inboxPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *inboxPanel) hints(e *Env) []keys.Action { return nil }
