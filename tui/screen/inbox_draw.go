package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// The columns of the inbox. The time that is left never goes.
const (
	colType = iota
	colWhat
	colFlow
	colRisk
	colTTL
)

// The columns of what is resolved: who, and when.
const (
	colBy = 3
	colAt = 4
)

// gutter is the cursor, the mark and the glyph at the left of a row.
const gutter = 4

func waitingColumns(w int) []widget.Column {
	return widget.PlaceColumns([]widget.Column{
		{Title: "TYPE", Width: 10}, {Title: "WHAT", Width: whatWidth(w), Grow: true}, {Title: "RUN", Width: runWidth(w), Drop: 1},
		{Title: "RISK", Width: 4}, {Title: "    LEFT", Width: 8},
	}, gutter, w-gutter)
}

func resolvedColumns(w int) []widget.Column {
	run, by := runWidth(w), 14
	if w < 80 { // in that order everything has some room in a window of 80
		run, by = 12, 13
	}
	return widget.PlaceColumns([]widget.Column{
		{Title: "", Width: 10}, {Title: "", Width: whatWidth(w), Grow: true}, {Title: "", Width: run, Drop: 2},
		{Title: "BY", Width: by, Drop: 1}, {Title: "AT", Width: 8},
	}, gutter, w-gutter)
}

// whatWidth is the least width of what an approval is about: where there is
// room, the other columns go before it gets narrow.
func whatWidth(w int) int {
	if w < 60 {
		return 8
	}
	return 24
}

// runWidth is the width of the name of an approval's run: more where there is much.
func runWidth(w int) int { return max(14, min(w/5, 30)) }

// lines is how many lines all rows take: those that wait, an empty line and a
// heading, and those that are over.
func (p *inboxPanel) lines() int {
	if len(p.rows.resolved) == 0 {
		return len(p.rows.waiting)
	}
	return p.rows.len() + headingLines
}

func (p *inboxPanel) draw(a paint.Area, e *Env, focus bool) {
	count, order := itoa(len(e.State.Waiting(e.Now))), "least first"
	if p.filter != "" {
		count = itoa(len(p.rows.all)) + " of " + itoa(p.rows.total)
	}
	if p.reverse {
		order = "most first"
	}
	right := count + " waiting  sort time left, " + order
	if s := staleLists(e); s != "" {
		right = s + "  " + right
	}
	foot := ""
	if n := len(p.rows.waiting); n > 0 && p.waited {
		foot = fmt.Sprintf("%d/%d", p.was+1, n)
	}
	in := a.Frame(paint.Title{Left: "2 Approvals", Right: right, Foot: foot, Focus: focus})
	below := p.below(in, e)
	p.view.first, p.view.height = 2, in.H-1-below
	if p.rows.len() == 0 {
		p.drawNothing(in, e)
	} else {
		p.drawRows(in, e, focus)
	}
	p.drawBelow(in, below, e)
}

// below is how many lines are kept for the filter, the marks and what the
// selected approval is about.
func (p *inboxPanel) below(in paint.Area, e *Env) int {
	n := 0
	if p.filter != "" || len(p.marked) > 0 || p.span.ended {
		n++
	}
	if !e.preview && in.H-n >= p.lines()+1+detailLines && p.rows.len() > 0 {
		n += detailLines
	}
	return n
}

// detailLines is how much is said of the selected approval below the list.
const detailLines = 4

// overTitle is the heading of what is over.
func (r *inboxRows) overTitle(e *Env) string {
	if a, ok := e.State.Approval(r.resolved[0]); ok && unanswered(a, e) {
		return "expired or resolved"
	}
	return "recently resolved"
}

// unanswered reports whether an approval has expired and its run still waits for it.
func unanswered(a core.Approval, e *Env) bool {
	run, _ := e.State.Run(a.RunID)
	return run.State == core.RunWaiting && a.RenewedBy == "" && a.StateAt(e.Now) == core.ApprovalExpired
}

func (p *inboxPanel) drawRows(in paint.Area, e *Env, focus bool) {
	wait, over := waitingColumns(in.W), resolvedColumns(in.W)
	widget.DrawTitles(in, 0, wait)
	selected := p.rows.index(e.Sel.Approval)
	p.view.arrange(selected, &p.rows)
	for y := range p.view.height {
		row := p.view.rowAt(y, &p.rows)
		if row < 0 {
			if p.view.isHeading(y, &p.rows) {
				widget.DrawTitles(in, y+1, over)
				in.Text(gutter, y+1, 20, paint.Style{Role: paint.Muted}, p.rows.overTitle(e))
			}
			continue
		}
		ap, ok := e.State.Approval(p.rows.id(row))
		if !ok {
			continue
		}
		if row < len(p.rows.waiting) {
			p.drawWaiting(in, y+1, wait, ap, e)
		} else {
			p.drawResolved(in, y+1, over, ap, e)
		}
		if row == selected {
			widget.DrawCursor(in, y+1, focus)
		}
	}
}

