package osc_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode"

	"github.com/casys-ai/pml/tui/osc"
)

func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func TestDetect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		vars map[string]string
		want osc.Terminal
	}{
		{"Nothing", nil, osc.Terminal{Silent: true, Notifications: osc.OSC9}},
		{"Dumb", map[string]string{"TERM": "dumb"}, osc.Terminal{Silent: true, Notifications: osc.OSC9}},
		{"Console", map[string]string{"TERM": "linux"}, osc.Terminal{Silent: true, Notifications: osc.OSC9}},
		{"Xterm", map[string]string{"TERM": "xterm-256color"}, osc.Terminal{Notifications: osc.OSC9}},
		{"VTE", map[string]string{"TERM": "xterm-256color", "VTE_VERSION": "7600"}, osc.Terminal{Notifications: osc.OSC777}},
		{"Foot", map[string]string{"TERM": "foot"}, osc.Terminal{Notifications: osc.OSC777}},
		{"Ghostty", map[string]string{"TERM": "xterm-ghostty"}, osc.Terminal{Notifications: osc.OSC9, Progress: true}},
		{"WindowsTerminal", map[string]string{"OS": "Windows_NT", "WT_SESSION": "1"}, osc.Terminal{Notifications: osc.OSC9, Progress: true}},
		{"TmuxInGhostty", map[string]string{"TERM": "tmux-256color", "TMUX": "/tmp/x", "TERM_PROGRAM": "ghostty"}, osc.Terminal{Notifications: osc.OSC9, Tmux: true}},
	}
	for _, tt := range tests {
		if got := osc.Detect(environ(tt.vars)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	plain := osc.Terminal{Notifications: osc.OSC9, Progress: true}
	vte := osc.Terminal{Notifications: osc.OSC777}
	tmux := osc.Terminal{Notifications: osc.OSC9, Tmux: true}
	silent := osc.Terminal{Silent: true, Notifications: osc.OSC9}
	clip := func(t osc.Terminal, text string) string { s, _ := t.Clipboard(text); return s }
	tests := []struct{ name, got, want string }{
		{"Notification", plain.Notification("pml", "a waits"), "\x1b]9;pml: a waits\x1b\\"},
		{"NotificationIsNoCommand", plain.Notification("4", "3"), "\x1b]9; 4: 3\x1b\\"},
		{"NotificationForeign", plain.Notification("pml", "a\x1b\\\x1b]52;c;eA==\a\nb"), "\x1b]9;pml: a \\ ]52;c;eA==  b\x1b\\"},
		{"Notification777", vte.Notification("p;ml", "a;b"), "\x1b]777;notify;p,ml;a;b\x1b\\"},
		{"NotificationTmux", tmux.Notification("pml", "a"), "\x1bPtmux;\x1b\x1b]9;pml: a\x1b\x1b\\\x1b\\"},
		{"NotificationSilent", silent.Notification("pml", "a"), ""},
		{"Clipboard", clip(plain, "a\x1b"), "\x1b]52;c;YRs=\x1b\\"},
		{"ClipboardTmux", clip(tmux, "a"), "\x1b]52;c;YQ==\x1b\\\x1bPtmux;\x1b\x1b]52;c;YQ==\x1b\x1b\\\x1b\\"},
		{"ClipboardTooLong", clip(plain, strings.Repeat("a", osc.MaxClipboard+1)), ""},
		{"ClipboardSilent", clip(silent, "a"), ""},
		{"Title", plain.Title("pml 4! 0:48"), "\x1b]2;pml 4! 0:48\x1b\\"},
		{"TitleForeign", plain.Title("a\u009c\u202eb"), "\x1b]2;a  b\x1b\\"},
		{"TitleTmux", tmux.Title("a"), "\x1b]2;a\x1b\\"},
		{"TitleSilent", silent.Title("a"), ""},
		{"Working", plain.Working(true), "\x1b]9;4;3;\x1b\\"},
		{"Rests", plain.Working(false), "\x1b]9;4;0;\x1b\\"},
		{"WorkingUnknown", vte.Working(true), ""},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestTerminal_LongestClipboard(t *testing.T) {
	t.Parallel()
	if s, ok := (osc.Terminal{}).Clipboard(strings.Repeat("a", osc.MaxClipboard)); !ok || len(s) > 102400 {
		t.Errorf("the longest text that is taken makes %d bytes, ok %v", len(s), ok)
	}
}

// FuzzTerminal checks that of a foreign text nothing but text reaches the
// terminal, and no more than is allowed.
func FuzzTerminal(f *testing.F) {
	f.Add("pml", "a waits")
	f.Add("a;b\x1b]2;x\a", "\x9c\u009c\x18\x1a\x1b\\\r\n\u202e")
	f.Add("\xff4", strings.Repeat("é", 500))
	f.Fuzz(func(t *testing.T, title, body string) {
		for _, term := range []osc.Terminal{{Notifications: osc.OSC9}, {Notifications: osc.OSC777}} {
			check(t, term.Notification(title, body), "\x1b]"+string(term.Notifications)+";", osc.MaxTitle+osc.MaxMessage+40)
			check(t, term.Title(title), "\x1b]2;", osc.MaxTitle+10)
			if s, ok := term.Clipboard(body); ok {
				check(t, s, "\x1b]52;c;", len(body)*2+20)
				data, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(s, "\x1b]52;c;"), "\x1b\\"))
				if err != nil || string(data) != body {
					t.Errorf("the clipboard got %q, %v", data, err)
				}
			}
			term.Tmux = true
			wrapped, ok := strings.CutPrefix(term.Notification(title, body), "\x1bPtmux;\x1b\x1b]")
			inner, ok2 := strings.CutSuffix(wrapped, "\x1b\x1b\\\x1b\\")
			if !ok || !ok2 || strings.ContainsFunc(inner, unicode.IsControl) {
				t.Errorf("wrapped: %q", wrapped)
			}
		}
	})
}

// check makes sure that a sequence is one, with text inside.
func check(t *testing.T, s, prefix string, most int) {
	t.Helper()
	inner, ok := strings.CutPrefix(s, prefix)
	inner, ok2 := strings.CutSuffix(inner, "\x1b\\")
	if !ok || !ok2 || strings.ContainsFunc(inner, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) {
		t.Errorf("not one sequence: %q", s)
	}
	if len(s) > most {
		t.Errorf("%d bytes, at most %d", len(s), most)
	}
}
