// Package osc makes the control sequences that tell a terminal something beside
// the text on it: bells, notifications, the clipboard, its title, progress.
// Everything is text that no foreign byte can break out of: of a text, no
// control character and no more than a bounded part reaches the terminal.
package osc

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The control characters of the sequences, and what they make up.
const (
	esc = "\x1b"
	st  = esc + "\\" // ends a sequence
	osc = esc + "]"
)

// Bell rings the terminal's bell.
const Bell = "\a"

// SaveTitle puts the window's title on the terminal's own stack; RestoreTitle
// brings it back. A terminal without that stack is left with an empty title,
// which most replace by their own.
const (
	SaveTitle    = esc + "[22;2t"
	RestoreTitle = osc + "2;" + st + esc + "[23;2t"
)

// BeginFrame and EndFrame have the terminal show what is between them at once.
// One that does not know them ignores them.
const (
	BeginFrame = esc + "[?2026h"
	EndFrame   = esc + "[?2026l"
)

// The largest texts that are sent, in bytes. Longer texts for people are cut; a
// longer text for the clipboard is not sent, because half of it would lie.
const (
	MaxTitle     = 120
	MaxMessage   = 240
	MaxClipboard = 74 << 10 // base64 makes it the 100 KB that terminals take
)

// Notifications says by which sequence a terminal shows desktop notifications.
type Notifications string

// The ways. Both are ignored by a terminal that does not know them.
const (
	OSC9   Notifications = "9"
	OSC777 Notifications = "777"
)

// Terminal is what is known of the terminal at the other end.
type Terminal struct {
	// Silent terminals would print sequences: they get the bell only.
	Silent bool
	// Tmux is between: sequences for the terminal outside are wrapped.
	Tmux          bool
	Notifications Notifications
	// Progress is set for terminals known to show progress: others could take
	// the sequence for a notification.
	Progress bool
}

// Detect tells from environment variables what the terminal is. It asks the
// terminal nothing.
func Detect(environ func(name string) (string, bool)) Terminal {
	get := func(name string) string { v, _ := environ(name); return v }
	term, program := get("TERM"), get("TERM_PROGRAM")
	t := Terminal{Notifications: OSC9, Tmux: get("TMUX") != ""}
	t.Silent = term == "" && get("OS") != "Windows_NT" || term == "dumb" || term == "linux"
	for _, prefix := range []string{"rxvt", "foot"} {
		if strings.HasPrefix(term, prefix) {
			t.Notifications = OSC777
		}
	}
	if get("VTE_VERSION") != "" || get("KONSOLE_VERSION") != "" {
		t.Notifications = OSC777
	}
	known := get("WT_SESSION") != "" || get("ConEmuANSI") == "ON" || program == "ghostty" || program == "WezTerm" || term == "xterm-ghostty"
	t.Progress = known && !t.Tmux && !t.Silent
	return t
}

// Notification shows a text on the desktop, under a title.
func (t Terminal) Notification(title, body string) string {
	if t.Silent {
		return ""
	}
	title, body = Plain(title, MaxTitle), Plain(body, MaxMessage)
	if t.Notifications == OSC777 {
		// A semicolon would end the title; in the body it is text.
		return t.wrap(osc + "777;notify;" + strings.ReplaceAll(title, ";", ",") + ";" + body + st)
	}
	text := title + ": " + body
	if title == "" || title[0] >= '0' && title[0] <= '9' {
		text = " " + text // a number would make it another command
	}
	return t.wrap(osc + "9;" + text + st)
}

// Clipboard puts a text into the clipboard, byte for byte; ok is false when it
// is too long or the terminal has none. Inside tmux it is sent twice, to tmux
// and to the terminal around it, because which of them listens depends on its
// configuration.
func (t Terminal) Clipboard(text string) (sequence string, ok bool) {
	if t.Silent || len(text) > MaxClipboard {
		return "", false
	}
	s := osc + "52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + st
	if t.Tmux {
		return s + t.wrap(s), true
	}
	return s, true
}

// Title sets the title of the window.
func (t Terminal) Title(text string) string {
	if t.Silent {
		return ""
	}
	return osc + "2;" + Plain(text, MaxTitle) + st
}

// Working shows progress without an end, or takes it away.
func (t Terminal) Working(on bool) string {
	switch {
	case !t.Progress:
		return ""
	case on:
		return osc + "9;4;3;" + st
	}
	return osc + "9;4;0;" + st
}

// wrap lets a sequence through tmux to the terminal around it.
func (t Terminal) wrap(s string) string {
	if !t.Tmux {
		return s
	}
	return esc + "Ptmux;" + strings.ReplaceAll(s, esc, esc+esc) + st
}

// Plain returns a text without control characters, invisible ones and broken
// UTF-8, of at most max bytes.
func Plain(text string, max int) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError ||
			unicode.In(r, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800' {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > max {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
