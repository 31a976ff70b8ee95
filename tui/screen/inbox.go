package screen

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// inboxPanel shows approvals: those that wait, soonest expiry first, and those
// that are over below. No key decides from a row: they open the card.
type inboxPanel struct {
	rows   inboxRows
	marked map[core.ID]bool
	// markedType is the type of all that is marked.
	markedType core.ApprovalType
	span       markSpan
	filter     string
	reverse    bool
	selected   core.ID
	was        int  // the row that was selected
	waited     bool // the selected approval waited
	renewed    bool // it had been asked again as another one already
	// byHand says that the person put the cursor where it is; had is what waited
	// then.
	byHand bool
	handAt time.Time // when
	had    []core.Approval

	view  inboxView
	whats map[whatKey]string
	apart map[approval.Kin]bool // of alike ones that the person wants in rows of their own
}

// inboxRows are the approvals in the order of the screen, made anew when what
// is known changes or one expires.
type inboxRows struct {
	made     bool
	version  int64
	until    time.Time // the next expiry; zero: none
	at       time.Time
	waiting  []core.ID // one of each group stands for all of it
	all      []core.ID // that wait, also those without a row
	groups   inboxGroups
	resolved []core.ID
	total    int // that wait, whatever the filter
	folder   string
	folders  bool // they are of several folders: each row says of which
}

// seen notes the folder of a row.
func (r *inboxRows) seen(a core.Approval) {
	if a.Workspace == "" {
		return
	}
	r.folders = r.folders || r.folder != "" && r.folder != a.Workspace
	r.folder = a.Workspace
}

// runName is the run of an approval, behind its folder where there are several.
func (r *inboxRows) runName(a core.Approval, e *Env) string {
	name := e.State.Name(a.RunID)
	if r.folders {
		name = inFolder(a.Workspace, name)
	}
	return name
}

// maxResolved bounds the approvals that are shown below those that wait.
const maxResolved = 200

func newInbox() *inboxPanel { return &inboxPanel{marked: map[core.ID]bool{}} }

// id is the approval of a row; those that wait come first.
func (r *inboxRows) id(i int) core.ID {
	if i < len(r.waiting) {
		return r.waiting[i]
	}
	return r.resolved[i-len(r.waiting)]
}

func (r *inboxRows) len() int { return len(r.waiting) + len(r.resolved) }

func (r *inboxRows) index(id core.ID) int {
	if i := slices.Index(r.waiting, r.groups.head(id)); i >= 0 {
		return i
	}
	if i := slices.Index(r.resolved, id); i >= 0 {
		return i + len(r.waiting)
	}
	return -1
}

// settle brings rows, marks and the selection up to date. The selection stays
// on its approval; when that waits no more, it goes to the one in its place. What
// is over keeps it only where the person put it there, and until something new
// waits. The order is kept while something is being decided.
func (p *inboxPanel) settle(e *Env) {
	if e.Sel.Approval != p.selected {
		p.putByHand(e)
	}
	news := (!e.deciding || !p.rows.made) && p.refresh(e)
	n := p.rows.len()
	if n == 0 {
		if p.filter == "" {
			e.Sel.Approval, p.selected = "", ""
		}
		return
	}
	i := p.rows.index(e.Sel.Approval)
	if next := p.askedAgain(e); next >= 0 {
		p.choose(next, e)
		return
	}
	if over := i >= len(p.rows.waiting); i >= 0 && over && p.waited && e.Sel.Approval == p.selected {
		i = -1
	}
	if i < 0 {
		p.byHand = false
		i = max(min(p.was, n-1), 0)
		if p.waited && len(p.rows.waiting) > 0 {
			i = min(i, len(p.rows.waiting)-1)
		}
	}
	if i >= len(p.rows.waiting) && len(p.rows.waiting) > 0 && !e.deciding && (!p.byHand || e.alone || news && p.arrived() && e.Now.Sub(p.handAt) >= stays) {
		i, p.byHand = 0, false
	}
	p.choose(i, e)
}

// stays is how long what comes anew leaves the cursor where the person has put it: they may be
// about to press a key for that row.
const stays = time.Minute

