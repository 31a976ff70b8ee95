package screen

import (
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
	"github.com/casys-ai/pml/tui/widget"
)

// prompt asks for a line of text at the bottom of the window. It is opened with
// the intent openOverlay.
type prompt struct {
	label string
	input widget.Input
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
	return &prompt{label: label, input: widget.Input{Text: text, At: len(text)}}
}

func (p *prompt) typing() bool { return true }

func (p *prompt) key(k keys.Key, e *Env) ([]Intent, bool) {
	switch {
	case k.Paste:
	case k.Name == "enter":
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
	foot := a.Sub(0, a.H-2, a.W, 2)
	foot.Blank()
	style, below := paint.Style{Role: paint.Muted}, p.hint
	if p.err != nil {
		style, below = paint.Style{Role: paint.Danger}, e.Theme.Glyph.Failed+" "+core.Visible(p.err.Error(), 400, false)
	}
	foot.Text(1, 1, foot.W-2, style, below)
	x := 1 + foot.Put(1, 0, paint.Style{Role: paint.Accent}.Bold(), p.label+" ")
	p.input.Draw(foot, x, 0, foot.W-x-1, paint.Style{})
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
