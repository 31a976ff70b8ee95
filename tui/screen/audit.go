package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// auditPanel shows decisions.
type auditPanel struct{}

func newAudit() *auditPanel { return &auditPanel{} }

func (p *auditPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "Audit", Focus: focus})
}

func (p *auditPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *auditPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *auditPanel) hints(e *Env) []keys.Action { return nil }
