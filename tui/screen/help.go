package screen

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// message is an overlay that says something until a key is pressed.
type message struct{ title string }

func (m *message) draw(a paint.Area, e *Env) { a.Frame(paint.Title{Left: m.title, Focus: true}) }

func (m *message) key(k keys.Key, e *Env) ([]Intent, bool) { return nil, true }

func newHelp(p PanelID, hints []keys.Action) overlay { return &message{"Help"} }

func newPalette(e *Env) overlay { return &message{"Palette"} }

func newQuit(waiting int, running []core.ID, e *Env) overlay { return &message{"Quit"} }