// putByHand notes that the person put the cursor where it is.
func (p *inboxPanel) putByHand(e *Env) {
	p.byHand, p.handAt, p.had = true, e.Now, e.State.Waiting(e.Now)
}

// arrived reports whether something waits that did not when the cursor was put
// where it is.
func (p *inboxPanel) arrived() bool {
	had := make(map[core.ID]bool, len(p.had))
	for i := range p.had {
		had[p.had[i].ID] = true
	}
	return slices.ContainsFunc(p.rows.all, func(id core.ID) bool { return !had[id] })
}

// askedAgain is the row of the question that asks the selected one again, where that has just
// happened; else -1.
func (p *inboxPanel) askedAgain(e *Env) int {
	a, known := e.State.Approval(p.selected)
	if next, ok := successor(a, e); known && ok && a.RenewedBy != "" && !p.renewed && e.Sel.Approval == p.selected {
		return p.rows.index(next)
	}
	return -1
}

// choose selects a row.
func (p *inboxPanel) choose(i int, e *Env) {
	p.was, p.waited = i, i < len(p.rows.waiting)
	if id := p.rows.id(i); id != p.selected {
		a, _ := e.State.Approval(id)
		p.selected, p.renewed = id, a.RenewedBy != ""
	}
	e.Sel.Approval = p.selected
}

// refresh makes the rows anew, if anything has changed, and reports whether it
// did.
func (p *inboxPanel) refresh(e *Env) bool {
	r, v := &p.rows, e.State.ApprovalsVersion()
	if r.made && r.version == v && !e.Now.Before(r.at) && (r.until.IsZero() || e.Now.Before(r.until)) {
		return false
	}
	keep := p.keeps()
	waiting := e.State.Waiting(e.Now)
	*r = inboxRows{made: true, version: v, at: e.Now, total: len(waiting), waiting: r.waiting[:0], all: r.all[:0], resolved: r.resolved[:0]}
	for _, a := range waiting {
		if a.ExpiresAt != nil && (r.until.IsZero() || a.ExpiresAt.Before(r.until)) {
			r.until = *a.ExpiresAt
		}
		if keep(a, e) {
			r.all = append(r.all, a.ID)
			r.seen(a)
		}
	}
	if p.reverse {
		slices.Reverse(r.all)
	}
	p.fold(e)
	p.end(keep, e)
	for id := range p.marked {
		if !slices.Contains(r.all, id) {
			delete(p.marked, id)
		}
	}
	p.span.keep(r.all, e)
	return true
}

// end puts what is over below what waits: first what a run still waits for, since it can be
// decided all the same.
func (p *inboxPanel) end(keep func(core.Approval, *Env) bool, e *Env) {
	r := &p.rows
	var over []core.ID
	for _, a := range e.State.Resolved(e.Now, maxResolved) {
		if !keep(a, e) {
			continue
		}
		r.seen(a)
		if unanswered(a, e) {
			r.resolved = append(r.resolved, a.ID)
		} else {
			over = append(over, a.ID)
		}
	}
	r.resolved = append(r.resolved, over...)
}

// do carries an action out.
func (p *inboxPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	p.settle(e)
	if act != keys.Up && act != keys.Down {
		p.span.ended = false
	}
	if p.scroll(act, e) {
		return nil, true
	}
	switch act {
	case keys.Filter:
		return []Intent{openOverlay{p.filterPrompt(e)}}, true
	case keys.SortReverse, keys.Sort:
		p.reverse = !p.reverse
		p.rows.made = false
		return nil, true
	case keys.Back:
		return nil, p.drop()
	case keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message:
		if len(p.marked) > 0 {
			return p.decideMarked(act, e), true
		}
	default:
	}
	a, ok := e.State.Approval(e.Sel.Approval)
	if !ok || p.rows.len() == 0 {
		return nil, false
	}
	return p.onRow(act, a, e)
}

