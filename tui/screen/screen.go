// Package screen draws what is known and turns keys into what a person wants:
// it does no I/O and knows no clock, so that every screen can be looked at in a
// file. The program around it carries out the Intents and puts what it learns
// into the State.
package screen

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
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
	PanelServers
	PanelHosts
	PanelFlows
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
	// QuietUntil is until when a decision key does nothing, because what is
	// under it changed by itself or the terminal just got the focus. The screen
	// keeps to it for panels; an overlay that decides has to ask.
	QuietUntil time.Time
	// typed is not ready while somebody types text where no text is wanted: see [typedOn].
	typed *decide.Guard
	// NeedPin says that a decision needs the person's PIN.
	NeedPin bool
	// deciding says that something is open on which a decision can be taken.
	deciding bool
	// alone says that the window shows one approval that waits, and no list.
	alone bool
	// preview says that what the inbox selects is shown beside it.
	preview bool
	// own is what has become of the decisions that were taken on this screen.
	own   map[core.ID]ownDecision
	found keysFound
	// commands are the words with which a command line of pml begins.
	commands []string
	flash    flash     // the message in the last line but one
	ran      *[]string // command lines that the palette ran, the newest last
}

// panel is one of them. Draw must not change what Do depends on but for
// sizes: how many rows there are to scroll through.
type panel interface {
	// draw draws the panel with its frame into an area.
	draw(a paint.Area, e *Env, focus bool)
	// do carries an action out, when the panel has the focus. What it does not
	// know it returns as not handled.
	do(act keys.Action, e *Env) (intents []Intent, handled bool)
	// click selects what is at a place of the area that was drawn last; x and y
	// count from its top left cell, which is of the frame.
	click(x, y int, e *Env) []Intent
	// hints are the keys that help here, most useful first.
	hints(e *Env) []keys.Action
}

// settler is a panel that keeps the selection true: it is called before each
// drawing and each key, and must be cheap when nothing has changed. What it
// changes in the selection of an approval starts a quiet time.
type settler interface{ settle(e *Env) }

// overlay takes the keys while it is open. It is drawn over the panels.
type overlay interface {
	draw(a paint.Area, e *Env)
	// key handles a key press; closed says that the overlay is done.
	key(k keys.Key, e *Env) (intents []Intent, closed bool)
}

// typist is an overlay that may take text: while it does, it gets every key
// but those to quit at once, to redraw and to suspend.
type typist interface{ typing() bool }

// clicker is an overlay that a mouse can be used on; x and y are cells of the
// area that it was drawn with.
type clicker interface {
	click(x, y int, e *Env) (intents []Intent, closed bool)
}

// overlays are what is open over the panels; the last one has the keys.
type overlays []overlay

func (os *overlays) open(o overlay) { *os = append(*os, o) }

// close takes an overlay away, wherever it is by now.
func (os *overlays) close(o overlay) {
	*os = slices.DeleteFunc(*os, func(other overlay) bool { return other == o })
}

// deciding reports whether something is open on which a decision can be taken.
func (os overlays) deciding() bool {
	return slices.ContainsFunc(os, func(o overlay) bool {
		_, ok := o.(evident)
		return ok
	})
}

// Options are what a Screen is made of.
type Options struct {
	State     *state.State
	Keys      *keys.Map
	Theme     *paint.Theme
	Version   string   // of pml
	Workspace string   // as shown in the header
	Commands  []string // words with which a command line of pml begins
	// Confirm asks before leaving while approvals wait.
	Confirm bool
}

// Screen is the whole window. It is used by one goroutine.
type Screen struct {
	o       Options
	panes   panes
	sel     Selection
	panels  [panels]panel
	overlay overlays
	flash   flash
	canvas  *paint.Canvas
	places  []place // of the panels that were drawn last
	tabs    []tab   // that were drawn last
	running []core.ID
	read    readOnce
	settled bool // a selection was made once
	needPin bool
	own     map[core.ID]ownDecision
	found   keysFound // what the feed reported last
	preview preview
	follows follows
	ran     []string // command lines that the palette ran, the newest last
	// quietUntil is until when a decision key does nothing.
	quietUntil time.Time
	typed      decide.Guard // not ready: letters are text that was meant for something else
}

// New returns a screen of 80 x 24.
func New(o Options) *Screen {
	s := &Screen{o: o, panes: panes{w: 80, h: 24, right: PanelDAG, bottom: PanelEvents}, own: map[core.ID]ownDecision{}}
	s.panels = [panels]panel{newWorkflows(), newInbox(), newDAG(), newTask(), newEvents(), newAudit(), newServers(), newHosts(), newFlows()}
	return s
}

// Resize says how large the window is.
func (s *Screen) Resize(w, h int) { s.panes.w, s.panes.h, s.canvas = w, h, nil }

// SetTheme says how everything looks from now on.
func (s *Screen) SetTheme(t *paint.Theme) { s.o.Theme, s.canvas = t, nil }

