package tui

import (
	"fmt"
	"strings"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/casys-ai/pml/tui/keys"
	"github.com/casys-ai/pml/tui/screen"
)

// maxTyped is how many different letters one message can have that was typed:
// over a slow line, a few come together. More were pasted, by a terminal that
// does not say so.
const maxTyped = 3

// keysOf are the keys that a message stands for, as the screen names them. The
// same letter many times is a key that is held.
func keysOf(msg tea.KeyMsg) []keys.Key {
	text := string(msg.Runes)
	switch {
	case msg.Paste:
		return []keys.Key{pasted(text)}
	case msg.Type == tea.KeyRunes && len(msg.Runes) > 1:
		if len(msg.Runes) > maxTyped && strings.Count(text, string(msg.Runes[:1])) != len(msg.Runes) {
			k := pasted(text)
			k.Burst = true
			return []keys.Key{k}
		}
		out := make([]keys.Key, len(msg.Runes))
		for i, r := range msg.Runes {
			out[i] = keyOf(string(r), msg.Alt)
		}
		return out
	case msg.Type == tea.KeyRunes:
		return []keys.Key{keyOf(text, msg.Alt)}
	case msg.Type == tea.KeySpace:
		k := keyOf("space", msg.Alt)
		if !msg.Alt {
			k.Text = " "
		}
		return []keys.Key{k}
	}
	return []keys.Key{{Name: tea.Key(msg).String()}}
}

// keyOf is one letter or a named key, which types nothing.
func keyOf(name string, alt bool) keys.Key {
	if alt {
		return keys.Key{Name: "alt+" + name}
	}
	k := keys.Key{Name: name}
	if name != "space" {
		k.Text = name
	}
	return k
}

// pasted is a text that was pasted. Line ends and tabs become blanks, because
// inputs have one line; other control characters are left out.
func pasted(text string) keys.Key {
	text = strings.ReplaceAll(text, "\r\n", " ")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
	return keys.Key{Text: text, Paste: true}
}

// buttonOf is what a mouse did, as the screen names it; ok is false for what it
// takes no notice of.
func buttonOf(msg tea.MouseMsg) (b screen.Button, ok bool) {
	if msg.Action != tea.MouseActionPress {
		return 0, false
	}
	switch msg.Button { //nolint:exhaustive // the other buttons do nothing
	case tea.MouseButtonLeft:
		return screen.Click, true
	case tea.MouseButtonWheelUp:
		return screen.WheelUp, true
	case tea.MouseButtonWheelDown:
		return screen.WheelDown, true
	}
	return 0, false
}

// focusOf finds a report of the focus that the library does not know as one,
// because it was read together with other keys; known is false for anything
// else.
func focusOf(msg tea.Msg) (on, known bool) {
	switch msg := msg.(type) {
	case tea.FocusMsg:
		return true, true
	case tea.BlurMsg:
		return false, true
	case fmt.Stringer:
		switch msg.String() {
		case "?CSI[73]?": // ESC [ I
			return true, true
		case "?CSI[79]?": // ESC [ O
			return false, true
		}
	}
	return false, false
}
