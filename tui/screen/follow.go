package screen

import "github.com/casys-ai/pml/core"

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
	p, ok := s.panels[s.acting()].(pointer)
	if !ok {
		s.follows = follows{}
		return
	}
	at, ok := p.points(e)
	if _, known := e.State.Run(at.run); !ok || !known {
		return
	}
	if s.follows.panel != s.acting() || s.follows.key != at.key {
		s.follows = follows{panel: s.acting(), key: at.key}
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
	for i, id := range m.asked {
		if id == at.ask && at.ask != "" {
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
