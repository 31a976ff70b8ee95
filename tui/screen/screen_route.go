package screen

import (
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
)

// What panels and overlays want of the screen itself.
type (
	// openOverlay opens something over the panels.
	openOverlay struct{ overlay }
	// openPanel gives a panel the focus.
	openPanel struct{ id PanelID }
	// showText shows a long text over the panels.
	showText struct{ title, text string }
	// say shows a message.
	say struct {
		level Level
		text  string
	}
)

func (openOverlay) intent() {}
func (openPanel) intent()   {}
func (showText) intent()    {}
func (say) intent()         {}

// decisions are the actions that wait while it is quiet.
var decisions = []keys.Action{
	keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message, keys.Abort, keys.Replan, keys.MoreTime, keys.Again,
}

// always are the actions that work whatever is open, text inputs included.
var always = []keys.Action{keys.QuitNow, keys.Redraw, keys.Suspend}

// Key handles a key press. Pasted text goes to an open text input, and is lost
// everywhere else.
func (s *Screen) Key(k keys.Key, now time.Time) []Intent {
	if typedOn(&s.typed, s.top(), k, now) {
		return nil
	}
	if now.Sub(s.flash.at) >= decide.Quiet { // what came under the key was not read yet
		s.flash.text = ""
	}
	e := s.env(now)
	s.settle(e)
	return s.carryOut(s.key(k, e), e)
}

func (s *Screen) key(k keys.Key, e *Env) []Intent {
	acts := s.o.Keys.Actions(k)
	if intents, done := s.globals(acts, e, func(a keys.Action) bool { return slices.Contains(always, a) }); done {
		return intents
	}
	switch s.panes.mode() {
	case tiny: // nothing is on screen that a key could be meant for
		intents, _ := s.globals(acts, e, func(a keys.Action) bool { return a == keys.Quit && len(s.overlay) == 0 })
		return intents
	case mini, single, columns, dashboard:
	}
	if n := len(s.overlay); n > 0 {
		return s.overlayKey(k, acts, e)
	}
	if k.Paste {
		return nil
	}
	return s.act(acts, e)
}

// overlayKey gives a key to the topmost overlay. One that takes no text leaves
// a few global actions alone. A card whose question is over makes way for a panel.
func (s *Screen) overlayKey(k keys.Key, acts []keys.Action, e *Env) []Intent {
	top := s.overlay[len(s.overlay)-1]
	if over(top, e) && toPanel(acts) {
		s.overlay.close(top)
		return s.act(acts, e)
	}
	if t, ok := top.(typist); (!ok || !t.typing()) && !k.Paste {
		ok := func(a keys.Action) bool {
			return a == keys.Help || a == keys.Palette || a == keys.Refresh || a == keys.Halt
		}
		if intents, done := s.globals(acts, e, ok); done {
			return intents
		}
	}
	intents, closed := top.key(k, e)
	if closed {
		s.overlay.close(top)
	}
	return intents
}

// act tries what a key may mean: what means the same everywhere, then what the
// panel makes of it.
func (s *Screen) act(acts []keys.Action, e *Env) []Intent {
	if intents, done := s.globals(acts, e, func(keys.Action) bool { return true }); done {
		return intents
	}
	for _, act := range acts {
		if slices.Contains(decisions, act) && e.Now.Before(s.quietUntil) {
			s.typed.Disturb(e.Now)
			s.Say(Note, "too early: what is under the cursor had just changed. Press again", e.Now)
			return nil
		}
		if intents, handled := s.panels[s.panes.acting()].do(act, e); handled {
			return intents
		}
		if act == keys.Back {
			s.back()
			return nil
		}
	}
	return nil
}

// back leaves what was entered.
func (s *Screen) back() {
	switch {
	case s.panes.zoomed:
		s.panes.zoomed = false
	case s.panes.focus == PanelTask:
		s.focusOn(PanelDAG)
	case s.panes.focus == PanelDAG:
		s.focusOn(PanelWorkflows)
	}
}

// globals carries out the first of the actions that means the same in every
// panel and is let through.
func (s *Screen) globals(acts []keys.Action, e *Env, let func(keys.Action) bool) (intents []Intent, done bool) {
	for _, act := range acts {
		if !let(act) {
			continue
		}
		if intents, done = s.global(act, e); done {
			return intents, true
		}
	}
	return nil, false
}

