package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/core/asked"
	"github.com/casys-ai/pml/tui/evidence"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/state"
	"github.com/casys-ai/pml/tui/widget"
)

// auditPanel shows the audit log, newest first: who decided what, and how it
// ended. The log is read when the panel is first looked at.
type auditPanel struct {
	words  string        // what a row must contain
	cursor core.AuditRow // the selected row
	moved  bool          // the cursor is not on the newest
	scroll widget.Scroll

	rows    []core.AuditRow // that match, newest first
	version int64
	matched string // the words that rows were made for
	made    bool
}

func newAudit() *auditPanel { return &auditPanel{} }

// list returns the rows that match, made once for a state.
func (p *auditPanel) list(e *Env) []core.AuditRow {
	if p.made && p.version == e.State.Version() && p.matched == p.words {
		return p.rows
	}
	p.made, p.version, p.matched, p.rows = true, e.State.Version(), p.words, p.rows[:0]
	all := e.State.Audit()
	filter, words, _ := auditFilter(p.words, e.Now)
	for _, a := range slices.Backward(all) {
		if filter.Match(a) && auditMatches(a, words, e) {
			p.rows = append(p.rows, a)
		}
	}
	return p.rows
}

// auditFilter reads what was typed: NAME:VALUE as commands and HTTP take it (by:,
// since:7d), age<1h and age>1h as the filter of runs takes them, everything else as words
// that a row must contain, or must not: !word. The error is that of a value that makes no
// sense.
func auditFilter(text string, now time.Time) (f core.AuditFilter, words []string, err error) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, ":")
		for sign, as := range map[string]string{"age<": "since", "age>": "until"} {
			if age, ok := strings.CutPrefix(word, sign); ok {
				key, value = as, age
			}
		}
		switch {
		case !slices.Contains(core.AuditFilterKeys, key):
			words = append(words, strings.ToLower(word))
		case value != "": // else it is being typed
			err = cmp.Or(err, f.Set(key, value, now))
		}
	}
	return f, words, err
}

// auditOutcome is the outcome of a row as its column calls it.
func auditOutcome(r *core.AuditRow) string {
	return core.Visible(core.ShownOutcome(*r), 20, false)
}

// auditCount is the outcome of a row, and of how many calls it is that of.
func auditCount(r *core.AuditRow) string {
	if r.Count > 1 {
		return auditOutcome(r) + " ×" + itoa(r.Count)
	}
	return auditOutcome(r)
}

// auditMatches reports whether every word is somewhere in a row, as its columns show it, or
// in its ids. What was denied is found by "deny", too.
func auditMatches(r core.AuditRow, words []string, e *Env) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join([]string{
		momentText(r.At, e), string(r.Side), auditCount(&r), string(r.Type), typeName(r.Type), r.Tool, auditWhat(&r, e),
		r.By.Name(), r.By.Label(), string(r.By.Via), auditRun(&r, e), core.ShownReason(r), string(r.RunID), string(r.ApprovalID),
	}, "\n"))
	if core.ShownOutcome(r) == string(core.ApprovalDenied) {
		text += "\ndeny"
	}
	for _, w := range words {
		if w, not := strings.CutPrefix(w, "!"); strings.Contains(text, w) == (not && w != "") {
			return false
		}
	}
	return true
}

// at is the row of the cursor, -1 for an empty list.
func (p *auditPanel) at(rows []core.AuditRow) int {
	if !p.moved {
		return min(0, len(rows)-1)
	}
	lo, _ := slices.BinarySearchFunc(rows, p.cursor, func(row, cursor core.AuditRow) int { return ByAuditTime(cursor, row) })
	return min(lo, len(rows)-1)
}

// ByAuditTime orders rows of the audit logs of both halves: each has numbers of
// its own, so the time comes first.
func ByAuditTime(a, b core.AuditRow) int {
	if n := a.At.Compare(b.At); n != 0 {
		return n
	}
	if n := strings.Compare(string(a.Side), string(b.Side)); n != 0 {
		return n
	}
	return cmp.Compare(a.Seq, b.Seq)
}

