package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// eventsPanel shows events.
type eventsPanel struct{}

func newEvents() *eventsPanel { return &eventsPanel{} }

func (p *eventsPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "Events", Focus: focus})
}

func (p *eventsPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *eventsPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *eventsPanel) hints(e *Env) []keys.Action { return nil }
