package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// dagPanel shows the layers of a run.
type dagPanel struct{}

func newDAG() *dagPanel { return &dagPanel{} }

func (p *dagPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "DAG", Focus: focus})
}

func (p *dagPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *dagPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *dagPanel) hints(e *Env) []keys.Action { return nil }
