package layout_test

import (
	"testing"
	"time"

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

// What is left of a time has its units: it is no time of day.
func TestLeft(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		-time.Second: "expired", 0: "expired", time.Millisecond: "in 1s", 59 * time.Second: "in 59s", 272 * time.Second: "in 4m32s",
		23*time.Hour + 59*time.Minute + 49*time.Second: "in 23h59m", 51 * time.Hour: "in 2d03h",
	} {
		at := now.Add(left)
		if got := layout.In(now, &at); got != want {
			t.Errorf("%s: %q, want %q", left, got, want)
		}
	}
	if got := layout.In(now, nil); got != "never" {
		t.Error(got)
	}
}
