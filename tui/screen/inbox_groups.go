package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// inboxGroups are the approvals that share a row, under the first of each group.
type inboxGroups struct {
	of    map[core.ID][]core.ID // by the first: all of them
	heads map[core.ID]core.ID   // by each of them: the first
	texts map[core.ID]string
}

// head is the approval in whose row another one stands: itself where it has one.
func (g *inboxGroups) head(id core.ID) core.ID {
	if h, ok := g.heads[id]; ok {
		return h
	}
	return id
}

// fold puts approvals that are alike into one row, where the first of them stands.
// Those that the person has taken apart keep their rows.
func (p *inboxPanel) fold(e *Env) {
	r := &p.rows
	r.waiting, r.groups = r.waiting[:0], inboxGroups{}
	first := make(map[approval.Kin]core.ID, len(r.all))
	for _, id := range r.all {
		a, _ := e.State.Approval(id)
		kin, ok := approval.KinOf(a)
		head, had := first[kin]
		switch {
		case !ok || p.apart[kin]:
			r.waiting = append(r.waiting, id)
		case !had:
			first[kin] = id
			r.waiting = append(r.waiting, id)
		default:
			r.groups.put(head, id)
		}
	}
}

// tookApart reports whether the person has given the selected approval, and what is alike, rows of
// their own.
func (p *inboxPanel) tookApart(e *Env) bool {
	ap, known := e.State.Approval(e.Sel.Approval)
	kin, ok := approval.KinOf(ap)
	return known && ok && p.apart[kin]
}

// put adds an approval to the group of another.
func (g *inboxGroups) put(head, id core.ID) {
	if g.of == nil {
		g.of, g.heads, g.texts = map[core.ID][]core.ID{}, map[core.ID]core.ID{}, map[core.ID]string{}
	}
	if g.of[head] == nil {
		g.of[head] = []core.ID{head}
	}
	g.of[head], g.heads[id] = append(g.of[head], id), head
}

// group is what the row of an approval stands for besides it; nil where that is itself.
func (p *inboxPanel) group(id core.ID, e *Env) []core.Approval {
	if p.rows.groups.of[id] == nil {
		return nil
	}
	return p.members(id, e)
}

// members is all that the row of an approval stands for.
func (p *inboxPanel) members(id core.ID, e *Env) (out []core.Approval) {
	ids := p.rows.groups.of[id]
	if ids == nil {
		ids = []core.ID{id}
	}
	for _, m := range ids {
		if a, ok := e.State.Approval(m); ok {
			out = append(out, a)
		}
	}
	return out
}

// onGroup carries out what is about a row that stands for several approvals: they are
// shown as a list, which decides them together, and = gives each a row of its own.
func (p *inboxPanel) onGroup(act keys.Action, group []core.Approval, e *Env) ([]Intent, bool) {
	switch act {
	case keys.Open, keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message, keys.Abort:
		list := newBulkFor(act, group, e)
		list.apart = func() { p.takeApart(group[0], true) }
		return []Intent{openOverlay{list}}, true
	case keys.Bounds:
		if !boundable(group[0], e) {
			return []Intent{say{Note, noBounds}}, true
		}
		return []Intent{openOverlay{newBoundsCard(group[0].ID, e)}}, true
	case keys.Alike:
		p.takeApart(group[0], true)
	case keys.Mark:
		p.markGroup(group)
	case keys.MarkRange:
		p.markRange(group[0], e)
	case keys.Again, keys.MoreTime, keys.Replan, keys.Trail, keys.CopyID, keys.CopyCommand, keys.CopyAll, keys.Edit, keys.Save:
		return []Intent{say{Note, fmt.Sprintf("these are %d approvals: %s gives each a row of its own", len(group), keyOf(e, keys.Alike))}}, true
	default:
		return nil, false
	}
	return nil, true
}

// takeApart gives the approvals like one rows of their own, or takes those away.
func (p *inboxPanel) takeApart(a core.Approval, apart bool) {
	kin, ok := approval.KinOf(a)
	if !ok {
		return
	}
	if p.apart == nil {
		p.apart = map[approval.Kin]bool{}
	}
	if p.apart[kin] = apart; !apart {
		delete(p.apart, kin)
	}
	p.rows.made = false
}

