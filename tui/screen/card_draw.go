package screen

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
	"github.com/casys-ai/pml/tui/decide"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// button is a decision that a card offers, and where it was drawn.
type button struct {
	act     keys.Action
	key     string // what to press
	label   string
	approve bool
	x, y, w int // of the card
}

// title asks the question of the card, or says that it is none any more.
func (c *card) title(e *Env) string {
	ap := c.rule.Approval()
	if c.rule.Ended(e.Now) != "" {
		return "Resolved: " + typeName(ap.Type)
	}
	if c.bounds != nil {
		return "Approve the calls of line " + itoa(ap.Place.Line) + "?"
	}
	return approval.QuestionOf(ap)
}

// area is the part of a window that a card takes.
func (c *card) area(a paint.Area) paint.Area {
	if modeOf(a.W, a.H) == dashboard && !c.full {
		return a.Sub(leftWidth(a.W), head, a.W-leftWidth(a.W), a.H-head-foot)
	}
	return a
}

// draw draws the card over the whole window, or its right part where there is
// room for both.
func (c *card) draw(window paint.Area, e *Env) {
	a := c.area(window)
	c.covers = a.H == window.H
	c.x, c.y, c.w, c.h = a.X-window.X, a.Y-window.Y, a.W, a.H
	c.sync(e)
	c.build(e)
	c.offer(e)
	ap := c.rule.Approval()
	box := a.Frame(paint.Title{Left: c.title(e), Focus: true, Style: riskStyle(ap.Risk)})
	drawLeft(a, ap, e)
	if box.W <= 0 || box.H < 3 {
		return
	}
	top, bottom := 2, c.bottomHeight(box)
	if box.H < 14 {
		top = 1
	}
	c.drawHead(box.Sub(0, 0, box.W, top), ap, e)
	body := &c.pager
	if c.mode == ruling {
		setRule(c, e)
		body = &c.rules
	}
	rows := box.H - top - bottom
	if box.H >= 14 {
		rows--
	}
	body.Draw(box.Sub(0, box.H-bottom-rows, box.W, rows))
	if body == &c.pager && c.pager.AtEnd() && rows > 0 && !c.wait {
		c.rule.Read()
	}
	if c.drawn = rows > 0; box.H >= 14 {
		box.Rule(top, body.Position())
	}
	c.askAtOnce(e)
	c.drawFoot(box.Sub(0, box.H-bottom, box.W, bottom), ap, e)
}

// bottomHeight is how many rows the lower part takes: rule, status, buttons,
// input, hints; in a small window the status and a line of keys.
func (c *card) bottomHeight(box paint.Area) int {
	if box.H < 14 {
		return 2
	}
	return 4 + c.place(box.W)
}

// drawLeft draws how long there is left into the title.
func drawLeft(a paint.Area, ap core.Approval, e *Env) {
	text, style := timeLeft(ap, e)
	if a.W >= 60 && ap.StateAt(e.Now) == core.ApprovalOpen && ap.ExpiresAt != nil {
		text += " left"
	}
	a.Put(a.W-4-paint.Width(text), 0, style, " "+text+" ")
}

// timeLeft is how long an approval still waits: a quiet number, which has a colour
// in its last minute.
func timeLeft(ap core.Approval, e *Env) (text string, style paint.Style) {
	switch st := ap.StateAt(e.Now); {
	case st != core.ApprovalOpen:
		_, style = approvalLook(st, e.Theme)
		return stateWord(st), style
	case ap.ExpiresAt == nil:
		return "no limit", paint.Style{Role: paint.Muted}
	}
	left := ap.ExpiresAt.Sub(e.Now)
	style.Role = paint.Muted
	switch {
	case left <= 20*time.Second:
		style = paint.Style{Role: paint.Danger}.Bold()
	case left <= time.Minute:
		style = paint.Style{Role: paint.Warn}
	}
	return ttlText(left), style
}

// riskWord is a risk in at most four letters; what is not known is high.
func riskWord(r core.Risk) string {
	switch r {
	case core.RiskLow:
		return "LOW"
	case core.RiskMedium:
		return "MED"
	case core.RiskHigh:
	}
	return "HIGH"
}