func (p *auditPanel) do(act keys.Action, e *Env) ([]Intent, bool) {
	rows := p.list(e)
	at := p.at(rows)
	if to, ok := p.scroll.Move(act, at, len(rows)); ok {
		if len(rows) > 0 {
			p.moved, p.cursor = to > 0, rows[to]
		}
		return nil, true
	}
	switch act {
	case keys.Open:
		if at >= 0 {
			return []Intent{showText{"audit: row " + rowName(rows[at]), auditText(&rows[at], e)}}, true
		}
	case keys.Filter:
		return []Intent{openOverlay{p.filterPrompt(e)}}, true
	case keys.Back:
		if p.words == "" {
			return nil, false
		}
		p.words = ""
	default:
		if at < 0 {
			return nil, false
		}
		intents := p.copyOut(act, rows[at], e)
		return intents, intents != nil
	}
	return nil, true
}

func (p *auditPanel) filterPrompt(e *Env) overlay {
	before := p.words
	ask := newPrompt("/ filter:", before)
	st := e.State
	tell := func() {
		ask.hint = fmt.Sprintf("%d of %d match   words, or by:ada  tool:fs:*  outcome:denied  type:  workspace:  approval:  since:7d  age<1h  !word", len(p.list(e)), len(st.Audit()))
	}
	tell()
	ask.changed = func(text string) error {
		if _, _, err := auditFilter(text, e.Now); err != nil {
			return err
		}
		p.words = text
		tell()
		return nil
	}
	ask.cancelled = func() { p.words = before }
	return ask
}

// copyOut copies or saves rows, nil for another action.
func (p *auditPanel) copyOut(act keys.Action, r core.AuditRow, e *Env) []Intent {
	switch act {
	case keys.CopyID:
		return []Intent{Copy{What: "an id", Text: string(r.ApprovalID)}}
	case keys.CopyAll:
		return []Intent{Copy{What: "a row of the audit log", Text: indented(r)}}
	case keys.CopyCommand:
		return []Intent{Copy{What: "a command", Text: "pml approvals show " + string(r.ApprovalID)}}
	case keys.Edit:
		return []Intent{View{Name: "audit-" + strings.ReplaceAll(rowName(r), " ", "-") + ".json", Text: indented(r)}}
	case keys.Save:
		var b strings.Builder
		rows := p.list(e)
		for _, row := range slices.Backward(rows) {
			if line, err := json.Marshal(row); err == nil {
				b.Write(line)
				b.WriteByte('\n')
			}
		}
		return []Intent{Save{Name: "audit-" + e.Now.Format("20060102-150405") + ".jsonl", Text: b.String()}}
	default:
		return nil
	}
}

// The columns of the audit log.
const (
	auTime = iota
	auOutcome
	auType
	auWhat
	auBy
	auRun
	auReason
)

// auditColumns are the columns in w columns; clock says that no time has a day.
func auditColumns(w int, clock bool) []widget.Column {
	moment, what, by, run := 12, 16, 14, 14
	if clock {
		moment = 8
	}
	if w < 84 { // in that order everything has some room in a window of 80
		what, by, run = 13, 10, 12
	}
	return widget.PlaceColumns([]widget.Column{
		auTime:    {Title: "TIME", Width: moment},
		auOutcome: {Title: "OUTCOME", Width: 12},
		auType:    {Title: "TYPE", Width: 10, Drop: 3},
		auWhat:    {Title: "WHAT", Width: what, Grow: true},
		auBy:      {Title: "BY", Width: by, Drop: 1},
		auRun:     {Title: "RUN", Width: run, Drop: 2},
		auReason:  {Title: "WHY", Width: 20, Grow: true, Drop: 4},
	}, 2, w-2)
}