// together puts an approval that was taken apart back into one row with those like it;
// false where there are none.
func (p *inboxPanel) together(a core.Approval, e *Env) bool {
	kin, ok := approval.KinOf(a)
	n := 0
	for _, id := range p.rows.all {
		o, _ := e.State.Approval(id)
		if k, _ := approval.KinOf(o); ok && k == kin {
			n++
		}
	}
	p.takeApart(a, false)
	return n > 1
}

// groupText is what a group asks for: how many, and what they have in common.
func (p *inboxPanel) groupText(id core.ID, e *Env) string {
	g := &p.rows.groups
	if text, ok := g.texts[id]; ok {
		return text
	}
	list := p.members(id, e)
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = p.what(a)
	}
	what := approval.Pattern(names)
	if line := loopLine(list); line > 0 { // before the server, which narrow columns cut off
		at := strings.LastIndex(what, " (")
		if at < 0 {
			at = len(what)
		}
		what = what[:at] + ", line " + itoa(line) + what[at:]
	}
	text := fmt.Sprintf("%d %s %s", len(list), e.Theme.Glyph.Times, what)
	g.texts[id] = text
	return text
}

// loopLine is the line of the script that makes all of some calls; 0 where there is no such one.
func loopLine(list []core.Approval) int {
	for _, a := range list {
		if a.Place != list[0].Place {
			return 0
		}
	}
	return list[0].Place.Line
}

// madeAt is the line of the script that makes a call, for behind what is said of it.
func madeAt(a core.Approval) string {
	if a.Place.Line == 0 {
		return ""
	}
	return "  line " + itoa(a.Place.Line)
}

// soonest is which of a row's approvals expires first.
func (p *inboxPanel) soonest(a core.Approval, e *Env) core.Approval {
	if of := p.rows.groups.of[a.ID]; of != nil && p.reverse {
		if last, ok := e.State.Approval(of[len(of)-1]); ok {
			return last
		}
	}
	return a
}

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

// markGroup marks all of a row, or takes the marks away.
func (p *inboxPanel) markGroup(group []core.Approval) {
	p.span = markSpan{}
	all := !slices.ContainsFunc(group, func(a core.Approval) bool { return !p.marked[a.ID] })
	for _, a := range group {
		if p.add(a); all {
			delete(p.marked, a.ID)
		}
	}
}