func riskStyle(r core.Risk) paint.Style {
	switch r {
	case core.RiskLow:
		return paint.Style{}
	case core.RiskMedium:
		return paint.Style{Role: paint.Warn}
	case core.RiskHigh:
	}
	return paint.Style{Role: paint.Danger}.Bold()
}

// drawHead says what is asked about, by whom and since when.
func (c *card) drawHead(a paint.Area, ap core.Approval, e *Env) {
	muted := paint.Style{Role: paint.Muted}
	tool := core.Visible(ap.Tool, 120, false)
	if tool == "" {
		tool = subjectOf(ap)
	}
	if tool == "" {
		tool = typeName(ap.Type)
	}
	risk := "risk " + riskWord(ap.Risk)
	a.Right(0, 0, a.W, riskStyle(ap.Risk), risk)
	room := a.W - len(risk) - 2
	if a.H < 2 {
		a.Text(0, 0, room, paint.Style{}.Bold(), typeName(ap.Type)+"  "+tool)
		return
	}
	where := fullName(ap.RunID, e)
	half := 10 + paint.Width(tool) + 3
	if run := 4 + paint.Width(where); half+run > room { // where both do not fit, neither takes more than half from the other
		half = min(half, max(room/2, room-run))
	}
	a.Text(0, 0, half, muted, "tool")
	a.Text(10, 0, half-11, paint.Style{}.Bold(), tool)
	x := half + a.Put(half, 0, muted, "run ")
	if r, ok := e.State.Run(ap.RunID); ok && r.TotalLayers > 0 {
		if layer := " (" + layerSaid(r) + ")"; paint.Width(where+layer) <= room-x {
			where += layer // whole or not at all
		}
	}
	a.Text(x, 0, room-x, paint.Style{}, where)
	x = a.Put(0, 1, muted, "asked by  ")
	by := core.Visible(ap.RequestedBy.Origin(), 80, false)
	a.Text(x, 1, a.W-x, paint.Style{}, by+" at "+clockText(ap.CreatedAt, e)+"   id "+ap.ID.Short())
}

// offer says which buttons there are: none decides what is over.
func (c *card) offer(e *Env) {
	ap := c.rule.Approval()
	list := []button{
		{act: keys.Deny, label: "Deny"}, {act: keys.Message, label: "Deny, say why"}, {act: keys.Abort, label: "Abort run"},
	}
	switch ap.Type {
	case core.ApproveLayer:
		list[0].label = "Deny and end run"
	case core.ApproveInDoubt:
		list = append(list, button{act: cardRunAgain, key: "r", label: "Run again"}, button{act: cardSkip, key: "s", label: "Skip with a result"})
	case core.ApproveDependency:
		if len(c.rule.Scripts()) > 0 {
			label := "Allow scripts: no"
			if c.rule.ScriptsAllowed() {
				label = "Allow scripts: YES"
			}
			list = append(list, button{act: cardScripts, key: "s", label: label})
		}
	case core.ApproveOAuth:
		if authURL(ap) != "" {
			list = append(list, button{act: keys.Save, label: "Open the address"})
		}
	default:
	}
	list = append(list, button{act: keys.Approve, label: c.approveLabel(), approve: true})
	if ap.Type == core.ApproveTool && !ap.Once && c.edited == nil {
		list = append(list, button{act: keys.ApproveRemember, label: "Approve, remember", approve: true})
	}
	if approval.InLoop(ap) && c.edited == nil {
		list = append(list, button{act: keys.Bounds, label: "Bounds for line " + itoa(ap.Place.Line)})
	}
	if c.bounds != nil {
		list = []button{
			{act: keys.Approve, label: "Approve up to " + plural(c.rule.Shape().Max, "call"), approve: true}, {act: keys.MoreCalls, label: "More"},
			{act: keys.FewerCalls, label: "Fewer"}, {act: keys.Edit, label: "Edit the bounds"},
		}
	}
	if c.mode == ruling && c.asked != nil {
		list = []button{{act: keys.Approve, label: "Write the rule and approve", approve: true}}
	}
	if c.rule.Ended(e.Now) != "" {
		list = nil
	}
	for i := range list {
		if bound := e.Keys.Keys(list[i].act); list[i].key == "" && len(bound) > 0 {
			list[i].key = bound[0]
		}
	}
	c.buttons = list
	if c.eager && !approval.High(ap, false) { // what is of high risk is denied more easily than approved
		toApprove(c)
	}
	if c.focus >= len(list) {
		c.focus = 0
	}
}

