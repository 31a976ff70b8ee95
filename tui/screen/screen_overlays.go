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

// output shows what a command printed.
type output struct {
	line  string
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
	s.open(o)
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
			return []Intent{Copy{What: "the command", Text: "pml " + o.line}}, false
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
	title := paint.Title{Left: "pml " + core.Visible(o.line, 200, false), Right: fmt.Sprintf("exit code %d", o.code), Focus: true}
	title.Foot = o.pager.Position() + "   " + hintText(e, keys.CopyID, keys.Save) + "   esc closes"
	if o.code != 0 {
		title.Style.Role = paint.Danger
	}
	o.pager.Draw(popup(a, a.W-8, a.H-6).Frame(title))
}

// newQuit asks before leaving: what waits is not told any more, and what this
// process runs stops.
func newQuit(waiting int, running []core.ID, e *Env) overlay {
	text := ""
	if waiting > 0 {
		text = plural(waiting, "approval") + " waiting"
		if left, ok := nextTTL(e.State.Waiting(e.Now), e.Now); ok {
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
	return &confirm{title: "Leave?", text: strings.TrimSpace(text), yes: func(*Env) []Intent { return []Intent{Quit{}} }}
}