func (p *inboxPanel) drawWaiting(in paint.Area, y int, cols []widget.Column, ap core.Approval, e *Env) {
	look, left, of := p.standing(ap, e)
	glyph, style := approvalLook(look.StateAt(e.Now), e.Theme)
	if slices.ContainsFunc(p.members(ap.ID, e), func(a core.Approval) bool { return p.marked[a.ID] }) {
		in.Put(1, y, paint.Style{Role: paint.Accent}.Bold(), e.Theme.Glyph.Mark)
	}
	in.Put(2, y, style, glyph)
	cols[colType].Text(in, y, paint.Style{}, typeName(ap.Type))
	what := p.what(ap)
	if p.rows.groups.of[ap.ID] != nil {
		what = p.groupText(ap.ID, e)
	}
	if left < of {
		what = fmt.Sprintf("%d left of %s", left, what)
	}
	if e.found.id == ap.ID && e.found.all {
		what += " (found)"
	}
	cols[colWhat].Text(in, y, paint.Style{}, fitPath(what, cols[colWhat].Width, p.inView(ap, e), e.Theme))
	cols[colFlow].Text(in, y, paint.Style{Role: paint.Muted}, p.rows.runName(ap, e))
	cols[colRisk].Text(in, y, riskStyle(ap.Risk), riskWord(ap.Risk))
	if left == of {
		look = p.soonest(ap, e)
	}
	text, style := timeLeft(look, e)
	in.Right(cols[colTTL].X, y, cols[colTTL].Width, style, text)
}

// standing is the approval that says how a row stands. The rows are kept while something is being decided:
// of a group of which some are decided meanwhile it is the first that waits, and left of of wait.
func (p *inboxPanel) standing(ap core.Approval, e *Env) (look core.Approval, left, of int) {
	look = ap
	members := p.members(ap.ID, e)
	for _, m := range members {
		if m.StateAt(e.Now) == core.ApprovalOpen {
			if left++; left == 1 {
				look = m
			}
		}
	}
	if left == 0 {
		return ap, 1, 1
	}
	return look, left, len(members)
}

func (p *inboxPanel) drawResolved(in paint.Area, y int, cols []widget.Column, ap core.Approval, e *Env) {
	st := ap.StateAt(e.Now)
	glyph, style := approvalLook(st, e.Theme)
	muted := paint.Style{Role: paint.Muted}
	in.Put(2, y, style, glyph)
	cols[colType].Text(in, y, muted, typeName(ap.Type))
	cols[colWhat].Text(in, y, paint.Style{}, fitPath(p.what(ap), cols[colWhat].Width, p.inView(ap, e), e.Theme))
	cols[colFlow].Text(in, y, muted, p.rows.runName(ap, e))
	by, at := stateWord(st), ""
	if _, ok := permittedBy(ap, e); ok {
		by = "permitted"
	}
	if d := ap.DecidedBy; d != nil {
		by = core.Visible(d.Label(), 60, false)
		at = clockText(d.At, e)
	} else if st == core.ApprovalExpired && ap.ExpiresAt != nil {
		at = clockText(*ap.ExpiresAt, e)
		if ap.RenewedBy != "" {
			by = "asked again"
		}
	}
	cols[colBy].Text(in, y, style, by)
	cols[colAt].Text(in, y, muted, at)
}

// drawNothing says why there are no rows, and what to do.
func (p *inboxPanel) drawNothing(in paint.Area, e *Env) {
	text, style := "", paint.Style{Role: paint.Muted}
	link := e.State.Links.Client
	switch {
	case p.filter != "":
		text = fmt.Sprintf("0 of %d match %s. esc clears the filter.", p.rows.total, core.Visible(p.filter, 200, false))
	case link.State == state.LinkLost:
		text = fmt.Sprintf("%s cannot read the approvals: %s. It is tried again by itself; pml doctor says more.", e.Theme.Glyph.Failed, core.Visible(link.Err, 300, false))
		style.Role = paint.Danger
	case !e.State.Loaded:
		text = "Reading the approvals."
	case e.State.ExpiredRuns(e.Now) > 0:
		text, style.Role = idleSpans(e)[0].text, paint.Warn
	default:
		text = "Nothing is waiting. You will get a bell and a banner."
	}
	for i, l := range paint.Wrap(text, in.W) {
		in.Put(0, i, style, l)
	}
}

