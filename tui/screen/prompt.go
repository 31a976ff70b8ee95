package screen

import (
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// input is one line of text that is being typed, with a cursor at a byte of it.
type input struct {
	text string
	at   int
}

// maxInput bounds what can be typed or pasted.
const maxInput = 4096

// key edits the text and reports whether the key was for it.
func (i *input) key(k keys.Key) bool {
	if k.Paste {
		return i.insert(k.Text)
	}
	switch k.Name {
	case "left", "ctrl+b":
		i.at -= i.before()
	case "right", "ctrl+f":
		i.at += i.after()
	case "home", "ctrl+a":
		i.at = 0
	case "end", "ctrl+e":
		i.at = len(i.text)
	case "backspace", "ctrl+h":
		n := i.before()
		i.text, i.at = i.text[:i.at-n]+i.text[i.at:], i.at-n
	case "delete", "ctrl+d":
		i.text = i.text[:i.at] + i.text[i.at+i.after():]
	case "ctrl+u":
		i.text, i.at = i.text[i.at:], 0
	case "ctrl+k":
		i.text = i.text[:i.at]
	default:
		return i.insert(k.Text)
	}
	return true
}

// insert puts text at the cursor. What cannot be seen would be shown as an
// escape, so it goes in as one.
func (i *input) insert(text string) bool {
	text = core.Visible(text, 0, false)
	if text == "" || len(i.text)+len(text) > maxInput {
		return false
	}
	i.text, i.at = i.text[:i.at]+text+i.text[i.at:], i.at+len(text)
	return true
}

func (i *input) before() int {
	_, n := utf8.DecodeLastRuneInString(i.text[:i.at])
	return n
}

func (i *input) after() int {
	_, n := utf8.DecodeRuneInString(i.text[i.at:])
	return n
}

// draw draws the text in a row with its cursor; what does not fit is cut at the
// left of the cursor.
func (i *input) draw(a paint.Area, x, y, w int, style paint.Style) {
	if w < 2 {
		return
	}
	head, tail := i.text[:i.at], i.text[i.at:]
	for paint.Width(head) > w-1 {
		_, n := utf8.DecodeRuneInString(head)
		head = head[n:]
	}
	line := a.Sub(x, y, w, 1)
	used := line.Put(0, 0, style, head)
	under := " "
	if tail != "" {
		_, n := utf8.DecodeRuneInString(tail)
		under, tail = tail[:n], tail[n:]
	}
	used += line.Put(used, 0, style.Selected(), under)
	line.Text(used, 0, w-used, style, tail)
}

// prompt asks for a line of text at the bottom of the window. It is opened with
// the intent openOverlay.
type prompt struct {
	label string
	input input
	// changed is called with each change of the text; an error is shown below
	// it and does not keep the prompt open. It may be nil.
	changed func(text string) error
	// done gets the text with enter; esc calls cancelled. Both may be nil.
	done      func(text string, e *Env) []Intent
	cancelled func()
	hint      string // shown where there is no error
	err       error
}

// newPrompt returns a prompt for a text, with a text to begin with.
func newPrompt(label, text string) *prompt {
	return &prompt{label: label, input: input{text: text, at: len(text)}}
}

func (p *prompt) typing() bool { return true }

func (p *prompt) key(k keys.Key, e *Env) ([]Intent, bool) {
	switch {
	case k.Paste:
	case k.Name == "enter":
		if p.done == nil {
			return nil, true
		}
		return p.done(p.input.text, e), true
	case k.Name == "esc":
		if p.cancelled != nil {
			p.cancelled()
		}
		return nil, true
	}
	before := p.input.text
	if p.input.key(k); p.input.text != before && p.changed != nil {
		p.err = p.changed(p.input.text)
	}
	return nil, false
}

func (p *prompt) draw(a paint.Area, e *Env) {
	foot := a.Sub(0, a.H-2, a.W, 2)
	foot.Blank()
	style, below := paint.Style{Role: paint.Muted}, p.hint
	if p.err != nil {
		style, below = paint.Style{Role: paint.Danger}, e.Theme.Glyph.Failed+" "+core.Visible(p.err.Error(), 400, false)
	}
	foot.Text(1, 1, foot.W-2, style, below)
	x := 1 + foot.Put(1, 0, paint.Style{Role: paint.Accent}.Bold(), p.label+" ")
	p.input.draw(foot, x, 0, foot.W-x-1, paint.Style{})
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
	w := min(a.W, 72)
	lines := paint.Wrap(c.text, w-4)
	in := popup(a, w, len(lines)+4).Frame(paint.Title{Left: c.title, Focus: true, Style: paint.Style{Role: paint.Danger}})
	for i, line := range lines {
		in.Put(0, i, paint.Style{}, line)
	}
	in.Put(0, in.H-1, paint.Style{Role: paint.Accent}, "y yes   esc no")
}
