package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// prompt asks for a line of text at the bottom of the window. It is opened with
// the intent openOverlay.
type prompt struct {
	label string
	// title and about are for what is asked in the middle of the window instead: what
	// the text is for.
	title, about string
	input        widget.Input
	began        string // the text that it began with, which the person goes on with
	// changed is called with each change of the text; an error is shown below
	// it, and keeps the prompt open. It may be nil.
	changed func(text string) error
	// done gets the text with enter; esc calls cancelled. Both may be nil.
	done      func(text string, e *Env) []Intent
	cancelled func()
	hint      string // shown where there is no error
	err       error
}

// newPrompt returns a prompt for a text, with one to begin with that the person goes on with,
// such as a filter that is in force.
func newPrompt(label, text string) *prompt {
	return &prompt{label: label, began: text, input: widget.Input{Text: text, At: len(text)}}
}

// newProposal returns a prompt that proposes a text: what is typed first takes its place.
func newProposal(label, text string) *prompt {
	return &prompt{label: label, input: widget.Input{Text: text, At: len(text), Fresh: text != ""}}
}

func (p *prompt) typing() bool { return true }

func (p *prompt) key(k keys.Key, e *Env) ([]Intent, bool) {
	switch {
	case k.Paste:
	case k.Name == "enter":
		if p.err != nil { // what was typed does not count yet
			return nil, false
		}
		if p.done == nil {
			return nil, true
		}
		return p.done(p.input.Text, e), true
	case k.Name == "esc":
		if p.cancelled != nil {
			p.cancelled()
		}
		return nil, true
	}
	before := p.input.Text
	if p.input.Key(k); p.input.Text != before && p.changed != nil {
		p.err = p.changed(p.input.Text)
	}
	return nil, false
}

func (p *prompt) draw(a paint.Area, e *Env) {
	if p.title != "" {
		p.drawAsked(a)
		return
	}
	foot := a.Sub(0, a.H-2, a.W, 2)
	foot.Blank()
	style, below := paint.Style{Role: paint.Muted}, p.hint
	if p.err != nil {
		style, below = paint.Style{Role: paint.Danger}, e.Theme.Glyph.Failed+" "+core.Visible(p.err.Error(), 400, false)
	}
	foot.Text(1, 1, foot.W-2, style, below)
	x := 1 + foot.Put(1, 0, paint.Style{Role: paint.Accent}.Bold(), p.label+" ")
	p.input.Draw(foot, x, 0, foot.W-x-1, paint.Style{})
	if text := p.input.Text; text != "" && text == p.began {
		foot.Text(x+paint.Width(text)+3, 0, foot.W-x-paint.Width(text)-4, paint.Style{Role: paint.Muted}, "ctrl+u clears it")
	}
}

// drawAsked draws the prompt in the middle of the window.
func (p *prompt) drawAsked(a paint.Area) {
	w := min(a.W, 72)
	lines, hint := paint.Wrap(p.about, w-4), paint.Wrap(p.hint, w-4)
	in := popup(a, w, len(lines)+len(hint)+4).Frame(paint.Title{Left: p.title, Focus: true, Style: paint.Style{Role: paint.Danger}})
	y := 0
	for _, line := range lines {
		in.Put(0, y, paint.Style{}, line)
		y++
	}
	y++
	x := in.Put(0, y, paint.Style{Role: paint.Accent}.Bold(), p.label+" ")
	p.input.Draw(in, x, y, in.W-x, paint.Style{})
	for i, line := range hint {
		in.Put(0, y+1+i, paint.Style{Role: paint.Muted}, line)
	}
}

func stars(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '*'
	}
	return string(b)
}

// confirm asks for a yes before something that cannot be taken back. Only y
// says so; what a person may have pressed for something else says no.
type confirm struct {
	title, text string
	now         func(e *Env) string // the text, where it changes while the dialog is open
	yes         func(e *Env) []Intent
}

func (c *confirm) key(k keys.Key, e *Env) ([]Intent, bool) {
	switch {
	case k.Paste:
	case k.Name == "y":
		return c.yes(e), true
	case k.Name == "esc" || k.Name == "n" || k.Name == "q":
		return nil, true
	}
	return nil, false
}