func (s *Screen) global(act keys.Action, e *Env) (intents []Intent, done bool) {
	switch act {
	case keys.Quit:
		return s.quit(e), true
	case keys.QuitNow:
		return []Intent{Quit{}}, true
	case keys.Suspend:
		if _, asks := s.top().(*confirm); len(s.running) > 0 && !asks {
			s.overlay.open(newSuspend(s.running, e))
			return nil, true
		}
		return []Intent{Suspend{}}, true
	case keys.Redraw:
		return []Intent{Redraw{}}, true
	case keys.Refresh:
		return s.read.again(), true
	case keys.Help:
		switch o := s.top().(type) {
		case *card:
			s.overlay.open(cardHelp(o, e))
			return nil, true
		case *bulk:
			s.overlay.open(bulkHelp(o, e))
			return nil, true
		}
		s.overlay.open(newHelp(s.panes.acting(), s.panels[s.panes.acting()].hints(e), func(act keys.Action) string { return s.panelWord(act, e) }))
	case keys.Palette:
		s.overlay.open(newPalette(s.panes.acting(), s.panels[PanelServers].(*serversPanel), e))
	case keys.Halt:
		s.overlay.open(haltDialog(e))
	case keys.Zoom:
		s.panes.zoomed = !s.panes.zoomed
	case keys.NextPanel:
		return s.focusOn((s.panes.focus + 1) % panels), true
	case keys.PreviousPanel:
		return s.focusOn((s.panes.focus + panels - 1) % panels), true
	default:
		i := slices.Index(panelKeys[:], act)
		if i < 0 {
			return nil, false
		}
		if s.panes.mode() == mini {
			s.Say(Note, tooSmallFor(PanelID(i), e), e.Now)
		}
		return s.focusOn(PanelID(i)), true
	}
	return nil, true
}

// panelKeys are the actions that go to a panel, by panel.
var panelKeys = [panels]keys.Action{keys.Panel1, keys.Panel2, keys.Panel3, keys.Panel4, keys.Panel5, keys.Panel6, keys.Panel7, keys.Panel8, keys.Panel9}

// focusOn gives the focus to a panel, and shows it where there are tabs.
func (s *Screen) focusOn(id PanelID) []Intent {
	if s.panes.show(id); id == PanelTask { // what somebody reads there stays
		s.panels[PanelDAG].(*dagPanel).stay()
	}
	return s.read.first(id)
}

// readOnce says which panels have been read that are read only once somebody looks.
type readOnce [panels]bool

// loads are the intents that read such panels.
var loads = map[PanelID]Intent{PanelAudit: LoadAudit{}, PanelServers: LoadServers{}, PanelFlows: LoadFlows{}}

// first reads a panel when it is looked at for the first time; the audit log, to which other processes
// add what no event tells, each time.
func (r *readOnce) first(id PanelID) []Intent {
	load, ok := loads[id]
	if !ok || r[id] && id != PanelAudit {
		return nil
	}
	r[id] = true
	return []Intent{load}
}

// AuditGrew reads the audit log again after something was decided, where somebody has looked
// at it.
func (s *Screen) AuditGrew() []Intent {
	if s.read[PanelAudit] {
		return []Intent{loads[PanelAudit]}
	}
	return nil
}

// again reads everything again, of those panels the ones that somebody has looked at.
func (r *readOnce) again() []Intent {
	out := []Intent{Refresh{}}
	for id, read := range r {
		if read {
			out = append(out, loads[PanelID(id)])
		}
	}
	return out
}

// quit leaves, or asks first where something would be left behind.
func (s *Screen) quit(e *Env) []Intent {
	if p := s.panels[PanelFlows].(*flowsPanel); p.view != nil && p.view.edit.Changed() {
		s.overlay.open(&confirm{title: "Leave without saving?", text: "The changes of the flow " + p.view.row.name() + " would be lost.", yes: func(*Env) []Intent { return []Intent{Quit{}} }})
		return nil
	}
	waiting := len(e.State.Waiting(e.Now))
	if len(s.running) == 0 && (waiting == 0 || !s.o.Confirm) {
		return []Intent{Quit{}}
	}
	s.overlay.open(newQuit(s.running))
	return nil
}

// top is the topmost overlay; nil where there is none.
func (s *Screen) top() overlay {
	if n := len(s.overlay); n > 0 {
		return s.overlay[n-1]
	}
	return nil
}

// carryOut takes out the intents that are for the screen itself.
func (s *Screen) carryOut(intents []Intent, e *Env) []Intent {
	var out []Intent
	for _, i := range intents {
		switch i := i.(type) {
		case openOverlay:
			s.overlay.open(i.overlay)
		case openPanel:
			out = append(out, s.focusOn(i.id)...)
		case runAction:
			out = append(out, s.carryOut(s.act([]keys.Action{i.act}, e), e)...)
		case showCall:
			s.showCall(i)
		case showRunsOf:
			s.runsOf(i.agentKey, e)
		case showText:
			o := &output{title: i.title, text: i.text}
			o.pager.SetText(i.text)
			s.overlay.open(o)
		case say:
			s.Say(i.level, i.text, e.Now)
		case EditArguments, EditBounds, View, Replan: // what is typed behind their key is for the editor
			s.typed.Disturb(e.Now)
			out = append(out, i)
		case Command, Shell: // what another one printed may not be so any more
			s.overlay = slices.DeleteFunc(s.overlay, func(o overlay) bool { _, ok := o.(*output); return ok })
			out = append(out, i)
		default:
			s.sent(i)
			out = append(out, i)
		}
	}
	return out
}

// Button is what a mouse did.
type Button int

// The buttons.
const (
	Click Button = iota
	WheelUp
	WheelDown
)

// wheelRows is how far a turn of the wheel goes.
const wheelRows = 3

