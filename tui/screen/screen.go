// Package screen draws what is known and turns keys into what a person wants:
// it does no I/O and knows no clock, so that every screen can be looked at in a
// file. The program around it carries out the Intents and puts what it learns
// into the State.
package screen

import (
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
)

// PanelID names a panel, in the order of its number key.
type PanelID int

// The panels.
const (
	PanelWorkflows PanelID = iota
	PanelApprovals
	PanelDAG
	PanelTask
	PanelEvents
	PanelAudit
	panels
)

// Selection is what the panels look at together.
type Selection struct {
	Run      core.ID
	Task     string // of Run
	Approval core.ID
}

// Env is what a panel draws from and acts on. Panels keep it for the time of a
// call only.
type Env struct {
	Now   time.Time
	State *state.State
	Keys  *keys.Map
	Sel   *Selection
	Theme *paint.Theme
}

// panel is one of the six. Draw must not change what Do depends on but for
// sizes: how many rows there are to scroll through.
type panel interface {
	// draw draws the panel with its frame into an area.
	draw(a paint.Area, e *Env, focus bool)
	// do carries an action out, when the panel has the focus. What it does not
	// know it returns as not handled.
	do(act keys.Action, e *Env) (intents []Intent, handled bool)
	// click selects what is at a place of the area that was drawn last.
	click(x, y int, e *Env) []Intent
	// hints are the keys that help here, most useful first.
	hints(e *Env) []keys.Action
}

// overlay takes the keys while it is open. It is drawn over the panels.
type overlay interface {
	draw(a paint.Area, e *Env)
	// key handles a key press; closed says that the overlay is done.
	key(k keys.Key, e *Env) (intents []Intent, closed bool)
}

// Options are what a Screen is made of.
type Options struct {
	State     *state.State
	Keys      *keys.Map
	Theme     *paint.Theme
	Version   string // of pml
	Workspace string // as shown in the header
	// Confirm asks before leaving while approvals wait.
	Confirm bool
}

// Screen is the whole window. It is used by one goroutine.
type Screen struct {
	o       Options
	w, h    int
	focus   PanelID
	zoomed  bool
	sel     Selection
	panels  [panels]panel
	overlay []overlay // the last one has the keys
	flash   flash
	canvas  *paint.Canvas
	// quietUntil is until when a decision key does nothing.
	quietUntil time.Time
}

// New returns a screen of 80 x 24.
func New(o Options) *Screen {
	s := &Screen{o: o, w: 80, h: 24}
	s.panels = [panels]panel{newWorkflows(), newInbox(), newDAG(), newTask(), newEvents(), newAudit()}
	return s
}

// Resize says how large the window is.
func (s *Screen) Resize(w, h int) { s.w, s.h, s.canvas = w, h, nil }

// Changed says that the state changed by itself: new events, lists, links.
func (s *Screen) Changed(now time.Time) {}

// Focused says that the terminal got the focus (or lost it): the first keys and
// clicks after that decide nothing.
func (s *Screen) Focused(on bool, now time.Time) {}

// Wants are the runs whose layers and tasks should be loaded, most wanted
// first: the selected one and those in view.
func (s *Screen) Wants() []core.ID { return nil }

// env makes the panels' view of things.
func (s *Screen) env(now time.Time) *Env {
	return &Env{Now: now, State: s.o.State, Keys: s.o.Keys, Sel: &s.sel, Theme: s.o.Theme}
}