func (c *confirm) draw(a paint.Area, e *Env) {
	w, text := min(a.W, 72), c.text
	if c.now != nil {
		text = c.now(e)
	}
	lines := paint.Wrap(text, w-4)
	in := popup(a, w, len(lines)+4).Frame(paint.Title{Left: c.title, Focus: true, Style: paint.Style{Role: paint.Danger}})
	for i, line := range lines {
		in.Put(0, i, paint.Style{}, line)
	}
	in.Put(0, in.H-1, paint.Style{Role: paint.Accent}, "y yes   esc no")
}

// menu asks for one of some things. Its texts are safe to show.
type menu struct {
	title  string
	items  []menuItem
	done   func(i int) []Intent
	cursor int
	scroll widget.Scroll
	list   paint.Area // as drawn last
}

type menuItem struct{ text, does string }

func (m *menu) key(k keys.Key, e *Env) ([]Intent, bool) {
	if k.Paste {
		return nil, false
	}
	for _, act := range e.Keys.Actions(k) {
		if to, ok := m.scroll.Move(act, m.cursor, len(m.items)); ok {
			m.cursor = to
			return nil, false
		}
		switch act {
		case keys.Open:
			return m.done(m.cursor), true
		case keys.Back, keys.Quit:
			return nil, true
		default:
		}
	}
	return nil, false
}

func (m *menu) click(x, y int, _ *Env) ([]Intent, bool) {
	i := m.scroll.Top + y - m.list.Y
	if x < m.list.X || x >= m.list.X+m.list.W || y < m.list.Y || y >= m.list.Y+m.list.H || i >= len(m.items) {
		return nil, false
	}
	return m.done(i), true
}

func (m *menu) draw(a paint.Area, _ *Env) {
	wide := 78
	for _, item := range m.items {
		wide = max(wide, 28+paint.Width(item.does)+8)
	}
	m.list = popup(a, min(wide, a.W-4), len(m.items)+2).Frame(paint.Title{Left: m.title, Foot: "enter takes it   esc closes", Focus: true})
	m.scroll.Show(m.cursor, len(m.items), m.list.H)
	w := 0
	for _, item := range m.items {
		w = max(w, min(paint.Width(item.text), 28))
	}
	for y := 0; y < m.list.H && m.scroll.Top+y < len(m.items); y++ {
		item := m.items[m.scroll.Top+y]
		m.list.Text(2, y, w, paint.Style{}, item.text)
		m.list.Text(w+4, y, m.list.W-w-4, paint.Style{Role: paint.Muted}, item.does)
		if m.scroll.Top+y == m.cursor {
			widget.DrawCursor(m.list, y, true)
		}
	}
}

// output shows what a command printed, or a text under a title.
type output struct {
	line  string // of the command; empty: there is none
	title string
	text  string
	code  int
	pager widget.Pager
}

// ShowOutput shows what a command printed, and its exit code.
func (s *Screen) ShowOutput(line, text string, code int, now time.Time) {
	if text == "" {
		level, what := Good, "done: pml "+line
		if code != 0 {
			level, what = Bad, fmt.Sprintf("exit code %d: pml %s", code, line)
		}
		s.Say(level, core.Visible(what, 300, false), now)
		return
	}
	o := &output{line: line, text: text, code: code}
	o.pager.SetText(text)
	s.overlay.open(o)
}

// outputKeys are the actions that scroll or search an output.
func (o *output) key(k keys.Key, e *Env) ([]Intent, bool) {
	for _, act := range e.Keys.Actions(k) {
		switch act {
		case keys.Back, keys.Quit:
			return nil, true
		case keys.CopyID, keys.CopyAll:
			return []Intent{Copy{What: "the output", Text: o.text}}, false
		case keys.CopyCommand:
			if o.line != "" {
				return []Intent{Copy{What: "the command", Text: "pml " + o.line}}, false
			}
		case keys.Edit:
			return []Intent{View{Name: "output.txt", Text: o.text}}, false
		case keys.Save:
			return []Intent{Save{Name: "output-" + e.Now.Format("20060102-150405") + ".txt", Text: o.text}}, false
		default:
			if o.pager.Do(act) {
				return nil, false
			}
		}
	}
	return nil, false
}

