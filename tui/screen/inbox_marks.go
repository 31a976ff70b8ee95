package screen

import (
	"slices"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
)

// mark marks an approval, or takes the mark away. All marks are of one type:
// the first mark of another begins anew.
func (p *inboxPanel) mark(a core.Approval) {
	p.span = markSpan{}
	if p.marked[a.ID] {
		delete(p.marked, a.ID)
		return
	}
	p.add(a)
}

// add marks an approval that waits and can be decided with others, and reports
// whether it did.
func (p *inboxPanel) add(a core.Approval) bool {
	if !decide.InBulk(a.Type) || !slices.Contains(p.rows.waiting, a.ID) {
		return false
	}
	if a.Type != p.markedType {
		clear(p.marked)
	}
	p.marked[a.ID], p.markedType = true, a.Type
	return true
}

// markSpan is a range of marks that is being made. It never reaches what did not
// wait in view when it began, and ends when its first row waits no more.
type markSpan struct {
	from  core.ID // empty: there is none
	rows  []core.ID
	ended bool // by itself, since the last key
}

// keep ends a range whose first row is gone from those that wait: without it
// nobody has said which rows are meant.
func (s *markSpan) keep(waiting []core.ID) {
	if s.from != "" && !slices.Contains(waiting, s.from) {
		*s = markSpan{ended: true}
	}
}

// markRange begins a range of marks at a row that waits, or ends it.
func (p *inboxPanel) markRange(a core.Approval) {
	if p.span.from != "" {
		p.span = markSpan{}
		return
	}
	if p.add(a) {
		p.span = markSpan{from: a.ID, rows: slices.Clone(p.rows.waiting)}
	}
}

// markTo marks what lies between the begin of the range and a row, as far as it
// is of the type with which the range began.
func (p *inboxPanel) markTo(a core.Approval, e *Env) {
	first, ok := e.State.Approval(p.span.from)
	from, to := slices.Index(p.rows.waiting, p.span.from), p.rows.index(a.ID)
	if from < 0 || to < 0 || !ok {
		p.span = markSpan{ended: true}
		return
	}
	clear(p.marked)
	for i := min(from, to); i <= max(from, to) && i < len(p.rows.waiting); i++ {
		id := p.rows.waiting[i]
		if b, ok := e.State.Approval(id); ok && b.Type == first.Type && slices.Contains(p.span.rows, id) {
			p.add(b)
		}
	}
}

// markedList are the marked approvals in the order of the rows.
func (p *inboxPanel) markedList(e *Env) []core.Approval {
	var out []core.Approval
	for _, id := range p.rows.waiting {
		if a, ok := e.State.Approval(id); ok && p.marked[id] {
			out = append(out, a)
		}
	}
	return out
}

// together opens what shows all that is marked, to decide it at once.
func (p *inboxPanel) together(e *Env) []Intent {
	return []Intent{openOverlay{newBulk(p.markedList(e), e)}}
}
