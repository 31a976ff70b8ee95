package screen

import (
	"cmp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// runAction is what help wants of the screen: to do what the row says.
type runAction struct{ act keys.Action }

func (runAction) intent() {}

// helpRow is a row of the help: an action, or a heading where there is none.
type helpRow struct {
	act  keys.Action
	keys string
	text string
}

// help lists what keys do: those of the panel first. Typing narrows it.
type help struct {
	panel  string
	here   []keys.Action
	word   func(keys.Action) string // what a key does in the panel, where that is not what it does elsewhere
	own    []helpRow                // what keys do in the window below, in place of those of panels
	input  widget.Input
	cursor int // of the rows that match
	scroll widget.Scroll
}

// panelTitles are the panels as the help calls them.
var panelTitles = [panels]string{"runs", "approvals", "DAG", "task", "events", "audit", "servers", "hosts", "flows"}

func newHelp(p PanelID, hints []keys.Action, word func(keys.Action) string) overlay {
	return &help{panel: panelTitles[p], here: hints, word: word, cursor: 1}
}

func (h *help) typing() bool { return true }

// rows are the rows that match what was typed.
func (h *help) rows(e *Env) []helpRow {
	words := strings.Fields(strings.ToLower(h.input.Text))
	var out []helpRow
	here := "Here: " + h.panel
	add := func(title string, acts []keys.Action) {
		first := true
		for _, act := range acts {
			row := helpRow{act: act, keys: strings.Join(e.Keys.Keys(act), " "), text: keys.Label(act)}
			if title == here {
				row.text = cmp.Or(h.word(act), row.text)
			}
			if in := keys.Where(act); in != "" && title != here {
				row.text += " (" + in + ")"
			}
			named := strings.ReplaceAll(string(act), "_", " ") + " " + shortLabel(act)
			if row.keys == "" || !matchesAll(strings.ToLower(row.keys+" "+row.text+" "+named), words) {
				continue
			}
			if first {
				out = append(out, helpRow{text: title})
				first = false
			}
			out = append(out, row)
		}
	}
	for _, row := range h.own {
		if matchesAll(strings.ToLower(row.keys+" "+row.text), words) {
			out = append(out, row)
		}
	}
	if len(h.own) > 0 {
		return out
	}
	add(here, h.here)
	add("All keys (those of other panels work there)", slices.DeleteFunc(keys.All(), func(a keys.Action) bool { return slices.Contains(h.here, a) }))
	out = append(out, atStart(words)...)
	for i, row := range onCards(e) {
		if i == 0 && len(words) > 0 || !matchesAll(strings.ToLower(row.keys+" "+row.text+" card"), words) {
			continue
		}
		if len(words) > 0 {
			row.text += " (card)"
		}
		out = append(out, row)
	}
	return out
}

// atStart is what a person looks for among the keys and sets where the terminal starts: what matches
// of it, under a heading.
func atStart(words []string) []helpRow {
	rows := slices.DeleteFunc([]helpRow{
		{keys: "--theme NAME", text: "colours (colors): auto, ansi, dark, light, modus"},
		{keys: "--notify HOW", text: "notifications of what waits: off, bell, osc"},
		{keys: "--plain, --ascii", text: "lines for screen readers; ASCII characters only"},
		{keys: "--print-keys", text: "all actions and their keys, which can be changed"},
	}, func(r helpRow) bool { return !matchesAll(strings.ToLower(r.keys+" "+r.text), words) })
	if len(rows) == 0 {
		return nil
	}
	return append([]helpRow{{text: "Set at the start: pml tui --help; to stay, under \"tui\" in config.json"}}, rows...)
}

// onCards is what keys do on the card of an approval, under a heading.
func onCards(e *Env) []helpRow {
	rows := []helpRow{{text: "On the card of an approval, which " + keyOf(e, keys.Open) + " opens"}}
	add := func(act keys.Action, more, text string) {
		if bound := e.Keys.Keys(act); len(bound) > 0 {
			rows = append(rows, helpRow{keys: strings.TrimSpace(bound[0] + " " + more), text: text})
		}
	}
	add(keys.ApproveRemember, "r", "approve the tool, and its calls in this run")
	add(keys.ApproveRemember, "s", "approve the tool, and its calls in this session (not of pml run, which ends)")
	add(keys.ApproveRemember, "w", "approve and write a rule, shown first")
	add(keys.Message, "", "deny, and say the reason to the agent")
	add(keys.Edit, "", "change the arguments in $EDITOR, then approve")
	return append(rows, helpRow{keys: "J", text: "the arguments as JSON, and back"})
}

func matchesAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func (h *help) key(k keys.Key, e *Env) ([]Intent, bool) {
	rows := h.rows(e)
	move := map[string]keys.Action{"up": keys.Up, "down": keys.Down, "pgup": keys.PageUp, "pgdown": keys.PageDown}
	switch act, moves := move[k.Name]; {
	case moves && !k.Paste:
		to, _ := h.scroll.Move(act, h.cursor, len(rows))
		h.moveTo(to, rows)
	case k.Name == "esc" && !k.Paste:
		if h.input.Text == "" {
			return nil, true
		}
		h.input = widget.Input{}
		h.moveTo(0, h.rows(e))
	case k.Name == "enter" && !k.Paste:
		return h.run(rows)
	case h.input.Key(k):
		h.moveTo(0, h.rows(e))
	}
	return nil, false
}

// run does what the selected row says, but for decisions: enter never decides. Over a card it
// only leads back.
func (h *help) run(rows []helpRow) ([]Intent, bool) {
	if len(h.own) > 0 {
		return nil, true
	}
	switch {
	case h.cursor >= len(rows):
		return nil, false
	case strings.HasPrefix(rows[h.cursor].keys, "--"):
		return []Intent{say{Note, "that is said when pml tui starts: pml tui --help"}}, true
	case rows[h.cursor].act == "" && rows[h.cursor].keys != "":
		return []Intent{say{Note, "that is a key of the card of an approval"}}, true
	case rows[h.cursor].act == "":
		return nil, false
	}
	if act := rows[h.cursor].act; !slices.Contains(decisions, act) {
		return []Intent{runAction{act}}, true
	}
	return []Intent{say{Note, "what decides is done with its own key, on the row itself"}}, true
}

// moveTo puts the cursor on a row, or the next one that is no heading.
func (h *help) moveTo(row int, rows []helpRow) {
	up := row < h.cursor
	heading := func(i int) bool { return rows[i].act == "" && rows[i].keys == "" }
	for row > 0 && row < len(rows) && heading(row) && up {
		row--
	}
	for row < len(rows)-1 && heading(row) {
		row++
	}
	h.cursor = max(min(row, len(rows)-1), 0)
}

func (h *help) draw(a paint.Area, e *Env) {
	rows := h.rows(e)
	h.cursor = max(min(h.cursor, len(rows)-1), 0)
	title := paint.Title{Left: "Help  " + h.panel, Right: "type to search", Foot: "enter does it   esc closes", Focus: true}
	switch {
	case len(h.own) > 0 && h.input.Text != "":
		title.Foot = "esc clears the search"
	case len(h.own) > 0:
		title.Foot = "enter and esc lead back to the card"
	case h.input.Text != "":
		title.Foot = "enter does it   esc clears the search"
	}
	tall := a.H - 4
	if len(h.own) > 0 {
		tall = min(tall, len(h.own)+6)
	}
	in := popup(a, 78, tall).Frame(title)
	h.input.Draw(in, in.Text(0, 0, in.W, paint.Style{Role: paint.Accent}.Bold(), "? "), 0, in.W-2, paint.Style{})
	var symbols []string
	if len(h.own) == 0 {
		symbols = symbolLines(e.Theme, in.W)
	}
	list := in.Sub(0, 2, in.W, in.H-3-len(symbols))
	if len(rows) == 0 {
		list.Text(0, 0, list.W, paint.Style{Role: paint.Muted}, "no key does that")
	}
	h.scroll.Show(h.cursor, len(rows), list.H)
	if below := len(rows) - h.scroll.Top - list.H; below > 0 {
		in.Right(0, in.H-1-len(symbols), in.W, paint.Style{Role: paint.Muted}, itoa(below)+" more "+e.Theme.Glyph.ArrowDown)
	}
	for y := 0; y < list.H && h.scroll.Top+y < len(rows); y++ {
		row := rows[h.scroll.Top+y]
		if row.act == "" && row.keys == "" {
			list.Text(0, y, list.W, paint.Style{}.Bold(), row.text)
			continue
		}
		list.Text(3, y, 18, paint.Style{Role: paint.Accent}, row.keys)
		list.Text(22, y, list.W-22, paint.Style{}, row.text)
		if h.scroll.Top+y == h.cursor {
			widget.DrawCursor(list, y, true)
		}
	}
	for i, s := range symbols {
		in.Put(0, in.H-len(symbols)+i, paint.Style{Role: paint.Muted}, s)
	}
}

// symbolLines explain the glyphs, where there is room for it.
func symbolLines(t *paint.Theme, w int) []string {
	g := &t.Glyph
	text := strings.Join([]string{
		g.Done + " success", g.Running + " running", g.Queued + " queued", g.Waiting + " waiting", g.Failed + " failed",
		g.FailedSafe + " failed safe", g.Skipped + " skipped", g.Aborted + " aborted", g.Mark + " marked",
		"predicted: expected of the script, not called yet",
	}, "   ")
	if lines := paint.Wrap(text, w); len(lines) <= 3 {
		return lines
	}
	return nil
}

// cardHelp is the help over a card: what its buttons do, then how it is read. The keys of
// the panel under it do not count while it is open.
func cardHelp(c *card, e *Env) overlay {
	h := &help{panel: "card"}
	c.offer(e)
	for _, b := range c.buttons {
		h.own = append(h.own, helpRow{keys: b.key, text: b.label})
	}
	add := func(text, own string, acts ...keys.Action) { h.add(e, text, own, acts...) }
	a, over := c.rule.Approval(), c.rule.Ended(e.Now) != ""
	page, back, command := "next page: approve unlocks when all was on screen", "back; nothing is decided", "copy the command that does the same"
	if over {
		page, back, command = "next page", "back", "copy the command that shows it"
	}
	add(page, "space", keys.PageDown)
	if c.bounds == nil {
		helpQuestion(h, a, over, e)
	} else {
		back = "back to the call itself; nothing is decided"
	}
	add(back, "", keys.Back)
	add("down and up a line", "", keys.Down, keys.Up)
	add("page up", "", keys.PageUp)
	add("beginning, end: what is jumped over was not shown", "", keys.First, keys.Last)
	if len(c.buttons) > 0 {
		add("next button; its letter presses it, enter does not", "", keys.NextPanel)
	}
	add("the card in the whole window, or beside the list", "", keys.Zoom)
	if a.StateAt(e.Now) == core.ApprovalOpen && a.ExpiresAt != nil && c.bounds == nil {
		add("5 more minutes to decide", "", keys.MoreTime)
	}
	if !over && c.bounds == nil {
		add("ask again, once it has expired", "", keys.Again)
	}
	add("what happened to it: the audit trail", "", keys.Trail)
	add(command, "", keys.CopyID)
	add("copy it as JSON", "", keys.CopyAll)
	return h
}

// helpQuestion adds what is done with a question, and not with the bounds for the calls of its loop.
func helpQuestion(h *help, a core.Approval, over bool, e *Env) {
	if a.Type == core.ApproveTool {
		h.add(e, "the arguments as JSON, and back", "J")
	}
	if editWord(a, over) == "view" {
		h.add(e, "look at it in $EDITOR", "", keys.Edit)
	} else {
		h.add(e, "change the arguments in $EDITOR, then approve", "", keys.Edit)
	}
	if run, _ := e.State.Run(a.RunID); run.Kind == core.KindDAG && !over {
		h.add(e, "add tasks to the plan of its run, in $EDITOR", "", keys.Replan)
	}
}

// add is a row of what keys do: those of some actions, and one that has no binding of its own.
func (h *help) add(e *Env, text, own string, acts ...keys.Action) {
	words := []string{}
	if own != "" {
		words = append(words, own)
	}
	for _, act := range acts {
		if bound := e.Keys.Keys(act); len(bound) > 0 {
			words = append(words, bound[0])
		}
	}
	if len(words) > 0 {
		h.own = append(h.own, helpRow{keys: strings.Join(words, " "), text: text})
	}
}

// bulkHelp is the help over a list of approvals that are decided together.
func bulkHelp(b *bulk, e *Env) overlay {
	h := &help{panel: "list"}
	if b.lock(e) == "" {
		h.add(e, "deny "+b.all(), "", keys.Deny)
		h.add(e, "deny "+b.all()+", with one reason", "", keys.Message)
		if decide.Together(b.shown, e.Now) == "" {
			h.add(e, strings.ToLower(b.approveLabel()), "", keys.Approve)
		}
		if b.bounds(e) {
			h.add(e, "approve the calls of their loop, within bounds", "", keys.Bounds)
		}
	}
	if b.apart != nil {
		h.add(e, "one by one: each gets a row of its own", "", keys.Alike)
	}
	h.add(e, "next page: approve unlocks when all was on screen", "space", keys.PageDown)
	h.add(e, "down and up a line", "", keys.Down, keys.Up)
	h.add(e, "page up", "", keys.PageUp)
	h.add(e, "beginning, end: what is jumped over was not shown", "", keys.First, keys.Last)
	h.add(e, "back; nothing is decided", "", keys.Back)
	return h
}