func (o *output) draw(a paint.Area, e *Env) {
	title := paint.Title{Left: core.Visible(o.title, 200, false), Focus: true}
	if o.line != "" {
		title.Left, title.Right = "pml "+core.Visible(o.line, 200, false), fmt.Sprintf("exit code %d", o.code)
	}
	if o.code != 0 {
		title.Style.Role = paint.Danger
	}
	window := popup(a, a.W-8, a.H-6)
	o.pager.Draw(window.Frame(title)) // only then it knows what is in view
	const leave = "esc closes"        // said also where nothing else has room
	at, copies := o.pager.Position()+"   ", keyOf(e, keys.CopyID)+" copy text  "+hintText(e, keys.Save)+"   "
	for _, foot := range []string{leave, at + leave, at + copies + leave} {
		if paint.Width(foot)+6 <= window.W {
			title.Foot = foot
		}
	}
	o.pager.Draw(window.Frame(title))
}

// newQuit asks before leaving: what waits is not told any more, and what this
// process runs stops.
func newQuit(running []core.ID) overlay {
	return &confirm{
		title: "Leave?",
		now:   func(e *Env) string { return quitText(running, e) },
		yes:   func(*Env) []Intent { return []Intent{Quit{}} },
	}
}

// newSuspend asks before the terminal is given back to the shell: what this process runs stands
// still meanwhile, and nobody else takes it. The key that opened it says yes as well.
func newSuspend(running []core.ID, e *Env) *confirm {
	return &confirm{
		title: "Suspend?", text: e.State.Name(running[0]) + moreThan(len(running)) + " in this terminal and stands still until you come back (fg).",
		yes: func(*Env) []Intent { return []Intent{Suspend{}} },
	}
}

func moreThan(n int) string {
	if n > 1 {
		return fmt.Sprintf(" and %d more run", n-1)
	}
	return " runs"
}

// quitText says what waits and what runs here.
func quitText(running []core.ID, e *Env) string {
	text, list := "", e.State.Waiting(e.Now)
	if len(list) > 0 {
		text = plural(len(list), "approval") + " waiting"
		if left, ok := nextTTL(list, e.Now); ok {
			text += ", the next expires in " + ttlText(left)
		}
		text += ". They stay open: pml approvals ls\n"
	}
	for i, id := range running {
		if i == 3 {
			text += fmt.Sprintf("and %d more\n", len(running)-i)
			break
		}
		text += fmt.Sprintf("%s runs in this terminal; it stops where it is, and goes on with: pml continue %s\n", e.State.Name(id), id.Short())
	}
	if text == "" {
		text = "Nothing waits any more."
	}
	return strings.TrimSpace(text)
}

// haltDialog asks whether all calls are to be halted or, where they are, to go on. The
// key that opened it says no more than any other.
func haltDialog(e *Env) *confirm {
	if len(e.State.Halts) > 0 {
		return &confirm{
			title: "Let calls go on?", text: haltText(e) + ". Let calls go on? A run whose process still runs makes its calls at once. One whose process has ended is interrupted then: " + keyOf(e, keys.Again) + " in the list of runs goes on with it.",
			yes: func(*Env) []Intent { return []Intent{Resume{}} },
		}
	}
	return &confirm{
		title: "HALT ALL CALLS?", text: "No run begins another call, here and on the server, until a person lets them go on. What is under way may end; nothing is lost, and nothing expires meanwhile.",
		yes: func(*Env) []Intent { return []Intent{Halt{}} },
	}
}

// haltText says who has halted all calls, once for both halves.
func haltText(e *Env) string {
	var texts []string
	for _, h := range e.State.Halts {
		where := "this machine"
		if h.Side == core.SideServer {
			where = "the server"
		}
		texts = append(texts, where+" is "+h.Text())
	}
	return strings.Join(texts, "; ")
}

// haltSpans are the banner while all calls are halted, nil while they are not.
func haltSpans(e *Env) []span {
	if len(e.State.Halts) == 0 {
		return nil
	}
	h := e.State.Halts[0]
	text := "by " + core.Visible(h.By.Name(), 30, false) + " since " + clockText(h.At, e)
	if h.Reason != "" {
		text += ": " + core.OneLine(h.Reason, 100)
	}
	return []span{
		{e.Theme.Glyph.Failed + " HALTED ", paint.Style{Role: paint.Danger}.Bold()}, {keyOf(e, keys.Halt) + " resumes  ", paint.Style{Role: paint.Muted}},
		{text + "   ", paint.Style{Role: paint.Danger}},
	}
}