// drawBelow says what is marked or filtered, and what the selected approval is
// about.
func (p *inboxPanel) drawBelow(in paint.Area, n int, e *Env) {
	y := in.H - 1
	accent := paint.Style{Role: paint.Accent}
	switch {
	case p.span.ended:
		text := "the range ended: its first row waits no more"
		if n := len(p.marked); n > 0 {
			text += fmt.Sprintf("; %d stay marked", n)
		}
		in.Text(0, y, in.W, paint.Style{Role: paint.Warn}, text)
	case len(p.marked) > 0:
		in.Text(0, y, in.W, accent, p.decidesMarked(e))
	case p.filter != "":
		in.Text(0, y, in.W, accent, "/ filter: "+core.Visible(p.filter, 200, false)+"   (esc clears)")
	default:
		y++
	}
	ap, ok := e.State.Approval(e.Sel.Approval)
	if n < detailLines || !ok {
		return
	}
	y -= detailLines
	muted := paint.Style{Role: paint.Muted}
	in.Rule(y, aboutText(ap, "  ")+madeAt(ap))
	for i, l := range paint.Wrap(core.Visible(ap.Description, 600, false), in.W) {
		if i == 2 {
			break
		}
		in.Text(0, y+1+i, in.W, paint.Style{}, l)
	}
	asked := withID(p.rows.runName(ap, e), ap.RunID) + "   asked by " + core.Visible(ap.RequestedBy.Name(), 40, false) + " at " + clockText(ap.CreatedAt, e)
	if id := "   id " + ap.ID.Short(); paint.Width(asked+id) <= in.W {
		asked += id
	}
	in.Text(0, y+3, in.W, muted, asked)
}

// whatKey is what a text about an approval was made from.
type whatKey struct {
	id     core.ID
	digest string
}

// maxWhat bounds the texts that are kept.
const maxWhat = 2000

// what is what an approval asks for, on one line. It is kept: a context can be
// large.
func (p *inboxPanel) what(ap core.Approval) string {
	key := whatKey{ap.ID, ap.Digest}
	if text, ok := p.whats[key]; ok {
		return text
	}
	if p.whats == nil || len(p.whats) >= maxWhat {
		p.whats = map[whatKey]string{}
	}
	text := whatText(ap)
	p.whats[key] = text
	return text
}

// whatText is what makes an approval another than its neighbours.
func whatText(ap core.Approval) string {
	var c struct {
		Kind       string               `json:"kind"`
		OldHash    string               `json:"old_hash"`
		NewHash    string               `json:"new_hash"`
		Arguments  json.RawMessage      `json:"arguments"`
		Keys       []string             `json:"missing_keys"`
		Next       []evidence.LayerTask `json:"next"`
		Layer      int                  `json:"layer_index"`
		Issuer     string               `json:"issuer"`
		Flow       string               `json:"flow"`
		Node       string               `json:"node"`
		Dependency struct {
			Name     string `json:"name"`
			Version  string `json:"version"`
			Packages int    `json:"packages"`
		} `json:"dependency"`
	}
	_ = json.Unmarshal(ap.Context, &c) // what has another shape is left out
	text := subjectOf(ap)
	switch d := c.Dependency; {
	case ap.Type == core.ApproveIntegrity && c.NewHash != "":
		text += ": " + cmp.Or(asked.Changed(c.Kind, c.OldHash), "a hash has changed, to "+digits(c.NewHash))
	case ap.Type == core.ApproveDependency && d.Name != "":
		text = fmt.Sprintf("%s@%s (%d packages)", d.Name, d.Version, d.Packages)
	case ap.Type == core.ApproveKeys && len(c.Keys) > 0:
		text = strings.Join(c.Keys, ", ")
	case ap.Type == core.ApproveLayer && len(c.Next) > 0:
		text = fmt.Sprintf("layer %d: %s", c.Layer+1, plural(len(c.Next), "task")+", "+toolsOf(c.Next))
	case ap.Type == core.ApproveOAuth && c.Issuer != "":
		text += " at " + c.Issuer
	case ap.Type == core.ApproveHook && c.Flow != "":
		text = c.Flow + ": " + c.Node
	case ap.Type == core.ApproveBudget:
		text = ap.Description
	case ap.IfEdited() != nil:
		text = "changed: " + callText(ap.Tool, ap.Answer.Arguments)
	case ap.Tool != "" && len(c.Arguments) > 2:
		text = callText(ap.Tool, c.Arguments)
	}
	return core.Visible(text, 400, false)
}