// Changed says that the state changed by itself: new events, lists, links.
func (s *Screen) Changed(now time.Time) { s.settle(s.env(now)) }

// Focused says that the terminal got the focus (or lost it): the first keys and
// clicks after that decide nothing.
func (s *Screen) Focused(on bool, now time.Time) {
	if on {
		s.quiet(now)
	}
}

// SetRunning says which runs this process runs itself: they stop when it ends,
// and leaving asks first.
func (s *Screen) SetRunning(ids []core.ID) { s.running = ids }

// env makes the panels' view of things.
func (s *Screen) env(now time.Time) *Env {
	return &Env{Now: now, State: s.o.State, Keys: s.o.Keys, Sel: &s.sel, Theme: s.o.Theme, QuietUntil: s.quietUntil, typed: &s.typed, NeedPin: s.needPin, deciding: s.overlay.deciding(), own: s.own, found: s.found, commands: s.o.Commands, flash: s.flash, ran: &s.ran, alone: s.panes.mode() == mini}
}

// typedOn reports whether a key belongs to a text that a person types on behind a key that came too
// early, or behind one that opens their editor: until no key came for a moment, no letter is one.
func typedOn(typed *decide.Guard, top overlay, k keys.Key, now time.Time) bool {
	if t, ok := top.(typist); typed.Ready(now) || ok && t.typing() {
		return false
	}
	if k.Text == "" && k.Name != "enter" && k.Name != "backspace" {
		return false
	}
	typed.Disturb(now)
	return true
}

func (s *Screen) quiet(now time.Time) { s.quietUntil = now.Add(decide.Quiet) }

// settle lets the panels mend the selection. When the approval under the keys
// becomes another one by that, decisions are off for a moment.
func (s *Screen) settle(e *Env) {
	before := s.sel.Approval
	for _, p := range s.panels {
		if p, ok := p.(settler); ok {
			p.settle(e)
		}
	}
	s.follow(e)
	if s.settled && s.sel.Approval != before {
		s.quiet(e.Now)
		e.QuietUntil = s.quietUntil
	}
	s.settled = true
}

// Open reports whether something is open over the panels: it has the keys.
func (s *Screen) Open() bool { return len(s.overlay) > 0 }

// Shows reports whether a panel is on the screen.
func (s *Screen) Shows(id PanelID) bool {
	return slices.ContainsFunc(s.panes.layout(), func(p place) bool { return p.id == id })
}

// View draws the window: exactly as many lines of exactly as many columns as it
// has.
func (s *Screen) View(now time.Time) string { return s.draw(now).String() }

// Plain is View without any escape sequence.
func (s *Screen) Plain(now time.Time) string { return s.draw(now).Plain() }

func (s *Screen) draw(now time.Time) *paint.Canvas {
	if s.canvas == nil {
		s.canvas = paint.NewCanvas(s.panes.w, s.panes.h, s.o.Theme)
	}
	s.canvas.Clear()
	e := s.env(now)
	s.settle(e)
	window := s.canvas.Area()
	s.places, s.tabs = nil, nil
	switch s.panes.mode() {
	case tiny:
		drawTiny(window, e)
		return s.canvas
	case mini:
		s.drawCard(window, e)
	case single, columns, dashboard:
		s.drawHeader(window, e)
		s.drawPanels(window, e)
		s.drawFooter(window, e)
	}
	for _, o := range s.overlay {
		o.draw(window, e)
	}
	return s.canvas
}

// evident is an overlay that shows what a decision binds: it needs the layers of
// runs for that.
type evident interface{ runs() []core.ID }

// Wants are the runs whose layers and tasks should be loaded, most wanted first:
// those of what is being decided, the selected one, that of the layer that is
// selected among the approvals (before it while they have the focus), and those
// in view.
func (s *Screen) Wants() []core.ID {
	var out []core.ID
	want := func(ids ...core.ID) {
		for _, id := range ids {
			if id != "" && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	for _, o := range slices.Backward(s.overlay) {
		if o, ok := o.(evident); ok {
			want(o.runs()...)
		}
	}
	var layer core.ID
	if a, ok := s.o.State.Approval(s.sel.Approval); ok && a.Type == core.ApproveLayer {
		layer = a.RunID
	}
	if s.panes.acting() == PanelApprovals {
		want(layer)
	}
	want(s.sel.Run, layer)
	if s.panes.focus == PanelFlows { // flows are tested on their calls
		runs := s.o.State.Runs()
		want(runs[:min(len(runs), testedRuns)]...)
	}
	if w, ok := s.panels[PanelWorkflows].(interface{ inView() []core.ID }); ok {
		want(w.inView()...)
	}
	return out
}

// Listens is the run whose model is listened to while it writes: the selected one, while
// that is an agent that runs; else none.
func (s *Screen) Listens() core.ID {
	r, ok := s.o.State.Run(s.sel.Run)
	if !ok || r.Kind != core.KindAgent || r.State != core.RunRunning {
		return ""
	}
	return r.ID
}
