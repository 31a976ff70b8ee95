package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// workflowsPanel shows runs.
type workflowsPanel struct{}

func newWorkflows() *workflowsPanel { return &workflowsPanel{} }

func (p *workflowsPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "Workflows", Focus: focus})
}

func (p *workflowsPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *workflowsPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *workflowsPanel) hints(e *Env) []keys.Action { return nil }