func (p *auditPanel) draw(a paint.Area, e *Env, focus bool) {
	rows := p.list(e)
	all := len(e.State.Audit())
	title := paint.Title{Left: "6 Audit", Right: fmt.Sprintf("%d rows", all), Focus: focus}
	if p.words != "" {
		title.Right = fmt.Sprintf("%d of %d rows  / %s", len(rows), all, core.Visible(p.words, 40, false))
	}
	if stale := staleLists(e); stale != "" {
		title.Right = stale + "  " + title.Right
	}
	at := p.at(rows)
	if at >= 0 {
		title.Foot = fmt.Sprintf("%d/%d", at+1, len(rows))
	}
	in := a.Frame(title)
	if at < 0 {
		p.drawEmpty(in, e)
		return
	}
	height := in.H - 1
	p.scroll.Show(at, len(rows), height)
	seen := rows[p.scroll.Top:min(p.scroll.Top+height, len(rows))]
	clock := !slices.ContainsFunc(seen, func(r core.AuditRow) bool { return momentText(r.At, e) != clockText(r.At, e) })
	cols := auditColumns(in.W, clock)
	widget.DrawTitles(in, 0, cols)
	for y := range seen {
		drawAuditRow(in, 1+y, cols, seen, y, e)
		if p.scroll.Top+y == at {
			widget.DrawCursor(in, 1+y, focus)
		}
	}
}

// rowName is a row's number, and whose it is where there are two.
func rowName(r core.AuditRow) string {
	if r.Side == "" {
		return strconv.FormatInt(r.Seq, 10)
	}
	return core.Visible(string(r.Side), 20, false) + " " + strconv.FormatInt(r.Seq, 10)
}

func (p *auditPanel) drawEmpty(in paint.Area, e *Env) {
	text := "No decisions yet: who approved and denied what is kept here."
	switch {
	case p.words != "":
		text = fmt.Sprintf("0 of %d match %s. esc clears the filter.", len(e.State.Audit()), core.Visible(p.words, 100, false))
	case !e.State.Loaded:
		text = "Reading the audit log."
	}
	for i, line := range paint.Wrap(text, in.W) {
		in.Put(0, 1+i, paint.Style{Role: paint.Muted}, line)
	}
}

// drawAuditRow draws one of the rows that are in view.
func drawAuditRow(in paint.Area, y int, cols []widget.Column, seen []core.AuditRow, n int, e *Env) {
	r := &seen[n]
	beside := func() (texts []string) {
		for i := range seen {
			if i != n {
				texts = append(texts, auditWhat(&seen[i], e))
			}
		}
		return texts
	}
	muted := paint.Style{Role: paint.Muted}
	cols[auTime].Text(in, y, muted, momentText(r.At, e))
	glyph, style := approvalLook(r.Outcome, e.Theme)
	cols[auOutcome].Text(in, y, style, glyph+" "+auditCount(r))
	cols[auType].Text(in, y, paint.Style{}, typeName(r.Type))
	cols[auWhat].Text(in, y, paint.Style{}, fitPath(auditWhat(r, e), cols[auWhat].Width, beside, e.Theme))
	cols[auBy].Text(in, y, paint.Style{}, core.Visible(r.By.Label(), 80, false))
	run := auditRun(r, e)
	if run != "" && severalFolders(len(seen), func(i int) string { return seen[i].Workspace }) {
		run = inFolder(r.Workspace, run)
	}
	cols[auRun].Text(in, y, muted, run)
	if r.Tool != "" || r.Type != "" { // else it is what the row is about
		cols[auReason].Text(in, y, muted, core.Visible(core.ShownReason(*r), 200, false))
	}
}

// auditRun is the run of a row, which may be gone.
func auditRun(r *core.AuditRow, e *Env) string {
	if _, known := e.State.Run(r.RunID); !known && r.RunName != "" {
		return core.Visible(r.RunName, 80, false)
	}
	return e.State.Name(r.RunID)
}