// onRow carries out what is about the selected approval.
func (p *inboxPanel) onRow(act keys.Action, a core.Approval, e *Env) ([]Intent, bool) {
	one := func(i Intent) ([]Intent, bool) { return []Intent{i}, true }
	if e.own[a.ID] == ownSent && slices.Contains(decisions, act) {
		return one(say{Note, onItsWay})
	}
	if group := p.group(a.ID, e); group != nil {
		return p.onGroup(act, group, e)
	}
	switch act {
	case keys.Open, keys.Approve, keys.ApproveRemember, keys.Deny, keys.Message:
		return one(openOverlay{cardFor(act, a.ID, e)})
	case keys.Bounds:
		switch c := cardOf(a.ID, e); {
		case c.rule.Ended(e.Now) != "":
			return one(say{Note, nothingLeft})
		case !approval.InLoop(a):
			return one(say{Note, noBounds})
		}
		return one(openOverlay{newBoundsCard(a.ID, e)})
	case keys.Abort, keys.MoreTime, keys.Again, keys.Replan, keys.Edit:
		c := cardOf(a.ID, e)
		return p.fromRow(c, act, e), true
	case keys.Alike:
		if !p.together(a, e) {
			return one(say{Note, "nothing else of its run waits for the same tool at the same risk"})
		}
	case keys.Mark:
		p.mark(a)
	case keys.MarkRange:
		p.markRange(a, e)
	case keys.Trail:
		return []Intent{openOverlay{newTrail(a.ID)}, LoadAudit{}}, true
	case keys.CopyID, keys.CopyCommand:
		return one(cardOf(a.ID, e).copyCommand(e))
	case keys.CopyAll:
		return one(copyJSON(a))
	case keys.Save:
		if url := authURL(a); url != "" {
			return one(OpenURL{URL: url})
		}
		return nil, false
	default:
		return nil, false
	}
	return nil, true
}

// fromRow does on a row what a card would do. What does not work, and what has
// to be asked about, is shown on the card.
func (p *inboxPanel) fromRow(c *card, act keys.Action, e *Env) []Intent {
	if act == keys.Abort {
		if c.rule.Ended(e.Now) == "" {
			c.mode = aborting
		}
		return []Intent{openOverlay{c}}
	}
	if act == keys.Edit {
		intents, _, _ := c.do(act, e)
		if editWord(c.rule.Approval(), c.rule.Ended(e.Now) != "") == "view" {
			return intents
		}
		return append([]Intent{openOverlay{c}}, intents...) // what was changed is read there
	}
	if intents, _ := c.keep(act, e); len(intents) > 0 {
		return intents
	}
	return []Intent{openOverlay{c}}
}

// drop ends a range, the marks or the filter: the first of them that is there.
func (p *inboxPanel) drop() bool {
	switch {
	case p.span.from != "":
		p.span = markSpan{}
	case len(p.marked) > 0:
		clear(p.marked)
	case p.filter != "":
		p.filter, p.rows.made = "", false
	default:
		return false
	}
	return true
}

// scroll moves the selection.
func (p *inboxPanel) scroll(act keys.Action, e *Env) bool {
	n, page := p.rows.len(), max(p.view.height-1, 1)
	by, ok := map[keys.Action]int{
		keys.Up: -1, keys.Down: 1, keys.HalfUp: -max(page/2, 1), keys.HalfDown: max(page/2, 1),
		keys.PageUp: -page, keys.PageDown: page, keys.First: -n, keys.Last: n,
	}[act]
	if !ok || n == 0 {
		return ok
	}
	if waiting := len(p.rows.waiting); e.alone && waiting > 0 { // the others are not seen
		n = waiting
	}
	at := max(p.rows.index(e.Sel.Approval), 0)
	if last := n - len(p.rows.resolved) - 1; act == keys.Last && at < last && !e.alone { // what waits ends there
		by = last - at
	}
	i := max(min(at+by, n-1), 0)
	p.choose(i, e)
	p.putByHand(e)
	if a, known := e.State.Approval(e.Sel.Approval); known && p.span.from != "" {
		p.markTo(a, e)
	}
	return true
}