// toolsOf names the tools of a layer, each once.
func toolsOf(next []evidence.LayerTask) string {
	var tools []string
	for _, t := range next {
		if !slices.Contains(tools, t.Tool) {
			tools = append(tools, t.Tool)
		}
	}
	return strings.Join(tools, ", ")
}

// callText is a call by its verb and the argument that tells most of it, its server
// last: "write_file src/a.ts (fs)".
func callText(tool string, args json.RawMessage) string {
	text := core.CallLine(tool, args)
	if server, _, ok := core.SplitTool(tool); ok {
		text += " (" + server + ")"
	}
	return text
}

// digits are the first of a hash, for a row; the card shows it whole.
func digits(hash string) string {
	if _, hex, ok := strings.Cut(hash, ":"); ok {
		hash = hex
	}
	return hash[:min(len(hash), 6)]
}

// inboxView is which rows of the inbox are in view: above those that wait, and
// below, in the lines that these leave, what is over with its heading. Whatever
// is over takes no line from what waits but the one of the cursor.
type inboxView struct {
	first  int // the line of the panel where the rows begin
	height int // of all rows
	wait   widget.Scroll
	over   widget.Scroll // of lines: the heading is the first of them
}

// headingLines are the empty line and the heading above what is over.
const headingLines = 2

// arrange brings a row into view.
func (v *inboxView) arrange(selected int, r *inboxRows) {
	v.height = max(v.height, 0)
	n, lines := len(r.waiting), 0
	if len(r.resolved) > 0 {
		lines = len(r.resolved) + headingLines
	}
	shown, at, line := min(n, v.height), selected, 0
	if selected >= n {
		shown, at, line = min(n, max(v.height-1, 0)), 0, selected-n+headingLines
	}
	v.wait.Show(at, n, shown)
	v.over.Show(line, lines, v.height-shown)
}

// rowAt is the row in a line of the view, -1 in one that has none.
func (v *inboxView) rowAt(y int, r *inboxRows) int {
	if y < 0 || y >= v.height {
		return -1
	}
	if y < v.wait.Height {
		return v.wait.Top + y
	}
	row := len(r.waiting) + v.over.Top + y - v.wait.Height - headingLines
	if row < len(r.waiting) || row >= r.len() {
		return -1
	}
	return row
}

// isHeading reports whether the heading stands in a line of the view, with a row
// below it.
func (v *inboxView) isHeading(y int, r *inboxRows) bool {
	return y >= v.wait.Height && v.over.Top+y-v.wait.Height == headingLines-1 && v.rowAt(y+1, r) >= 0
}

// keeps makes a test of words that must all occur in what a row shows of an approval,
// or in its ids; one that begins with "!" must not. It ignores case.
func (p *inboxPanel) keeps() func(core.Approval, *Env) bool {
	words := strings.Fields(strings.ToLower(p.filter))
	return func(a core.Approval, e *Env) bool {
		if len(words) == 0 {
			return true
		}
		shown := []string{
			typeName(a.Type), string(a.Type), a.Tool, a.Subject, p.what(a), "risk:" + string(a.Risk), "state:" + string(a.StateAt(e.Now)),
			"type:" + string(a.Type), "tool:" + a.Tool, "by:" + a.RequestedBy.Name(), a.Description, string(a.ID), string(a.RunID), e.State.Name(a.RunID), state.Folder(a.Workspace),
		}
		if d := a.DecidedBy; d != nil {
			shown = append(shown, d.Label(), clockText(d.At, e))
		}
		hay := strings.ToLower(strings.Join(shown, "\n"))
		for _, w := range words {
			w, not := strings.CutPrefix(w, "!")
			if w != "" && strings.Contains(hay, w) == not {
				return false
			}
		}
		return true
	}
}

// filterPrompt asks for a filter, which works while it is typed. Esc brings the
// one before back.
func (p *inboxPanel) filterPrompt(_ *Env) *prompt {
	before := p.filter
	set := func(text string) { p.filter, p.rows.made = text, false }
	q := newPrompt("filter approvals", before)
	q.hint = "words that must occur, or type:layer  tool:fs:write  risk:high  by:ada; !word must not. enter keeps it, esc does not"
	q.changed = func(text string) error { set(text); return nil }
	q.done = func(text string, _ *Env) []Intent { set(text); return nil }
	q.cancelled = func() { set(before) }
	return q
}