// auditWhat is what a row is about: the call with what tells most of it, a tool or a
// server, the layer that was asked about, else what was done.
func auditWhat(r *core.AuditRow, e *Env) string {
	args := r.Arguments
	if len(r.Sent) > 0 {
		args = r.Sent
	}
	switch {
	case r.Tool == "" && r.Type != "":
		a, _ := e.State.Approval(r.ApprovalID)
		return cmp.Or(subjectOf(a), approval.TypeOf(r.Type).Words)
	case r.Tool == "" && auditHalf(r) != "":
		return auditHalf(r) + ": " + core.Visible(r.Reason, 200, false)
	case r.Tool == "":
		return core.Visible(namingFolder(r), 200, false)
	case len(args) > 0:
		return core.Visible(core.CallLine(r.Tool, args), 200, false)
	}
	return core.Visible(r.Tool, 200, false)
}

// namingFolder is the reason of a row about no call. Where somebody has trusted a workspace, it
// names that: there are several, and the words of the reason are the same for all.
func namingFolder(r *core.AuditRow) string {
	dir := state.Folder(r.Workspace)
	if grants, ok := strings.CutPrefix(r.Reason, "trusted what the files of the workspace "); ok && dir != "" {
		return "trusted " + dir + ": what its files " + grants
	}
	return r.Reason
}

// auditHalf is whose calls were halted or go on: both halves keep a row of it.
func auditHalf(r *core.AuditRow) string {
	if out := core.ShownOutcome(*r); r.RunID != "" || out != "halted" && out != "resumed" {
		return ""
	}
	return map[core.Side]string{core.SideClient: "here", core.SideServer: "server"}[r.Side]
}

// auditText is all that a row says, field by field, and then as JSON.
func auditText(r *core.AuditRow, e *Env) string {
	var b strings.Builder
	add := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-*s%s\n", evidence.LabelWidth, label, core.Visible(text, 4000, false))
		}
	}
	add("when", r.At.In(e.Now.Location()).Format("2006-01-02 15:04:05 -0700"))
	what := auditOutcome(r)
	if r.Count > 1 {
		what += ", " + itoa(r.Count) + " times"
	}
	add("what", strings.TrimSpace(what+"  "+typeName(r.Type)))
	add("tool", r.Tool)
	addArguments(&b, fmt.Sprintf("%-*s", evidence.LabelWidth, "arguments"), r.Arguments)
	addArguments(&b, fmt.Sprintf("%-*s", evidence.LabelWidth, "sent"), r.Sent)
	add("reason", core.ShownReason(*r))
	add("by", r.By.Origin())
	add("asked via", string(r.Asked))
	if r.RunID != "" {
		add("run", withID(auditRun(r, e), r.RunID))
	}
	add("approval", string(r.ApprovalID))
	add("asks again", string(r.Renewed))
	add("bounds", strings.TrimSpace(r.Shape+"  "+r.CallID))
	add("workspace", r.Workspace)
	add("digest", r.Digest)
	add("row", rowName(*r))
	add("hash", r.Hash)
	return b.String() + "\nas JSON\n" + indented(*r) + "\n"
}

// addArguments writes arguments under a label, key by key and texts with their lines.
func addArguments(b *strings.Builder, label string, args json.RawMessage) {
	if len(args) == 0 {
		return
	}
	for _, l := range asked.Arguments(args, nil) {
		if l.Label != "" {
			l.Text = l.Label + "  " + l.Text
		}
		b.WriteString(strings.TrimRight(label+l.Text, " ") + "\n")
		label = strings.Repeat(" ", len(label))
	}
}

func (p *auditPanel) click(x, y int, e *Env) []Intent {
	rows := p.list(e)
	if row := p.scroll.Top + y - 2; y >= 2 && y-2 < p.scroll.Height && row < len(rows) {
		p.moved, p.cursor = row > 0, rows[row]
	}
	return nil
}

func (p *auditPanel) hints(e *Env) []keys.Action {
	return []keys.Action{keys.Open, keys.Filter, keys.Save, keys.CopyID, keys.CopyAll, keys.CopyCommand, keys.Refresh, keys.Palette}
}
