package screen

import (
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// taskPanel shows one task.
type taskPanel struct{}

func newTask() *taskPanel { return &taskPanel{} }

func (p *taskPanel) draw(a paint.Area, e *Env, focus bool) {
	a.Frame(paint.Title{Left: "Task", Focus: focus})
}

func (p *taskPanel) do(act keys.Action, e *Env) ([]Intent, bool) { return nil, false }

func (p *taskPanel) click(x, y int, e *Env) []Intent { return nil }

func (p *taskPanel) hints(e *Env) []keys.Action { return nil }