// add marks an approval that waits and can be decided with others, and reports
// whether it did.
func (p *inboxPanel) add(a core.Approval) bool {
	if !decide.InBulk(a.Type) || !slices.Contains(p.rows.all, a.ID) {
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
	left  int  // so many in it are of another type, and not marked
	ended bool // by itself, since the last key
}

// keep ends a range whose first row is gone from those that wait: without it
// nobody has said which rows are meant. Who has decided that row here knows it.
func (s *markSpan) keep(waiting []core.ID, e *Env) {
	if s.from != "" && !slices.Contains(waiting, s.from) {
		*s = markSpan{ended: e.own[s.from] == ownUnknown}
	}
}

// markRange begins a range of marks at a row that waits, or ends it.
func (p *inboxPanel) markRange(a core.Approval, e *Env) {
	if p.span.from != "" {
		p.span = markSpan{}
		return
	}
	if !p.add(a) {
		return
	}
	for _, m := range p.members(a.ID, e) {
		p.add(m)
	}
	p.span = markSpan{from: a.ID, rows: slices.Clone(p.rows.all)}
}

// markTo marks what lies between the begin of the range and a row, as far as it
// is of the type with which the range began.
func (p *inboxPanel) markTo(a core.Approval, e *Env) {
	first, ok := e.State.Approval(p.span.from)
	from, to := p.rows.index(p.span.from), p.rows.index(a.ID)
	if from < 0 || to < 0 || !ok {
		p.span = markSpan{ended: true}
		return
	}
	clear(p.marked)
	p.span.left = 0
	for i := min(from, to); i <= max(from, to) && i < len(p.rows.waiting); i++ {
		for _, b := range p.members(p.rows.waiting[i], e) {
			if b.Type != first.Type {
				p.span.left++
			} else if slices.Contains(p.span.rows, b.ID) {
				p.add(b)
			}
		}
	}
}

// markedList are the marked approvals in the order of the rows.
func (p *inboxPanel) markedList(e *Env) []core.Approval {
	var out []core.Approval
	for _, id := range p.rows.all {
		if a, ok := e.State.Approval(id); ok && p.marked[id] {
			out = append(out, a)
		}
	}
	return out
}

// near is how many rows before and behind one it is compared with, to say what differs.
const near = 10

// inView are the texts of the rows around the one of an approval.
func (p *inboxPanel) inView(a core.Approval, e *Env) func() []string {
	return func() (texts []string) {
		at := p.rows.index(a.ID)
		for i := max(at-near, 0); i < min(at+near+1, p.rows.len()); i++ {
			if o, ok := e.State.Approval(p.rows.id(i)); ok && i != at {
				texts = append(texts, p.what(o))
			}
		}
		return texts
	}
}

// fitPath is a call in w columns, its path without folders that tell nothing: what differs
// from the rows beside it and the name of the file stay.
func fitPath(text string, w int, beside func() []string, t *paint.Theme) string {
	if paint.Width(text) <= w {
		return text
	}
	words, at := strings.Split(text, " "), -1
	for i, word := range words {
		if strings.Contains(word, "/") && !strings.Contains(word, "://") && (at < 0 || len(word) > len(words[at])) {
			at = i
		}
	}
	if at < 0 {
		return text
	}
	parts := strings.Split(words[at], "/")
	differs := make([]bool, len(parts))
	for _, other := range beside() {
		o := strings.Split(other, " ")
		if at < len(o) && (at == 0 || o[0] == words[0]) {
			markDiffering(parts, strings.Split(o[at], "/"), differs)
		}
	}
	before, after := strings.Join(words[:at], " "), strings.Join(words[at+1:], " ")
	if before != "" {
		before += " "
	}
	if after != "" {
		after = " " + after
	}
	if path := shortPath(parts, differs, w-paint.Width(before+after), t); path != "" {
		return before + path + after
	}
	w -= paint.Width(before) // the server is in the details
	if path := cmp.Or(shortPath(parts, differs, w, t), barePath(parts, differs, w, t)); path != "" {
		return before + path
	}
	return text
}

// markDiffering marks the parts in which a path differs from another one that is much like it.
func markDiffering(parts, other []string, differs []bool) {
	if len(other) != len(parts) {
		return
	}
	var at []int
	for i := range parts {
		if parts[i] != other[i] {
			at = append(at, i)
		}
	}
	if len(at) <= max(len(parts)/2, 1) {
		for _, i := range at {
			differs[i] = true
		}
	}
}

// shortPath is a path in w columns: without the middle folders that do not differ, as many
// as it takes, and then without the first one; empty where even that has no room.
func shortPath(parts []string, differs []bool, w int, t *paint.Theme) string {
	keep := slices.Repeat([]bool{true}, len(parts))
	for i := 1; i < len(parts); i++ {
		if path := joined(parts, keep, t); paint.Width(path) <= w {
			return path
		}
		if i < len(parts)-1 {
			keep[i] = differs[i]
		}
	}
	keep[0] = differs[0]
	if path := joined(parts, keep, t); paint.Width(path) <= w {
		return path
	}
	return ""
}

// barePath is what differs of a path, or the end of its file's name where no folder does.
func barePath(parts []string, differs []bool, w int, t *paint.Theme) string {
	if slices.Contains(differs[:len(parts)-1], true) {
		if path := joined(parts, differs, t); paint.Width(path) <= w {
			return path
		}
		return ""
	}
	if name := []rune(parts[len(parts)-1]); w > 8 && len(name) > w-1 {
		return t.Glyph.More + string(name[len(name)-w+1:])
	}
	return ""
}

// joined is a path with one sign for parts in a row that are left out.
func joined(parts []string, keep []bool, t *paint.Theme) string {
	var out []string
	for i, part := range parts {
		switch {
		case keep[i]:
			out = append(out, part)
		case len(out) == 0 || out[len(out)-1] != t.Glyph.More:
			out = append(out, t.Glyph.More)
		}
	}
	return strings.Join(out, "/")
}
