package widget

import (
	"slices"
	"unicode/utf8"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/paint"
)

// Input is one line of text that is being typed, with a cursor at a byte of it.
type Input struct {
	Text string
	At   int
	// Fresh is set while the text is one that was proposed and not touched: what is typed
	// takes its place.
	Fresh bool
}

// maxInput bounds what can be typed or pasted.
const maxInput = 4096

// Key edits the text and reports whether the key was for it.
func (i *Input) Key(k keys.Key) bool {
	if i.Fresh {
		i.touch(k)
	}
	if k.Paste {
		return i.insert(k.Text)
	}
	switch k.Name {
	case "left", "ctrl+b":
		i.At -= i.before()
	case "right", "ctrl+f":
		i.At += i.after()
	case "home", "ctrl+a":
		i.At = 0
	case "end", "ctrl+e":
		i.At = len(i.Text)
	case "backspace", "ctrl+h":
		n := i.before()
		i.Text, i.At = i.Text[:i.At-n]+i.Text[i.At:], i.At-n
	case "delete", "ctrl+d":
		i.Text = i.Text[:i.At] + i.Text[i.At+i.after():]
	case "ctrl+u":
		i.Text, i.At = i.Text[i.At:], 0
	case "ctrl+k":
		i.Text = i.Text[:i.At]
	default:
		return i.insert(k.Text)
	}
	return true
}

// touch has a proposed text go for what is typed, and for what deletes; other keys keep it.
func (i *Input) touch(k keys.Key) {
	deletes := slices.Contains([]string{"backspace", "ctrl+h", "delete", "ctrl+d"}, k.Name)
	i.Fresh = false
	if deletes || core.Visible(k.Text, 0, false) != "" {
		i.Text, i.At = "", 0
	}
}

// insert puts text at the cursor. What cannot be seen would be shown as an
// escape, so it goes in as one.
func (i *Input) insert(text string) bool {
	text = core.Visible(text, 0, false)
	if text == "" || len(i.Text)+len(text) > maxInput {
		return false
	}
	i.Text, i.At = i.Text[:i.At]+text+i.Text[i.At:], i.At+len(text)
	return true
}

func (i *Input) before() int {
	_, n := utf8.DecodeLastRuneInString(i.Text[:i.At])
	return n
}

func (i *Input) after() int {
	_, n := utf8.DecodeRuneInString(i.Text[i.At:])
	return n
}

// Draw draws the text in a row with its cursor; what does not fit is cut at the
// left of the cursor.
func (i *Input) Draw(a paint.Area, x, y, w int, style paint.Style) {
	if w < 2 {
		return
	}
	head, tail := i.Text[:i.At], i.Text[i.At:]
	for paint.Width(head) > w-1 {
		_, n := utf8.DecodeRuneInString(head)
		head = head[n:]
	}
	line := a.Sub(x, y, w, 1)
	if i.Fresh {
		line.Text(0, 0, w, style.Selected(), head+tail)
		line.Text(paint.Width(head+tail)+2, 0, w-paint.Width(head+tail)-2, paint.Style{Role: paint.Muted}, "typing replaces it, end keeps it")
		return
	}
	used := line.Put(0, 0, style, head)
	under := " "
	if tail != "" {
		_, n := utf8.DecodeRuneInString(tail)
		under, tail = tail[:n], tail[n:]
	}
	used += line.Put(used, 0, style.Selected(), under)
	line.Text(used, 0, w-used, style, tail)
}
