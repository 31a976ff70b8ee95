package layout_test

import (
	"testing"

	"github.com/casys-ai/pml/cli/layout"
)

func TestWidth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"abc": 3, "日本": 4, "e\u0301": 1, "한글": 4, "🙂": 2, "ｱ": 1, "Ａ": 2, "é": 1, "": 0, "●": 1} {
		if got := layout.Width(text); got != want {
			t.Errorf("width of %q: %d, want %d", text, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a-b": "a-b", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := layout.ShellQuote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// What a server said last stands on one line without escapes.
func TestJoined(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"one": "one", "it last said:\nFATAL: no key": "it last said: FATAL: no key", "a\r\n\n  b\nc": "a / b / c", "": "", "\n": "",
	} {
		if got := layout.Joined(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