// approveLabel is what the button says that approves: once, where a yes is about the call that asks
// alone. A call in doubt is not approved before it was said how it goes on.
func (c *card) approveLabel() string {
	switch t := c.rule.Approval().Type; {
	case t == core.ApproveInDoubt:
	case t == core.ApproveIntegrity:
		return "Approve from now on"
	case approval.TypeOf(t).PerCall:
		return "Approve once"
	default:
		return "Approve"
	}
	switch an := c.rule.Answer(); {
	case an == nil:
		return "Approve: choose r or s first"
	case an.InDoubt == core.RunAgain:
		return "Approve: run again"
	}
	return "Approve: skip"
}

// place puts the buttons into rows of a width and returns how many there are.
// The places are those in the card, whose frame takes two columns; their rows
// count from the first.
func (c *card) place(w int) (rows int) {
	x, y := 0, 0
	for i := range c.buttons {
		b := &c.buttons[i]
		b.w = paint.Width(b.key) + paint.Width(b.label) + 4
		if x > 0 && x+b.w > w {
			x, y = 0, y+1
		}
		b.x, b.y = x+2, y
		x += b.w + 1
	}
	return y + 1
}

// drawFoot draws what stands against an approval, the buttons, what is typed,
// and which keys help.
func (c *card) drawFoot(a paint.Area, ap core.Approval, e *Env) {
	text, style := c.status(ap, e)
	if a.H <= 2 {
		a.Text(0, 0, a.W, style, text)
		c.drawSmall(a.Sub(0, 1, a.W, 1), ap, e)
		for i := range c.buttons {
			c.buttons[i].y = -1 // there are none to click on
		}
		return
	}
	a.Rule(0, "")
	rest := ""
	if rows := paint.Wrap(text, a.W); len(rows) > 1 && c.mode == deciding && (c.note != "") == (c.rule.Ended(e.Now) == "") { // a refusal is said whole, and what became of it
		text, rest = rows[0], strings.Join(rows[1:], " ")
	}
	a.Text(0, 1, a.W, style, text)
	locked := c.rule.Ended(e.Now) != "" || c.rule.Lost() != ""
	for i := range c.buttons {
		b := &c.buttons[i]
		look := paint.Style{}
		if locked || b.approve && !c.rule.HasRead() {
			look.Role = paint.Muted
		}
		mark := " "
		if i == c.focus && c.mode == deciding {
			look, mark = look.Selected(), e.Theme.Glyph.Cursor
		}
		a.Put(b.x-2, 2+b.y, look, mark+"["+b.key+"] "+b.label)
		b.y += c.h - 1 - a.H + 2 // from now on a row of the card
	}
	if c.drawInput(a.Sub(0, a.H-2, a.W, 1), ap, e); rest != "" {
		a.Sub(0, a.H-2, a.W, 1).Blank()
		a.Text(0, a.H-2, a.W, style, rest)
	}
	a.Text(0, a.H-1, a.W, paint.Style{Role: paint.Muted}, c.hints(ap, e))
}

// drawSmall is the line of a small window: what is typed, or which keys decide.
func (c *card) drawSmall(a paint.Area, ap core.Approval, e *Env) {
	if c.mode != deciding {
		c.drawInput(a, ap, e)
		return
	}
	acts := []keys.Action{keys.Deny, keys.Abort, keys.Approve, keys.Back}
	switch {
	case c.rule.Ended(e.Now) != "":
		acts = []keys.Action{keys.Back}
	case c.bounds != nil && c.shows():
		acts = []keys.Action{keys.Approve, keys.MoreCalls, keys.FewerCalls, keys.Edit, keys.Back}
	case c.bounds != nil:
		acts = []keys.Action{keys.Back}
	case approval.High(ap, c.rule.ScriptsAllowed()):
		acts = []keys.Action{keys.Deny, keys.Abort, keys.Back}
	}
	var words []string
	for _, act := range acts {
		if bound := e.Keys.Keys(act); len(bound) > 0 {
			words = append(words, bound[0]+" "+smallLabel[act])
		}
	}
	a.Text(0, 0, a.W, paint.Style{Role: paint.Muted}, strings.Join(words, "  "))
}

