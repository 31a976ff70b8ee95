//go:build unix

package pmltest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// Compact is JSON without spaces.
func Compact(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Wants wants texts in another.
func Wants(t testing.TB, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in:\n%s", text, in)
		}
	}
}

// Quote is a text as JSON.
func Quote(t testing.TB, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// colours are those with which commands write on a terminal.
var colours = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|36)m`)

// Uncoloured is what a command has written, without its colours.
func Uncoloured(text string) string { return colours.ReplaceAllString(text, "") }

// WantHarmless wants that a text cannot make a terminal do anything but write, in
// the colours of commands.
func WantHarmless(t *testing.T, text string) {
	t.Helper()
	WantPlain(t, Uncoloured(text))
}

// WantPlain is WantHarmless of a text without colours.
func WantPlain(t *testing.T, text string) {
	t.Helper()
	for i, r := range text {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			t.Errorf("the control character %#x at %d: %q", r, i, text[max(0, i-40):min(len(text), i+20)])
			return
		}
	}
}