// Mouse handles a click or a turn of the wheel at a cell of the window. A click
// selects; the first one after the terminal got the focus does not even that.
func (s *Screen) Mouse(x, y int, b Button, now time.Time) []Intent {
	e := s.env(now)
	s.settle(e)
	if s.panes.mode() == tiny || b == Click && now.Before(s.quietUntil) {
		return nil
	}
	if n := len(s.overlay); n > 0 {
		return s.carryOut(s.overlayMouse(s.overlay[n-1], x, y, b, e), e)
	}
	if b == Click {
		for _, t := range s.tabs {
			if y == t.y && x >= t.x && x < t.x+t.w {
				return s.focusOn(t.id)
			}
		}
	}
	for _, p := range s.places {
		if x >= p.x && x < p.x+p.w && y >= p.y && y < p.y+p.h {
			return s.carryOut(s.panelMouse(p, x, y, b, e), e)
		}
	}
	return nil
}

func (s *Screen) overlayMouse(top overlay, x, y int, b Button, e *Env) []Intent {
	if b == Click {
		c, ok := top.(clicker)
		if !ok {
			return nil
		}
		intents, closed := c.click(x, y, e)
		if closed {
			s.overlay.close(top)
		}
		return intents
	}
	for range wheelRows {
		if _, closed := top.key(keys.Key{Name: wheelKey[b]}, e); closed {
			s.overlay.close(top)
			break
		}
	}
	return nil
}

// wheelKey is the key that a turn of the wheel stands for in an overlay.
var wheelKey = map[Button]string{WheelUp: "up", WheelDown: "down"}

func (s *Screen) panelMouse(p place, x, y int, b Button, e *Env) []Intent {
	if b == Click {
		intents := s.focusOn(p.id)
		return append(intents, s.panels[p.id].click(x-p.x, y-p.y, e)...)
	}
	act := keys.Up
	if b == WheelDown {
		act = keys.Down
	}
	var out []Intent
	for range wheelRows {
		intents, _ := s.panels[p.id].do(act, e)
		out = append(out, intents...)
	}
	return out
}

// pointed is what the cursor of a list is on: the detail shows that run and that task.
type pointed struct {
	key  string // what it is known by: another one, and the detail follows
	run  core.ID
	task string  // empty: it is looked for by approval
	ask  core.ID // the approval that the task waits for
}

// pointer is a list whose cursor the detail follows while it has the focus.
type pointer interface {
	// points is what the cursor is on; ok is false where no person put it there.
	points(e *Env) (at pointed, ok bool)
}

// follows is what the detail has followed last.
type follows struct {
	panel PanelID
	key   string
	task  bool // the task was found, too: it is known once the layers are read
}

// follow has the detail show what the cursor is on. It goes there once: whoever moves
// on in the detail stays where they are.
func (s *Screen) follow(e *Env) {
	p, ok := s.panels[s.panes.acting()].(pointer)
	if !ok {
		s.follows = follows{}
		return
	}
	at, ok := p.points(e)
	if _, known := e.State.Run(at.run); !ok || !known {
		return
	}
	if s.follows.panel != s.panes.acting() || s.follows.key != at.key {
		s.follows = follows{panel: s.panes.acting(), key: at.key}
		e.Sel.Run = at.run
	}
	if s.follows.task || e.Sel.Run != at.run {
		return
	}
	dag := s.panels[PanelDAG].(*dagPanel)
	dag.settle(e)
	if i, ok := dag.model.find(at); ok {
		dag.selectTask(i, e)
		s.follows.task = true
	}
}

// find is the task that a cursor is on.
func (m *dagModel) find(at pointed) (task int, ok bool) {
	if at.task != "" {
		task, ok = m.byID[at.task]
		return task, ok
	}
	for i := range m.tasks {
		if at.ask != "" && m.asked[i] == at.ask {
			return i, true
		}
	}
	return 0, false
}

func (p *inboxPanel) points(e *Env) (pointed, bool) {
	a, ok := e.State.Approval(e.Sel.Approval)
	at := pointed{key: string(a.ID), run: a.RunID, ask: a.ID}
	if ok && len(a.CallIDs) > 0 {
		at.task = a.CallIDs[0]
	}
	return at, ok
}

func (p *eventsPanel) points(e *Env) (pointed, bool) {
	numbers := p.numbers(e)
	i := p.at(numbers)
	if i < 0 || !p.leaving {
		return pointed{}, false
	}
	ev, ok := e.State.EventAt(numbers[i])
	return pointed{key: itoa(int(numbers[i])), run: ev.RunID, task: ev.TaskID, ask: ev.ApprovalID}, ok && ev.RunID != ""
}

func (p *auditPanel) points(e *Env) (pointed, bool) {
	rows := p.list(e)
	i := p.at(rows)
	if i < 0 || !p.moved {
		return pointed{}, false
	}
	r := rows[i]
	return pointed{key: string(r.Side) + itoa(int(r.Seq)), run: r.RunID, ask: r.ApprovalID}, r.RunID != ""
}