var smallLabel = map[keys.Action]string{keys.Deny: "deny", keys.Approve: "approve", keys.Abort: "abort", keys.Back: "back",
	keys.MoreCalls: "more", keys.FewerCalls: "fewer", keys.Edit: "edit"}

// drawInput draws the line where something is typed or chosen.
func (c *card) drawInput(a paint.Area, ap core.Approval, e *Env) {
	ask := paint.Style{Role: paint.Accent}.Bold()
	typed := func(label string, in widget.Input) {
		x := a.Put(0, 0, ask, label+" ")
		in.Draw(a, x, 0, a.W-x, paint.Style{})
	}
	switch c.mode {
	case deciding:
		text, style := e.found.of(ap.ID)
		switch ended := c.rule.Ended(e.Now) != ""; {
		case ended && c.note != "": // the status says why
			text, style = c.note, c.level.style()
		case c.rule.Answer() != nil && !ended:
			text, style = answerText(c.rule.Answer()), ask
		case c.news(e) != "" && (ended || c.rule.Lost() != ""): // what the status says there stays
			text, style = c.news(e), e.flash.level.style()
		}
		a.Text(0, 0, a.W, style, text)
	case confirming:
		want, have := c.rule.Wants(), c.rule.Typed()
		a.Text(0, 0, a.W, ask, "type "+want+" to approve: "+have+strings.Repeat("_", len(want)-len(have)))
	case messaging:
		typed("deny, because (enter denies):", c.text)
	case resulting:
		typed("its result as JSON (nothing: null):", c.text)
	case pinning:
		n := utf8.RuneCountInString(c.text.Text)
		typed("PIN:", widget.Input{Text: stars(n), At: n})
	case aborting:
		a.Text(0, 0, a.W, ask, "end the whole run? y aborts it, esc does not")
	case remembering:
		text := "remember for: r this run  "
		if decide.OutlivesRun(ap) {
			text += "s this session  "
		}
		if ap.Owner == "" {
			text += "w write a rule  "
		}
		a.Text(0, 0, a.W, ask, text+"esc not")
	case ruling:
		text := "the rule is being worked out; esc leaves it"
		if c.asked != nil {
			text = "a writes this rule and approves, esc does not"
		}
		a.Text(0, 0, a.W, ask, text)
	}
}

func answerText(an *core.Answer) string {
	switch {
	case an.InDoubt == core.RunAgain:
		return "approve: it runs again"
	case an.InDoubt == core.SkipResult:
		return "approve: it is skipped, its result is " + core.Visible(string(an.Result), 200, false)
	case an.Scripts:
		return "approve: its install scripts may run"
	case an.Shape != nil:
		return "approve: up to " + plural(an.Shape.Max, "call") + " from line " + approval.Line(an.Shape.Place) + " of this run"
	}
	return ""
}

// editWord is what the key of the editor does on a card: a question about a call that is
// not over has arguments to change.
func editWord(a core.Approval, over bool) string {
	if a.Type == core.ApproveTool && !over {
		return "change arguments"
	}
	return "view"
}

// hints are the keys that help on a card.
func (c *card) hints(ap core.Approval, e *Env) string {
	if c.mode != deciding {
		return "esc back"
	}
	acts := []struct {
		act   keys.Action
		label string
	}{
		{keys.Last, "end"}, {keys.Back, "back"}, {keys.MoreTime, "5 min"}, {keys.Again, "ask again"}, {keys.CopyID, "command"},
		{keys.Edit, editWord(ap, c.rule.Ended(e.Now) != "")}, {keys.Trail, "trail"}, {keys.Replan, "replan"},
	}
	run, _ := e.State.Run(ap.RunID)
	var words []string
	for _, h := range acts {
		if c.bounds != nil && (h.act == keys.MoreTime || h.act == keys.Again || h.act == keys.Edit || h.act == keys.Replan) {
			continue
		}
		if h.act == keys.Again && c.rule.Expired(e.Now) == "" || h.act == keys.MoreTime && (ap.ExpiresAt == nil || ap.StateAt(e.Now) != core.ApprovalOpen) || h.act == keys.Replan && run.Kind != core.KindDAG {
			continue
		}
		if bound := e.Keys.Keys(h.act); len(bound) > 0 {
			words = append(words, bound[0]+" "+h.label)
		}
	}
	return strings.Join(words, "  ")
}