// click selects a row.
func (p *inboxPanel) click(_, y int, e *Env) []Intent {
	p.settle(e)
	if i := p.view.rowAt(y-p.view.first, &p.rows); i >= 0 {
		p.choose(i, e)
		p.putByHand(e)
	}
	return nil
}

// hints are the keys that help here.
func (p *inboxPanel) hints(e *Env) []keys.Action {
	ap, ok := e.State.Approval(e.Sel.Approval)
	switch {
	case len(p.marked) > 0:
		return []keys.Action{keys.ApproveRemember, keys.Mark, keys.MarkRange, keys.Back}
	case p.rows.len() == 0 || !ok:
		return []keys.Action{keys.Filter}
	}
	acts := hintsOf(ap, e)
	if p.rows.groups.of[ap.ID] != nil {
		acts = []keys.Action{keys.Open, keys.Approve, keys.Deny, keys.Alike, keys.Mark, keys.Filter}
	}
	if p.tookApart(e) {
		acts = append(acts, keys.Alike)
	}
	if boundable(ap, e) {
		acts = slices.Insert(acts, 3, keys.Bounds)
	}
	return acts
}

// hintsOf are the keys that help with an approval.
func hintsOf(ap core.Approval, e *Env) []keys.Action {
	switch st := ap.StateAt(e.Now); {
	case st == core.ApprovalOpen:
		acts := []keys.Action{keys.Open, keys.Approve, keys.Deny, keys.Abort, keys.MoreTime, keys.Mark, keys.Trail, keys.CopyID, keys.Filter}
		if ap.ExpiresAt == nil { // it has no limit
			acts = slices.DeleteFunc(acts, func(a keys.Action) bool { return a == keys.MoreTime })
		}
		return acts
	case st == core.ApprovalExpired && cardOf(ap.ID, e).rule.Expired(e.Now) != "":
		return []keys.Action{keys.Open, keys.Approve, keys.Deny, keys.Again, keys.Trail, keys.CopyAll, keys.Filter}
	}
	return []keys.Action{keys.Open, keys.Trail, keys.CopyAll, keys.Filter}
}

// preview shows what the selected approval asks for beside the inbox, while that has
// the focus. It decides nothing, and what was seen on it does not count as read: that
// is the card's.
type preview struct {
	of    core.Approval
	pager widget.Pager
}

// draw draws the preview, and reports whether there is one. Like is how many approvals
// the row stands for, 0 for one.
func (p *preview) draw(a paint.Area, e *Env, like int, rows *inboxRows) bool {
	ap, ok := e.State.Approval(e.Sel.Approval)
	if !ok {
		return false
	}
	if b := &p.of; b.ID != ap.ID || b.Digest != ap.Digest || b.Description != ap.Description || !bytes.Equal(b.Context, ap.Context) {
		p.of, p.pager = ap, widget.Pager{}
	}
	p.pager.SetLines(evidence.Of(ap, tasksOf(ap, e)))
	title := paint.Title{Left: aboutText(ap, "  ") + madeAt(ap), Foot: keyOf(e, keys.Open) + " opens the card"}
	if like > 0 {
		title.Left, title.Foot = fmt.Sprintf("%s, 1 of %d", title.Left, like), fmt.Sprintf("%s opens all %d", keyOf(e, keys.Open), like)
	}
	title.Style = riskStyle(ap.Risk)
	in := a.Frame(title)
	left, look := timeLeft(ap, e)
	x := in.Put(0, 0, riskStyle(ap.Risk), riskWord(ap.Risk)) + 2
	x += in.Text(x, 0, in.W-x-10, paint.Style{}, rows.runName(ap, e)) + 2
	by, at := "asked by "+core.Visible(ap.RequestedBy.Name(), 60, false), " at "+clockText(ap.CreatedAt, e)
	if paint.Width(by+at) <= in.W-x-10 {
		by += at // whole or not at all
	}
	in.Text(x, 0, in.W-x-10, paint.Style{Role: paint.Muted}, by)
	in.Right(in.W-9, 0, 9, look, left)
	in.Rule(1, "")
	p.pager.Draw(in.Sub(0, 2, in.W, in.H-2))
	return true
}
