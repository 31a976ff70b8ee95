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
